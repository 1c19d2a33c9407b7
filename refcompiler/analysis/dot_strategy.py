"""Which means serve a matrix product, fused multiply-add or tensor cores, and the layouts of what takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refcompiler.dialects.scf import Structured
from refcompiler.dialects.tile.dot import Dot
from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.types import BF16, F16, F32, FLOATS8, I8, element_of, shape_of
from refcompiler.layouts import (
    LinearLayout,
    batched,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    outer_operand,
    outer_product,
)
from refcompiler.remarks import Refusal

MMA_DTYPES = frozenset({F16, BF16, I8})
MMA_PRECISIONS = frozenset({"tf32", "tf32x3", "bf16x3"})  # of f32; the last one is served by tf32x3, which errs less
MMA_ROWS, MMA_COLUMNS, MMA_DEPTH_BYTES = 16, 8, 32  # of one mma.sync; a row of an operand has that many bytes
MOST_FMA = 4096  # of a thread, one after the other; more are a loop
LOOPS = frozenset({"for", "while"})


def dot_strategy(op: Dot, num_warps: int, target: Any = None) -> str:
    """ "mma": mma.sync of the tensor cores. "fma": any dtype, shape and target. ``target`` is None where none is
    chosen; all targets have mma.sync, if not of float8."""
    return "mma" if refused_mma(op, target) is None else "fma"


def refused_mma(op: Dot, target: Any = None) -> Refusal | None:
    """Why mma.sync does not serve a product; None: it does."""
    element, shape = element_of(op.x.type), shape_of(op.result.type)
    if element in FLOATS8 and target is not None and not target.has_fp8_mma:
        return Refusal(f"tensor cores of {target} do not multiply {element}", "cast operands to float16 before")
    # Hopper multiplies fragments of float8 as float16; ptxas 12.9 and 13.0 make 2**-9 of zeros that they unpack
    if element in FLOATS8 and target is not None and target.has_tma and (_is_one_value(op.x) or _is_one_value(op.y)):
        return Refusal(f"ptxas unpacks operands of one {element} wrongly", "cast operands to float16 before")
    if element is F32 and op.input_precision not in MMA_PRECISIONS:
        return Refusal(
            f"tensor cores do not multiply f32 with input_precision='{op.input_precision}'",
            "input_precision='tf32' cuts operands to 11 significant bits, 'tf32x3' hardly loses any",
        )
    if element is not F32 and element not in MMA_DTYPES.union(FLOATS8):
        return Refusal(f"tensor cores of mma.sync do not multiply {element} here")
    if shape[-2] < MMA_ROWS or shape[-1] < MMA_COLUMNS:
        return Refusal(
            f"its result is {shape[-2]}x{shape[-1]}, and tensor cores give {MMA_ROWS}x{MMA_COLUMNS} at least",
            "use larger blocks",
        )
    if op.depth * element.itemsize < MMA_DEPTH_BYTES:
        return Refusal(
            f"its operands have {op.depth * element.itemsize} bytes along k, and tensor cores take {MMA_DEPTH_BYTES}",
            "use larger blocks",
        )
    return None


def _is_one_value(block: Value) -> bool:
    """Whether all elements of a block are one number that is known."""
    while isinstance(block.owner, Op) and block.owner.name in ("trans", "broadcast", "reshape", "expand_dims"):
        block = block.owner.x
    return isinstance(block.owner, Op) and block.owner.name == "full" and isinstance(block.owner.value, Constant)


@dataclass(frozen=True)
class DotLayouts:
    """The layouts of a dot's result, and of its operands where these have to be in one; None: any will do."""

    strategy: str
    result: LinearLayout
    x: LinearLayout | None = None
    y: LinearLayout | None = None


class DotPlans:
    """How each dot of a function is served."""

    def __init__(self, func: Func, num_warps: int, target: Any = None):
        self.num_warps, self.target = num_warps, target
        self.chained = chained_dots(func)

    def of(self, op: Dot) -> DotLayouts:
        strategy, shape = dot_strategy(op, self.num_warps, self.target), shape_of(op.result.type)
        if strategy == "fma":
            return self._outer_products(op, outer_product(shape, self.num_warps))
        *batch, rows, columns = shape
        along_batch = min(self.num_warps, *batch) if batch else 1
        warps = mma_warps((rows, columns), self.num_warps // along_batch, op in self.chained)
        size = element_of(op.x.type).itemsize
        layouts = (
            mma_accumulator((rows, columns), warps),
            mma_operand_a((rows, op.depth), warps, size),
            mma_operand_b((op.depth, columns), warps, size),
        )
        return DotLayouts(
            strategy, *(batched(layout, batch[0], along_batch) if batch else layout for layout in layouts)
        )

    @staticmethod
    def _outer_products(op: Dot, result: LinearLayout) -> DotLayouts:
        if result.num_registers * op.depth > MOST_FMA:
            return DotLayouts("fma_loop", result)
        return DotLayouts("fma", result, *(outer_operand(result, op.depth, left) for left in (True, False)))


def mma_warps(shape: tuple[int, ...], num_warps: int, rows_first: bool) -> tuple[int, int]:
    """How many warps lie along M and along N. ``rows_first``: whole rows belong to a warp, as far as there are rows;
    otherwise the parts of the warps are as square as they can be, for then they read least."""
    rows, columns = shape
    along_m = along_n = 1
    while along_m * along_n < num_warps:
        more_rows = rows // along_m > MMA_ROWS
        more_columns = columns // along_n > MMA_COLUMNS
        taller = rows // along_m >= columns // along_n
        if more_rows and (rows_first or taller or not more_columns):
            along_m *= 2
        elif more_columns:
            along_n *= 2
        else:
            along_m *= 2  # replicas
    return along_m, along_n


def chained_dots(func: Func) -> set[Op]:
    """The dots whose results reach operands of other dots, and those other dots: they agree on rows, so that a result
    becomes a left operand in its place."""
    dots = [op for op in func.walk() if op.name == "dot"]
    if len(dots) < 2 and not any(op.name in LOOPS for op in func.walk()):
        return set()
    into: dict[Value, list[Value]] = {}
    for op in func.walk():
        edges = [(o, r) for o in op.operands for r in op.results]
        if isinstance(op, Structured):
            edges = [(source, value) for slot in op.slots() for source in slot.sources for value in slot.values]
        elif op.name == "dot":
            edges = [(op.acc, op.result)]
        for source, value in edges:
            into.setdefault(source, []).append(value)
    operands: dict[Value, list[Op]] = {}
    for op in dots:
        for operand in (op.x, op.y):
            operands.setdefault(operand, []).append(op)
    found: set[Op] = set()
    for op in dots:
        reached = [user for value in _reachable(op.result, into) for user in operands.get(value, ())]
        if reached:
            found |= {op, *reached}
    return found


def _reachable(start: Value, into: dict[Value, list[Value]]) -> set[Value]:
    seen: set[Value] = set()
    open_ = [start]
    while open_:
        value = open_.pop()
        if value not in seen:
            seen.add(value)
            open_ += into.get(value, ())
    return seen
