gpu.module @kernels {
  llvm.mlir.global external @shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  gpu.func @softmax(%x: !llvm.ptr<1>, %out: !llvm.ptr<1>, %stride: i32, %n: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
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
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %stride : i32
    %3 = llvm.getelementptr %x[%2] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %4 = arith.constant dense<[0, 128, 256, 384, 512, 640, 768, 896]> : vector<8xi32>
    %5 = vector.broadcast %0 : i32 to vector<8xi32>
    %6 = arith.addi %5, %4 overflow<nsw> : vector<8xi32>
    %7 = llvm.getelementptr %3[%6] : (!llvm.ptr<1>, vector<8xi32>) -> vector<8x!llvm.ptr<1>>, f32
    %8 = vector.broadcast %n : i32 to vector<8xi32>
    %9 = arith.cmpi slt, %6, %8 : vector<8xi32>
    %10:8 = vector.to_elements %7 : vector<8x!llvm.ptr<1>>
    %11:8 = vector.to_elements %9 : vector<8xi1>
    %12 = scf.if %11#0 -> (f32) {
      %13 = llvm.load %10#0 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %13 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %14 = scf.if %11#1 -> (f32) {
      %15 = llvm.load %10#1 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %15 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %16 = scf.if %11#2 -> (f32) {
      %17 = llvm.load %10#2 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %17 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %18 = scf.if %11#3 -> (f32) {
      %19 = llvm.load %10#3 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %19 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %20 = scf.if %11#4 -> (f32) {
      %21 = llvm.load %10#4 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %21 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %22 = scf.if %11#5 -> (f32) {
      %23 = llvm.load %10#5 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %23 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %24 = scf.if %11#6 -> (f32) {
      %25 = llvm.load %10#6 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %25 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %26 = scf.if %11#7 -> (f32) {
      %27 = llvm.load %10#7 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %27 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %28 = vector.from_elements %12, %14, %16, %18, %20, %22, %24, %26 : vector<8xf32>
    %29 = vector.from_elements %12, %16, %20, %24 : vector<4xf32>
    %30 = vector.from_elements %14, %18, %22, %26 : vector<4xf32>
    %31 = arith.maxnumf %29, %30 : vector<4xf32>
    %32:4 = vector.to_elements %31 : vector<4xf32>
    %33 = vector.from_elements %32#0, %32#2 : vector<2xf32>
    %34 = vector.from_elements %32#1, %32#3 : vector<2xf32>
    %35 = arith.maxnumf %33, %34 : vector<2xf32>
    %36:2 = vector.to_elements %35 : vector<2xf32>
    %37 = arith.maxnumf %36#0, %36#1 : f32
    %38 = arith.bitcast %37 : f32 to i32
    %39 = nvvm.shfl.sync bfly %c-1.i32, %38, %c1.i32, %c31.i32 : i32 -> i32
    %40 = arith.bitcast %39 : i32 to f32
    %41 = arith.maxnumf %37, %40 : f32
    %42 = arith.bitcast %41 : f32 to i32
    %43 = nvvm.shfl.sync bfly %c-1.i32, %42, %c2.i32, %c31.i32 : i32 -> i32
    %44 = arith.bitcast %43 : i32 to f32
    %45 = arith.maxnumf %41, %44 : f32
    %46 = arith.bitcast %45 : f32 to i32
    %47 = nvvm.shfl.sync bfly %c-1.i32, %46, %c4.i32, %c31.i32 : i32 -> i32
    %48 = arith.bitcast %47 : i32 to f32
    %49 = arith.maxnumf %45, %48 : f32
    %50 = arith.bitcast %49 : f32 to i32
    %51 = nvvm.shfl.sync bfly %c-1.i32, %50, %c8.i32, %c31.i32 : i32 -> i32
    %52 = arith.bitcast %51 : i32 to f32
    %53 = arith.maxnumf %49, %52 : f32
    %54 = arith.bitcast %53 : f32 to i32
    %55 = nvvm.shfl.sync bfly %c-1.i32, %54, %c16.i32, %c31.i32 : i32 -> i32
    %56 = arith.bitcast %55 : i32 to f32
    %57 = arith.maxnumf %53, %56 : f32
    %58 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %59 = arith.shrsi %0, %c5.i32 : i32
    %60 = arith.andi %0, %c31.i32 : i32
    %61 = arith.cmpi eq, %60, %c0.i32 : i32
    %62 = llvm.getelementptr %58[%59] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %61 {
      llvm.store %57, %62 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %63 = llvm.getelementptr %58[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %64 = llvm.load %63 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %65:4 = vector.to_elements %64 : vector<4xf32>
    %66 = vector.from_elements %65#0, %65#1, %65#2, %65#3 : vector<4xf32>
    %67 = vector.from_elements %65#0, %65#2 : vector<2xf32>
    %68 = vector.from_elements %65#1, %65#3 : vector<2xf32>
    %69 = arith.maxnumf %67, %68 : vector<2xf32>
    %70:2 = vector.to_elements %69 : vector<2xf32>
    %71 = arith.maxnumf %70#0, %70#1 : f32
    %72 = vector.broadcast %71 : f32 to vector<8xf32>
    %73 = arith.subf %28, %72 : vector<8xf32>
    %74 = math.exp %73 : vector<8xf32>
    %75 = llvm.getelementptr %out[%2] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %76:8 = vector.to_elements %74 : vector<8xf32>
    %77 = vector.from_elements %76#0, %76#2, %76#4, %76#6 : vector<4xf32>
    %78 = vector.from_elements %76#1, %76#3, %76#5, %76#7 : vector<4xf32>
    %79 = arith.addf %77, %78 : vector<4xf32>
    %80:4 = vector.to_elements %79 : vector<4xf32>
    %81 = vector.from_elements %80#0, %80#2 : vector<2xf32>
    %82 = vector.from_elements %80#1, %80#3 : vector<2xf32>
    %83 = arith.addf %81, %82 : vector<2xf32>
    %84:2 = vector.to_elements %83 : vector<2xf32>
    %85 = arith.addf %84#0, %84#1 : f32
    %86 = arith.bitcast %85 : f32 to i32
    %87 = nvvm.shfl.sync bfly %c-1.i32, %86, %c1.i32, %c31.i32 : i32 -> i32
    %88 = arith.bitcast %87 : i32 to f32
    %89 = arith.addf %85, %88 : f32
    %90 = arith.bitcast %89 : f32 to i32
    %91 = nvvm.shfl.sync bfly %c-1.i32, %90, %c2.i32, %c31.i32 : i32 -> i32
    %92 = arith.bitcast %91 : i32 to f32
    %93 = arith.addf %89, %92 : f32
    %94 = arith.bitcast %93 : f32 to i32
    %95 = nvvm.shfl.sync bfly %c-1.i32, %94, %c4.i32, %c31.i32 : i32 -> i32
    %96 = arith.bitcast %95 : i32 to f32
    %97 = arith.addf %93, %96 : f32
    %98 = arith.bitcast %97 : f32 to i32
    %99 = nvvm.shfl.sync bfly %c-1.i32, %98, %c8.i32, %c31.i32 : i32 -> i32
    %100 = arith.bitcast %99 : i32 to f32
    %101 = arith.addf %97, %100 : f32
    %102 = arith.bitcast %101 : f32 to i32
    %103 = nvvm.shfl.sync bfly %c-1.i32, %102, %c16.i32, %c31.i32 : i32 -> i32
    %104 = arith.bitcast %103 : i32 to f32
    %105 = arith.addf %101, %104 : f32
    %106 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %107 = llvm.getelementptr %106[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %108 = llvm.getelementptr %107[%59] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %61 {
      llvm.store %105, %108 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %109 = llvm.getelementptr %107[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %110 = llvm.load %109 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %111:4 = vector.to_elements %110 : vector<4xf32>
    %112 = vector.from_elements %111#0, %111#1, %111#2, %111#3 : vector<4xf32>
    %113 = vector.from_elements %111#0, %111#2 : vector<2xf32>
    %114 = vector.from_elements %111#1, %111#3 : vector<2xf32>
    %115 = arith.addf %113, %114 : vector<2xf32>
    %116:2 = vector.to_elements %115 : vector<2xf32>
    %117 = arith.addf %116#0, %116#1 : f32
    %118 = vector.broadcast %117 : f32 to vector<8xf32>
    %119 = arith.divf %74, %118 : vector<8xf32>
    %120 = llvm.getelementptr %75[%6] : (!llvm.ptr<1>, vector<8xi32>) -> vector<8x!llvm.ptr<1>>, f32
    %121:8 = vector.to_elements %120 : vector<8x!llvm.ptr<1>>
    %122:8 = vector.to_elements %119 : vector<8xf32>
    scf.if %11#0 {
      llvm.store %122#0, %121#0 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %11#1 {
      llvm.store %122#1, %121#1 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %11#2 {
      llvm.store %122#2, %121#2 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %11#3 {
      llvm.store %122#3, %121#3 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %11#4 {
      llvm.store %122#4, %121#4 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %11#5 {
      llvm.store %122#5, %121#5 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %11#6 {
      llvm.store %122#6, %121#6 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %11#7 {
      llvm.store %122#7, %121#7 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
