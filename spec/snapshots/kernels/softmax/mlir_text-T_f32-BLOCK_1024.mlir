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
      %17 = llvm.inline_asm has_side_effects asm_dialect = att "ld.global.L1::evict_last.L2::cache_hint.b32 $0, [$1], 0x14F0000000000000;", "=r,l,~{memory}" %14#0 : (!llvm.ptr<1>) -> i32
      %18 = llvm.bitcast %17 : i32 to f32
      scf.yield %18 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %19 = scf.if %15#1 -> (f32) {
      %20 = llvm.inline_asm has_side_effects asm_dialect = att "ld.global.L1::evict_last.L2::cache_hint.b32 $0, [$1], 0x14F0000000000000;", "=r,l,~{memory}" %14#1 : (!llvm.ptr<1>) -> i32
      %21 = llvm.bitcast %20 : i32 to f32
      scf.yield %21 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %22 = scf.if %15#2 -> (f32) {
      %23 = llvm.inline_asm has_side_effects asm_dialect = att "ld.global.L1::evict_last.L2::cache_hint.b32 $0, [$1], 0x14F0000000000000;", "=r,l,~{memory}" %14#2 : (!llvm.ptr<1>) -> i32
      %24 = llvm.bitcast %23 : i32 to f32
      scf.yield %24 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %25 = scf.if %15#3 -> (f32) {
      %26 = llvm.inline_asm has_side_effects asm_dialect = att "ld.global.L1::evict_last.L2::cache_hint.b32 $0, [$1], 0x14F0000000000000;", "=r,l,~{memory}" %14#3 : (!llvm.ptr<1>) -> i32
      %27 = llvm.bitcast %26 : i32 to f32
      scf.yield %27 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %28 = scf.if %15#4 -> (f32) {
      %29 = llvm.inline_asm has_side_effects asm_dialect = att "ld.global.L1::evict_last.L2::cache_hint.b32 $0, [$1], 0x14F0000000000000;", "=r,l,~{memory}" %14#4 : (!llvm.ptr<1>) -> i32
      %30 = llvm.bitcast %29 : i32 to f32
      scf.yield %30 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %31 = scf.if %15#5 -> (f32) {
      %32 = llvm.inline_asm has_side_effects asm_dialect = att "ld.global.L1::evict_last.L2::cache_hint.b32 $0, [$1], 0x14F0000000000000;", "=r,l,~{memory}" %14#5 : (!llvm.ptr<1>) -> i32
      %33 = llvm.bitcast %32 : i32 to f32
      scf.yield %33 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %34 = scf.if %15#6 -> (f32) {
      %35 = llvm.inline_asm has_side_effects asm_dialect = att "ld.global.L1::evict_last.L2::cache_hint.b32 $0, [$1], 0x14F0000000000000;", "=r,l,~{memory}" %14#6 : (!llvm.ptr<1>) -> i32
      %36 = llvm.bitcast %35 : i32 to f32
      scf.yield %36 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %37 = scf.if %15#7 -> (f32) {
      %38 = llvm.inline_asm has_side_effects asm_dialect = att "ld.global.L1::evict_last.L2::cache_hint.b32 $0, [$1], 0x14F0000000000000;", "=r,l,~{memory}" %14#7 : (!llvm.ptr<1>) -> i32
      %39 = llvm.bitcast %38 : i32 to f32
      scf.yield %39 : f32
    } else {
      scf.yield %c0xFF800000.f32 : f32
    }
    %40 = vector.from_elements %16, %19, %22, %25, %28, %31, %34, %37 : vector<8xf32>
    %41 = vector.from_elements %16, %22, %28, %34 : vector<4xf32>
    %42 = vector.from_elements %19, %25, %31, %37 : vector<4xf32>
    %43 = arith.maxnumf %41, %42 : vector<4xf32>
    %44:4 = vector.to_elements %43 : vector<4xf32>
    %45 = vector.from_elements %44#0, %44#2 : vector<2xf32>
    %46 = vector.from_elements %44#1, %44#3 : vector<2xf32>
    %47 = arith.maxnumf %45, %46 : vector<2xf32>
    %48:2 = vector.to_elements %47 : vector<2xf32>
    %49 = arith.maxnumf %48#0, %48#1 : f32
    %50 = arith.bitcast %49 : f32 to i32
    %51 = nvvm.shfl.sync bfly %c-1.i32, %50, %c1.i32, %c31.i32 : i32 -> i32
    %52 = arith.bitcast %51 : i32 to f32
    %53 = arith.maxnumf %49, %52 : f32
    %54 = arith.bitcast %53 : f32 to i32
    %55 = nvvm.shfl.sync bfly %c-1.i32, %54, %c2.i32, %c31.i32 : i32 -> i32
    %56 = arith.bitcast %55 : i32 to f32
    %57 = arith.maxnumf %53, %56 : f32
    %58 = arith.bitcast %57 : f32 to i32
    %59 = nvvm.shfl.sync bfly %c-1.i32, %58, %c4.i32, %c31.i32 : i32 -> i32
    %60 = arith.bitcast %59 : i32 to f32
    %61 = arith.maxnumf %57, %60 : f32
    %62 = arith.bitcast %61 : f32 to i32
    %63 = nvvm.shfl.sync bfly %c-1.i32, %62, %c8.i32, %c31.i32 : i32 -> i32
    %64 = arith.bitcast %63 : i32 to f32
    %65 = arith.maxnumf %61, %64 : f32
    %66 = arith.bitcast %65 : f32 to i32
    %67 = nvvm.shfl.sync bfly %c-1.i32, %66, %c16.i32, %c31.i32 : i32 -> i32
    %68 = arith.bitcast %67 : i32 to f32
    %69 = arith.maxnumf %65, %68 : f32
    %70 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %71 = arith.shrsi %0, %c5.i32 : i32
    %72 = arith.andi %0, %c31.i32 : i32
    %73 = arith.cmpi eq, %72, %c0.i32 : i32
    %74 = llvm.getelementptr %70[%71] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %73 {
      llvm.store %69, %74 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %75 = llvm.getelementptr %70[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %76 = llvm.load %75 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %77:4 = vector.to_elements %76 : vector<4xf32>
    %78 = vector.from_elements %77#0, %77#1, %77#2, %77#3 : vector<4xf32>
    %79 = vector.from_elements %77#0, %77#2 : vector<2xf32>
    %80 = vector.from_elements %77#1, %77#3 : vector<2xf32>
    %81 = arith.maxnumf %79, %80 : vector<2xf32>
    %82:2 = vector.to_elements %81 : vector<2xf32>
    %83 = arith.maxnumf %82#0, %82#1 : f32
    %84 = vector.broadcast %83 : f32 to vector<8xf32>
    %85 = arith.subf %40, %84 : vector<8xf32>
    %86 = arith.mulf %85, %c1.4426950216293335.f32x8 : vector<8xf32>
    %87 = math.exp2 %86 : vector<8xf32>
    %88 = llvm.getelementptr %out[%4] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %89:8 = vector.to_elements %87 : vector<8xf32>
    %90 = vector.from_elements %89#0, %89#2, %89#4, %89#6 : vector<4xf32>
    %91 = vector.from_elements %89#1, %89#3, %89#5, %89#7 : vector<4xf32>
    %92 = arith.addf %90, %91 : vector<4xf32>
    %93:4 = vector.to_elements %92 : vector<4xf32>
    %94 = vector.from_elements %93#0, %93#2 : vector<2xf32>
    %95 = vector.from_elements %93#1, %93#3 : vector<2xf32>
    %96 = arith.addf %94, %95 : vector<2xf32>
    %97:2 = vector.to_elements %96 : vector<2xf32>
    %98 = arith.addf %97#0, %97#1 : f32
    %99 = arith.bitcast %98 : f32 to i32
    %100 = nvvm.shfl.sync bfly %c-1.i32, %99, %c1.i32, %c31.i32 : i32 -> i32
    %101 = arith.bitcast %100 : i32 to f32
    %102 = arith.addf %98, %101 : f32
    %103 = arith.bitcast %102 : f32 to i32
    %104 = nvvm.shfl.sync bfly %c-1.i32, %103, %c2.i32, %c31.i32 : i32 -> i32
    %105 = arith.bitcast %104 : i32 to f32
    %106 = arith.addf %102, %105 : f32
    %107 = arith.bitcast %106 : f32 to i32
    %108 = nvvm.shfl.sync bfly %c-1.i32, %107, %c4.i32, %c31.i32 : i32 -> i32
    %109 = arith.bitcast %108 : i32 to f32
    %110 = arith.addf %106, %109 : f32
    %111 = arith.bitcast %110 : f32 to i32
    %112 = nvvm.shfl.sync bfly %c-1.i32, %111, %c8.i32, %c31.i32 : i32 -> i32
    %113 = arith.bitcast %112 : i32 to f32
    %114 = arith.addf %110, %113 : f32
    %115 = arith.bitcast %114 : f32 to i32
    %116 = nvvm.shfl.sync bfly %c-1.i32, %115, %c16.i32, %c31.i32 : i32 -> i32
    %117 = arith.bitcast %116 : i32 to f32
    %118 = arith.addf %114, %117 : f32
    %119 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %120 = llvm.getelementptr %119[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %121 = llvm.getelementptr %120[%71] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %73 {
      llvm.store %118, %121 {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    nvvm.barrier0
    %122 = llvm.getelementptr %120[%c0.i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %123 = llvm.load %122 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %124:4 = vector.to_elements %123 : vector<4xf32>
    %125 = vector.from_elements %124#0, %124#1, %124#2, %124#3 : vector<4xf32>
    %126 = vector.from_elements %124#0, %124#2 : vector<2xf32>
    %127 = vector.from_elements %124#1, %124#3 : vector<2xf32>
    %128 = arith.addf %126, %127 : vector<2xf32>
    %129:2 = vector.to_elements %128 : vector<2xf32>
    %130 = arith.addf %129#0, %129#1 : f32
    %131 = arith.divf %c1.0.f32, %130 : f32
    %132 = vector.broadcast %131 : f32 to vector<8xf32>
    %133 = arith.mulf %87, %132 : vector<8xf32>
    %134 = llvm.getelementptr %88[%0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %135 = llvm.inline_asm asm_dialect = att "mov.b64 $0, $1;", "=l,l" %134 : (!llvm.ptr<1>) -> !llvm.ptr<1>
    %136 = llvm.getelementptr %135[%6] : (!llvm.ptr<1>, vector<8xi32>) -> vector<8x!llvm.ptr<1>>, f32
    %137:8 = vector.to_elements %136 : vector<8x!llvm.ptr<1>>
    %138:8 = vector.to_elements %133 : vector<8xf32>
    scf.if %15#0 {
      %139 = llvm.bitcast %138#0 : f32 to i32
      llvm.inline_asm has_side_effects asm_dialect = att "st.global.L1::evict_first.L2::cache_hint.b32 [$0], $1, 0x12F0000000000000;", "l,r,~{memory}" %137#0, %139 : (!llvm.ptr<1>, i32) -> ()
    }
    scf.if %15#1 {
      %140 = llvm.bitcast %138#1 : f32 to i32
      llvm.inline_asm has_side_effects asm_dialect = att "st.global.L1::evict_first.L2::cache_hint.b32 [$0], $1, 0x12F0000000000000;", "l,r,~{memory}" %137#1, %140 : (!llvm.ptr<1>, i32) -> ()
    }
    scf.if %15#2 {
      %141 = llvm.bitcast %138#2 : f32 to i32
      llvm.inline_asm has_side_effects asm_dialect = att "st.global.L1::evict_first.L2::cache_hint.b32 [$0], $1, 0x12F0000000000000;", "l,r,~{memory}" %137#2, %141 : (!llvm.ptr<1>, i32) -> ()
    }
    scf.if %15#3 {
      %142 = llvm.bitcast %138#3 : f32 to i32
      llvm.inline_asm has_side_effects asm_dialect = att "st.global.L1::evict_first.L2::cache_hint.b32 [$0], $1, 0x12F0000000000000;", "l,r,~{memory}" %137#3, %142 : (!llvm.ptr<1>, i32) -> ()
    }
    scf.if %15#4 {
      %143 = llvm.bitcast %138#4 : f32 to i32
      llvm.inline_asm has_side_effects asm_dialect = att "st.global.L1::evict_first.L2::cache_hint.b32 [$0], $1, 0x12F0000000000000;", "l,r,~{memory}" %137#4, %143 : (!llvm.ptr<1>, i32) -> ()
    }
    scf.if %15#5 {
      %144 = llvm.bitcast %138#5 : f32 to i32
      llvm.inline_asm has_side_effects asm_dialect = att "st.global.L1::evict_first.L2::cache_hint.b32 [$0], $1, 0x12F0000000000000;", "l,r,~{memory}" %137#5, %144 : (!llvm.ptr<1>, i32) -> ()
    }
    scf.if %15#6 {
      %145 = llvm.bitcast %138#6 : f32 to i32
      llvm.inline_asm has_side_effects asm_dialect = att "st.global.L1::evict_first.L2::cache_hint.b32 [$0], $1, 0x12F0000000000000;", "l,r,~{memory}" %137#6, %145 : (!llvm.ptr<1>, i32) -> ()
    }
    scf.if %15#7 {
      %146 = llvm.bitcast %138#7 : f32 to i32
      llvm.inline_asm has_side_effects asm_dialect = att "st.global.L1::evict_first.L2::cache_hint.b32 [$0], $1, 0x12F0000000000000;", "l,r,~{memory}" %137#7, %146 : (!llvm.ptr<1>, i32) -> ()
    }
    gpu.return
  }
}
