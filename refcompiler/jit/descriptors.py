"""Tensor descriptors as arguments: their kernel is one that takes them apart and makes them on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refcompiler import language
from refcompiler.dialects.tile.descriptor import ALIGNMENT, MAX_RANK, PADDING
from refcompiler.errors import LaunchError
from refcompiler.frontend import KernelSource
from refcompiler.frontend.kernel_source import Parameter
from refcompiler.ir.types import DTYPES
from refcompiler.runtime.arrays import describe
from refcompiler.source import parse_python, register_text

_ID = "launch.descriptor"


@dataclass
class TensorDescriptor:
    """An array and the boxes in which a kernel accesses it, as an argument of the kernel.

    ``base`` is an array of any library; ``shape`` and ``strides`` count elements, of ``base`` or of what lies in its
    memory; ``block_shape`` is the shape of the boxes, ``padding`` ("zero" or "nan") what they hold outside of it.
    ``round_f32_to_tf32`` is accepted and changes nothing. Raises LaunchError (launch.descriptor) for what no descriptor
    describes; fields may be assigned afterwards, such as another ``block_shape``.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if not 1 <= rank <= MAX_RANK or len(self.strides) != rank or len(self.block_shape) != rank:
            found = f"{rank} extents, {len(self.strides)} strides and a box of {len(self.block_shape)}"
            raise LaunchError(_ID, f"a descriptor has 1 to {MAX_RANK} dimensions, found {found}")
        for what in ("shape", "strides", "block_shape"):
            numbers = list(getattr(self, what))
            if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers):
                raise LaunchError(_ID, f"{what} of a descriptor holds integers, found {numbers}")
        info = describe(self.base)
        size = DTYPES[info.dtype].itemsize
        if info.ptr % ALIGNMENT:
            raise LaunchError(_ID, f"a descriptor begins at a multiple of {ALIGNMENT} bytes, found {info.ptr:#x}")
        if any(extent < 0 for extent in self.shape):
            raise LaunchError(_ID, f"the extents of a descriptor are not negative, found {list(self.shape)}")
        if self.strides[-1] != 1:
            raise LaunchError(_ID, f"the last stride of a descriptor is 1, found {self.strides[-1]}")
        for stride in self.strides[:-1]:
            if stride * size % ALIGNMENT or stride < 0:
                what = f"found {stride} elements of {size} bytes"
                raise LaunchError(_ID, f"strides but the last are multiples of {ALIGNMENT} bytes, {what}")
        if self.padding not in PADDING:
            raise LaunchError(_ID, f"padding is one of {', '.join(map(repr, PADDING))}, found {self.padding!r}")

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero", round_f32_to_tf32: bool = False
    ) -> TensorDescriptor:
        """The descriptor of a whole array."""
        info = describe(tensor)
        strides = info.strides
        if 0 in info.shape:  # libraries give arrays without elements any strides
            strides = tuple(prod(info.shape[axis + 1 :]) for axis in range(len(info.shape)))
        return TensorDescriptor(tensor, info.shape, strides, block_shape, padding, round_f32_to_tf32)


class Apart:
    """A call of a kernel with tensor descriptors among its arguments: what its kernel compiles in, the arguments by
    name that stand for the descriptors and for all else."""

    def __init__(self, source: KernelSource, args: Sequence[Any], kwargs: Mapping[str, Any]):
        names = [p.name for p in source.parameters if p.kind is not p.kind.KEYWORD_ONLY]
        self.given = dict(zip(names, args, strict=False)) | dict(kwargs)
        self.key = tuple((n, *_static(v)) if type(v) is TensorDescriptor else n for n, v in self.given.items())
        self.arguments: dict[str, Any] = {}
        for name, value in self.given.items():
            self.arguments.update(_parts(name, value) if type(value) is TensorDescriptor else {name: value})

    def check_boxes(self) -> None:
        """Raise LaunchError for a box with an extent that is no power of two."""
        for name, value in self.given.items():
            extents = list(value.block_shape) if type(value) is TensorDescriptor else []
            if any(extent <= 0 or extent & (extent - 1) for extent in extents):
                raise LaunchError(
                    _ID,
                    f"argument `{name}`: the extents of a box are powers of two, found {extents}",
                    notes=["profile='ext.any_extent' takes any extent"],
                )

    def source(self, kernel: Any) -> KernelSource:
        """The source of a kernel that makes the descriptors and calls ``kernel``, which is compiled in place."""
        name, parameters = kernel.__name__, {p.name: p for p in kernel.__kernel_source__.parameters}
        taken, passed = [], []
        for argument, value in self.given.items():
            if type(value) is TensorDescriptor:
                parts = list(_parts(argument, value))
                taken += parts
                passed.append(f"{argument}={_made(parts, value)}")
            elif argument in parameters:
                taken.append(argument + _annotation(parameters[argument]))
                passed.append(f"{argument}={argument}")
        text = f"def {name}({', '.join(taken)}):\n    kernel({', '.join(passed)})\n"
        file = f"<{name} with descriptors>"
        register_text(file, text)
        scope = {"tl": language, "kernel": kernel}
        return KernelSource(name, text, file, 1, scope, first_column=0, tree=parse_python(text).body[0])


def has_descriptors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an argument is a tensor descriptor."""
    return any(type(v) is TensorDescriptor for v in args) or any(type(v) is TensorDescriptor for v in kwargs.values())


def _static(value: TensorDescriptor) -> tuple:
    """What of a descriptor is compiled into a kernel."""
    return len(value.shape), tuple(value.block_shape), value.padding


def _parts(name: str, value: TensorDescriptor) -> dict[str, Any]:
    """The arguments that stand for a descriptor; its last stride is 1."""
    extents = {f"{name}__extent{i}": int(extent) for i, extent in enumerate(value.shape)}
    strides = {f"{name}__stride{i}": int(stride) for i, stride in enumerate(value.strides[:-1])}
    return {f"{name}__base": value.base, **extents, **strides}


def _made(parts: list[str], value: TensorDescriptor) -> str:
    rank, box, padding = _static(value)
    extents, strides = ", ".join(parts[1 : rank + 1]), ", ".join([*parts[rank + 1 :], "1"])
    return f"tl.make_tensor_descriptor({parts[0]}, [{extents}], [{strides}], {list(box)}, {padding!r})"


def _annotation(parameter: Parameter) -> str:
    if parameter.const or parameter.constexpr:
        return ": tl.const" if parameter.const else ": tl.constexpr"
    return f": {parameter.type!r}" if parameter.type else ""
