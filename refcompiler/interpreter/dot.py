"""Matrix products: every product exact, their sum in f64, rounded once to the dtype of the result."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects import numeric
from refcompiler.dialects.tile.dot import Dot
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.reduction import full_axis
from refcompiler.interpreter.values import Dense, Numbers, Poison, join_poison, ranked
from refcompiler.ir.types import F64, element_of


@interprets("dot")
def dot(programs: Programs, op: Dot, x: Numbers, y: Numbers, acc: Numbers | None) -> Dense:
    """A poisoned operand poisons the row or the column of the result that it takes part in."""
    result, depth, last = element_of(op.result.type), op.depth, x.data.ndim - 1
    left, right = (_wide(v.data, op) for v in (x, y))
    with np.errstate(all="ignore"):
        total = np.matmul(full_axis(left, last, depth), full_axis(right, last - 1, depth))
        if acc is not None:
            acc = ranked(acc, last + 1)
            total = total + acc.data.astype(np.float64)
        if not result.is_float:
            data = total.astype(np.int64).astype(result.numpy)
        else:
            data = numeric.cast(total, F64, result)
    poison = join_poison(
        (_spread(x.poison, last), _spread(y.poison, last - 1), acc.poison if acc is not None else None)
    )
    return Dense(data, poison)


def _wide(data: np.ndarray, op: Dot) -> np.ndarray:
    """The operand's values in f64, cut to what the precision asks for where that is tf32."""
    if op.input_precision == "tf32":
        data = numeric.round_tf32(data)
    return data.astype(np.float64)


def _spread(poison: Poison | None, axis: int) -> Poison | None:
    """The poison of the products that a poisoned element of an operand takes part in."""
    return None if poison is None else poison.map(lambda mask: np.asarray(mask.any(axis=axis, keepdims=True)))
