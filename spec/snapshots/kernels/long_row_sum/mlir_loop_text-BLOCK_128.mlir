gpu.module @kernels {
  llvm.mlir.global external @shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  llvm.func internal @trip_count_i32(%start: i32, %stop: i32, %step: i32) -> i32 attributes {always_inline} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %up = arith.cmpi sgt, %step, %zero : i32
    %down = arith.cmpi slt, %step, %zero : i32
    %below = arith.cmpi slt, %start, %stop : i32
    %above = arith.cmpi slt, %stop, %start : i32
    %rises = arith.andi %up, %below : i1
    %falls = arith.andi %down, %above : i1
    %runs = arith.ori %rises, %falls : i1
    %ahead = arith.subi %stop, %start : i32
    %behind = arith.subi %start, %stop : i32
    %distance = arith.select %up, %ahead, %behind : i32
    %negated = arith.subi %zero, %step : i32
    %stride = arith.select %up, %step, %negated : i32
    %divisor = arith.maxui %stride, %one : i32
    %reach = arith.subi %distance, %one : i32
    %more = arith.divui %reach, %divisor : i32
    %trips = arith.addi %more, %one : i32
    %result = arith.select %runs, %trips, %zero : i32
    llvm.return %result : i32
  }
  gpu.func @runtime(%x: !llvm.ptr<1>, %out: !llvm.ptr<1>, %n: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c0.i32 = arith.constant 0 : i32
    %c128.i32 = arith.constant 128 : i32
    %c1.i32 = arith.constant 1 : i32
    %c0.0.f32 = arith.constant 0.0 : f32
    %c-1.i32 = arith.constant -1 : i32
    %c31.i32 = arith.constant 31 : i32
    %c2.i32 = arith.constant 2 : i32
    %c4.i32 = arith.constant 4 : i32
    %c8.i32 = arith.constant 8 : i32
    %c16.i32 = arith.constant 16 : i32
    %c5.i32 = arith.constant 5 : i32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %n : i32
    %3 = llvm.getelementptr %x[%2] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %5 = llvm.call @trip_count_i32(%c0.i32, %n, %c128.i32) : (i32, i32, i32) -> i32
    %7 = scf.for unsigned %4 = %c0.i32 to %5 step %c1.i32 iter_args(%6 = %c0.0.f32) -> (f32) : i32 {
      %8 = arith.muli %4, %c128.i32 : i32
      %9 = arith.addi %c0.i32, %8 : i32
      %10 = arith.addi %9, %0 overflow<nsw> : i32
      %11 = llvm.getelementptr %3[%10] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %12 = arith.cmpi slt, %10, %n : i32
      %13 = scf.if %12 -> (f32) {
        %14 = llvm.load %11 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
        scf.yield %14 : f32
      } else {
        scf.yield %c0.0.f32 : f32
      }
      %15 = arith.addf %6, %13 : f32
      scf.yield %15 : f32
    }
    %16 = llvm.getelementptr %out[%1] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %17 = arith.bitcast %7 : f32 to i32
    %18 = nvvm.shfl.sync bfly %c-1.i32, %17, %c1.i32, %c31.i32 : i32 -> i32
    %19 = arith.bitcast %18 : i32 to f32
    %20 = arith.addf %7, %19 : f32
    %21 = arith.bitcast %20 : f32 to i32
    %22 = nvvm.shfl.sync bfly %c-1.i32, %21, %c2.i32, %c31.i32 : i32 -> i32
    %23 = arith.bitcast %22 : i32 to f32
    %24 = arith.addf %20, %23 : f32
    %25 = arith.bitcast %24 : f32 to i32
    %26 = nvvm.shfl.sync bfly %c-1.i32, %25, %c4.i32, %c31.i32 : i32 -> i32
    %27 = arith.bitcast %26 : i32 to f32
    %28 = arith.addf %24, %27 : f32
    %29 = arith.bitcast %28 : f32 to i32
    %30 = nvvm.shfl.sync bfly %c-1.i32, %29, %c8.i32, %c31.i32 : i32 -> i32
    %31 = arith.bitcast %30 : i32 to f32
    %32 = arith.addf %28, %31 : f32
    %33 = arith.bitcast %32 : f32 to i32
    %34 = nvvm.shfl.sync bfly %c-1.i32, %33, %c16.i32, %c31.i32 : i32 -> i32
    %35 = arith.bitcast %34 : i32 to f32
    %36 = arith.addf %32, %35 : f32
    %37 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %38 = arith.shrsi %0, %c5.i32 : i32
    %39 = arith.andi %0, %c31.i32 : i32
    %40 = arith.cmpi eq, %39, %c0.i32 : i32
    %41 = llvm.getelementptr %37[%38] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %40 {
      llvm.store %36, %41 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %42 = llvm.getelementptr %37[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %43 = llvm.load %42 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %44:4 = vector.to_elements %43 : vector<4xf32>
    %45 = vector.from_elements %44#0, %44#1, %44#2, %44#3 : vector<4xf32>
    %46 = vector.from_elements %44#0, %44#2 : vector<2xf32>
    %47 = vector.from_elements %44#1, %44#3 : vector<2xf32>
    %48 = arith.addf %46, %47 : vector<2xf32>
    %49:2 = vector.to_elements %48 : vector<2xf32>
    %50 = arith.addf %49#0, %49#1 : f32
    %51 = arith.cmpi eq, %0, %c0.i32 : i32
    scf.if %51 {
      llvm.store %50, %16 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
