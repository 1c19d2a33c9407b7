"""Kernel arguments: what is said of arrays of each library, and the layout of the argument buffer."""

from __future__ import annotations

import ctypes
import struct
from io import BytesIO

import ml_dtypes
import numpy as np
import pytest
from cuda.bindings import driver as cuda_driver
from elftools.elf.elffile import ELFFile
from stand_ins import C_TYPES, OnDevice, Tensor, ThroughDLPack, abi_of

from refcompiler import runtime, toolchain
from refcompiler.dialects.simt.tensor_maps import TensorMap
from refcompiler.errors import InternalError, LaunchError
from refcompiler.runtime import KernelABI, Param, describe
from refcompiler.runtime.abi import LaunchBuffer, convert_scalar
from refcompiler.runtime.arrays import reachable
from refcompiler.toolchain import cubin as cubin_module

DTYPES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")
_CODES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", ml_dtypes.bfloat16, "f4", "f8")
NUMPY = dict(zip(DTYPES, _CODES, strict=True))
MIXED = (
    "bool",
    "f64",
    "i8",
    "*",
    "i16",
    "i32",
    "u8",
    "i64",
    "f16",
    "f32",
    "bool",
    "bf16",
    "u64",
    "u16",
    "u32",
    "*",
    "i8",
)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_of_numpy_and_of_a_device_array(name):
    array = np.zeros((3, 5), NUMPY[name])
    for x, device, library in ((array, None, "numpy"), (OnDevice(array), 0, "other")):
        info = describe(x)
        assert info[:6] == (array.ctypes.data, name, (3, 5), (5, 1), array.nbytes, False)
        assert (info.device, info.library) == (device, library)


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "bf16"])
def test_dlpack(name):
    array = np.zeros((4, 6), NUMPY[name])[::2, 1:]
    info = describe(ThroughDLPack(array))
    assert info[:5] == (array.ctypes.data, name, (2, 5), (12, 1), array.nbytes)
    assert info.device is None and not runtime.is_device_array(ThroughDLPack(array))


def test_a_tensor_with_data_ptr():
    array = np.zeros((3, 4), "f4").T
    info = describe(Tensor(array))
    assert info[:5] == (array.ctypes.data, "f32", (4, 3), (1, 4), 48)
    assert (info.device, info.library) == (0, "torch")
    assert describe(Tensor(array, "cpu")).device is None
    assert describe(Tensor(array.view("i4"), dtype="torch.int32")).dtype == "i32"
    with pytest.raises(LaunchError, match="device") as caught:
        describe(Tensor(array, "mps"))
    assert caught.value.id == "launch.device"


def test_alignment_and_readonly():
    base = np.zeros(64, "u1")
    aligned = base[-base.ctypes.data % 16 :]
    assert describe(aligned).divisible_by_16 and not describe(aligned[1:]).divisible_by_16
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    assert describe(frozen).readonly and describe(OnDevice(np.zeros(4), readonly=True)).readonly


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 4, 5)),
        np.zeros((3, 4, 5)).transpose(2, 0, 1),
        np.zeros((3, 4), order="F"),
        np.zeros((3, 4))[1:],
        np.zeros((3, 1, 4))[:, ::2],
        np.zeros(()),
        np.zeros(8)[::2],
        np.zeros(8)[::-1],
        np.zeros((3, 4))[::-1, ::-2],
        np.zeros((3, 4))[:, 1:],
        np.zeros((4, 4)).T[::2],
        np.broadcast_to(np.zeros(4), (3, 4)),
        np.zeros((5, 3), ml_dtypes.bfloat16)[::-2, 1:],
    ],
)
def test_what_a_kernel_reaches_through_an_array(array):
    info = describe(array)
    row, origin = reachable(info)
    # By NumPy itself: from the lowest to the highest element.
    low, high = np.lib.array_utils.byte_bounds(array)
    assert (row.ctypes.data, row.nbytes) == (low, high - low)
    assert row.ctypes.data + origin * row.itemsize == array.ctypes.data == info.ptr
    assert row.dtype == array.dtype and row.flags.writeable == array.flags.writeable
    if row.flags.writeable:
        row[origin] = 3
        assert array[(0,) * array.ndim] == 3


