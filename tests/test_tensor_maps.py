"""Tensor maps: what is refused, how they are encoded for the driver, and that launches reuse them."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest
from cuda.bindings import driver as cuda

from refcompiler.dialects.simt.tensor_maps import TensorMap, evaluate
from refcompiler.errors import CompileError, LaunchError
from refcompiler.jit.text import from_simt
from refcompiler.runtime import KernelABI, Param, gpu, tensor_maps

ROWS = TensorMap(
    "x",
    "bf16",
    (("param", "m"), ("param", "k")),
    (("mul", ("param", "k"), ("const", 2)),),
    (128, 64),
    swizzle=128,
)
ABI = KernelABI(
    (
        Param("x", "pointer", "bf16"),
        Param("m", "scalar", "i32"),
        Param("k", "scalar", "i32"),
        Param("x_map", "tensor_map", tensor_map=ROWS),
    )
)


@pytest.fixture
def encoded(monkeypatch):
    """What the driver is asked to encode; it answers with a map of the numbers of the call."""
    asked = []

    def encode(*arguments):
        asked.append(arguments)
        made = cuda.CUtensorMap()
        made.opaque = [cuda.cuuint64_t(len(asked) << 40 | i) for i in range(16)]
        return 0, made

    known = {name: getattr(cuda, name) for name in dir(cuda) if name.startswith(("CUtensorMap", "cuuint"))}
    known |= {"cuTensorMapEncodeTiled": encode, "cuMemAlloc": lambda n: (0, 4096), "cuMemsetD8": lambda *a: (0,)}
    monkeypatch.setattr(gpu, "driver", lambda: SimpleNamespace(**known))
    tensor_maps._zeros.cache_clear()
    yield asked
    tensor_maps._zeros.cache_clear()


def test_expressions_are_integers_of_the_arguments():
    expression = (
        "cdiv",
        ("sub", ("mul", ("param", "n"), ("const", 3)), ("const", 1)),
        ("add", ("const", 2), ("const", 2)),
    )
    assert [evaluate(expression, {"n": n}) for n in (1, 3, 4)] == [1, 2, 3]


def test_dimensions_go_to_the_driver_from_the_innermost_outwards(encoded):
    maps = tensor_maps.TensorMaps(ABI, "matmul")
    (made,) = maps.encoded([1 << 20, 1000, 520])
    assert struct.unpack("<16Q", made) == tuple(1 << 40 | i for i in range(16))
    kind, rank, address, extents, strides, box, steps, interleave, swizzle, _, fill = encoded[0]
    assert (kind, rank, address) == (cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, 1 << 20)
    assert [list(map(int, numbers)) for numbers in (extents, strides, box, steps)] == [
        [520, 1000],
        [1040],
        [64, 128],
        [1, 1],
    ]
    assert (interleave, swizzle, fill) == (0, cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B, 0)


def test_one_dimension_goes_to_the_driver_with_a_stride_that_it_does_not_read(encoded):
    line = TensorMap("x", "i32", (("param", "n"),), (), (32,))
    params = (Param("x", "pointer", "i32"), Param("n", "scalar", "i32"), Param("m", "tensor_map", tensor_map=line))
    tensor_maps.TensorMaps(KernelABI(params), "f").encoded([1 << 20, 100])
    _, rank, _, extents, strides, *_ = encoded[0]
    assert (rank, [*map(int, extents)], len(strides)) == (1, [100], 1)


def test_equal_launches_share_a_map_and_few_are_kept(encoded, monkeypatch):
    maps = tensor_maps.TensorMaps(ABI, "matmul")
    assert maps.encoded([1 << 20, 8, 8]) == maps.encoded([1 << 20, 8, 8]) and len(encoded) == 1
    assert maps.encoded([1 << 20, 8, 16]) != maps.encoded([1 << 20, 8, 8]) and len(encoded) == 2
    monkeypatch.setattr(tensor_maps, "MOST_KEPT", 2)
    maps.encoded([1 << 20, 8, 24])
    assert len(maps.kept) == 1


def test_an_empty_tensor_is_a_zero_outside_of_any_array(encoded):
    tensor_maps.TensorMaps(ABI, "matmul").encoded([0, 8, 0])
    _, _, address, extents, strides, *_ = encoded[0]
    assert (address, [*map(int, extents)], [*map(int, strides)]) == (4096, [1, 1], [16])


def test_one_row_may_be_of_any_length(encoded):
    tensor_maps.TensorMaps(ABI, "matmul").encoded([1 << 20, 1, 7])
    assert [int(n) for n in encoded[0][4]] == [16]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((8, 8, 8), "starts at address 0x8, which is no multiple of 16"),
        ((16, 8, 7), "has 14 bytes between neighbours"),
        ((16, -1, 8), "has an extent of -1"),
    ],
)
def test_what_no_map_describes_is_refused_before_anything_is_queued(encoded, values, message):
    with pytest.raises(LaunchError, match=message) as caught:
        tensor_maps.TensorMaps(ABI, "matmul").encoded(values)
    assert caught.value.id == "exec.tensor_maps#E2" and not encoded


def test_the_recipe_travels_as_json():
    import json

    assert KernelABI.from_json(json.loads(json.dumps(ABI.to_json()))) == ABI


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_an_architecture_without_tensor_maps_is_refused(backend):
    text = (
        "simt func @f(x: ptr<i32>, out: ptr<i32>) {num_warps=1, threads=32, shared_bytes=16} {\n"
        "  %0 = mbarrier_alloc {count=1, offset=0} : shared<1 x mbarrier>\n"
        "  mbarrier_init %0, 0, none {arrivals=32}\n}\n"
    )
    assert from_simt(text, "<f>", "sm_90a", backend).asm[backend]
    with pytest.raises(CompileError, match="mbarrier_init needs an architecture with tma, sm_89 has none"):
        from_simt(text, "<f>", "sm_89", backend).asm[backend]
