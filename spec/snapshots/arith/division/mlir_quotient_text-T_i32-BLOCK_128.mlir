gpu.module @kernels {
  llvm.func internal @int_div_i32(%x: i32, %y: i32) -> i32 attributes {always_inline} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %minus_one = arith.constant -1 : i32
    %none = arith.cmpi eq, %y, %zero : i32
    %negates = arith.cmpi eq, %y, %minus_one : i32
    %special = arith.ori %none, %negates : i1
    %divisor = arith.select %special, %one, %y : i32
    %quotient = arith.divsi %x, %divisor : i32
    %negated = arith.subi %zero, %x : i32
    %defined = arith.select %negates, %negated, %quotient : i32
    %result = arith.select %none, %zero, %defined : i32
    llvm.return %result : i32
  }
  gpu.func @quotient(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c128.i32 = arith.constant 128 : i32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %c128.i32 : i32
    %3 = arith.addi %2, %0 : i32
    %4 = llvm.getelementptr %x[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    %5 = llvm.load %4 {alignment = 4 : i64} : !llvm.ptr<1> -> i32
    %6 = llvm.getelementptr %y[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    %7 = llvm.load %6 {alignment = 4 : i64} : !llvm.ptr<1> -> i32
    %8 = llvm.call @int_div_i32(%5, %7) : (i32, i32) -> i32
    %9 = llvm.getelementptr %out[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    llvm.store %8, %9 {alignment = 4 : i64} : i32, !llvm.ptr<1>
    gpu.return
  }
}