def test_nothing_is_reached_through_an_array_without_elements():
    row, origin = reachable(describe(np.zeros((0, 3))[:, ::2]))
    assert row.size == 0 and origin == 0


@pytest.mark.parametrize(
    "bad, id, words",
    [
        (np.zeros(3, ">f4"), "launch.dtype", "byte order"),
        (np.zeros(3, "c8"), "launch.dtype", "complex64"),
        (np.zeros(3, "M8[s]"), "launch.dtype", "datetime64"),
        (np.array(["a"]), "launch.dtype", "str"),
        (np.zeros(3, [("a", "i4"), ("b", "i1")])["a"], "launch.strides", "5 bytes apart"),
        (np.ma.masked_array([1.0]), "launch.array", "mask"),
        ([1.0, 2.0], "launch.array", "list"),
        (None, "launch.array", "NoneType"),
        (np.float32(1), "launch.array", "float32"),
    ],
)
def test_what_cannot_be_described(bad, id, words):
    with pytest.raises(LaunchError, match=words) as caught:
        describe(bad)
    assert caught.value.id == id


def test_is_array_and_is_device_array():
    array = np.zeros(3, "f4")
    assert all(runtime.is_array(x) for x in (array, OnDevice(array), Tensor(array), ThroughDLPack(array)))
    assert not any(runtime.is_array(x) for x in (1, 1.0, True, None, "x", [1], np.float32(1), np.ndarray, object()))
    assert runtime.is_device_array(OnDevice(array)) and runtime.is_device_array(Tensor(array))
    assert not any(runtime.is_device_array(x) for x in (array, Tensor(array, "cpu"), 1, None))


def test_offsets_are_those_of_the_cuda_compiler():
    declared = ", ".join(f"{'float*' if k == '*' else C_TYPES[k][0]} p{i}" for i, k in enumerate(MIXED))
    code = toolchain.cuda_to_cubin(f'extern "C" __global__ void k({declared}) {{ *p3 = p9; }}', "sm_90a")
    section = ELFFile(BytesIO(code)).get_section_by_name(".nv.info.k").data()
    # EIATTR_KPARAM_INFO: index (32 bits), ordinal and offset (16 each), flags with the size from bit 18 on.
    records = [struct.unpack("<IHHI", v) for attribute, v in cubin_module._attributes(section) if attribute == 0x17]
    assert [offset for _, _, offset, _ in sorted(records, key=lambda r: r[1])] == list(abi_of(MIXED).offsets)
    sizes = [flags >> 18 for _, _, _, flags in sorted(records, key=lambda r: r[1])]
    assert abi_of(MIXED).packing.size == abi_of(MIXED).offsets[-1] + sizes[-1]


def test_packed_values_read_back_as_c_types():
    values = [True, -0.1, -128, 2**63, -32768, -(2**31), 255, -(2**63), 0.5, 3.25, False, 0x3F80]
    values += [2**64 - 1, 65535, 2**32 - 1, 0, 127]
    abi = abi_of(MIXED)
    buffer = LaunchBuffer(abi)
    abi.packing.pack_into(buffer.memory, 0, *values)
    addresses = ctypes.cast(buffer.pointers, ctypes.POINTER(ctypes.c_void_p))
    for i, (kind, value) in enumerate(zip(MIXED, values, strict=True)):
        c_type = ctypes.c_uint64 if kind == "*" else C_TYPES[kind][1]
        read = c_type.from_address(addresses[i]).value
        assert (np.uint16(read).view(np.float16) if kind == "f16" else read) == value, (i, kind)


ROWS = TensorMap("x", "f32", (("param", "n"), ("const", 32)), (("const", 128),), (8, 32), swizzle=128)


