gpu.module @kernels {
  gpu.func @to(%x: !llvm.ptr<1>, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c128.i32 = arith.constant 128 : i32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %c128.i32 : i32
    %3 = arith.addi %2, %0 : i32
    %4 = llvm.getelementptr %x[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %5 = llvm.load %4 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
    %6 = llvm.call_intrinsic "llvm.fptosi.sat.i8.f32"(%5) : (f32) -> i8
    %7 = llvm.getelementptr %out[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
    llvm.store %6, %7 {alignment = 1 : i64} : i8, !llvm.ptr<1>
    gpu.return
  }
}
