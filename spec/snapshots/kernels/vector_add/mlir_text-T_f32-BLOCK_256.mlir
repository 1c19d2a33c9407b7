gpu.module @kernels {
  gpu.func @add(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %out: !llvm.ptr<1>, %n: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c256.i32 = arith.constant 256 : i32
    %c0.0.f32 = arith.constant 0.0 : f32
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    %1 = nvvm.read.ptx.sreg.ctaid.x : i32
    %2 = arith.muli %1, %c256.i32 : i32
    %3 = arith.constant dense<[0, 128]> : vector<2xi32>
    %4 = arith.addi %0, %2 : i32
    %5 = vector.broadcast %4 : i32 to vector<2xi32>
    %6 = arith.addi %5, %3 : vector<2xi32>
    %7 = llvm.getelementptr %x[%6] : (!llvm.ptr<1>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
    %8 = vector.broadcast %n : i32 to vector<2xi32>
    %9 = arith.cmpi slt, %6, %8 : vector<2xi32>
    %10:2 = vector.to_elements %7 : vector<2x!llvm.ptr<1>>
    %11:2 = vector.to_elements %9 : vector<2xi1>
    %12 = scf.if %11#0 -> (f32) {
      %13 = llvm.load %10#0 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %13 : f32
    } else {
      scf.yield %c0.0.f32 : f32
    }
    %14 = scf.if %11#1 -> (f32) {
      %15 = llvm.load %10#1 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %15 : f32
    } else {
      scf.yield %c0.0.f32 : f32
    }
    %16 = vector.from_elements %12, %14 : vector<2xf32>
    %17 = llvm.getelementptr %y[%6] : (!llvm.ptr<1>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
    %18:2 = vector.to_elements %17 : vector<2x!llvm.ptr<1>>
    %19 = scf.if %11#0 -> (f32) {
      %20 = llvm.load %18#0 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %20 : f32
    } else {
      scf.yield %c0.0.f32 : f32
    }
    %21 = scf.if %11#1 -> (f32) {
      %22 = llvm.load %18#1 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
      scf.yield %22 : f32
    } else {
      scf.yield %c0.0.f32 : f32
    }
    %23 = vector.from_elements %19, %21 : vector<2xf32>
    %24 = arith.addf %16, %23 : vector<2xf32>
    %25 = llvm.getelementptr %out[%6] : (!llvm.ptr<1>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
    %26:2 = vector.to_elements %25 : vector<2x!llvm.ptr<1>>
    %27:2 = vector.to_elements %24 : vector<2xf32>
    scf.if %11#0 {
      llvm.store %27#0, %26#0 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    scf.if %11#1 {
      llvm.store %27#1, %26#1 {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
    gpu.return
  }
}