def test_hidden_parameters_are_laid_out_last():
    hidden = Param("map", "tensor_map", tensor_map=ROWS), Param("scratch", "scratch")
    abi = KernelABI((Param("n", "scalar", "i32"), *hidden))
    assert abi.offsets == (0, 64, 192) and [param.name for param in abi.visible] == ["n"]
    assert KernelABI.from_json(abi.to_json()) == abi
    with pytest.raises(InternalError, match="hidden parameters come after"):
        KernelABI((Param("map", "tensor_map", tensor_map=ROWS), Param("n", "scalar", "i32")))
    with pytest.raises(InternalError, match="no tensor_map"):
        Param("map", "tensor_map")
    with pytest.raises(InternalError, match="no scalar of 'f8'"):
        Param("x", "scalar", "f8")


@pytest.mark.parametrize("waits", [False, True])
def test_only_a_kernel_that_waits_may_begin_early(waits):
    """A CUlaunchConfig: 7 numbers and 4 bytes, stream, attributes, how many; an attribute: its number, its value."""
    abi = KernelABI((Param("n", "scalar", "i32"),), waits)
    assert KernelABI.from_json(abi.to_json()) == abi
    buffer = LaunchBuffer(abi)
    for n in (5, 6):
        abi.launch_packing.pack_into(buffer.memory, 0, n, 1, 2, 3, 64, 1, 1, 99, 1234)
    config = struct.unpack("=7I4xQQI4x", bytes(buffer.memory)[abi.config_offset :])
    assert config[:8] == (1, 2, 3, 64, 1, 1, 99, 1234) and config[9] == waits
    if waits:
        attribute = cuda_driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        assert struct.unpack("=I4xI60x", ctypes.string_at(config[8], 72)) == (int(attribute), 1)


@pytest.mark.parametrize("name", ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_integers_at_and_past_the_ends_of_their_type(name):
    param = Param("n", "scalar", name)
    low, high = (0, 1) if name == "bool" else (np.iinfo(NUMPY[name]).min, np.iinfo(NUMPY[name]).max)
    for value in (low, high, np.int64(0)):
        assert convert_scalar(param, value, "k") == value
    for value in (low - 1, high + 1, 10**30):
        with pytest.raises(LaunchError, match=rf"argument n of k: {value} does not fit {name}"):
            convert_scalar(param, int(value), "k")
    for value in (1.0, "1", None, np.float32(1), [1]):
        with pytest.raises(LaunchError) as caught:
            convert_scalar(param, value, "k")
        assert caught.value.id == "launch.type"


def test_floats_are_rounded_once():
    def bf16(x):
        return np.uint16(convert_scalar(Param("x", "scalar", "bf16"), x, "k")).view(ml_dtypes.bfloat16)

    # Above the middle of 1 and 1 + 2^-7 by less than f32 can hold: rounding through f32 would give 1.
    assert bf16(1 + 2.0**-8 + 2.0**-40) == 1 + 2.0**-7
    assert bf16(1 + 2.0**-8) == 1 and bf16(-2.5) == -2.5 and bf16(1e39) == np.inf and np.isnan(bf16(np.nan))
    assert convert_scalar(Param("x", "scalar", "f16"), 1 + 2.0**-11 + 2.0**-40, "k") == 1 + 2.0**-10
    assert convert_scalar(Param("x", "scalar", "f16"), 1e9, "k") == np.inf
    assert convert_scalar(Param("x", "scalar", "f32"), 1e39, "k") == np.inf
    assert convert_scalar(Param("x", "scalar", "f32"), 7, "k") == 7.0
    with pytest.raises(LaunchError, match="too large"):
        convert_scalar(Param("x", "scalar", "f64"), 10**400, "k")
    with pytest.raises(LaunchError, match="expected a number"):
        convert_scalar(Param("x", "scalar", "f32"), "1", "k")
