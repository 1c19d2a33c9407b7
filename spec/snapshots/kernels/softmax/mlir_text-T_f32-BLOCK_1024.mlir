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
    %9 = llvm.getelementptr %5[%0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %10 = llvm.inline_asm asm_dialect = att "mov.b64 $0, $1;", "=l,l" %9 : (!llvm.ptr<1>) -> !llvm.ptr<1>
    %11 = llvm.getelementptr %10[%6] : (!llvm.ptr<1>, vector<8xi32>) -> vector<8x!llvm.ptr<1>>, f32
    %12 = vector.broadcast %n : i32 to vector<8xi32>
    %13 = arith.cmpi slt, %8, %12 : vector<8xi32>
    %14:8 = vector.to_elements %11 : vector<8x!llvm.ptr<1>>
    %15:8 = vector.to_elements %13 : vector<8xi1>
    %16 = scf.if %15#0 -> (f32) {
      %17 = llvm.load %14#0 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %17 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %18 = scf.if %15#1 -> (f32) {
      %19 = llvm.load %14#1 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %19 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %20 = scf.if %15#2 -> (f32) {
      %21 = llvm.load %14#2 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %21 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %22 = scf.if %15#3 -> (f32) {
      %23 = llvm.load %14#3 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %23 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %24 = scf.if %15#4 -> (f32) {
      %25 = llvm.load %14#4 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %25 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %26 = scf.if %15#5 -> (f32) {
      %27 = llvm.load %14#5 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %27 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %28 = scf.if %15#6 -> (f32) {
      %29 = llvm.load %14#6 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %29 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %30 = scf.if %15#7 -> (f32) {
      %31 = llvm.load %14#7 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %31 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %32 = vector.from_elements %16, %18, %20, %22, %24, %26, %28, %30 : vector<8xf32>
    %33 = vector.from_elements %16, %20, %24, %28 : vector<4xf32>
    %34 = vector.from_elements %18, %22, %26, %30 : vector<4xf32>
    %35 = arith.maxnumf %33, %34 : vector<4xf32>
    %36:4 = vector.to_elements %35 : vector<4xf32>
    %37 = vector.from_elements %36#0, %36#2 : vector<2xf32>
    %38 = vector.from_elements %36#1, %36#3 : vector<2xf32>
    %39 = arith.maxnumf %37, %38 : vector<2xf32>
    %40:2 = vector.to_elements %39 : vector<2xf32>
    %41 = arith.maxnumf %40#0, %40#1 : f32
    %42 = arith.bitcast %41 : f32 to i32
    %43 = nvvm.shfl.sync bfly %c-1.i32, %42, %c1.i32, %c31.i32 : i32 -> i32
    %44 = arith.bitcast %43 : i32 to f32
    %45 = arith.maxnumf %41, %44 : f32
    %46 = arith.bitcast %45 : f32 to i32
    %47 = nvvm.shfl.sync bfly %c-1.i32, %46, %c2.i32, %c31.i32 : i32 -> i32
    %48 = arith.bitcast %47 : i32 to f32
    %49 = arith.maxnumf %45, %48 : f32
    %50 = arith.bitcast %49 : f32 to i32
    %51 = nvvm.shfl.sync bfly %c-1.i32, %50, %c4.i32, %c31.i32 : i32 -> i32
    %52 = arith.bitcast %51 : i32 to f32
    %53 = arith.maxnumf %49, %52 : f32
    %54 = arith.bitcast %53 : f32 to i32
    %55 = nvvm.shfl.sync bfly %c-1.i32, %54, %c8.i32, %c31.i32 : i32 -> i32
    %56 = arith.bitcast %55 : i32 to f32
    %57 = arith.maxnumf %53, %56 : f32
    %58 = arith.bitcast %57 : f32 to i32
    %59 = nvvm.shfl.sync bfly %c-1.i32, %58, %c16.i32, %c31.i32 : i32 -> i32
    %60 = arith.bitcast %59 : i32 to f32
    %61 = arith.maxnumf %57, %60 : f32
    %62 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %63 = arith.shrsi %0, %c5.i32 : i32
    %64 = arith.andi %0, %c31.i32 : i32
    %65 = arith.cmpi eq, %64, %c0.i32 : i32
    %66 = llvm.getelementptr %62[%63] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %65 {
      llvm.store %61, %66 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %67 = llvm.getelementptr %62[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %68 = llvm.load %67 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %69:4 = vector.to_elements %68 : vector<4xf32>
    %70 = vector.from_elements %69#0, %69#1, %69#2, %69#3 : vector<4xf32>
    %71 = vector.from_elements %69#0, %69#2 : vector<2xf32>
    %72 = vector.from_elements %69#1, %69#3 : vector<2xf32>
    %73 = arith.maxnumf %71, %72 : vector<2xf32>
    %74:2 = vector.to_elements %73 : vector<2xf32>
    %75 = arith.maxnumf %74#0, %74#1 : f32
    %76 = vector.broadcast %75 : f32 to vector<8xf32>
    %77 = arith.subf %32, %76 : vector<8xf32>
    %78 = arith.mulf %77, %c1.4426950216293335.f32x8 : vector<8xf32>
    %79 = math.exp2 %78 : vector<8xf32>
    %80 = llvm.getelementptr %out[%4] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %81:8 = vector.to_elements %79 : vector<8xf32>
    %82 = vector.from_elements %81#0, %81#2, %81#4, %81#6 : vector<4xf32>
    %83 = vector.from_elements %81#1, %81#3, %81#5, %81#7 : vector<4xf32>
    %84 = arith.addf %82, %83 : vector<4xf32>
    %85:4 = vector.to_elements %84 : vector<4xf32>
    %86 = vector.from_elements %85#0, %85#2 : vector<2xf32>
    %87 = vector.from_elements %85#1, %85#3 : vector<2xf32>
    %88 = arith.addf %86, %87 : vector<2xf32>
    %89:2 = vector.to_elements %88 : vector<2xf32>
    %90 = arith.addf %89#0, %89#1 : f32
    %91 = arith.bitcast %90 : f32 to i32
    %92 = nvvm.shfl.sync bfly %c-1.i32, %91, %c1.i32, %c31.i32 : i32 -> i32
    %93 = arith.bitcast %92 : i32 to f32
    %94 = arith.addf %90, %93 : f32
    %95 = arith.bitcast %94 : f32 to i32
    %96 = nvvm.shfl.sync bfly %c-1.i32, %95, %c2.i32, %c31.i32 : i32 -> i32
    %97 = arith.bitcast %96 : i32 to f32
    %98 = arith.addf %94, %97 : f32
    %99 = arith.bitcast %98 : f32 to i32
    %100 = nvvm.shfl.sync bfly %c-1.i32, %99, %c4.i32, %c31.i32 : i32 -> i32
    %101 = arith.bitcast %100 : i32 to f32
    %102 = arith.addf %98, %101 : f32
    %103 = arith.bitcast %102 : f32 to i32
    %104 = nvvm.shfl.sync bfly %c-1.i32, %103, %c8.i32, %c31.i32 : i32 -> i32
    %105 = arith.bitcast %104 : i32 to f32
    %106 = arith.addf %102, %105 : f32
    %107 = arith.bitcast %106 : f32 to i32
    %108 = nvvm.shfl.sync bfly %c-1.i32, %107, %c16.i32, %c31.i32 : i32 -> i32
    %109 = arith.bitcast %108 : i32 to f32
    %110 = arith.addf %106, %109 : f32
    %111 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %112 = llvm.getelementptr %111[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %113 = llvm.getelementptr %112[%63] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %65 {
      llvm.store %110, %113 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %114 = llvm.getelementptr %112[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %115 = llvm.load %114 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %116:4 = vector.to_elements %115 : vector<4xf32>
    %117 = vector.from_elements %116#0, %116#1, %116#2, %116#3 : vector<4xf32>
    %118 = vector.from_elements %116#0, %116#2 : vector<2xf32>
    %119 = vector.from_elements %116#1, %116#3 : vector<2xf32>
    %120 = arith.addf %118, %119 : vector<2xf32>
    %121:2 = vector.to_elements %120 : vector<2xf32>
    %122 = arith.addf %121#0, %121#1 : f32
    %123 = arith.divf %c1.0.f32, %122 : f32
    %124 = vector.broadcast %123 : f32 to vector<8xf32>
    %125 = arith.mulf %79, %124 : vector<8xf32>
    %126 = llvm.getelementptr %80[%0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %127 = llvm.inline_asm asm_dialect = att "mov.b64 $0, $1;", "=l,l" %126 : (!llvm.ptr<1>) -> !llvm.ptr<1>
    %128 = llvm.getelementptr %127[%6] : (!llvm.ptr<1>, vector<8xi32>) -> vector<8x!llvm.ptr<1>>, f32
    %129:8 = vector.to_elements %128 : vector<8x!llvm.ptr<1>>
    %130:8 = vector.to_elements %125 : vector<8xf32>
    scf.if %15#0 {
      llvm.store %130#0, %129#0 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %15#1 {
      llvm.store %130#1, %129#1 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %15#2 {
      llvm.store %130#2, %129#2 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %15#3 {
      llvm.store %130#3, %129#3 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %15#4 {
      llvm.store %130#4, %129#4 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %15#5 {
      llvm.store %130#5, %129#5 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %15#6 {
      llvm.store %130#6, %129#6 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %15#7 {
      llvm.store %130#7, %129#7 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
