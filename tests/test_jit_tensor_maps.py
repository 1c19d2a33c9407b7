"""Launches of kernels with tensor maps: warm ones hand the driver maps of their own arguments, made once."""

import ctypes

import ml_dtypes
import numpy as np
from test_crooked_boxes import shifted
from test_jit_prepared import CudaTensor, Driver, driver, long_way  # noqa: F401  the last two are fixtures

from refcompiler.runtime import gpu, tensor_maps


class MapDriver(Driver):
    """Keeps the first number of each tensor map of a launch of ``shifted``."""

    def cuLaunchKernel(self, handle, *rest):
        pointers = ctypes.cast(rest[-2], ctypes.POINTER(ctypes.c_void_p))
        self.launched.append([ctypes.c_uint64.from_address(pointers[i]).value for i in (5, 6)])
        self.calls.append(("cuLaunchKernel", handle, *rest[:-2]))
        return (0,)


def tensor(rows: int, columns: int, dtype, name: str) -> CudaTensor:
    memory = np.zeros(rows * columns * 4 + 64, np.uint8)
    start = -memory.ctypes.data % 16
    array = memory[start : start + rows * columns * np.dtype(dtype).itemsize].view(dtype).reshape(rows, columns)
    return CudaTensor(array, dtype=f"torch.{name}")


def test_a_warm_launch_brings_maps_of_its_own_arguments(driver, long_way, monkeypatch):  # noqa: F811
    made = MapDriver()
    monkeypatch.setattr(gpu, "driver", lambda: made)
    encoded = []

    def encode(placed):
        encoded.append(placed)
        return len(encoded).to_bytes(8, "little") + bytes(120)

    monkeypatch.setattr(tensor_maps, "encode", encode)
    shifted.clear_cache()
    a, other = (tensor(64, 128, ml_dtypes.bfloat16, "bfloat16") for _ in range(2))
    b, c = tensor(128, 128, ml_dtypes.bfloat16, "bfloat16"), tensor(64, 64, "f4", "float32")
    for first, shift in ((a, 16), (a, 16), (other, 16), (a, 16), (a, 32)):
        shifted[(1,)](first, b, c, shift, 128, B=64, STEP=1)
    shifted.clear_cache()
    assert len(long_way) == 1
    assert made.early == 5  # warps that fetch wait by themselves
    assert made.launched == [[1, 2], [1, 2], [4, 5], [1, 2], [1, 2]]  # no map depends on the shift
    places = [{"a": x.data_ptr(), "b": b.data_ptr(), "c": c.data_ptr()} for x in (a, other)]
    assert [{p.map.pointer: p.address for p in encoded[at : at + 3]} for at in (0, 3)] == places
    shapes = {p.map.pointer: (p.extents, p.strides) for p in encoded}
    assert (shapes["a"], shapes["b"]) == (((64, 128), (256,)), ((128, 128), (256,)))
