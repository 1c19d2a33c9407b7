"""Float8 where no feature file reaches: architectures without its conversions, machine code, arguments of a launch."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from stand_ins import Tensor

import refcompiler as triton
import refcompiler.language as tl
from oracles.casts import convert
from refcompiler import ShapeDtype, pipeline, simulator, toolchain
from refcompiler.errors import CompileError, LaunchError
from refcompiler.ir.types import FLOATS8, element_of
from refcompiler.jit import from_source
from refcompiler.kernels.tiles import configuration
from refcompiler.runtime import Param, describe
from refcompiler.runtime.abi import convert_scalar
from refcompiler.runtime.arrays import dtype_name
from refcompiler.target import TARGETS

NUMPY = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16}
NUMPY |= {"f16": np.float16, "f32": np.float32}
LANGUAGE = {"f8e4m3": tl.float8e4nv, "f8e5m2": tl.float8e5, "f16": tl.float16, "bf16": tl.bfloat16, "f32": tl.float32}


@triton.jit
def convert_all(x, out, TO: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(TO))


def compiled(source: str, target: str, arch: str, backend: str = "simt", block: int = 1024):
    values = {"TO": LANGUAGE[target], "BLOCK": block}
    return convert_all.compile(f"x:*{source}:16,out:*{target}:16", values, arch=arch, backend=backend)


def numbers(source: str, target: str) -> np.ndarray:
    """Every number of a format of 16 or 8 bits; of f32 every number of the target, all middles, and the next ones."""
    width = np.dtype(NUMPY[source]).itemsize
    if width < 4:
        return np.arange(1 << 8 * width, dtype=f"u{width}").view(NUMPY[source])
    exact = np.arange(256, dtype=np.uint8).view(NUMPY[target]).astype(np.float32)
    ordered = np.unique(exact[np.isfinite(exact)])
    middles = (ordered[1:] + ordered[:-1]) / 2
    chosen = np.concatenate(
        [ordered, middles, np.float32([0, -0.0, np.inf, -np.inf, np.nan, 464, 465, 61440, 65536, 3e38])]
    )
    near = [np.nextafter(chosen, np.float32(side), dtype=np.float32) for side in (-np.inf, np.inf)]
    return np.resize(np.concatenate([chosen, *near]), 2048)


def casts(kernel) -> list:
    """The casts from or to float8 that are left to the target."""
    ops = [op for op in kernel.level("simt").walk() if op.name == "cast"]
    return [op for op in ops if {element_of(op.x.type), element_of(op.result.type)} & set(FLOATS8)]


@pytest.mark.parametrize("float8", ["f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("other", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("narrowing", [True, False], ids=["narrowing", "widening"])
def test_an_architecture_without_the_instruction_computes_the_same(float8, other, narrowing):
    source, target = (other, float8) if narrowing else (float8, other)
    x = numbers(source, target)
    out = np.zeros(x.size, NUMPY[target])
    block = min(1024, x.size)
    kernel = compiled(source, target, "sm_80", block=block)
    assert not casts(kernel)
    kernel[(x.size // block,)](x, out)
    expected = convert(x, target)
    nan = np.isnan(expected.astype(np.float32))
    assert nan.any() and (np.isnan(out.astype(np.float32)) == nan).all()
    bits = f"u{out.itemsize}"
    assert (out.view(bits) == expected.view(bits))[~nan].all()


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
@pytest.mark.parametrize(("arch", "has_it"), [("sm_80", False), ("sm_89", True), ("sm_90a", True), ("sm_100a", True)])
def test_machine_code_uses_the_instruction_where_there_is_one(backend, arch, has_it):
    pytest.importorskip("cuda.bindings.nvrtc", reason="the compiler wheels are not installed")
    if backend == "mlir":
        pytest.importorskip("mlir.ir", reason="the MLIR wheels are not installed")
    for source, target in (("f32", "f8e4m3"), ("f8e5m2", "f16")):
        kernel = compiled(source, target, arch, backend, 128)
        assert bool(casts(kernel)) == has_it
        assert ("x2" in kernel.asm["ptx"]) == has_it and kernel.build.cubin


@triton.jit
def doubled(x, out, BLOCK: tl.constexpr = 64):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, (tl.load(x + i).to(tl.float32) * 2).to(out.dtype.element_ty))


@pytest.mark.parametrize("float8", ["f8e4m3", "f8e5m2"])
def test_arrays_of_numpy(float8):
    x = np.linspace(-9, 9, 64).astype(NUMPY[float8])
    out = np.zeros(64, NUMPY[float8])
    doubled[(1,)](x, out)
    assert (out.astype("f4") == convert(x.astype("f4") * 2, float8).astype("f4")).all() and out.any()
    read = np.zeros(64, np.uint8)
    compiled_doubled = doubled.compile(f"x:*{float8},out:*{float8}", {"BLOCK": 64}, backend="interp")
    compiled_doubled[(1,)](x.view(np.int8), read)
    assert (read == out.view(np.uint8)).all()
    with pytest.raises(LaunchError, match=rf"is an array of u16, expected ptr<{float8}>"):
        compiled_doubled[(1,)](x.view(np.uint16), read)


@pytest.mark.parametrize(
    ("theirs", "ours"), [("torch.float8_e4m3fn", "f8e4m3"), ("torch.float8_e5m2", "f8e5m2"), ("float8_e5m2", "f8e5m2")]
)
def test_dtypes_by_the_names_of_libraries(theirs, ours):
    assert describe(Tensor(np.zeros(4, np.uint8), dtype=theirs)).dtype == dtype_name(theirs) == ours
    assert describe(Tensor(np.zeros(4, np.uint8), dtype=theirs)).nbytes == 4
    of_array = ShapeDtype((64,), theirs)
    assert doubled.warmup(of_array, of_array).func.params[0].type.pointee.name == ours


def test_formats_of_other_vendors_are_refused():
    for name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"):
        with pytest.raises(LaunchError) as caught:
            describe(np.zeros(4, getattr(ml_dtypes, name)))
        assert caught.value.id == "launch.dtype" and name in str(caught.value)
        with pytest.raises(LaunchError):
            dtype_name(f"torch.{name}")


def test_scalars_travel_as_their_bits():
    kernel = from_source("@triton.jit\ndef kernel(out, v: 'fp8e4nv'):\n    tl.store(out, v)\n", "kernel")
    out = np.zeros(1, "f4")
    for value, stored in ((1.06, 1.0), (1e9, 448.0), (np.float32(-3.1), -3.0), (5, 5.0)):
        kernel[(1,)](out, value)
        assert out[0] == stored
    assert convert_scalar(Param("v", "scalar", "f8e4m3"), 1.0, "k") == 0x38
    assert convert_scalar(Param("v", "scalar", "f8e5m2"), -1e9, "k") == 0xFB


@triton.jit
def product(x, y, out):
    i, k = tl.arange(0, 32), tl.arange(0, 64)
    a = tl.load(x + i[:, None] * 64 + k[None, :])
    b = tl.load(y + k[:, None] * 32 + i[None, :])
    tl.store(out + i[:, None] * 32 + i[None, :], tl.dot(a, b))


@pytest.mark.parametrize(("arch", "instruction"), [("sm_80", "fma"), ("sm_89", "mma_sync")])
def test_dots_without_tensor_cores_for_it(arch, instruction):
    x, y = np.arange(32 * 64) % 17 - 8, np.arange(64 * 32) % 9 - 4
    out = np.zeros((32, 32), "f4")
    kernel = product.compile("x:*f8e4m3,y:*f8e5m2,out:*f32", arch=arch, backend="simt")
    names = {op.name for op in kernel.level("simt").walk()}
    assert names & {"fma", "mma_sync"} == {instruction} and bool(casts(kernel)) is False
    kernel[(1,)](x.astype(NUMPY["f8e4m3"]), y.astype(NUMPY["f8e5m2"]), out)
    assert (out == x.reshape(32, 64) @ y.reshape(64, 32)).all()


def test_the_instruction_is_refused_where_it_is_not():
    simt = product.compile("x:*f8e4m3,y:*f8e4m3,out:*f32", arch="sm_89").level("simt")
    assert "mma.sync" in pipeline.emit(simt, "cuda", TARGETS["sm_89"])
    with pytest.raises(CompileError, match="mma_sync needs an architecture with fp8 mma, sm_80 has none"):
        pipeline.emit(simt, "cuda", TARGETS["sm_80"])


@triton.jit
def boxes(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)):
        m = tile // tl.cdiv(N, BN) * BM
        n = tile % tl.cdiv(N, BN) * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(left.load([m, k]), right.load([n, k]).T, acc)
        out.store([m, n], acc)


@triton.jit
def boxes_across_k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(left.load([0, k]), right.load([k, 0]), acc)
    tl.store(c + tl.arange(0, BM)[:, None] * N + tl.arange(0, BN)[None, :], acc)


def whole(*shape, dtype):
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(NUMPY[dtype])


@pytest.mark.parametrize(("left", "right"), [("f8e4m3", "f8e4m3"), ("f8e5m2", "f8e4m3")])
@pytest.mark.parametrize(
    ("shape", "block", "warps"),
    [
        ((64, 64, 128), (64, 64, 64), 4),
        ((200, 72, 144), (64, 32, 128), 4),  # clipped at every edge
        ((128, 64, 192), (128, 64, 32), 8),  # two warpgroups, narrow rows
        ((128, 64, 256), (128, 64, 128), 4),  # two tiles of a warpgroup
        ((64, 32, 0), (64, 32, 64), 4),  # a loop that does not run
    ],
)
def test_products_of_warpgroups(shape, block, warps, left, right):
    (m, n, k), (bm, bn, bk) = shape, block
    a, b, c = whole(m, k, dtype=left), whole(n, k, dtype=right), np.full((m, n), np.nan, np.float32)
    kernel = boxes[(2,)](a, b, c, m, n, k, BM=bm, BN=bn, BK=bk, num_warps=warps, num_stages=3, backend="simt")
    assert "= wgmma " in kernel.asm["simt"]
    assert (c == a.astype("f8") @ b.astype("f8").T).all()


def test_warpgroups_read_along_k_only():
    a, b, c = whole(64, 128, dtype="f8e4m3"), whole(128, 64, dtype="f8e4m3"), np.zeros((64, 64), np.float32)
    kernel = boxes_across_k[(1,)](a, b, c, 64, 64, 128, BM=64, BN=64, BK=64, num_warps=4, backend="simt")
    assert "= wgmma " not in kernel.asm["simt"] and "= mma_sync " in kernel.asm["simt"]
    assert (c == a.astype("f8") @ b.astype("f8")).all()


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_machine_code_of_warpgroups(backend):
    pytest.importorskip("cuda.bindings.nvrtc", reason="the compiler wheels are not installed")
    if backend == "mlir":
        pytest.importorskip("mlir.ir", reason="the MLIR wheels are not installed")
    types = "a:*f8e4m3:16,b:*f8e4m3:16,c:*f32:16,M:i32:16,N:i32:16,K:i32:16"
    chosen = configuration(8192, 8192, 8192, 1, 1, "sm_90a", 132, "tf32", float8=True)
    values = {name: chosen[name] for name in ("BM", "BN", "BK")}
    options = {name: chosen[name] for name in ("num_warps", "num_stages", "profile")}
    kernel = boxes.compile(types, values, arch="sm_90a", backend=backend, **options)
    mix = toolchain.instruction_mix(kernel.asm["sass"])
    assert mix["QGMMA"] and not mix["LDL"] and not mix["STL"] and kernel.resources["spill_bytes"] == 0


@triton.jit
def times_one_number(x, out, V: tl.constexpr):
    i = tl.arange(0, 32)
    at = i[:, None] * 32 + i[None, :]
    a = tl.load(x + at)
    number = tl.full((32, 32), V, tl.float32).to(a.dtype)
    tl.store(out + at, tl.dot(number.T, a, tl.dot(a, number)))


@pytest.mark.parametrize(("arch", "on_tensor_cores"), [("sm_89", True), ("sm_90a", False)])
def test_products_by_one_number(arch, on_tensor_cores):
    """ptxas 12.9 makes 2**-9 of zeros that it unpacks to float16, which tensor cores of Hopper multiply instead."""
    made = times_one_number.compile("x:*f8e5m2:16,out:*f32:16", {"V": 0.5}, arch, num_warps=1)
    simt = made.level("simt")
    assert ("mma_sync" in {op.name for op in simt.walk()}) == on_tensor_cores
    x = np.random.default_rng(1).integers(-3, 4, (32, 32)).astype(ml_dtypes.float8_e5m2)
    out = np.zeros((32, 32), np.float32)
    simulator.run(simt, (1,), {"x": x, "out": out}, count=False)
    wide = x.astype(np.float32)
    assert (out == (wide.sum(0, keepdims=True) + wide.sum(1, keepdims=True)) / 2).all()
