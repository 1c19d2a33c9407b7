"""Tensor descriptors: boxes as masked accesses of the elements that lie inside of the array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refcompiler.dialects.tile.descriptor import ALIGNMENT, BoxAccess, DescriptorLoad, DescriptorStore, MakeDescriptor
from refcompiler.interpreter.access import load, store
from refcompiler.interpreter.affine import Affine
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.values import Dense, Descriptor, Numbers, Pointer, Poison, Val, rank_up
from refcompiler.ir import Op
from refcompiler.ir.types import I32, I64, DescriptorType, shape_of


@interprets("make_descriptor")
def make_descriptor(programs: Programs, op: MakeDescriptor, base: Pointer, *sizes: Numbers) -> Descriptor:
    return Descriptor(base, tuple(sizes[: op.rank]), tuple(sizes[op.rank : -1]))


def unset_descriptor(op: Op, type_: DescriptorType) -> Descriptor:
    """A descriptor of which nothing is specified."""

    def unset(dtype) -> Dense:
        return Dense(np.zeros(1, dtype.numpy), Poison([(op, np.ones(1, np.bool_))]))

    rank = len(type_.block_shape)
    return Descriptor(Pointer(0, unset(I64), type_.element), (unset(I32),) * rank, (unset(I64),) * (rank - 1))


@interprets("descriptor_load")
def descriptor_load(programs: Programs, op: DescriptorLoad, descriptor: Descriptor, *offsets: Numbers) -> Val:
    pointers, inside = box(programs, op, descriptor, offsets)
    outside = np.nan if op.box.padding == "nan" else 0
    return load(programs, op, pointers, inside, Dense(np.array(outside, op.box.element.numpy).reshape(1)))


@interprets("descriptor_store")
def descriptor_store(programs: Programs, op: DescriptorStore, descriptor: Descriptor, *rest: Val) -> None:
    pointers, inside = box(programs, op, descriptor, rest[:-1])
    store(programs, op, pointers, rest[-1], inside)


def box(programs: Programs, op: BoxAccess, descriptor: Descriptor, offsets: Sequence[Any]) -> tuple[Pointer, Dense]:
    """Pointers to the elements of a box, and which of them are in the array; these are in int64, so nothing wraps."""
    for value, what in [*((v, "an offset") for v in offsets), *((v, "a descriptor") for v in descriptor.parts)]:
        programs.reject_poison(op, "memory.descriptors#E15", what, programs.live(value.poison), "offsets")
    check_alignment(programs, op, descriptor)
    shape = shape_of(op.block)
    ndim = len(shape) + 1
    strides = [*(s.data.astype(np.int64) for s in descriptor.strides), np.ones(1, np.int64)]
    steps = [np.zeros(1, np.int64)] * len(shape)
    inside = np.ones((1,) * ndim, np.bool_)
    first = descriptor.base.offset.data.astype(np.int64)
    for axis, offset, stride, size in zip(op.axes, offsets, strides, descriptor.shape, strict=True):
        start = offset.data.astype(np.int64)
        first = first + start * stride
        index = rank_up(start, ndim)
        if axis is not None:
            index, steps[axis] = index + along(axis, shape), stride
        inside = inside & (index >= 0) & (index < rank_up(size.data, ndim))
    return Pointer(descriptor.base.arrays, spread(first, steps, shape), descriptor.base.pointee), Dense(inside)


def along(axis: int, shape: tuple[int, ...]) -> np.ndarray:
    """The index along ``axis`` of a block of ``shape``, of shape [1, 1.., extent, 1..]."""
    return np.arange(shape[axis], dtype=np.int64).reshape(-1, *(1,) * (len(shape) - axis - 1))[None]


def spread(first: np.ndarray, strides: list[np.ndarray], shape: tuple[int, ...]) -> Numbers:
    """The offsets of a box whose first element is at ``first`` in each program; symbolic where all have the strides."""
    if all((s == s[0]).all() for s in strides):
        steps = tuple(int(s[0]) for s in strides)
        reach = sum(s * (n - 1) for s, n in zip(steps, shape, strict=True))
        return Affine(first, steps, shape, I64, int(first.min()), int(first.max()) + reach)
    ndim = len(shape) + 1
    offsets = rank_up(first, ndim)
    for axis, stride in enumerate(strides):
        offsets = offsets + along(axis, shape) * rank_up(stride, ndim)
    return Dense(offsets)


def check_alignment(programs: Programs, op: BoxAccess, descriptor: Descriptor) -> None:
    """The base and all strides but the last are multiples of 16 bytes, in the programs that run."""
    size, running = descriptor.base.pointee.itemsize, programs.active
    addresses = np.array([a.address for a in programs.memory.arrays], np.int64)[descriptor.base.arrays]
    begins = addresses + descriptor.base.offset.data * size
    facts = [("base", begins, begins % ALIGNMENT != 0)]
    for axis, stride in enumerate(descriptor.strides):
        distance = stride.data * size
        facts.append((f"stride {axis}", distance, (distance % ALIGNMENT != 0) | (distance < 0)))
    for what, found, wrong in facts:
        wrong = wrong if running is None else wrong & running
        if not wrong.any():
            continue
        number = int(np.broadcast_to(found, wrong.shape)[wrong][0])
        if what == "base":
            rule = f"a descriptor's base is at a multiple of {ALIGNMENT} bytes, found address {number:#x}"
        else:
            rule = (
                f"a descriptor's strides but the last are multiples of {ALIGNMENT} bytes and not negative, found {what}"
            )
            rule += f" of {number // size} elements, {number} bytes"
        raise programs.error(op, "memory.descriptors#E16", f"{rule} ({programs.place(wrong)})", "descriptor")
