"""Tensor maps of a launch: encoded by the driver from its arrays and scalars, and kept for the next such launch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from refcompiler.dialects.simt.tensor_maps import CHUNK, Placed, Unmappable
from refcompiler.errors import LaunchError
from refcompiler.runtime import gpu
from refcompiler.runtime.abi import KernelABI

# The element types that differ to the driver, all others are copied as unsigned integers of their size.
_DATA_TYPES = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "i32": "INT32", "i64": "INT64"}
_PLAIN_TYPES = {1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"}
MOST_KEPT = 1024


class TensorMaps:
    """The tensor maps that launches of one kernel take, by the addresses and scalars from which they are made."""

    def __init__(self, abi: KernelABI, kernel: str):
        self.maps, self.kernel = abi.tensor_maps, kernel
        read = {name for m in self.maps for name in m.parameters}
        self.read = {param.name: at for at, param in enumerate(abi.visible) if param.name in read}
        self.kept: dict[tuple, list[bytes]] = {}

    def encoded(self, values: Sequence[Any]) -> list[bytes]:
        """The 128 bytes of each map for the values of all visible parameters: addresses and numbers, in order.

        Raises LaunchError: exec.tensor_maps#E2 for a tensor that no map describes, launch.driver where the driver
        refuses.
        """
        key = tuple([values[at] for at in self.read.values()])
        found = self.kept.get(key)
        if found is None:
            numbers = dict(zip(self.read, key, strict=True))
            found = [encode(m.placed(int(numbers[m.pointer]), numbers, self.kernel)) for m in self.maps]
            if len(self.kept) >= MOST_KEPT:
                self.kept.clear()
            self.kept[key] = found
        return found

    def describe(self, values: Sequence[Any]) -> bool:
        """Whether there are such maps for these values; errors other than that are left to ``encoded``."""
        try:
            self.encoded(values)
        except Unmappable:
            return False
        except LaunchError:
            pass
        return True


def encode(tensor: Placed) -> bytes:
    """The CUtensorMap of a tensor; its dimensions are given from the innermost outwards. One without elements is
    described as a single zero, of which nobody reads anything that is inside."""
    cuda = gpu.driver()
    recipe, element = tensor.map, tensor.map.element
    kind = _DATA_TYPES.get(recipe.dtype) or _PLAIN_TYPES[element.itemsize]
    extents, strides, box = tensor.extents[::-1], tensor.strides[::-1], recipe.box[::-1]
    if tensor.empty:
        extents, strides = (1,) * len(extents), (CHUNK,) * len(strides)
    made = gpu.ask(
        "cuTensorMapEncodeTiled",
        getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"),
        len(extents),
        _zeros() if tensor.empty else tensor.address,
        [cuda.cuuint64_t(n) for n in extents],
        [cuda.cuuint64_t(n) for n in strides or (CHUNK,)],  # one dimension has none, and the driver wants an address
        [cuda.cuuint32_t(n) for n in box],
        [cuda.cuuint32_t(1)] * len(box),
        cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(cuda.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[recipe.swizzle]}"),
        cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return b"".join(int(word).to_bytes(8, "little") for word in made.opaque)


@functools.cache
def _zeros() -> int:
    """The address of some zeros."""
    address = gpu.ask("cuMemAlloc", CHUNK)
    gpu.ask("cuMemsetD8", address, 0, CHUNK)
    return int(address)


_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
