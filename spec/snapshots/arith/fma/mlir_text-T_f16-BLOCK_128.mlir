gpu.module @kernels {
  gpu.func @fma(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %z: !llvm.ptr<1>, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c128.i32 = arith.constant 128 : i32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %c128.i32 : i32
    %3 = arith.addi %2, %0 : i32
    %4 = llvm.getelementptr %x[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f16
    %5 = llvm.load %4 {alignment = 2 : i64} : !llvm.ptr<1> -> f16
    %6 = llvm.getelementptr %y[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f16
    %7 = llvm.load %6 {alignment = 2 : i64} : !llvm.ptr<1> -> f16
    %8 = llvm.getelementptr %z[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f16
    %9 = llvm.load %8 {alignment = 2 : i64} : !llvm.ptr<1> -> f16
    %10 = llvm.call_intrinsic "llvm.fma.f16"(%5, %7, %9) : (f16, f16, f16) -> f16
    %11 = llvm.getelementptr %out[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f16
    llvm.store %10, %11 {alignment = 2 : i64} : f16, !llvm.ptr<1>
    gpu.return
  }
}
