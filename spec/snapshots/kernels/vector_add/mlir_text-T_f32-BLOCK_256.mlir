gpu.module @kernels {
  gpu.func @add(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %out: !llvm.ptr<1>, %n: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c256.i32 = arith.constant 256 : i32
    %c0.0.f32 = arith.constant 0.0 : f32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %c256.i32 : i32
    %3 = arith.constant dense<[0, 128]> : vector<2xi32>
    %4 = vector.broadcast %0 : i32 to vector<2xi32>
    %5 = arith.addi %4, %3 overflow<nsw> : vector<2xi32>
    %6 = vector.broadcast %2 : i32 to vector<2xi32>
    %7 = arith.addi %6, %5 : vector<2xi32>
    %8 = llvm.getelementptr %x[%7] : (!llvm.ptr<1>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
    %9 = vector.broadcast %n : i32 to vector<2xi32>
    %10 = arith.cmpi slt, %7, %9 : vector<2xi32>
    %11:2 = vector.to_elements %8 : vector<2x!llvm.ptr<1>>
    %12:2 = vector.to_elements %10 : vector<2xi1>
    %13 = scf.if %12#0 -> (f32) {
      %14 = llvm.load %11#0 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %14 : f32
    } else {
      scf.yield %c0.0.f32 : f32
    }
    %15 = scf.if %12#1 -> (f32) {
      %16 = llvm.load %11#1 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %16 : f32
    } else {
      scf.yield %c0.0.f32 : f32
    }
    %17 = vector.from_elements %13, %15 : vector<2xf32>
    %18 = llvm.getelementptr %y[%7] : (!llvm.ptr<1>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
    %19:2 = vector.to_elements %18 : vector<2x!llvm.ptr<1>>
    %20 = scf.if %12#0 -> (f32) {
      %21 = llvm.load %19#0 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %21 : f32
    } else {
      scf.yield %c0.0.f32 : f32
    }
    %22 = scf.if %12#1 -> (f32) {
      %23 = llvm.load %19#1 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %23 : f32
    } else {
      scf.yield %c0.0.f32 : f32
    }
    %24 = vector.from_elements %20, %22 : vector<2xf32>
    %25 = arith.addf %17, %24 : vector<2xf32>
    %26 = llvm.getelementptr %out[%7] : (!llvm.ptr<1>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
    %27:2 = vector.to_elements %26 : vector<2x!llvm.ptr<1>>
    %28:2 = vector.to_elements %25 : vector<2xf32>
    scf.if %12#0 {
      llvm.store %28#0, %27#0 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %12#1 {
      llvm.store %28#1, %27#1 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
