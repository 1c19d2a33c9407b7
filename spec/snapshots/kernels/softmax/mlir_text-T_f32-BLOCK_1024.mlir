gpu.module @kernels {
  llvm.mlir.global external @shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  gpu.func @softmax_kernel(%x: !llvm.ptr<1>, %out: !llvm.ptr<1>, %stride: i32, %n: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c0xFF800000.f32 = arith.constant 0xFF800000 : f32
    %c1.i32 = arith.constant 1 : i32
    %c-1.i32 = arith.constant -1 : i32
    %c31.i32 = arith.constant 31 : i32
    %c2.i32 = arith.constant 2 : i32
    %c4.i32 = arith.constant 4 : i32
    %c8.i32 = arith.constant 8 : i32
    %c16.i32 = arith.constant 16 : i32
    %c5.i32 = arith.constant 5 : i32
    %c0.i32 = arith.constant 0 : i32
    %c1.4426950216293335.f32x8 = arith.constant dense<1.4426950216293335> : vector<8xf32>
    %c1.0.f32 = arith.constant 1.0 : f32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.extsi %1 : i32 to i64
    %3 = arith.extsi %stride : i32 to i64
    %4 = arith.muli %2, %3 overflow<nsw> : i64
    %5 = llvm.getelementptr %x[%4] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %6 = arith.constant dense<[0, 128, 256, 384, 512, 640, 768, 896]> : vector<8xi32>
    %7 = vector.broadcast %0 : i32 to vector<8xi32>
    %8 = arith.addi %7, %6 overflow<nsw> : vector<8xi32>
    %9 = llvm.getelementptr %5[%8] : (!llvm.ptr<1>, vector<8xi32>) -> vector<8x!llvm.ptr<1>>, f32
    %10 = vector.broadcast %n : i32 to vector<8xi32>
    %11 = arith.cmpi slt, %8, %10 : vector<8xi32>
    %12:8 = vector.to_elements %9 : vector<8x!llvm.ptr<1>>
    %13:8 = vector.to_elements %11 : vector<8xi1>
    %14 = scf.if %13#0 -> (f32) {
      %15 = llvm.load %12#0 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %15 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %16 = scf.if %13#1 -> (f32) {
      %17 = llvm.load %12#1 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %17 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %18 = scf.if %13#2 -> (f32) {
      %19 = llvm.load %12#2 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %19 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %20 = scf.if %13#3 -> (f32) {
      %21 = llvm.load %12#3 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %21 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %22 = scf.if %13#4 -> (f32) {
      %23 = llvm.load %12#4 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %23 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %24 = scf.if %13#5 -> (f32) {
      %25 = llvm.load %12#5 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %25 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %26 = scf.if %13#6 -> (f32) {
      %27 = llvm.load %12#6 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %27 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %28 = scf.if %13#7 -> (f32) {
      %29 = llvm.load %12#7 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %29 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %30 = vector.from_elements %14, %16, %18, %20, %22, %24, %26, %28 : vector<8xf32>
    %31 = vector.from_elements %14, %18, %22, %26 : vector<4xf32>
    %32 = vector.from_elements %16, %20, %24, %28 : vector<4xf32>
    %33 = arith.maxnumf %31, %32 : vector<4xf32>
    %34:4 = vector.to_elements %33 : vector<4xf32>
    %35 = vector.from_elements %34#0, %34#2 : vector<2xf32>
    %36 = vector.from_elements %34#1, %34#3 : vector<2xf32>
    %37 = arith.maxnumf %35, %36 : vector<2xf32>
    %38:2 = vector.to_elements %37 : vector<2xf32>
    %39 = arith.maxnumf %38#0, %38#1 : f32
    %40 = arith.bitcast %39 : f32 to i32
    %41 = nvvm.shfl.sync bfly %c-1.i32, %40, %c1.i32, %c31.i32 : i32 -> i32
    %42 = arith.bitcast %41 : i32 to f32
    %43 = arith.maxnumf %39, %42 : f32
    %44 = arith.bitcast %43 : f32 to i32
    %45 = nvvm.shfl.sync bfly %c-1.i32, %44, %c2.i32, %c31.i32 : i32 -> i32
    %46 = arith.bitcast %45 : i32 to f32
    %47 = arith.maxnumf %43, %46 : f32
    %48 = arith.bitcast %47 : f32 to i32
    %49 = nvvm.shfl.sync bfly %c-1.i32, %48, %c4.i32, %c31.i32 : i32 -> i32
    %50 = arith.bitcast %49 : i32 to f32
    %51 = arith.maxnumf %47, %50 : f32
    %52 = arith.bitcast %51 : f32 to i32
    %53 = nvvm.shfl.sync bfly %c-1.i32, %52, %c8.i32, %c31.i32 : i32 -> i32
    %54 = arith.bitcast %53 : i32 to f32
    %55 = arith.maxnumf %51, %54 : f32
    %56 = arith.bitcast %55 : f32 to i32
    %57 = nvvm.shfl.sync bfly %c-1.i32, %56, %c16.i32, %c31.i32 : i32 -> i32
    %58 = arith.bitcast %57 : i32 to f32
    %59 = arith.maxnumf %55, %58 : f32
    %60 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %61 = arith.shrsi %0, %c5.i32 : i32
    %62 = arith.andi %0, %c31.i32 : i32
    %63 = arith.cmpi eq, %62, %c0.i32 : i32
    %64 = llvm.getelementptr %60[%61] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %63 {
      llvm.store %59, %64 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %65 = llvm.getelementptr %60[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %66 = llvm.load %65 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %67:4 = vector.to_elements %66 : vector<4xf32>
    %68 = vector.from_elements %67#0, %67#1, %67#2, %67#3 : vector<4xf32>
    %69 = vector.from_elements %67#0, %67#2 : vector<2xf32>
    %70 = vector.from_elements %67#1, %67#3 : vector<2xf32>
    %71 = arith.maxnumf %69, %70 : vector<2xf32>
    %72:2 = vector.to_elements %71 : vector<2xf32>
    %73 = arith.maxnumf %72#0, %72#1 : f32
    %74 = vector.broadcast %73 : f32 to vector<8xf32>
    %75 = arith.subf %30, %74 : vector<8xf32>
    %76 = arith.mulf %75, %c1.4426950216293335.f32x8 : vector<8xf32>
    %77 = math.exp2 %76 : vector<8xf32>
    %78 = llvm.getelementptr %out[%4] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %79:8 = vector.to_elements %77 : vector<8xf32>
    %80 = vector.from_elements %79#0, %79#2, %79#4, %79#6 : vector<4xf32>
    %81 = vector.from_elements %79#1, %79#3, %79#5, %79#7 : vector<4xf32>
    %82 = arith.addf %80, %81 : vector<4xf32>
    %83:4 = vector.to_elements %82 : vector<4xf32>
    %84 = vector.from_elements %83#0, %83#2 : vector<2xf32>
    %85 = vector.from_elements %83#1, %83#3 : vector<2xf32>
    %86 = arith.addf %84, %85 : vector<2xf32>
    %87:2 = vector.to_elements %86 : vector<2xf32>
    %88 = arith.addf %87#0, %87#1 : f32
    %89 = arith.bitcast %88 : f32 to i32
    %90 = nvvm.shfl.sync bfly %c-1.i32, %89, %c1.i32, %c31.i32 : i32 -> i32
    %91 = arith.bitcast %90 : i32 to f32
    %92 = arith.addf %88, %91 : f32
    %93 = arith.bitcast %92 : f32 to i32
    %94 = nvvm.shfl.sync bfly %c-1.i32, %93, %c2.i32, %c31.i32 : i32 -> i32
    %95 = arith.bitcast %94 : i32 to f32
    %96 = arith.addf %92, %95 : f32
    %97 = arith.bitcast %96 : f32 to i32
    %98 = nvvm.shfl.sync bfly %c-1.i32, %97, %c4.i32, %c31.i32 : i32 -> i32
    %99 = arith.bitcast %98 : i32 to f32
    %100 = arith.addf %96, %99 : f32
    %101 = arith.bitcast %100 : f32 to i32
    %102 = nvvm.shfl.sync bfly %c-1.i32, %101, %c8.i32, %c31.i32 : i32 -> i32
    %103 = arith.bitcast %102 : i32 to f32
    %104 = arith.addf %100, %103 : f32
    %105 = arith.bitcast %104 : f32 to i32
    %106 = nvvm.shfl.sync bfly %c-1.i32, %105, %c16.i32, %c31.i32 : i32 -> i32
    %107 = arith.bitcast %106 : i32 to f32
    %108 = arith.addf %104, %107 : f32
    %109 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %110 = llvm.getelementptr %109[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %111 = llvm.getelementptr %110[%61] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %63 {
      llvm.store %108, %111 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %112 = llvm.getelementptr %110[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %113 = llvm.load %112 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %114:4 = vector.to_elements %113 : vector<4xf32>
    %115 = vector.from_elements %114#0, %114#1, %114#2, %114#3 : vector<4xf32>
    %116 = vector.from_elements %114#0, %114#2 : vector<2xf32>
    %117 = vector.from_elements %114#1, %114#3 : vector<2xf32>
    %118 = arith.addf %116, %117 : vector<2xf32>
    %119:2 = vector.to_elements %118 : vector<2xf32>
    %120 = arith.addf %119#0, %119#1 : f32
    %121 = arith.divf %c1.0.f32, %120 : f32
    %122 = vector.broadcast %121 : f32 to vector<8xf32>
    %123 = arith.mulf %77, %122 : vector<8xf32>
    %124 = llvm.getelementptr %78[%8] : (!llvm.ptr<1>, vector<8xi32>) -> vector<8x!llvm.ptr<1>>, f32
    %125:8 = vector.to_elements %124 : vector<8x!llvm.ptr<1>>
    %126:8 = vector.to_elements %123 : vector<8xf32>
    scf.if %13#0 {
      llvm.store %126#0, %125#0 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %13#1 {
      llvm.store %126#1, %125#1 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %13#2 {
      llvm.store %126#2, %125#2 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %13#3 {
      llvm.store %126#3, %125#3 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %13#4 {
      llvm.store %126#4, %125#4 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %13#5 {
      llvm.store %126#5, %125#5 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %13#6 {
      llvm.store %126#6, %125#6 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %13#7 {
      llvm.store %126#7, %125#7 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
