"""Warp specialization: kernels in roles give the same results as without, and no arrays are confused."""

import ml_dtypes
import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import simulator
from refcompiler.analysis.register_plan import RegisterPlan
from refcompiler.target import target

BF16 = ml_dtypes.bfloat16


@triton.jit
def tiles(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TURNED: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    if TURNED:
        right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    else:
        right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    columns = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0)):
        m = tile // columns * BM
        n = tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            if TURNED:
                y = right.load([n, k]).T
            else:
                y = right.load([k, n])
            acc = tl.dot(left.load([m, k]), y, acc)
        out.store([m, n], acc.to(c.dtype.element_ty))


@triton.jit
def pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depths = tl.arange(0, BK)
    left = a + rows[:, None] * K + depths[None, :]
    right = b + depths[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(left, mask=(rows < M)[:, None] & (depths < K - k)[None, :], other=0.0)
        y = tl.load(right, mask=(depths < K - k)[:, None] & (columns < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
        left += BK
        right += BK * N
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c + rows[:, None] * N + columns[None, :], acc, mask=mask)


@triton.jit
def scores(q, k, v, out, S, B: tl.constexpr, D: tl.constexpr):
    """Two products an iteration, the second of what the first one gives: nothing may be waited for too late."""
    queries = tl.make_tensor_descriptor(q, [S, D], [D, 1], [B, D])
    keys = tl.make_tensor_descriptor(k, [S, D], [D, 1], [B, D])
    values = tl.make_tensor_descriptor(v, [S, D], [D, 1], [B, D])
    x = queries.load([tl.program_id(0) * B, 0])
    acc = tl.zeros((B, D), tl.float32)
    for start in range(0, S, B):
        s = tl.dot(x, keys.load([start, 0]).T)
        acc = acc * 0.5 + tl.dot(tl.maximum(s, 0.0).to(v.dtype.element_ty), values.load([start, 0]))
    result = tl.make_tensor_descriptor(out, [S, D], [D, 1], [B, D])
    result.store([tl.program_id(0) * B, 0], acc)


def numbers(*shape):
    """Small whole numbers, whose products and sums are exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(BF16)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def compiled(kernel, options, constexprs, types="a:*bf16:16,b:*bf16:16,c:*bf16:16,M:i32:16,N:i32:16,K:i32:16"):
    return kernel.compile(types, constexprs, arch="sm_90a", **options)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("shape", "block", "warps", "stages"),
    [
        ((64, 64, 64), (64, 64, 64), 4, 3),
        ((200, 136, 136), (64, 64, 64), 4, 2),  # clipped at every edge, more tiles than programs
        ((192, 72, 0), (64, 64, 64), 4, 3),  # a loop that does not run
        ((128, 128, 256), (128, 64, 32), 8, 4),  # two warpgroups, narrower rows
        ((100, 400, 32), (64, 256, 32), 4, 2),  # a buffer for each of four parts of the result
    ],
)
def test_tiles(shape, block, warps, stages, turned):
    (m, n, k), (bm, bn, bk) = shape, block
    a, b, c = numbers(m, k), numbers(*((n, k) if turned else (k, n))), np.full((m, n), np.nan, BF16)
    options = {"BM": bm, "BN": bn, "BK": bk, "TURNED": turned, "num_warps": warps, "num_stages": stages}
    kernel = tiles[(2,)](a, b, c, m, n, k, **options, backend="simt")
    assert "roles" in kernel.asm["simt"] and "wgmma" in kernel.asm["simt"]
    assert "ld_global" not in kernel.asm["simt"] and "st_global" not in kernel.asm["simt"]
    np.testing.assert_array_equal(c, product(a, b.T if turned else b).astype(BF16))


@pytest.mark.parametrize(
    ("depth", "columns", "boxes"),
    [(72, 136, True), (80, 144, True), (72, 132, False)],  # a launch tells multiples of 8, not of 4
)
def test_boxes_of_pointers(depth, columns, boxes):
    a, b, c = numbers(100, depth), numbers(depth, columns), np.zeros((100, columns), np.float32)
    kernel = pointers[(2, 3)](a, b, c, 100, columns, depth, BM=64, BN=64, BK=32, num_warps=4, backend="simt")
    np.testing.assert_array_equal(c, product(a, b))
    assert ("tma_load" in kernel.asm["simt"]) is boxes


def test_products_of_products():
    q, k, v = (numbers(192, 64) for _ in range(3))
    out = np.zeros((192, 64), np.float32)
    kernel = scores[(3,)](q, k, v, out, 192, B=64, D=64, num_warps=4, backend="simt")
    assert kernel.asm["simt"].count("wgmma ") == 3  # the first scores before the loop, the next ones in it
    expected = np.zeros((192, 64))
    for start in range(0, 192, 64):
        s = np.maximum(product(q, k[start : start + 64].T), 0.0).astype(BF16)
        expected = expected * 0.5 + product(s, v[start : start + 64])
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_overlapping_arrays_go_without_roles():
    """A persistent kernel whose result is its left operand: the loads of a tile see the stores of the ones before."""
    memory, b = numbers(128, 64), numbers(64, 64)
    options = {"BM": 64, "BN": 64, "BK": 64, "TURNED": False, "num_warps": 4}
    expected = product(memory, b).astype(BF16)
    kernel = tiles[(1,)](memory, b, memory, 128, 64, 64, **options, backend="simt")
    assert kernel.level("simt").attrs["disjoint"] == (("a", "c"), ("b", "c"))
    assert "roles" not in kernel.careful.asm["simt"]
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize(
    ("options", "arch"),
    [({"num_stages": 1}, "sm_90a"), ({"num_warps": 2}, "sm_90a"), ({}, "sm_80"), ({}, "sm_100a")],
)
def test_without_roles(options, arch):
    kernel = tiles.compile(
        "a:*bf16:16,b:*bf16:16,c:*bf16:16,M:i32:16,N:i32:16,K:i32:16",
        {"BM": 64, "BN": 64, "BK": 64, "TURNED": False},
        arch=arch,
        **options,
    )
    assert "roles" not in kernel.asm["simt"]


@pytest.mark.parametrize(("warps", "threads"), [(16, 640), (32, 1024)])
def test_no_more_threads_than_a_block_has(warps, threads):
    """A block of 32 warps has no room for those that fetch."""
    kernel = compiled(tiles, {"num_warps": warps}, {"BM": 16 * warps, "BN": 32, "BK": 64, "TURNED": False})
    simt = kernel.level("simt")
    assert simt.attrs["threads"] == threads
    assert any(op.name == "roles" for op in simt.walk()) is (warps == 16)


@pytest.mark.parametrize(
    ("rows", "columns", "warps"), [(64, 8, 4), (64, 16, 4), (64, 32, 4), (128, 16, 8), (256, 64, 8)]
)
@pytest.mark.filterwarnings("error")  # of products that ptxas would have wait for each other
def test_products_of_any_width_compile(rows, columns, warps):
    pytest.importorskip("cuda.bindings")
    kernel = compiled(tiles, {"num_warps": warps}, {"BM": rows, "BN": columns, "BK": 64, "TURNED": True})
    assert kernel.resources["spill_bytes"] == 0


def test_what_would_be_serialised_is_compiled_without_roles(monkeypatch):
    """More sums than registers, unforeseen: ptxas would make products wait, and every stage shows what runs instead."""
    pytest.importorskip("cuda.bindings")
    monkeypatch.setattr(RegisterPlan, "most", lambda *_: (0, None))
    kernel = compiled(tiles, {"num_warps": 16}, {"BM": 1024, "BN": 64, "BK": 64, "TURNED": False})
    assert "roles" in kernel.asm["simt"]
    with pytest.warns(RuntimeWarning, match="compiled without warps that fetch"):
        assert kernel.asm["cubin"]
    assert "roles" not in kernel.asm["simt"] and "HGMMA" not in kernel.asm["sass"]
    assert kernel.resources["threads"] == kernel.level("simt").attrs["threads"] == 512
    (given_up,) = [remark for remark in kernel.remarks if remark.step == "specialize_warps"]
    assert given_up.message.startswith("warps that fetch are given up: wgmma") and "\n" not in given_up.message


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_fewer_registers_than_an_instruction_takes(backend):
    """``maxnreg`` may leave threads with less than wgmma needs: then all warps do without it."""
    pytest.importorskip("cuda.bindings")
    if backend == "mlir":
        pytest.importorskip("mlir.ir")
    constexprs = {"BM": 64, "BN": 64, "BK": 32, "TURNED": False}
    kernel = compiled(tiles, {"maxnreg": 32, "backend": backend}, constexprs)
    with pytest.warns(RuntimeWarning, match="too few registers for wgmma"):
        assert kernel.resources["threads"] == 128
    assert "roles" not in kernel.asm["simt"] and "HGMMA" not in kernel.asm["sass"]


@pytest.mark.parametrize(
    ("rows", "columns", "warps", "least"),
    [(64, 256, 4, None), (128, 256, 4, 256), (128, 256, 8, None), (256, 256, 8, 256), (256, 256, 16, 128)],
)
def test_products_that_registers_do_not_hold_are_left_to_all_warps(rows, columns, warps, least):
    """Sums of f32 take a register each, of 255, 232 and 104 that threads of one, two, four warpgroups have."""
    kernel = compiled(tiles, {"num_warps": warps}, {"BM": rows, "BN": columns, "BK": 32, "TURNED": False})
    refused = [r.message for r in kernel.remarks if r.step == "specialize_warps" and not r.applied]
    assert ("roles" in kernel.asm["simt"]) is (least is None) and len(refused) == (least is not None)
    assert least is None or f"take at least {least} registers" in refused[0]


@pytest.mark.parametrize(("rows", "columns", "warps", "fits"), [(64, 128, 4, True), (64, 256, 4, False)])
def test_sums_of_float8_are_in_registers_twice(rows, columns, warps, fits):
    types = "a:*f8e4m3:16,b:*f8e4m3:16,c:*bf16:16,M:i32:16,N:i32:16,K:i32:16"
    constexprs = {"BM": rows, "BN": columns, "BK": 128, "TURNED": True}
    kernel = tiles.compile(types, constexprs, arch="sm_90a", num_warps=warps)
    assert ("roles" in kernel.asm["simt"]) is fits
    assert any("take at least 256 registers" in r.message for r in kernel.remarks) is not fits


@triton.jit
def uneven(q, k, v, out, S, B: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """As ``scores``, where products of a loop have other shapes than its result."""
    queries = tl.make_tensor_descriptor(q, [B, D], [D, 1], [B, D])
    keys = tl.make_tensor_descriptor(k, [S, D], [D, 1], [N, D])
    values = tl.make_tensor_descriptor(v, [S, D], [D, 1], [N, D])
    x = queries.load([0, 0])
    acc = tl.zeros((B, D), tl.float32)
    for start in range(0, S, N):
        s = tl.dot(x, keys.load([start, 0]).T)
        acc = acc * 0.5 + tl.dot(tl.maximum(s, 0.0).to(v.dtype.element_ty), values.load([start, 0]))
    result = tl.make_tensor_descriptor(out, [B, D], [D, 1], [B, D])
    result.store([0, 0], acc)


def test_products_in_several_parts():
    """Two tiles of 64 rows for one warpgroup: both are waited for before anything reads them."""
    q, k, v = numbers(128, 32), numbers(64, 32), np.sign(numbers(64, 32)).astype(BF16)
    out = np.zeros((128, 32), np.float32)
    kernel = uneven[(1,)](q, k, v, out, 64, B=128, N=32, D=32, num_warps=4, backend="simt")
    assert "roles" in kernel.asm["simt"] and kernel.asm["simt"].count("wgmma ") == 4
    expected = np.zeros((128, 32))
    for start in (0, 32):
        s = np.maximum(product(q, k[start : start + 32].T), 0.0).astype(BF16)
        expected = expected * 0.5 + product(s, v[start : start + 32])
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_products_in_several_parts_overlap(backend):
    """No left operand is moved into place between the parts, for which ptxas would serialise them."""
    pytest.importorskip("cuda.bindings")
    if backend == "mlir":
        pytest.importorskip("mlir.ir")
    types = "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16"
    kernel = uneven.compile(types, {"B": 128, "N": 32, "D": 32}, arch="sm_90a", num_warps=4, backend=backend)
    assert kernel.resources["threads"] == 256 and kernel.serialized is None and "HGMMA" in kernel.asm["sass"]


@pytest.mark.parametrize(("columns", "rotated"), [(128, True), (256, False)])
def test_products_are_rotated_where_registers_hold_both(columns, rotated):
    types = "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16"
    kernel = uneven.compile(types, {"B": 64, "N": columns, "D": 64}, arch="sm_90a", num_warps=4, num_stages=2)
    steps = 256 // 16  # of a product that begins while its left operand is computed
    assert "roles" in kernel.asm["simt"] and kernel.asm["simt"].count("wgmma ") == (3 if rotated else 1 + steps)
    (said,) = [r for r in kernel.remarks if r.step == "rotate_products"]
    assert said.applied is rotated and ("registers do not hold both" in said.message) is not rotated


@triton.jit
def scaled(q, k, v, out, S, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """The accumulator of the second product is scaled before the next one adds to it."""
    queries = tl.make_tensor_descriptor(q, [S, D], [D, 1], [BM, D])
    keys = tl.make_tensor_descriptor(k, [S, D], [D, 1], [BN, D])
    values = tl.make_tensor_descriptor(v, [S, D], [D, 1], [BN, D])
    x = queries.load([tl.program_id(0) * BM, 0])
    acc = tl.zeros((BM, D), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, S, BN):
        s = tl.dot(x, keys.load([start, 0]).T)
        s = tl.where(s > 2.0, s * 2.0, s)  # what is read before the second product, and by it
        p = tl.maximum(s - tl.max(s, axis=1)[:, None], -9.0)
        acc = tl.dot(p.to(v.dtype.element_ty), values.load([start, 0]), acc * 0.5)
        total += tl.sum(p, axis=1)
    result = tl.make_tensor_descriptor(out, [S, D], [D, 1], [BM, D])
    result.store([tl.program_id(0) * BM, 0], acc + total[:, None])


@pytest.mark.parametrize(("stages", "maxnreg"), [(2, None), (3, None), (2, 128)])
def test_products_that_the_next_iteration_reads_first(stages, maxnreg):
    """They are on their way while the next left operand is computed, or begin while theirs is."""
    q, k, v = numbers(192, 64), np.sign(numbers(192, 64)).astype(BF16), np.sign(numbers(192, 64)).astype(BF16)
    out = np.zeros((192, 64), np.float32)
    shape = {"BM": 64, "BN": 32, "D": 64, "num_warps": 4, "num_stages": stages, "maxnreg": maxnreg}
    kernel = scaled[(3,)](q, k, v, out, 192, backend="simt", **shape)
    loop = next(op for op in kernel.level("simt").walk() if op.name == "for")
    kinds = [(op.name, op.attrs.get("pending")) for op in loop.body.ops if op.name in ("wgmma", "wgmma_wait")]
    if maxnreg is None:  # the product before is waited for, two begin, and the first one is waited for
        wait = next(op for op in loop.body.ops if op.name == "wgmma_wait")
        rounds = next(op.a.owner for op in loop.body.ops if op.name == "wgmma" and not op.a_shared)
        assert rounds.x in wait.results  # or the product before might read the operand of this one
        assert kinds == [("wgmma_wait", 0), ("wgmma", None), ("wgmma", None), ("wgmma_wait", 1)]
    else:
        assert kinds == [("wgmma", None), ("wgmma_wait", 0), ("wgmma", None), ("wgmma", None), ("wgmma_wait", 0)]
    expected, total = np.zeros((192, 64)), np.zeros((192, 1))
    for start in range(0, 192, 32):
        s = product(q, k[start : start + 32].T)
        s = np.where(s > 2, s * 2, s)
        p = np.maximum(s - s.max(axis=1, keepdims=True), -9.0)
        expected = expected * 0.5 + product(p.astype(BF16), v[start : start + 32])
        total += p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out, expected + total, rtol=1e-6)


@pytest.mark.parametrize(("stages", "buffers"), [(2, 4), (3, 4), (4, 2)])
def test_parts_of_a_result_wait_for_no_buffer_where_there_is_room(stages, buffers):
    constexprs = {"BM": 128, "BN": 256, "BK": 64, "TURNED": False}
    kernel = compiled(tiles, {"num_warps": 8, "num_stages": stages}, constexprs)
    assert [op.buffers for op in kernel.level("laid_out").walk() if op.name == "bulk_store"] == [buffers]
    waits = [op for op in kernel.level("simt").walk() if op.name == "bulk_wait"]
    assert len(waits) == 2 + 4 - buffers  # before the first part, before a buffer is used again, and at the end
    assert kernel.level("simt").attrs["shared_bytes"] <= target("sm_90a").shared_bytes_per_block


def test_programs_that_share_a_multiprocessor():
    """Registers of roles are parts of what a program has, and no product is begun ahead: the other program has some."""
    types = "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16"
    kernel = uneven.compile(types, {"B": 128, "N": 64, "D": 64}, arch="sm_90a", num_warps=8, num_stages=2, maxnreg=80)
    assert kernel.level("simt").attrs["min_blocks"] == 2
    assert [op.count for op in kernel.level("simt").walk() if op.name == "set_max_registers"] == [104, 24]
    assert kernel.asm["simt"].count("wgmma ") == 1 + 4  # four steps of the second one begin as they are computed


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_machine_code(backend):
    """Tensor cores and the copy engine do the work; accumulators stay where they are."""
    pytest.importorskip("cuda.bindings")
    if backend == "mlir":
        pytest.importorskip("mlir.ir")
    constexprs = {"BM": 128, "BN": 256, "BK": 64, "TURNED": False}
    kernel = compiled(tiles, {"num_warps": 8, "num_stages": 4, "backend": backend}, constexprs)
    sass = kernel.asm["sass"]
    for wanted in ("HGMMA", "UTMALDG", "UTMASTG"):
        assert wanted in sass
    assert "LDL" not in sass and "STL" not in sass
    assert kernel.resources["spill_bytes"] == 0 and kernel.resources["threads"] == 384


@triton.jit
def heads(q, k, v, out, H, S, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Boxes of four dimensions, two loops whose blocks share rings, and a block that stays for both."""
    queries = tl.make_tensor_descriptor(q, [H, S, D], [S * D, D, 1], [1, BM, D])
    keys = tl.make_tensor_descriptor(k, [H, S, D], [S * D, D, 1], [1, BN, D])
    values = tl.make_tensor_descriptor(v, [H, S, D], [S * D, D, 1], [1, BN, D])
    head = tl.program_id(0)
    x = queries.load([head, 0, 0]).reshape(BM, D)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, S // 2, BN):
        y = keys.load([head, start, 0]).reshape(BN, D)
        z = values.load([head, start, 0]).reshape(BN, D)
        acc += tl.dot(tl.dot(x, y.T).to(v.dtype.element_ty), z)
    for start in range(S // 2, S, BN):
        y = keys.load([head, start, 0]).reshape(BN, D)
        z = values.load([head, start, 0]).reshape(BN, D)
        acc -= tl.dot(tl.dot(x, y.T).to(v.dtype.element_ty), z)
    result = tl.make_tensor_descriptor(out, [H, S, D], [S * D, D, 1], [1, BM, D])
    result.store([head, 0, 0], acc.reshape(1, BM, D))


def test_loops_share_rings():
    q, k, v = (np.sign(numbers(2, 128, 32)).astype(BF16) for _ in range(3))
    out = np.zeros((2, 128, 32), np.float32)
    kernel = heads[(2,)](q, k, v, out, 2, 128, BM=64, BN=32, D=32, num_warps=4, num_stages=2, backend="simt")
    assert kernel.asm["laid_out"].count("= ring {") == 3  # queries, keys, values
    assert "ld_global" not in kernel.asm["simt"]
    for head in range(2):
        s = product(q[head], k[head].T)
        s[:, 64:] *= -1
        np.testing.assert_array_equal(out[head, :64], product(s, v[head])[:64])


@triton.jit
def turned(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, T: tl.constexpr, P: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), T)
    for k in range(0, K, BK):
        acc = tl.dot(left.load([m, k]), right.load([0, k]).T, acc, input_precision=P)
    out.store([m, 0], acc)


@pytest.mark.parametrize(
    ("dtype", "total", "depth", "precision", "served"),
    [
        (np.float16, tl.float32, 64, None, True),
        (ml_dtypes.float8_e4m3fn, tl.float32, 128, None, True),
        (ml_dtypes.float8_e5m2, tl.float32, 256, None, True),  # joins f32 twice
        (np.int8, tl.int32, 64, None, True),
        (np.float32, tl.float32, 64, "tf32", True),
        (np.float32, tl.float32, 32, "ieee", False),
    ],
)
def test_dtypes(dtype, total, depth, precision, served):
    rng = np.random.default_rng(depth)
    a, b = (rng.integers(-4, 5, (rows, 256)).astype(dtype) for rows in (128, 64))
    c = np.zeros((128, 64), np.int32 if total is tl.int32 else np.float32)
    options = {"BM": 64, "BN": 64, "BK": depth, "T": total, "P": precision, "num_warps": 4, "num_stages": 2}
    kernel = turned[(2,)](a, b, c, 128, 64, 256, **options, backend="simt")
    assert ("wgmma" in kernel.asm["simt"]) is served
    np.testing.assert_array_equal(c, product(a, b.T))


@triton.jit
def strided(a, b, c, stride_a, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, depths = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rows[:, None] * stride_a + (k + depths)[None, :], mask=(rows < M)[:, None], other=0.0)
        y = tl.load(b + (k + depths)[:, None] * N + columns[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * N + columns[None, :], acc)


@pytest.mark.parametrize("stride", [64, 0])
def test_rows_that_no_tensor_map_describes(stride):
    """A row that is read again and again, at a distance of 0: legal, and not for the copy engine."""
    a, b, c = numbers(64, 64), numbers(64, 64), np.zeros((64, 64), np.float32)
    options = {"BM": 64, "BN": 64, "BK": 64, "num_warps": 4, "backend": "simt"}
    kernel = strided[(1,)](a, b, c, stride, 64, 64, 64, **options)
    assert "tma_load" in kernel.asm["simt"]
    np.testing.assert_array_equal(c, product(a if stride else np.tile(a[:1], (64, 1)), b))


@triton.jit
def sums_of_products(a, b, c, out, K, B: tl.constexpr):
    """What comes after the loop takes shared memory, which is known only when all blocks have layouts."""
    i = tl.arange(0, 128)
    left = tl.make_tensor_descriptor(a, [128, K], [K, 1], [128, B])
    right = tl.make_tensor_descriptor(b, [K, 128], [128, 1], [B, 128])
    x = tl.load(c + i[:, None] * 128 + i[None, :])
    total = tl.zeros((128, 128), tl.float32)
    for k in range(0, K, B):
        total = tl.dot(left.load([0, k]), right.load([k, 0]), total)
    total = tl.dot(x, total.to(tl.bfloat16), total)
    tl.store(out + i[None, :] * 128 + i[:, None], total)


def test_what_is_ahead_leaves_room_for_exchanges():
    signature = "a:*bf16:16,b:*bf16:16,c:*bf16:16,out:*f32:16,K:i32:16"
    made = compiled(sums_of_products, {"num_warps": 4, "num_stages": 5}, {"B": 64}, signature)
    simt = made.level("simt")
    assert "tma_load" in {op.name for op in simt.walk()}
    a, b, c, out = numbers(128, 128) // 3, numbers(128, 128), numbers(128, 128), np.zeros((128, 128), np.float32)
    simulator.run(simt, (1,), {"a": a, "b": b, "c": c, "out": out, "K": 128}, count=False)
    total = product(a, b)
    assert (out == (total + c.astype(np.float64) @ total).T).all()
