"""Sine and cosine of f32 within 2 ULP for every argument; libdevice's put an array into local memory."""

# The angle that is left of x after a whole number of quarter turns, and that number (modulo 4 where x is large).
QUARTER_TURNS = """\
  llvm.mlir.global internal constant @two_over_pi(dense<[0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
      0x3c439041, 0xfe5163ab]> : tensor<8xi32>) {addr_space = 1 : i32} : !llvm.array<8 x i32>
  llvm.func internal @quarter_turns_f32(%x: f32) -> !llvm.struct<(i32, f32)> attributes {always_inline} {
    %nothing = llvm.mlir.poison : !llvm.struct<(i32, f32)>
    %size = math.absf %x : f32
    %limit = arith.constant 100000.0 : f32
    %small = arith.cmpf olt, %size, %limit : f32
    %turns, %rest = scf.if %small -> (i32, f32) {
      // the first difference is exact; pi / 2 to 72 bits
      %zero = arith.constant 0.0 : f32
      %per_turn = arith.constant 0.63661977 : f32
      %high = arith.constant -1.5707964 : f32
      %middle = arith.constant 4.371139e-8 : f32
      %low = arith.constant 1.7151245e-15 : f32
      %scaled = arith.mulf %x, %per_turn : f32
      %whole = llvm.call_intrinsic "llvm.rint.f32"(%scaled) : (f32) -> f32
      %first = llvm.call_intrinsic "llvm.fma.f32"(%whole, %high, %x) : (f32, f32, f32) -> f32
      %second = llvm.call_intrinsic "llvm.fma.f32"(%whole, %middle, %first) : (f32, f32, f32) -> f32
      %angle = llvm.call_intrinsic "llvm.fma.f32"(%whole, %low, %second) : (f32, f32, f32) -> f32
      %none = arith.cmpf oeq, %whole, %zero : f32
      %kept = arith.select %none, %x, %angle : f32  // keeps the sign of zero
      %count = arith.fptosi %whole : f32 to i32
      scf.yield %count, %kept : i32, f32
    } else {
      %bits = arith.bitcast %x : f32 to i32
      %c23 = arith.constant 23 : i32
      %c255 = arith.constant 255 : i32
      %upper = arith.shrui %bits, %c23 : i32
      %exponent = arith.andi %upper, %c255 : i32
      %infinite = arith.cmpi eq, %exponent, %c255 : i32
      %count, %kept = scf.if %infinite -> (i32, f32) {
        %zero = arith.constant 0 : i32
        %nan = arith.subf %x, %x : f32
        scf.yield %zero, %nan : i32, f32
      } else {
        // 24 bits of x times the 96 bits of 2 / pi from weight 2 on, modulo 4; upper bits give multiples of four turns
        %c1 = arith.constant 1 : i32
        %c5 = arith.constant 5 : i32
        %c31 = arith.constant 31 : i32
        %c120 = arith.constant 120 : i32
        %c32 = arith.constant 32 : i64
        %c61 = arith.constant 0x2000000000000000 : i64
        %c62 = arith.constant 62 : i64
        %start = arith.subi %exponent, %c120 : i32
        %few = arith.andi %start, %c31 : i32
        %shift = arith.extui %few : i32 to i64
        %word = arith.shrui %start, %c5 : i32
        %table = llvm.mlir.addressof @two_over_pi : !llvm.ptr<1>
        %place = llvm.getelementptr %table[%word] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %place1 = llvm.getelementptr %place[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
        %place2 = llvm.getelementptr %place[2] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
        %place3 = llvm.getelementptr %place[3] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
        %word0 = llvm.load %place : !llvm.ptr<1> -> i32
        %word1 = llvm.load %place1 : !llvm.ptr<1> -> i32
        %word2 = llvm.load %place2 : !llvm.ptr<1> -> i32
        %word3 = llvm.load %place3 : !llvm.ptr<1> -> i32
        %w0 = arith.extui %word0 : i32 to i64
        %w1 = arith.extui %word1 : i32 to i64
        %w2 = arith.extui %word2 : i32 to i64
        %w3 = arith.extui %word3 : i32 to i64
        %fraction_mask = arith.constant 0x7fffff : i32
        %leading = arith.constant 0x800000 : i32
        %field = arith.andi %bits, %fraction_mask : i32
        %digits = arith.ori %field, %leading : i32
        %mantissa = arith.extui %digits : i32 to i64
        %up0 = arith.shli %w0, %c32 : i64
        %up1 = arith.shli %w1, %c32 : i64
        %up2 = arith.shli %w2, %c32 : i64
        %pair0 = arith.ori %up0, %w1 : i64
        %pair1 = arith.ori %up1, %w2 : i64
        %pair2 = arith.ori %up2, %w3 : i64
        %moved0 = arith.shli %pair0, %shift : i64
        %moved1 = arith.shli %pair1, %shift : i64
        %moved2 = arith.shli %pair2, %shift : i64
        %part0 = arith.shrui %moved0, %c32 : i64
        %part1 = arith.shrui %moved1, %c32 : i64
        %part2 = arith.shrui %moved2, %c32 : i64
        %times0 = arith.muli %part0, %mantissa : i64
        %times1 = arith.muli %part1, %mantissa : i64
        %times2 = arith.muli %part2, %mantissa : i64
        %high = arith.shli %times0, %c32 : i64
        %low = arith.shrui %times2, %c32 : i64
        %sum = arith.addi %high, %times1 : i64
        %product = arith.addi %sum, %low : i64
        %nearest = arith.addi %product, %c61 : i64
        %whole = arith.shrui %nearest, %c62 : i64
        %turned = arith.shli %whole, %c62 : i64
        %left = arith.subi %product, %turned : i64
        %head = arith.sitofp %left : i64 to f32
        %headed = arith.fptosi %head : f32 to i64
        %behind = arith.subi %left, %headed : i64
        %tail = arith.sitofp %behind : i64 to f32
        %half_pi = arith.constant 1.5707964 : f32
        %correction = arith.constant -4.371139e-8 : f32
        %scale = arith.constant 2.16840434e-19 : f32
        %last = arith.mulf %tail, %half_pi : f32
        %inner = llvm.call_intrinsic "llvm.fma.f32"(%head, %correction, %last) : (f32, f32, f32) -> f32
        %outer = llvm.call_intrinsic "llvm.fma.f32"(%head, %half_pi, %inner) : (f32, f32, f32) -> f32
        %angle = arith.mulf %outer, %scale : f32
        %zero = arith.constant 0.0 : f32
        %none = arith.constant 0 : i32
        %negative = arith.cmpf olt, %x, %zero : f32
        %quarters = arith.trunci %whole : i64 to i32
        %back = arith.subi %none, %quarters : i32
        %mirrored = arith.negf %angle : f32
        %signed = arith.select %negative, %back, %quarters : i32
        %directed = arith.select %negative, %mirrored, %angle : f32
        scf.yield %signed, %directed : i32, f32
      }
      scf.yield %count, %kept : i32, f32
    }
    %half = llvm.insertvalue %turns, %nothing[0] : !llvm.struct<(i32, f32)>
    %both = llvm.insertvalue %rest, %half[1] : !llvm.struct<(i32, f32)>
    llvm.return %both : !llvm.struct<(i32, f32)>
  }
"""

