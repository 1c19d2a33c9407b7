"""Atomic read-modify-write and compare-and-swap at every level: declaration, meaning in NumPy, spelling in PTX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from refcompiler.dialects.tile.memory import pointee
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I16,
    I32,
    I64,
    U16,
    U32,
    U64,
    DType,
    PointerType,
    Type,
    element_of,
    join_shapes,
    shape_of,
    with_element,
)

SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("cta", "gpu", "sys")
_WORDS = (I32, U32, I64, U64)
DTYPES: dict[str, tuple[DType, ...]] = {
    "add": (*_WORDS, F16, BF16, F32, F64),
    "max": (*_WORDS, F32, F64),
    "min": (*_WORDS, F32, F64),
    "and": _WORDS,
    "or": _WORDS,
    "xor": _WORDS,
    "xchg": (*_WORDS, F32, F64),
    "cas": (*_WORDS, I16, U16, F16, BF16, F32, F64),
}


class Atomic(Op):
    """What the two ops share: an address and a value for each element, the order with other accesses, who it is for."""

    @property
    def acquires(self) -> bool:
        """Whether what follows sees what was released before."""
        return self.attrs["sem"] in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        """Whether what went before is seen by who acquires."""
        return self.attrs["sem"] in ("release", "acq_rel")

    @property
    def kind(self) -> str:
        return self.attrs.get("op", "cas")

    def infer(self) -> list[Type]:
        return [with_element(self.pointer.type, pointee(self.pointer.type) or element_of(self.pointer.type))]

    def check(self, require, values: tuple[Value, ...], mask: Value | None) -> None:
        """Rules of both ops."""
        element = element_of(self.pointer.type)
        require(
            isinstance(element, PointerType),
            "atomic.rmw#E1",
            lambda: f"an atomic needs a pointer or a block of pointers, got {self.pointer.type}",
            "pointer",
        )
        require(not element.const, "atomic.rmw#E2", "an atomic cannot write through a constant pointer", "pointer")
        require(
            element.pointee in DTYPES[self.kind],
            "atomic.rmw#E5" if self.kind != "cas" else "atomic.cas#E1",
            lambda: f"atomic_{self.kind} is not defined for {element.pointee}",
            "pointer",
        )
        same = all(element_of(v.type) == element.pointee for v in values)
        require(same, "ir.type", "the values of an atomic have the type of its memory")
        require(
            mask is None or element_of(mask.type) is BOOL,
            "atomic.rmw#E3",
            lambda: f"the mask of an atomic must be bool, got {mask and mask.type}",
            "mask",
        )
        shapes = [shape_of(o.type) for o in self.operands if o is not None]
        require(
            join_shapes(*shapes) == shape_of(self.pointer.type),
            "atomic.rmw#E4",
            lambda: f"values and mask must broadcast to the pointer's shape {shape_of(self.pointer.type)}",
        )
        require(self.sem in SEMANTICS, "atomic.rmw#E6", lambda: f"memory semantic {self.sem} not supported", "sem")
        require(self.scope in SCOPES, "atomic.rmw#E7", lambda: f"memory scope {self.scope} not supported", "scope")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        field = cls.operand_fields[index].name
        return BOOL if field == "mask" else pointee(operands[0].type) if operands[0] is not None else None


class AtomicRmw(Atomic, name="atomic_rmw", effects={"read", "write"}):
    """Replace each element where ``mask`` is true by ``op`` of it and ``value``, at once; gives the old one.

    Of elements that several lanes name each application counts. At the SIMT level an access is one register, and
    ``replicated`` says that several threads hold the same ones, of which the mask lets one act.  Spec: atomic.rmw
    """

    pointer = operand()
    value = operand()
    mask = operand(optional=True)
    op = attr(str)
    sem = attr(str, "acq_rel")
    scope = attr(str, "gpu")
    replicated = attr(bool, False)

    def verify(self, require) -> None:
        require(self.op in DTYPES and self.op != "cas", "ir.attribute", lambda: f"no atomic {self.op}", "op")
        self.check(require, (self.value,), self.mask)


class AtomicCas(Atomic, name="atomic_cas", effects={"read", "write"}):
    """Replace each element that has the bits of ``compare`` by ``value``, at once; gives the old one.  Spec: atomic.cas

    ``mask`` and ``replicated`` are those of ``atomic_rmw``; at the tile level there is no mask.
    """

    pointer = operand()
    compare = operand()
    value = operand()
    mask = operand(optional=True)
    sem = attr(str, "acq_rel")
    scope = attr(str, "gpu")
    replicated = attr(bool, False)

    def verify(self, require) -> None:
        self.check(require, (self.compare, self.value), self.mask)


# --- meaning
def rmw(kind: str, dtype: DType, bits: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Apply ``kind`` to the cells at ``index`` with ``values`` (both [n]), one after the other; what each found.

    ``bits`` is the memory as unsigned integers of the dtype's width; it changes in place.
    """
    if kind in ("max", "min") and dtype.is_float:
        return _ordered(_rmw(kind, _ordered(bits, dtype), index, _ordered(values, dtype), bits, dtype), dtype)
    cells = bits.view(dtype.numpy)
    return _rmw(kind, cells, index, values, cells, None)


