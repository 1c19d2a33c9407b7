"""Warpgroup products: descriptors against CUTLASS's canonical layouts, machine code, code that ptxas serializes."""

import re
from collections import Counter

import numpy as np
import pytest

from refcompiler import toolchain
from refcompiler.dialects.simt.warpgroup import Tile
from refcompiler.errors import CompileError, InternalError
from refcompiler.jit.text import from_simt
from refcompiler.layouts import swizzled
from refcompiler.simulator.descriptors import matrix_bytes

CHUNK = 16
SWIZZLES = {128: 3, 64: 2, 32: 1}  # bytes of a row -> B of CUTLASS's Swizzle<B, 4, 3>


def canonical(start, swizzle, size, leading, stride, i, k, transposed):
    """The byte of element (i, k), i along m or n, by the comments of CUTLASS's mma_traits_sm90_gmma.hpp.

    Major K:  ((8, m), (T, 2)) : ((wT, SBO), (1, T));  major MN: ((T, w, m), (8, k)) : ((1, T, LBO), (wT, SBO)), with T
    elements in 16 bytes and w = 8, 4 or 2 chunks in a row; then Swizzle<B, 4, 3> of the address.
    """
    t, w = CHUNK // size, swizzle // CHUNK
    if transposed:
        element = i % t + i // t % w * t + i // t // w * leading + k % 8 * w * t + k // 8 * stride
    else:
        element = i % 8 * w * t + i // 8 * stride + k % t + k // t * t
    byte = start + element * size
    bits = (1 << SWIZZLES[swizzle]) - 1
    return byte ^ ((byte >> 7) & bits) << 4