# The sine of turns * pi / 2 + rest; the polynomials are minimax on [-pi/4, pi/4].
SIN_OF_TURNS = """
    %one = arith.constant 1.0 : f32
    %half = arith.constant -0.5 : f32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %none = arith.constant 0 : i32
    %o0 = arith.constant -1.9515218e-4 : f32
    %o1 = arith.constant 8.33216e-3 : f32
    %o2 = arith.constant -0.16666655 : f32
    %e0 = arith.constant 2.4433082e-5 : f32
    %e1 = arith.constant -1.3887315e-3 : f32
    %e2 = arith.constant 0.041666646 : f32
    %s = arith.mulf %rest, %rest : f32
    %odd1 = llvm.call_intrinsic "llvm.fma.f32"(%s, %o0, %o1) : (f32, f32, f32) -> f32
    %odd = llvm.call_intrinsic "llvm.fma.f32"(%s, %odd1, %o2) : (f32, f32, f32) -> f32
    %even1 = llvm.call_intrinsic "llvm.fma.f32"(%s, %e0, %e1) : (f32, f32, f32) -> f32
    %even = llvm.call_intrinsic "llvm.fma.f32"(%s, %even1, %e2) : (f32, f32, f32) -> f32
    %cube = arith.mulf %rest, %s : f32
    %plain = llvm.call_intrinsic "llvm.fma.f32"(%cube, %odd, %rest) : (f32, f32, f32) -> f32
    %sine = llvm.call_intrinsic "llvm.copysign.f32"(%plain, %rest) : (f32, f32) -> f32
    %square = arith.mulf %s, %s : f32
    %start = llvm.call_intrinsic "llvm.fma.f32"(%s, %half, %one) : (f32, f32, f32) -> f32
    %cosine = llvm.call_intrinsic "llvm.fma.f32"(%square, %even, %start) : (f32, f32, f32) -> f32
    %odd_bit = arith.andi %turns, %c1 : i32
    %is_odd = arith.cmpi ne, %odd_bit, %none : i32
    %y = arith.select %is_odd, %cosine, %sine : f32
    %half_bit = arith.andi %turns, %c2 : i32
    %is_half = arith.cmpi ne, %half_bit, %none : i32
    %negated = arith.negf %y : f32
    %result = arith.select %is_half, %negated, %y : f32
    llvm.return %result : f32
"""

SIN = """
    %reduced = llvm.call @quarter_turns_f32(%x) : (f32) -> !llvm.struct<(i32, f32)>
    %turns = llvm.extractvalue %reduced[0] : !llvm.struct<(i32, f32)>
    %rest = llvm.extractvalue %reduced[1] : !llvm.struct<(i32, f32)>
    %result = llvm.call @sin_of_turns_f32(%turns, %rest) : (i32, f32) -> f32
    llvm.return %result : f32
"""

COS = """
    %reduced = llvm.call @quarter_turns_f32(%x) : (f32) -> !llvm.struct<(i32, f32)>
    %turns = llvm.extractvalue %reduced[0] : !llvm.struct<(i32, f32)>
    %rest = llvm.extractvalue %reduced[1] : !llvm.struct<(i32, f32)>
    %one = arith.constant 1 : i32
    %next = arith.addi %turns, %one : i32
    %result = llvm.call @sin_of_turns_f32(%next, %rest) : (i32, f32) -> f32
    llvm.return %result : f32
"""
