gpu.module @kernels {
  gpu.func @limits(%x: !llvm.ptr<1>, %above: !llvm.ptr<1>, %below: !llvm.ptr<1>, %halves: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c1.i32 = arith.constant 1 : i32
    %c2.i32 = arith.constant 2 : i32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = llvm.getelementptr %x[%0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    %2 = llvm.load %1 {alignment = 4 : i64} : !llvm.ptr<1> -> i32
    %3 = arith.addi %2, %c1.i32 : i32
    %4 = arith.cmpi sgt, %3, %2 : i32
    %5 = llvm.getelementptr %above[%0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
    %6 = arith.extui %4 : i1 to i8
    llvm.store %6, %5 {alignment = 1 : i64} : i8, !llvm.ptr<1>
    %7 = arith.subi %2, %c1.i32 : i32
    %8 = arith.cmpi slt, %7, %2 : i32
    %9 = llvm.getelementptr %below[%0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
    %10 = arith.extui %8 : i1 to i8
    llvm.store %10, %9 {alignment = 1 : i64} : i8, !llvm.ptr<1>
    %11 = arith.muli %2, %c2.i32 : i32
    %12 = arith.divsi %11, %c2.i32 : i32
    %13 = llvm.getelementptr %halves[%0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    llvm.store %12, %13 {alignment = 4 : i64} : i32, !llvm.ptr<1>
    gpu.return
  }
}