@pytest.mark.parametrize("swizzle", [128, 64, 32])
@pytest.mark.parametrize(
    ("size", "transposed", "extent"),
    [(2, False, 64), (2, True, 64), (2, False, 24), (4, False, 64), (1, False, 16), (2, True, 128)],
)
def test_tiles_lie_as_the_swizzled_layout_and_cutlass_say(swizzle, size, transposed, extent):
    """Two column blocks where a row is shorter than the tile, each step along k, a tile that does not begin at 0."""
    steps, base = 4, 3072
    tile = Tile(extent, steps, size, swizzle, (steps * 32 // size if transposed else extent) * swizzle, transposed)
    assert tile.alignment == 8 * swizzle
    rows, columns = (steps * tile.depth, extent) if transposed else (extent, steps * tile.depth)
    if extent == 24:  # no power of two: the layout of the rows below
        layout = swizzled((32, columns), size, swizzle) if columns * size <= swizzle else None
    else:
        layout = swizzled((rows, columns), size, swizzle)
    for step in range(steps):
        found = matrix_bytes(base + tile.start(step), tile.high, tile.low, extent, tile.depth, size, transposed)
        for i in range(extent):
            for k in range(tile.depth):
                leading, stride = tile.stride // size, tile.alignment // size
                wanted = canonical(base + tile.start(step), swizzle, size, leading, stride, i, k, transposed)
                assert found[i, k] == wanted
                if layout is not None:
                    at = (step * tile.depth + k, i) if transposed else (i, step * tile.depth + k)
                    assert layout(offset=(int(found[i, k]) - base) // size) == at


def test_a_descriptor_has_its_fields_where_ptx_says():
    """PTX ISA, "Matrix Descriptor Format": bits 16-29 leading, 32-45 stride byte offset, 62-63 the swizzle."""
    tile = Tile(64, 4, 2, 128, 8192, True)
    descriptor = tile.high << 32 | tile.low
    assert (descriptor >> 16 & 0x3FFF) << 4 == 8192
    assert (descriptor >> 32 & 0x3FFF) << 4 == 1024
    assert descriptor >> 62 == 1
    assert [Tile(64, 1, 2, s, 0, False).high >> 30 for s in (64, 32)] == [2, 3]


def loop(n, between=""):
    """A loop over k with n / 2 accumulators a thread, one group left in flight, or with ops between."""
    count = n // 2
    wait = "wgmma_wait {pending=1}\n    yield %10" if not between else between
    offsets = tuple(range(0, count, 4))
    return f"""simt func @k(out: ptr<f32>, rounds: i32, scale: f32) {{num_warps=4, threads=128, shared_bytes=163840}} {{
  %0 = thread_id : i32
  %1 = shared_alloc {{offset=0, alignment=1024}} : shared<16384 x bf16>
  %2 = shared_alloc {{offset=32768, alignment=1024}} : shared<65536 x bf16>
  %3 = splat 0.0:f32 : reg<{count} x f32>
  %13 = splat scale : reg<{count} x f32>
  %4 = for %5 in range(0, rounds, 1) iter_args(%6 = %3) : reg<{count} x f32> {{
    %7 = and %5, 3 : i32
    %8 = mul %7, 4096 : i32
    %9 = mul %7, {n * 64} : i32
    wgmma_fence
    %10 = wgmma %6, %1, %8, %2, %9 {{n={n}, k_steps=4}} : reg<{count} x f32>
    wgmma_commit
    {wait}
  }}
  %30 = wgmma_wait %4 {{pending=0}} : reg<{count} x f32>
  %31 = mul %0, {count} : i32
  %32 = constants {{values={offsets}}} : reg<{count // 4} x i32>
  %33 = splat %31 : reg<{count // 4} x i32>
  %34 = add %32, %33 : reg<{count // 4} x i32>
  %35 = addptr out, %34 : reg<{count // 4} x ptr<f32>>
  st_global %35, %30, none {{width=4}}
}}
"""


SCALED = """%11 = wgmma_wait %10 : reg<{count} x f32>
    %12 = mul %11, %13 : reg<{count} x f32>
    yield %12"""


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
@pytest.mark.parametrize(("n", "scaled"), [(256, False), (128, True)])
def test_accumulators_that_a_loop_carries_stay_where_they_are(backend, n, scaled):
    text = loop(n, SCALED.format(count=n // 2) if scaled else "")
    kernel = from_simt(text, "<test>", "sm_90a", backend)
    found = kernel.resources
    assert (found["stack"], found["spill_bytes"]) == (0, 0)
    mix = Counter(toolchain.instructions(kernel.asm["sass"]))
    assert mix[f"HGMMA.64x{n}x16.F32.BF16"] == 4  # a loop that waits for tensor cores is not unrolled
    moves = sum(count for name, count in mix.items() if name in ("MOV", "IMAD.MOV.U32", "IMAD.MOV"))
    assert moves < 16  # of addresses; a move of the accumulators would be n / 2
    assert not any(name.startswith(("MEMBAR", "LDL", "STL")) for name in mix)


TRAP = r"""
extern "C" __global__ void __launch_bounds__(128) k(float* o, size_t a, size_t b, int n, float s) {
    float d[4] = {};
    for (int j = 0; j < n; j++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a + j), "l"(b + j));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned WAIT;" ::: "memory");
        for (int i = 0; i < 4; i++) d[i] *= s;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; i++) o[threadIdx.x * 4 + i] = d[i];
}
"""


def test_code_that_ptxas_serializes_is_refused(tmp_path, monkeypatch):
    """The accumulators are scaled while a group is in flight; with a wait for all of them they may be."""
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))
    clean = toolchain.cuda_to_ptx(TRAP.replace("WAIT", "0"), "sm_90a")
    toolchain.ptx_to_cubin(clean, "sm_90a")
    with pytest.raises(InternalError, match="serialized due to") as caught:
        toolchain.cuda_to_cubin(TRAP.replace("WAIT", "1"), "sm_90a")
    assert caught.value.id == "toolchain.serialized"
    in_flight = re.sub(r"wait_group.sync.aligned 0", "wait_group.sync.aligned 1", clean, count=1)
    with pytest.raises(InternalError, match="serialized due to"):
        toolchain.ptx_to_cubin(in_flight, "sm_90a")


def test_a_machine_without_wgmma_is_told():
    kernel = from_simt(loop(64), "<test>", "sm_80", "cuda")
    with pytest.raises(CompileError, match="wgmma_fence needs an architecture with wgmma, sm_80 has none"):
        kernel.asm["cuda"]


def test_addresses_of_a_matrix_are_all_different():
    found = matrix_bytes(0, Tile(256, 1, 2, 128, 0, False).high, 0, 256, 16, 2, False)
    assert np.unique(found).size == found.size
