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
    %4 = llvm.getelementptr %2[%3] : (!llvm.ptr<1>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
    %5:2 = vector.to_elements %4 : vector<2x!llvm.ptr<1>>
    %6 = llvm.load %5#0 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %7:4 = vector.to_elements %6 : vector<4xf32>
    %8 = llvm.load %5#1 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %9:4 = vector.to_elements %8 : vector<4xf32>
    %10 = vector.from_elements %7#0, %7#1, %7#2, %7#3, %9#0, %9#1, %9#2, %9#3 : vector<8xf32>
    %11 = vector.from_elements %7#0, %7#2, %9#0, %9#2 : vector<4xf32>
    %12 = vector.from_elements %7#1, %7#3, %9#1, %9#3 : vector<4xf32>
    %13 = arith.addf %11, %12 : vector<4xf32>
    %14:4 = vector.to_elements %13 : vector<4xf32>
    %15 = vector.from_elements %14#0, %14#2 : vector<2xf32>
    %16 = vector.from_elements %14#1, %14#3 : vector<2xf32>
    %17 = arith.addf %15, %16 : vector<2xf32>
    %18:2 = vector.to_elements %17 : vector<2xf32>
    %19 = arith.addf %18#0, %18#1 : f32
    %20 = arith.bitcast %19 : f32 to i32
    %21 = nvvm.shfl.sync bfly %c-1.i32, %20, %c1.i32, %c31.i32 : i32 -> i32
    %22 = arith.bitcast %21 : i32 to f32
    %23 = arith.addf %19, %22 : f32
    %24 = arith.bitcast %23 : f32 to i32
    %25 = nvvm.shfl.sync bfly %c-1.i32, %24, %c2.i32, %c31.i32 : i32 -> i32
    %26 = arith.bitcast %25 : i32 to f32
    %27 = arith.addf %23, %26 : f32
    %28 = arith.bitcast %27 : f32 to i32
    %29 = nvvm.shfl.sync bfly %c-1.i32, %28, %c4.i32, %c31.i32 : i32 -> i32
    %30 = arith.bitcast %29 : i32 to f32
    %31 = arith.addf %27, %30 : f32
    %32 = arith.bitcast %31 : f32 to i32
    %33 = nvvm.shfl.sync bfly %c-1.i32, %32, %c8.i32, %c31.i32 : i32 -> i32
    %34 = arith.bitcast %33 : i32 to f32
    %35 = arith.addf %31, %34 : f32
    %36 = arith.bitcast %35 : f32 to i32
    %37 = nvvm.shfl.sync bfly %c-1.i32, %36, %c16.i32, %c31.i32 : i32 -> i32
    %38 = arith.bitcast %37 : i32 to f32
    %39 = arith.addf %35, %38 : f32
    %40 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %41 = arith.shrsi %0, %c5.i32 : i32
    %42 = arith.andi %0, %c31.i32 : i32
    %43 = arith.cmpi eq, %42, %c0.i32 : i32
    %44 = llvm.getelementptr %40[%41] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %43 {
      llvm.store %39, %44 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %45 = llvm.getelementptr %40[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %46 = llvm.load %45 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %47:4 = vector.to_elements %46 : vector<4xf32>
    %48 = vector.from_elements %47#0, %47#1, %47#2, %47#3 : vector<4xf32>
    %49 = vector.from_elements %47#0, %47#2 : vector<2xf32>
    %50 = vector.from_elements %47#1, %47#3 : vector<2xf32>
    %51 = arith.addf %49, %50 : vector<2xf32>
    %52:2 = vector.to_elements %51 : vector<2xf32>
    %53 = arith.addf %52#0, %52#1 : f32
    %54 = arith.cmpi eq, %0, %c0.i32 : i32
    scf.if %54 {
      llvm.store %53, %out {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
