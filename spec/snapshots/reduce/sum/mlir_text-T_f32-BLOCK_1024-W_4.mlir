gpu.module @kernels {
  llvm.mlir.global external @shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  gpu.func @block(%x: !llvm.ptr<1>, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c4.i32 = arith.constant 4 : i32
    %c1.i32 = arith.constant 1 : i32
    %c-1.i32 = arith.constant -1 : i32
    %c31.i32 = arith.constant 31 : i32
    %c2.i32 = arith.constant 2 : i32
    %c8.i32 = arith.constant 8 : i32
    %c16.i32 = arith.constant 16 : i32
    %c5.i32 = arith.constant 5 : i32
    %c0.i32 = arith.constant 0 : i32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = arith.muli %0, %c4.i32 overflow<nsw> : i32
    %2 = llvm.getelementptr %x[%1] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %3 = arith.constant dense<[0, 512]> : vector<2xi32>
    %4 = llvm.inline_asm asm_dialect = att "mov.b64 $0, $1;", "=l,l" %2 : (!llvm.ptr<1>) -> !llvm.ptr<1>
    %5 = llvm.getelementptr %4[%3] : (!llvm.ptr<1>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
    %6:2 = vector.to_elements %5 : vector<2x!llvm.ptr<1>>
    %7 = llvm.load %6#0 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %8:4 = vector.to_elements %7 : vector<4xf32>
    %9 = llvm.load %6#1 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %10:4 = vector.to_elements %9 : vector<4xf32>
    %11 = vector.from_elements %8#0, %8#1, %8#2, %8#3, %10#0, %10#1, %10#2, %10#3 : vector<8xf32>
    %12 = vector.from_elements %8#0, %8#2, %10#0, %10#2 : vector<4xf32>
    %13 = vector.from_elements %8#1, %8#3, %10#1, %10#3 : vector<4xf32>
    %14 = arith.addf %12, %13 : vector<4xf32>
    %15:4 = vector.to_elements %14 : vector<4xf32>
    %16 = vector.from_elements %15#0, %15#2 : vector<2xf32>
    %17 = vector.from_elements %15#1, %15#3 : vector<2xf32>
    %18 = arith.addf %16, %17 : vector<2xf32>
    %19:2 = vector.to_elements %18 : vector<2xf32>
    %20 = arith.addf %19#0, %19#1 : f32
    %21 = arith.bitcast %20 : f32 to i32
    %22 = nvvm.shfl.sync bfly %c-1.i32, %21, %c1.i32, %c31.i32 : i32 -> i32
    %23 = arith.bitcast %22 : i32 to f32
    %24 = arith.addf %20, %23 : f32
    %25 = arith.bitcast %24 : f32 to i32
    %26 = nvvm.shfl.sync bfly %c-1.i32, %25, %c2.i32, %c31.i32 : i32 -> i32
    %27 = arith.bitcast %26 : i32 to f32
    %28 = arith.addf %24, %27 : f32
    %29 = arith.bitcast %28 : f32 to i32
    %30 = nvvm.shfl.sync bfly %c-1.i32, %29, %c4.i32, %c31.i32 : i32 -> i32
    %31 = arith.bitcast %30 : i32 to f32
    %32 = arith.addf %28, %31 : f32
    %33 = arith.bitcast %32 : f32 to i32
    %34 = nvvm.shfl.sync bfly %c-1.i32, %33, %c8.i32, %c31.i32 : i32 -> i32
    %35 = arith.bitcast %34 : i32 to f32
    %36 = arith.addf %32, %35 : f32
    %37 = arith.bitcast %36 : f32 to i32
    %38 = nvvm.shfl.sync bfly %c-1.i32, %37, %c16.i32, %c31.i32 : i32 -> i32
    %39 = arith.bitcast %38 : i32 to f32
    %40 = arith.addf %36, %39 : f32
    %41 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %42 = arith.shrsi %0, %c5.i32 : i32
    %43 = arith.andi %0, %c31.i32 : i32
    %44 = arith.cmpi eq, %43, %c0.i32 : i32
    %45 = llvm.getelementptr %41[%42] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %44 {
      llvm.store %40, %45 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %46 = llvm.getelementptr %41[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %47 = llvm.load %46 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %48:4 = vector.to_elements %47 : vector<4xf32>
    %49 = vector.from_elements %48#0, %48#1, %48#2, %48#3 : vector<4xf32>
    %50 = vector.from_elements %48#0, %48#2 : vector<2xf32>
    %51 = vector.from_elements %48#1, %48#3 : vector<2xf32>
    %52 = arith.addf %50, %51 : vector<2xf32>
    %53:2 = vector.to_elements %52 : vector<2xf32>
    %54 = arith.addf %53#0, %53#1 : f32
    %55 = arith.cmpi eq, %0, %c0.i32 : i32
    scf.if %55 {
      llvm.store %54, %out {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
