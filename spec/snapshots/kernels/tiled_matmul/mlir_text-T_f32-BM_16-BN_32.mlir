gpu.module @kernels {
  gpu.func @outer(%a: !llvm.ptr<1>, %b: !llvm.ptr<1>, %c: !llvm.ptr<1>, %M: i32, %N: i32, %K: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c16.i32 = arith.constant 16 : i32
    %c32.i32 = arith.constant 32 : i32
    %c15.i32 = arith.constant 15 : i32
    %c31.i32 = arith.constant 31 : i32
    %c0.0.f32x4 = arith.constant dense<0.0> : vector<4xf32>
    %c4.i32 = arith.constant 4 : i32
    %c1.i32 = arith.constant 1 : i32
    %c5.i32 = arith.constant 5 : i32
    %c8.i32 = arith.constant 8 : i32
    %c12.i32 = arith.constant 12 : i32
    %c0.i32 = arith.constant 0 : i32
    %c0.0.f32 = arith.constant 0.0 : f32
    %c-1.i32 = arith.constant -1 : i32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %c16.i32 : i32
    %3 = nvvm.read.ptx.sreg.ctaid.y : i32
    %4 = arith.muli %3, %c32.i32 overflow<nsw> : i32
    %5 = arith.andi %0, %c15.i32 : i32
    %6 = arith.addi %2, %5 : i32
    %7 = arith.muli %6, %K : i32
    %8 = llvm.getelementptr %a[%7] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %9 = arith.cmpi slt, %6, %M : i32
    %10 = arith.andi %0, %c31.i32 : i32
    %11 = arith.addi %4, %10 overflow<nsw> : i32
    %12 = arith.cmpi slt, %11, %N : i32
    %13 = arith.shrsi %0, %c4.i32 : i32
    %14 = arith.andi %13, %c1.i32 : i32
    %15 = arith.muli %14, %c16.i32 overflow<nsw> : i32
    %16 = arith.shrsi %0, %c5.i32 : i32
    %17 = arith.addi %15, %16 overflow<nsw> : i32
    %18 = arith.xori %17, %c4.i32 : i32
    %19 = arith.xori %17, %c8.i32 : i32
    %20 = arith.xori %17, %c12.i32 : i32
    %23 = scf.for %21 = %c0.i32 to %K step %c1.i32 iter_args(%22 = %c0.0.f32x4) -> (vector<4xf32>) : i32 {
      %24 = llvm.getelementptr %8[%21] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %25 = scf.if %9 -> (f32) {
        %26 = llvm.load %24 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
        scf.yield %26 : f32
      } else {
        scf.yield %c0.0.f32 : f32
      }
      %27 = arith.muli %21, %N : i32
      %28 = llvm.getelementptr %b[%27] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %29 = llvm.getelementptr %28[%11] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %30 = scf.if %12 -> (f32) {
        %31 = llvm.load %29 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
        scf.yield %31 : f32
      } else {
        scf.yield %c0.0.f32 : f32
      }
      %32 = arith.bitcast %25 : f32 to i32
      %33 = nvvm.shfl.sync idx %c-1.i32, %32, %17, %c31.i32 : i32 -> i32
      %34 = arith.bitcast %33 : i32 to f32
      %35 = arith.bitcast %25 : f32 to i32
      %36 = nvvm.shfl.sync idx %c-1.i32, %35, %18, %c31.i32 : i32 -> i32
      %37 = arith.bitcast %36 : i32 to f32
      %38 = arith.bitcast %25 : f32 to i32
      %39 = nvvm.shfl.sync idx %c-1.i32, %38, %19, %c31.i32 : i32 -> i32
      %40 = arith.bitcast %39 : i32 to f32
      %41 = arith.bitcast %25 : f32 to i32
      %42 = nvvm.shfl.sync idx %c-1.i32, %41, %20, %c31.i32 : i32 -> i32
      %43 = arith.bitcast %42 : i32 to f32
      %44 = vector.from_elements %34, %37, %40, %43 : vector<4xf32>
      %45:4 = vector.to_elements %22 : vector<4xf32>
      %46 = llvm.call_intrinsic "llvm.fma.f32"(%34, %30, %45#0) : (f32, f32, f32) -> f32
      %47 = llvm.call_intrinsic "llvm.fma.f32"(%37, %30, %45#1) : (f32, f32, f32) -> f32
      %48 = llvm.call_intrinsic "llvm.fma.f32"(%40, %30, %45#2) : (f32, f32, f32) -> f32
      %49 = llvm.call_intrinsic "llvm.fma.f32"(%43, %30, %45#3) : (f32, f32, f32) -> f32
      %50 = vector.from_elements %46, %47, %48, %49 : vector<4xf32>
      scf.yield %50 : vector<4xf32>
    }
    %51 = arith.shrsi %0, %c5.i32 : i32
    %52 = arith.constant dense<[0, 4, 8, 12]> : vector<4xi32>
    %53 = arith.addi %51, %2 : i32
    %54 = vector.broadcast %53 : i32 to vector<4xi32>
    %55 = arith.addi %54, %52 : vector<4xi32>
    %56 = vector.broadcast %N : i32 to vector<4xi32>
    %57 = arith.muli %55, %56 : vector<4xi32>
    %58 = vector.broadcast %11 : i32 to vector<4xi32>
    %59 = arith.addi %57, %58 : vector<4xi32>
    %60 = llvm.getelementptr %c[%59] : (!llvm.ptr<1>, vector<4xi32>) -> vector<4x!llvm.ptr<1>>, f32
    %61 = vector.broadcast %M : i32 to vector<4xi32>
    %62 = arith.cmpi slt, %55, %61 : vector<4xi32>
    %63 = vector.broadcast %12 : i1 to vector<4xi1>
    %64 = arith.andi %62, %63 : vector<4xi1>
    nvvm.barrier0
    %65:4 = vector.to_elements %60 : vector<4x!llvm.ptr<1>>
    %66:4 = vector.to_elements %23 : vector<4xf32>
    %67:4 = vector.to_elements %64 : vector<4xi1>
    scf.if %67#0 {
      llvm.store %66#0, %65#0 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %67#1 {
      llvm.store %66#1, %65#1 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %67#2 {
      llvm.store %66#2, %65#2 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %67#3 {
      llvm.store %66#3, %65#3 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
