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
    %10 = llvm.getelementptr %9[%6] : (!llvm.ptr<1>, vector<8xi32>) -> vector<8x!llvm.ptr<1>>, f32
    %11 = vector.broadcast %n : i32 to vector<8xi32>
    %12 = arith.cmpi slt, %8, %11 : vector<8xi32>
    %13:8 = vector.to_elements %10 : vector<8x!llvm.ptr<1>>
    %14:8 = vector.to_elements %12 : vector<8xi1>
    %15 = scf.if %14#0 -> (f32) {
      %16 = llvm.load %13#0 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %16 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %17 = scf.if %14#1 -> (f32) {
      %18 = llvm.load %13#1 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %18 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %19 = scf.if %14#2 -> (f32) {
      %20 = llvm.load %13#2 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %20 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %21 = scf.if %14#3 -> (f32) {
      %22 = llvm.load %13#3 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %22 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %23 = scf.if %14#4 -> (f32) {
      %24 = llvm.load %13#4 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %24 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %25 = scf.if %14#5 -> (f32) {
      %26 = llvm.load %13#5 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %26 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %27 = scf.if %14#6 -> (f32) {
      %28 = llvm.load %13#6 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %28 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %29 = scf.if %14#7 -> (f32) {
      %30 = llvm.load %13#7 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %30 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %31 = vector.from_elements %15, %17, %19, %21, %23, %25, %27, %29 : vector<8xf32>
    %32 = vector.from_elements %15, %19, %23, %27 : vector<4xf32>
    %33 = vector.from_elements %17, %21, %25, %29 : vector<4xf32>
    %34 = arith.maxnumf %32, %33 : vector<4xf32>
    %35:4 = vector.to_elements %34 : vector<4xf32>
    %36 = vector.from_elements %35#0, %35#2 : vector<2xf32>
    %37 = vector.from_elements %35#1, %35#3 : vector<2xf32>
    %38 = arith.maxnumf %36, %37 : vector<2xf32>
    %39:2 = vector.to_elements %38 : vector<2xf32>
    %40 = arith.maxnumf %39#0, %39#1 : f32
    %41 = arith.bitcast %40 : f32 to i32
    %42 = nvvm.shfl.sync bfly %c-1.i32, %41, %c1.i32, %c31.i32 : i32 -> i32
    %43 = arith.bitcast %42 : i32 to f32
    %44 = arith.maxnumf %40, %43 : f32
    %45 = arith.bitcast %44 : f32 to i32
    %46 = nvvm.shfl.sync bfly %c-1.i32, %45, %c2.i32, %c31.i32 : i32 -> i32
    %47 = arith.bitcast %46 : i32 to f32
    %48 = arith.maxnumf %44, %47 : f32
    %49 = arith.bitcast %48 : f32 to i32
    %50 = nvvm.shfl.sync bfly %c-1.i32, %49, %c4.i32, %c31.i32 : i32 -> i32
    %51 = arith.bitcast %50 : i32 to f32
    %52 = arith.maxnumf %48, %51 : f32
    %53 = arith.bitcast %52 : f32 to i32
    %54 = nvvm.shfl.sync bfly %c-1.i32, %53, %c8.i32, %c31.i32 : i32 -> i32
    %55 = arith.bitcast %54 : i32 to f32
    %56 = arith.maxnumf %52, %55 : f32
    %57 = arith.bitcast %56 : f32 to i32
    %58 = nvvm.shfl.sync bfly %c-1.i32, %57, %c16.i32, %c31.i32 : i32 -> i32
    %59 = arith.bitcast %58 : i32 to f32
    %60 = arith.maxnumf %56, %59 : f32
    %61 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %62 = arith.shrsi %0, %c5.i32 : i32
    %63 = arith.andi %0, %c31.i32 : i32
    %64 = arith.cmpi eq, %63, %c0.i32 : i32
    %65 = llvm.getelementptr %61[%62] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %64 {
      llvm.store %60, %65 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %66 = llvm.getelementptr %61[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %67 = llvm.load %66 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %68:4 = vector.to_elements %67 : vector<4xf32>
    %69 = vector.from_elements %68#0, %68#1, %68#2, %68#3 : vector<4xf32>
    %70 = vector.from_elements %68#0, %68#2 : vector<2xf32>
    %71 = vector.from_elements %68#1, %68#3 : vector<2xf32>
    %72 = arith.maxnumf %70, %71 : vector<2xf32>
    %73:2 = vector.to_elements %72 : vector<2xf32>
    %74 = arith.maxnumf %73#0, %73#1 : f32
    %75 = vector.broadcast %74 : f32 to vector<8xf32>
    %76 = arith.subf %31, %75 : vector<8xf32>
    %77 = arith.mulf %76, %c1.4426950216293335.f32x8 : vector<8xf32>
    %78 = math.exp2 %77 : vector<8xf32>
    %79 = llvm.getelementptr %out[%4] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %80:8 = vector.to_elements %78 : vector<8xf32>
    %81 = vector.from_elements %80#0, %80#2, %80#4, %80#6 : vector<4xf32>
    %82 = vector.from_elements %80#1, %80#3, %80#5, %80#7 : vector<4xf32>
    %83 = arith.addf %81, %82 : vector<4xf32>
    %84:4 = vector.to_elements %83 : vector<4xf32>
    %85 = vector.from_elements %84#0, %84#2 : vector<2xf32>
    %86 = vector.from_elements %84#1, %84#3 : vector<2xf32>
    %87 = arith.addf %85, %86 : vector<2xf32>
    %88:2 = vector.to_elements %87 : vector<2xf32>
    %89 = arith.addf %88#0, %88#1 : f32
    %90 = arith.bitcast %89 : f32 to i32
    %91 = nvvm.shfl.sync bfly %c-1.i32, %90, %c1.i32, %c31.i32 : i32 -> i32
    %92 = arith.bitcast %91 : i32 to f32
    %93 = arith.addf %89, %92 : f32
    %94 = arith.bitcast %93 : f32 to i32
    %95 = nvvm.shfl.sync bfly %c-1.i32, %94, %c2.i32, %c31.i32 : i32 -> i32
    %96 = arith.bitcast %95 : i32 to f32
    %97 = arith.addf %93, %96 : f32
    %98 = arith.bitcast %97 : f32 to i32
    %99 = nvvm.shfl.sync bfly %c-1.i32, %98, %c4.i32, %c31.i32 : i32 -> i32
    %100 = arith.bitcast %99 : i32 to f32
    %101 = arith.addf %97, %100 : f32
    %102 = arith.bitcast %101 : f32 to i32
    %103 = nvvm.shfl.sync bfly %c-1.i32, %102, %c8.i32, %c31.i32 : i32 -> i32
    %104 = arith.bitcast %103 : i32 to f32
    %105 = arith.addf %101, %104 : f32
    %106 = arith.bitcast %105 : f32 to i32
    %107 = nvvm.shfl.sync bfly %c-1.i32, %106, %c16.i32, %c31.i32 : i32 -> i32
    %108 = arith.bitcast %107 : i32 to f32
    %109 = arith.addf %105, %108 : f32
    %110 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %111 = llvm.getelementptr %110[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %112 = llvm.getelementptr %111[%62] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %64 {
      llvm.store %109, %112 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %113 = llvm.getelementptr %111[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %114 = llvm.load %113 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %115:4 = vector.to_elements %114 : vector<4xf32>
    %116 = vector.from_elements %115#0, %115#1, %115#2, %115#3 : vector<4xf32>
    %117 = vector.from_elements %115#0, %115#2 : vector<2xf32>
    %118 = vector.from_elements %115#1, %115#3 : vector<2xf32>
    %119 = arith.addf %117, %118 : vector<2xf32>
    %120:2 = vector.to_elements %119 : vector<2xf32>
    %121 = arith.addf %120#0, %120#1 : f32
    %122 = arith.divf %c1.0.f32, %121 : f32
    %123 = vector.broadcast %122 : f32 to vector<8xf32>
    %124 = arith.mulf %78, %123 : vector<8xf32>
    %125 = llvm.getelementptr %79[%0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %126 = llvm.getelementptr %125[%6] : (!llvm.ptr<1>, vector<8xi32>) -> vector<8x!llvm.ptr<1>>, f32
    %127:8 = vector.to_elements %126 : vector<8x!llvm.ptr<1>>
    %128:8 = vector.to_elements %124 : vector<8xf32>
    scf.if %14#0 {
      llvm.store %128#0, %127#0 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %14#1 {
      llvm.store %128#1, %127#1 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %14#2 {
      llvm.store %128#2, %127#2 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %14#3 {
      llvm.store %128#3, %127#3 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %14#4 {
      llvm.store %128#4, %127#4 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %14#5 {
      llvm.store %128#5, %127#5 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %14#6 {
      llvm.store %128#6, %127#6 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %14#7 {
      llvm.store %128#7, %127#7 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
