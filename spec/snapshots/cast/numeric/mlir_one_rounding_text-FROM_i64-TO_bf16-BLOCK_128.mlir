gpu.module @kernels {
  llvm.func internal @to_bf16_i64(%x: i64) -> bf16 attributes {always_inline} {
    %near = llvm.call_intrinsic "llvm.nvvm.ll2f.rz"(%x) : (i64) -> f32
    %back = llvm.call_intrinsic "llvm.nvvm.f2ll.rz"(%near) : (f32) -> i64
    %inexact = arith.cmpi ne, %back, %x : i64
    %sticky = arith.extui %inexact : i1 to i32
    %bits = arith.bitcast %near : f32 to i32
    %odd = arith.ori %bits, %sticky : i32
    %y = arith.bitcast %odd : i32 to f32
    %result = arith.truncf %y : f32 to bf16
    llvm.return %result : bf16
  }
  gpu.func @to(%x: !llvm.ptr<1>, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c128.i32 = arith.constant 128 : i32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %c128.i32 : i32
    %3 = arith.addi %2, %0 : i32
    %4 = llvm.getelementptr %x[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i64
    %5 = llvm.load %4 {alignment = 8 : i64} : !llvm.ptr<1> -> i64
    %6 = llvm.call @to_bf16_i64(%5) : (i64) -> bf16
    %7 = llvm.getelementptr %out[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, bf16
    llvm.store %6, %7 {alignment = 2 : i64} : bf16, !llvm.ptr<1>
    gpu.return
  }
}