def _rmw(
    kind: str, cells: np.ndarray, index: np.ndarray, values: np.ndarray, memory: np.ndarray, ordered: DType | None
) -> np.ndarray:
    step = _STEPS[kind]
    found = np.empty(index.shape, cells.dtype)
    for places, lanes in _by_cell(index):
        if places is None:  # cells of one lane each
            found[lanes] = cells[index[lanes]]
            new = step(found[lanes], values[lanes])
        else:
            new = cells[places]
            for lane in lanes:
                found[lane] = new
                new = step(new, values[lane])
        at = index[lanes] if places is None else places
        memory[at] = _ordered(np.asarray(new), ordered).view(memory.dtype) if ordered is not None else new
    return found


def cas(bits: np.ndarray, index: np.ndarray, compare: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compare and swap, one lane after the other; all arrays hold bits. What each found."""
    found = np.empty(index.shape, bits.dtype)
    for places, lanes in _by_cell(index):
        if places is None:
            at = index[lanes]
            found[lanes] = bits[at]
            bits[at] = np.where(found[lanes] == compare[lanes], values[lanes], found[lanes])
        else:
            for lane in lanes:
                found[lane] = bits[places]
                if found[lane] == compare[lane]:
                    bits[places] = values[lane]
    return found


def _by_cell(index: np.ndarray):
    """(None, lanes) for all cells that one lane names, then (cell, lanes in order) for each other one."""
    order = np.argsort(index, kind="stable")
    cells, starts, counts = np.unique(index[order], return_index=True, return_counts=True)
    single = counts == 1
    if single.any():
        yield None, order[starts[single]]
    for cell, start, count in zip(cells[~single], starts[~single], counts[~single], strict=True):
        yield cell, order[start : start + count]


def _ordered(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Floats as integers in the order of IEEE 754's totalOrder, from bits or numbers; its own inverse on bits."""
    signed = np.dtype(f"i{dtype.itemsize}")
    bits = np.asarray(values).view(signed)
    return bits ^ ((bits >> signed.type(dtype.bits - 1)) & np.iinfo(signed).max)


_STEPS: dict[str, Callable] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda old, new: new,
}


# --- PTX
def ptx(op: Atomic, dtype: DType) -> str:
    """The instructions of one access, with {d} for the old element, {p} for the address, {v} and for cas {c} for the
    operands: registers of the dtype's width, of a float type for ``add`` only."""
    kind = "exch" if op.kind == "xchg" else op.kind
    atom = f"atom.{op.sem}.{op.scope}.global.{kind}"
    bits = f"b{dtype.bits}"
    if kind == "cas":
        return f"{atom}.{bits} {{d}}, [{{p}}], {{c}}, {{v}};"
    if kind in ("exch", "and", "or", "xor"):
        return f"{atom}.{bits} {{d}}, [{{p}}], {{v}};"
    if kind in ("max", "min") and dtype.is_float:
        other = {"max": "min", "min": "max"}[kind]
        less = f"atom.{op.sem}.{op.scope}.global.{other}.u{dtype.bits} {{d}}, [{{p}}], {{v}};"
        more = f"{atom}.s{dtype.bits} {{d}}, [{{p}}], {{v}};"
        return f"{{{{ .reg .pred n; setp.lt.s{dtype.bits} n, {{v}}, 0; @n {less} @!n {more} }}}}"
    if dtype is BF16:  # the instruction begins with sm_90; adding is exact in an fma with 1.0
        swap = f"atom.{op.sem}.{op.scope}.global.cas.b16 {{d}}, [{{p}}], seen, sum;"
        return (
            "{{ .reg .pred again; .reg .b16 seen, sum, one; mov.b16 one, 0x3f80; "
            f"ld.relaxed.{op.scope}.global.b16 seen, [{{p}}]; retry: fma.rn.bf16 sum, seen, one, {{v}}; {swap} "
            "setp.ne.b16 again, {d}, seen; mov.b16 seen, {d}; @again bra retry; }}"
        )
    if dtype is F16:
        return f"{atom}.noftz.f16 {{d}}, [{{p}}], {{v}};"
    letter = "f" if dtype.is_float else "u" if kind == "add" or dtype.kind == "uint" else "s"
    return f"{atom}.{letter}{dtype.bits} {{d}}, [{{p}}], {{v}};"
