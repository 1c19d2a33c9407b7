"""Elementwise ops at every level, made from the scalar table; select, cast and bitcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from refcompiler.dialects import numeric
from refcompiler.dialects.scalar import ROWS, Scalar
from refcompiler.ir.core import Constant, Op, Value, literal_dtype
from refcompiler.ir.opdef import Operand, OpMeta, operand
from refcompiler.ir.types import (
    BESIDE_FLOAT8,
    BOOL,
    FLOATS8,
    DType,
    PointerType,
    Type,
    element_of,
    join_types,
    with_element,
)


class Elementwise(Op):
    """An op applied to each element of operands that broadcast by NumPy's rule; scalars join any shape."""

    row: Scalar

    def infer(self) -> list[Type]:
        element = BOOL if self.row.result == "bool" else element_of(self.operands[0].type)
        joined = join_types([o.type for o in self.operands], element)
        return [joined if joined is not None else element]

    def verify(self, require) -> None:
        elements = [element_of(o.type) for o in self.operands]
        require(
            elements[0] in self.row.dtypes,
            f"{self.row.spec}#E1",
            lambda: f"{self.name} is not defined for {elements[0]}; it takes {', '.join(map(str, self.row.dtypes))}",
        )
        require(
            all(e == elements[0] for e in elements),
            "ir.elementwise",
            lambda: f"{self.name} needs one element type, got {', '.join(map(str, elements))}",
        )
        require(
            join_types([o.type for o in self.operands], BOOL) is not None,
            "shape.broadcast#E1",
            lambda: f"the shapes of {', '.join(str(o.type) for o in self.operands)} do not broadcast",
        )

    def fold(self) -> Value | None:
        literals = [o.value for o in self.operands if isinstance(o, Constant)]
        if len(literals) < len(self.operands):
            return None
        dtype = self.operands[0].type
        if self.name in ("div", "rem") and dtype.is_int and literals[1] == 0:
            return None  # the value is unpredictable: leave it to the target
        arrays = [np.array(value, dtype.numpy) for value in literals]
        with np.errstate(all="ignore"):
            value = self.row.numpy(*arrays)
        return Constant(np.asarray(value).item(), self.result.type)


def _declare(row: Scalar) -> type[Elementwise]:
    fields: dict[str, Operand] = {name: operand() for name in "xyz"[: row.arity]}
    namespace = {"__doc__": f"{row.doc}  Spec: {row.spec}", "row": row, "__module__": __name__, **fields}
    class_name = "".join(part.capitalize() for part in row.name.split("_"))
    declared: Any = OpMeta(class_name, (Elementwise,), namespace, name=row.name, commutative=row.commutative)
    return declared


ELEMENTWISE: dict[str, type[Elementwise]] = {row.name: _declare(row) for row in ROWS}


class Select(Op, name="select"):
    """``x`` where ``condition`` is true, else ``y``; both are evaluated.  Spec: select.where"""

    condition = operand()
    x = operand()
    y = operand()

    def infer(self) -> list[Type]:
        element = element_of(self.x.type)
        joined = join_types([o.type for o in self.operands], element)
        return [joined if joined is not None else element]

    def verify(self, require) -> None:
        require(
            element_of(self.condition.type) is BOOL,
            "select.where#E1",
            lambda: f"the condition of select must be bool, got {self.condition.type}",
            "condition",
        )
        require(
            element_of(self.x.type) == element_of(self.y.type),
            "ir.elementwise",
            lambda: f"select needs one element type, got {self.x.type} and {self.y.type}",
        )
        require(
            join_types([o.type for o in self.operands], BOOL) is not None,
            "shape.broadcast#E1",
            lambda: f"the shapes of {', '.join(str(o.type) for o in self.operands)} do not broadcast",
        )

    def fold(self) -> Value | None:
        if isinstance(self.condition, Constant):
            return self.x if self.condition.value else self.y
        same = self.x is self.y or (
            isinstance(self.x, Constant) and isinstance(self.y, Constant) and self.x.key() == self.y.key()
        )
        return self.x if same else None

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        if index == 0:
            return BOOL
        element = element_of(types[0]) if types else literal_dtype(operands[1:])
        return element if isinstance(element, DType) else None


class Cast(Op, name="cast", explicit_type=True):
    """Numeric conversion; the result type says to what.  Spec: cast.numeric"""

    x = operand()

    def verify(self, require) -> None:
        source, target = element_of(self.x.type), element_of(self.result.type)
        require(
            isinstance(source, DType) and isinstance(target, DType),
            "cast.numeric#E1",
            lambda: f"cannot cast {source} to {target}",
        )
        float8, other = (source, target) if source in FLOATS8 else (target, source)
        require(
            float8 not in FLOATS8 or source == target or other in BESIDE_FLOAT8,
            "cast.fp8#E2",
            lambda: f"cannot cast {source} to {target}; cast to f32 on the way",
        )
        require(self.result.type == with_element(self.x.type, target), "ir.type", "cast keeps the shape")

    def fold(self) -> Value | None:
        source, target = element_of(self.x.type), element_of(self.result.type)
        if source == target:
            return self.x
        if isinstance(self.x, Constant):
            with np.errstate(all="ignore"):
                value = numeric.cast(np.array(self.x.value, source.numpy), source, target)
            return Constant(np.asarray(value).item(), target)
        return None

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return None  # the source type is not fixed by anything


class Bitcast(Op, name="bitcast", explicit_type=True):
    """The same bits as another dtype of that width, or a pointer to another dtype.  Spec: cast.bitcast"""

    x = operand()

    def verify(self, require) -> None:
        source, target = element_of(self.x.type), element_of(self.result.type)
        pointers = isinstance(source, PointerType), isinstance(target, PointerType)
        fits = all(pointers) or (not any(pointers) and source.bits == target.bits)
        require(fits, "cast.bitcast#E1", lambda: f"cannot bitcast {source} to {target}: the widths differ")
        require(self.result.type == with_element(self.x.type, target), "ir.type", "bitcast keeps the shape")

    def fold(self) -> Value | None:
        return self.x if self.result.type == self.x.type else None

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return None
