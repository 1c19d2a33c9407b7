"""Which matrix products warpgroups can compute from shared memory, and why others cannot."""

from __future__ import annotations

from collections.abc import Container
from math import prod

from refcompiler.dialects.tile.descriptor import DescriptorLoad
from refcompiler.ir.core import Op, Value
from refcompiler.ir.types import BF16, F16, F32, FLOATS8, I8, I32, DType, element_of, shape_of
from refcompiler.remarks import Refusal

WARPS = 4  # of a warpgroup
WARPGROUP = WARPS * 32  # threads
ROWS = 64  # of a product of one warpgroup
STEP_BYTES = 32  # of k in one instruction
PROMOTED = 128  # products of float8 that are added before they join a sum of f32
MIN_COLUMNS, MAX_COLUMNS = 8, 256  # of one instruction


def refused_product(dot: Op, loads: Container[Op | None], warpgroups: int) -> Refusal | None:
    """Why the warpgroups cannot compute a product whose operands ``loads`` bring to shared memory; None: they can."""
    return _refused_operand(dot, loads) or _refused_shape(dot, warpgroups) or _refused_type(dot, loads)


def _refused_operand(dot: Op, loads: Container[Op | None]) -> Refusal | None:
    if len(shape_of(dot.x.type)) != 2:
        return Refusal("it multiplies several matrices at once", "give each program one matrix of the batch")
    made = origin(dot.y)
    if made in loads:
        return None
    if isinstance(made, DescriptorLoad) or (made is not None and made.name == "load"):
        return Refusal("its right operand is not copied to shared memory as a box; see the remark on its load")
    how = f"`{made.name}` computes it" if made is not None else "a loop carries it"
    return Refusal(
        f"its right operand has to be in shared memory as it was loaded, and {how}",
        "multiply what is computed as the left operand: a @ b = (b.T @ a.T).T",
    )


def _refused_shape(dot: Op, warpgroups: int) -> Refusal | None:
    (m, k), (_, n) = shape_of(dot.x.type), shape_of(dot.y.type)
    rows, bytes_ = ROWS * warpgroups, k * element_of(dot.x.type).itemsize
    if m % rows:
        fewer = m // ROWS * WARPS
        fitting = f", or with num_warps={fewer}" if m % ROWS == 0 and not fewer & (fewer - 1) else ""
        return Refusal(
            f"it has {m} rows, no multiple of {rows}: {ROWS} for each of {warpgroups} warpgroups",
            f"compile with blocks of {rows} rows{fitting}",
        )
    if bytes_ % STEP_BYTES:
        return Refusal(f"its operands have {bytes_} bytes along k, no multiple of {STEP_BYTES}", "use larger blocks")
    if not MIN_COLUMNS <= n <= MAX_COLUMNS or n % 8:
        return Refusal(
            f"it has {n} columns, and instructions of warpgroups {MIN_COLUMNS} to {MAX_COLUMNS}",
            f"compile with blocks of {MIN_COLUMNS if n < MIN_COLUMNS else MAX_COLUMNS} columns",
        )
    if not is_power(m * k):
        return Refusal(f"its extents {m} along m and {k} along k are not powers of two")
    return None


def _refused_type(dot: Op, loads: Container[Op | None]) -> Refusal | None:
    dtype, sums, n = element_of(dot.x.type), sum_of(dot), shape_of(dot.y.type)[1]
    if sums is None:
        if dtype is F32:
            return Refusal(
                f"tensor cores do not multiply f32 with input_precision='{dot.input_precision}'",
                "input_precision='tf32' cuts operands to 11 significant bits, and is served",
            )
        return Refusal(f"tensor cores of a warpgroup do not multiply {dtype}")
    if element_of(dot.result.type) is not sums:
        found = element_of(dot.result.type)
        return Refusal(
            f"it is summed in {found}, and tensor cores sum products of {dtype} in {sums}", f"use out_dtype {sums}"
        )
    if dtype in (F16, BF16):
        return None
    # instructions on other dtypes take both operands with elements along k next to each other
    if origin(dot.x) not in loads:
        return Refusal(f"its left operand is computed, and products of {dtype} read both from shared memory as loaded")
    if is_turned(dot.x) or not is_turned(dot.y):
        return Refusal(
            f"products of {dtype} want the elements along k next to each other in memory, for both operands",
            "load the right operand as [n, k] from an array of that order and multiply with its .T",
        )
    if dtype is I8 and n % 16:
        return Refusal(f"products of i8 have a multiple of 16 columns, found {n}")
    return None


def is_one(dot: Op, warpgroups: int) -> bool:
    """Whether each warpgroup computes a product in one part, which has all registers of its block: others would have
    to be carried to a wait apart from it."""
    return shape_of(dot.x.type)[0] == ROWS * warpgroups and is_power(shape_of(dot.y.type)[1])


def sum_of(dot: Op) -> DType | None:
    """The dtype in which tensor cores of a warpgroup add up a product; None where they do not serve it."""
    dtype = element_of(dot.x.type)
    if dtype in (F16, BF16) or dtype in FLOATS8 or (dtype is F32 and dot.input_precision == "tf32"):
        return F32
    return I32 if dtype is I8 else None


def is_turned(value: Value) -> bool:
    """Whether the axes of a block lie in memory the other way round."""
    turned = False
    while isinstance(value.owner, Op) and is_view(value.owner):
        turned ^= value.owner.name == "trans"
        value = value.owner.x
    return turned


def origin(value: Value | None) -> Op | None:
    """The op that made a block, seen through views."""
    while value is not None and isinstance(value.owner, Op) and is_view(value.owner):
        value = value.owner.x
    return value.owner if value is not None and isinstance(value.owner, Op) else None


def is_view(op: Op) -> bool:
    """Whether an op gives a block as it lies in memory, in another order of two axes or without leading ones of 1."""
    if op.name == "reshape":
        shape = shape_of(op.x.type)
        return shape[-2:] == shape_of(op.result.type) and prod(shape[:-2]) == 1
    return op.name == "trans" and len(shape_of(op.x.type)) == 2


def is_power(number: int) -> bool:
    """Whether it is a power of two."""
    return number & (number - 1) == 0
