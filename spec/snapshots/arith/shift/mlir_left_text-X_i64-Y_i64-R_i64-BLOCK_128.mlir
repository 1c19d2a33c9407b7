gpu.module @kernels {
  llvm.func internal @shift_left_i64(%x: i64, %y: i64) -> i64 attributes {always_inline} {
    %zero = arith.constant 0 : i64
    %width = arith.constant 64 : i64
    %inside = arith.cmpi ult, %y, %width : i64
    %last = arith.constant 63 : i64
    %amount = arith.minui %y, %last : i64
    %shifted = arith.shli %x, %amount : i64
    %result = arith.select %inside, %shifted, %zero : i64
    llvm.return %result : i64
  }
  gpu.func @left(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c128.i32 = arith.constant 128 : i32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %c128.i32 : i32
    %3 = arith.addi %2, %0 : i32
    %4 = llvm.getelementptr %x[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i64
    %5 = llvm.load %4 {alignment = 8 : i64} : !llvm.ptr<1> -> i64
    %6 = llvm.getelementptr %y[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i64
    %7 = llvm.load %6 {alignment = 8 : i64} : !llvm.ptr<1> -> i64
    %8 = llvm.call @shift_left_i64(%5, %7) : (i64, i64) -> i64
    %9 = llvm.getelementptr %out[%3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i64
    llvm.store %8, %9 {alignment = 8 : i64} : i64, !llvm.ptr<1>
    gpu.return
  }
}
