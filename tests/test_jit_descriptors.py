"""Tensor descriptors as arguments of kernels."""

from __future__ import annotations

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import CompileError, LaunchError
from refcompiler.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def scaled(x, out, factor, ROWS: tl.constexpr, TWICE: tl.constexpr = False):
    tl.static_assert(isinstance(out, tl.tensor_descriptor))
    i = tl.program_id(0) * ROWS
    for j in range(0, out.shape[1], out.block_shape[1]):
        box = x.load([i, j]) if isinstance(x, tl.tensor_descriptor) else tl.broadcast_to(tl.load(x), out.block_shape)
        out.store([i, j], box * factor * (2 if TWICE else 1))


def arrays() -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(20 * 48, dtype=np.float32).reshape(20, 48)
    return x, np.full_like(x, -1)


def test_a_kernel_takes_descriptors():
    x, out = arrays()
    boxes = [TensorDescriptor.from_tensor(a, [8, 16]) for a in (x, out)]
    for twice, keywords in ((1, {}), (2, {"TWICE": True})):
        scaled[(3,)](boxes[0], out=boxes[1], factor=3.0, ROWS=8, num_warps=2, **keywords)
        np.testing.assert_array_equal(out, x * 3 * twice)


def test_a_part_of_an_array_and_another_box():
    x, out = arrays()
    part = TensorDescriptor(out, [20, 40], [48, 1], [8, 8])
    whole = TensorDescriptor.from_tensor(x, [8, 8])
    scaled[(3,)](whole, part, 1.0, ROWS=8)
    np.testing.assert_array_equal(out[:, :40], x[:, :40])
    assert (out[:, 40:] == -1).all()
    out[:] = -1
    part.block_shape = whole.block_shape = [4, 16]  # as hooks of configurations do
    scaled[lambda meta: (20 // meta["ROWS"],)](whole, part, 1.0, ROWS=4)
    np.testing.assert_array_equal(out[:, :40], x[:, :40])


def test_a_pointer_in_the_place_of_a_descriptor():
    x, out = arrays()
    scaled[(3,)](x[2:], TensorDescriptor.from_tensor(out, [8, 16]), 1.0, ROWS=8)
    assert (out == x[2, 0]).all()


def test_compiling_without_launching():
    x, out = arrays()
    boxes = [TensorDescriptor.from_tensor(a, [8, 16]) for a in (x, out)]
    kernel = scaled.specialized(boxes[0], boxes[1], 2.0, ROWS=8)
    text = kernel.asm["tile"]
    assert text.count("make_descriptor") == 2 and "x__stride0: i32 {divisible=16}" in text
    warm = scaled.warmup(boxes[0], boxes[1], 2.0, ROWS=8, grid=(3,))
    assert warm.asm["tile"] == text and (out == -1).all()


def test_autotuned_kernels_take_descriptors():
    def set_boxes(arguments):
        for name in ("x", "out"):
            arguments[name].block_shape = [arguments["ROWS"], 16]

    tuned = triton.autotune([triton.Config({"ROWS": 4}, pre_hook=set_boxes)], key=["factor"])(scaled)
    x, out = arrays()
    boxes = [TensorDescriptor.from_tensor(a, [1, 16]) for a in (x, out)]
    for _ in range(2):
        tuned[lambda meta: (20 // meta["ROWS"],)](boxes[0], boxes[1], 5.0)
        np.testing.assert_array_equal(out, x * 5)
        out[:] = -1


@pytest.mark.parametrize(
    "fields, message",
    [
        (([20], [48, 1], [8, 16]), "1 extents, 2 strides"),
        (([1] * 6, [16] * 5 + [1], [1] * 5 + [16]), "1 to 5 dimensions"),
        (([20, 48], [48, 2], [8, 16]), "last stride"),
        (([20, 48], [47, 1], [8, 16]), "multiples of 16 bytes"),
        (([20, -1], [48, 1], [8, 16]), r"not negative, found \[20, -1\]"),
        (([20.0, 48], [48, 1], [8, 16]), r"shape of a descriptor holds integers, found \[20.0, 48\]"),
        (([20, 48], [48, True], [8, 16]), "strides of a descriptor holds integers"),
        (([20, 48], [48, 1], [8, 16], "one"), "padding"),
    ],
)
def test_what_no_descriptor_describes(fields: tuple, message: str):
    with pytest.raises(LaunchError, match=message):
        TensorDescriptor(arrays()[0], *fields)


@pytest.mark.parametrize("shape", [(0, 48), (20, 0)])
@pytest.mark.parametrize("backend", ["interp", "simt"])
def test_arrays_without_elements(shape, backend):
    """Their boxes hold zeros, and nothing of a box is stored in them."""
    x, out = arrays()
    empty = TensorDescriptor.from_tensor(np.zeros(shape, np.float32), [8, 16])
    scaled[(3,)](empty, TensorDescriptor.from_tensor(out, [8, 16]), 3.0, ROWS=8, backend=backend)
    assert (out == 0).all()
    scaled[(3,)](TensorDescriptor.from_tensor(x, [8, 16]), empty, 3.0, ROWS=8, backend=backend)


def test_a_box_that_is_no_power_of_two_is_the_fault_of_the_call():
    x, out = arrays()
    boxes = TensorDescriptor.from_tensor(x, [8, 12]), TensorDescriptor.from_tensor(out, [8, 12])
    with pytest.raises(LaunchError, match=r"argument `x`: the extents of a box are powers of two, found \[8, 12\]"):
        scaled[(3,)](*boxes, 3.0, ROWS=8)
    scaled[(3,)](*boxes, 3.0, ROWS=8, profile="ext.any_extent")
    np.testing.assert_array_equal(out, x * 3)


def test_misaligned_and_missing_arguments():
    x, out = arrays()
    with pytest.raises(LaunchError, match="multiple of 16 bytes"):
        TensorDescriptor.from_tensor(x.reshape(-1)[1:], [16])
    with pytest.raises((CompileError, LaunchError), match=r"ROWS|factor"):
        scaled[(3,)](x, TensorDescriptor.from_tensor(out, [8, 16]))
    with pytest.raises((CompileError, LaunchError), match="unknown"):
        scaled[(3,)](x, TensorDescriptor.from_tensor(out, [8, 16]), 1.0, ROWS=8, unknown=3)
