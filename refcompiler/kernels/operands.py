"""Operands of matrix products: how they lie in memory, and copies of those that lie otherwise than is fastest."""

from __future__ import annotations

from typing import Any, NamedTuple

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import LaunchError
from refcompiler.ir.types import DTYPES
from refcompiler.kernels.arrays import empty
from refcompiler.kernels.tf32_parts import tf32_parts
from refcompiler.runtime import ArrayInfo, describe

THREE_PRODUCTS = ("tf32x3", "bf16x3", "bf16x6")  # precisions that three products in tf32 serve
WORTH_A_COPY = 512  # rows and columns from which on an operand is read often enough to be copied first
WORTH_ALIGNING = 256  # elements of K from which on the result, too, is worth a copy
BOX_BYTES = 16  # whose multiples addresses and strides of boxes are
LINE_BYTES = 128  # from whose multiples on boxes are read fastest
SIDE = 64  # rows and columns of a tile that is copied


@triton.jit
def copy_matrix(
    x, out, rows, columns, stride_xb, stride_xr, stride_xc, stride_ob, stride_or, stride_oc, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of one matrix of a batch, from strides to strides: read as it lies, and written as it will."""
    across = tl.cdiv(columns, COLUMNS)
    batch = tl.program_id(1).to(tl.int64)
    first_row = tl.program_id(0) // across * ROWS
    first_column = tl.program_id(0) % across * COLUMNS
    x += batch * stride_xb + first_row.to(tl.int64) * stride_xr + first_column.to(tl.int64) * stride_xc
    out += batch * stride_ob + first_row.to(tl.int64) * stride_or + first_column.to(tl.int64) * stride_oc
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    mask = (i < rows - first_row)[:, None] & (j < columns - first_column)[None, :]
    v = tl.load(x + i[:, None] * stride_xr + j[None, :] * stride_xc, mask=mask)
    tl.store(out + i[:, None] * stride_or + j[None, :] * stride_oc, v, mask=mask)


class Operand(NamedTuple):
    """A matrix, or a batch of them: extents and strides in elements, the bytes of an element, and whether its address
    is a multiple of 16."""

    batches: int
    rows: int
    columns: int
    stride_batch: int
    stride_row: int
    stride_column: int
    item_bytes: int
    aligned: bool

    @property
    def turned(self) -> bool:
        """Whether its columns are the contiguous ones."""
        return self.stride_column != 1 and self.stride_row == 1

    @property
    def stride(self) -> int:
        """The distance of its contiguous rows or columns."""
        return self.stride_column if self.turned else self.stride_row

    @property
    def transpose(self) -> Operand:
        """Rows for columns."""
        return self._replace(
            rows=self.columns, columns=self.rows, stride_row=self.stride_column, stride_column=self.stride_row
        )

    @property
    def is_box(self) -> bool:
        """Whether a descriptor can describe it: contiguous rows or columns at multiples of 16 bytes."""
        distances = [self.stride, *([self.stride_batch] if self.batches > 1 else [])]
        contiguous = 1 in (self.stride_row, self.stride_column)
        return contiguous and self.aligned and all(d >= 0 and d * self.item_bytes % BOX_BYTES == 0 for d in distances)


def operand(info: ArrayInfo, what: str) -> Operand:
    """An array as a matrix. Raises LaunchError unless it has two axes, or three."""
    if len(info.shape) not in (2, 3):
        raise LaunchError("kernels.operands", f"{what} has shape {info.shape}; expected [M, K] or [batch, M, K]")
    batches = info.shape[0] if len(info.shape) == 3 else 1
    stride = info.strides[0] if batches > 1 else 0
    (rows, columns), (stride_row, stride_column) = info.shape[-2:], info.strides[-2:]
    if columns == 1:  # nothing is ever that far away
        stride_column = rows if stride_row == 1 else 1
    elif rows == 1:
        stride_row = columns if stride_column == 1 else 1
    item_bytes = DTYPES[info.dtype].itemsize
    return Operand(batches, rows, columns, stride, stride_row, stride_column, item_bytes, info.divisible_by_16)


class Product(NamedTuple):
    """What is to be multiplied, and how."""

    a: Any
    b: Any
    c: Any
    bias: Any
    x: Operand
    y: Operand
    z: Operand
    given: dict[str, Any]  # constexprs and options of the launch
    bias_of_rows: bool = False

    @property
    def are_boxes(self) -> bool:
        """Whether descriptors can describe all three matrices."""
        return bool(self.x.columns) and self.x.is_box and self.y.is_box and self.z.is_box

    @property
    def transpose(self) -> Product:
        """The same, as the product of the transposes, (b^T a^T)^T."""
        turned = (self.b, self.a, self.c, self.bias, self.y.transpose, self.x.transpose, self.z.transpose)
        return Product(*turned, self.given, not self.bias_of_rows)

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.x.rows, self.y.columns, self.x.columns

    @property
    def tiles(self) -> int:
        return triton.cdiv(self.z.rows, self.given["BM"]) * triton.cdiv(self.z.columns, self.given["BN"])


def copied(array: Any, x: Operand, to: Any, z: Operand, options: dict[str, Any]) -> None:
    """The elements of an operand of ``array`` to those of another one, of ``to``."""
    on = {name: options[name] for name in ("backend",) if name in options}
    grid = (triton.cdiv(x.rows, SIDE) * triton.cdiv(x.columns, SIDE), x.batches)
    strides = (x.stride_batch, x.stride_row, x.stride_column, z.stride_batch, z.stride_row, z.stride_column)
    copy_matrix[grid](array, to, x.rows, x.columns, *strides, ROWS=SIDE, COLUMNS=SIDE, num_warps=8, **on)


def boxed(array: Any, x: Operand, turned: bool) -> tuple[Any, Operand]:
    """A new array for an operand whose rows are contiguous, or its columns, in which it is one that boxes describe."""
    many, few = (x.columns, x.rows) if turned else (x.rows, x.columns)
    unit = LINE_BYTES // x.item_bytes
    stride = triton.cdiv(few, unit) * unit
    made = empty(array, (x.batches, many, stride))
    strides = (1, stride) if turned else (stride, 1)
    stride_batch = many * stride if x.batches > 1 else 0
    return made, Operand(x.batches, x.rows, x.columns, stride_batch, *strides, x.item_bytes, True)


def _lying(array: Any, x: Operand, turned: bool | None, options: dict[str, Any]) -> tuple[Any, Operand]:
    """An operand that boxes describe, and whose columns are the contiguous ones, or its rows, or either; a copy, if it
    is none."""
    if x.is_box and turned in (None, x.turned):
        return array, x
    copy, place = boxed(array, x, x.turned if turned is None else turned)
    copied(array, x, copy, place, options)
    return copy, place


def _in_tf32(p: Product, options: dict[str, Any]) -> Product:
    """The product in tf32, three times as deep, of coarse and fine parts of the operands."""
    on = {name: options[name] for name in ("backend",) if name in options}
    (M, N, K), (x, y) = p.sizes, (p.x, p.y)
    a = tf32_parts(p.a, M, K, x.stride_row, x.stride_column, True, **on)
    b = tf32_parts(p.b, N, K, y.stride_column, y.stride_row, False, **on)
    depth = describe(a).shape[1]
    x = x._replace(columns=depth, stride_row=depth, stride_column=1, aligned=True)
    y = y._replace(rows=depth, stride_row=1, stride_column=depth, aligned=True)
    return p._replace(a=a, b=b, x=x, y=y)


def prepared(p: Product, dtype: str, precision: str, arch: str, options: dict[str, Any]) -> tuple[Product, str]:
    """What to multiply, and in which precision: where operands are read often, copies of them that lie as is fastest.

    Instructions of warpgroups take elements of other than 16 bits along K only. Multiply-adds of f32 want K outermost:
    threads read neighbouring rows of one step, whose registers are in two banks in turn.
    """
    hopper, ieee = arch == "sm_90a", dtype == "f32" and precision == "ieee"
    if min(p.z.rows, p.z.columns) < WORTH_A_COPY or not (p.are_boxes or p.x.columns >= WORTH_ALIGNING):
        return p, precision
    if any(SIDE * abs(d) >= 1 << 31 for o in (p.x, p.y, p.z) for d in (o.stride_row, o.stride_column)):
        return p, precision  # offsets within a tile that is copied are 32-bit integers
    if not p.z.is_box:
        c, z = boxed(p.c, p.z, p.z.turned)
        p = p._replace(c=c, z=z)
    if hopper and dtype == "f32" and precision in THREE_PRODUCTS and p.z.batches == 1:
        return _in_tf32(p, options), "tf32"
    along_k = False if ieee else None
    if hopper and (p.x.item_bytes == 1 or (dtype == "f32" and precision == "tf32")):
        along_k = True
    a, x = _lying(p.a, p.x, None if along_k is None else not along_k, options)
    b, y = _lying(p.b, p.y, along_k, options)
    return p._replace(a=a, b=b, x=x, y=y), precision
