"""Ops on global memory: pointer arithmetic, masked loads and stores."""

from __future__ import annotations

from refcompiler.dialects.tile import BLOCKS
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BOOL, DType, PointerType, Type, element_of, join_shapes, join_types, shape_of

CACHE_LOAD = ("", ".ca", ".cg", ".cs", ".cv")
CACHE_STORE = ("", ".wb", ".cg", ".cs", ".wt")
EVICTION = ("", "evict_first", "evict_last")


def pointee(type_: Type) -> DType | None:
    """What a pointer or a block of pointers points to; None for anything else."""
    element = element_of(type_)
    return element.pointee if isinstance(element, PointerType) else None


class AddPtr(Op, name="addptr"):
    """``pointer`` moved by ``offset`` elements; unsigned offsets extend with zeros.  Spec: memory.pointers"""

    pointer = operand()
    offset = operand()

    def infer(self) -> list[Type]:
        joined = join_types([self.pointer.type, self.offset.type], element_of(self.pointer.type))
        return [joined if joined is not None else element_of(self.pointer.type)]

    def verify(self, require) -> None:
        offset = element_of(self.offset.type)
        require(
            pointee(self.pointer.type) is not None,
            "memory.pointers#E1",
            lambda: f"expected a pointer, got {self.pointer.type}",
            "pointer",
        )
        require(
            isinstance(offset, DType) and offset.is_int,
            "memory.pointers#E2",
            lambda: f"a pointer moves by integers, got {self.offset.type}",
            "offset",
        )
        require(
            join_types([self.pointer.type, self.offset.type], BOOL) is not None,
            "shape.broadcast#E1",
            lambda: f"the shapes of {self.pointer.type} and {self.offset.type} do not broadcast",
        )

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return None


class Load(Op, name="load", effects={"read"}, levels=BLOCKS):
    """Read where ``mask`` is true; elsewhere ``other``, or poison without it.  Spec: memory.load"""

    pointer = operand()
    mask = operand(optional=True)
    other = operand(optional=True)
    cache = attr(str, "")
    eviction = attr(str, "")
    volatile = attr(bool, False)

    def infer(self) -> list[Type]:
        element = pointee(self.pointer.type) or element_of(self.pointer.type)
        joined = join_types([o.type for o in self.operands if o is not None], element)
        return [joined if joined is not None else element]

    def verify(self, require) -> None:
        require(
            pointee(self.pointer.type) is not None,
            "memory.load#E1",
            lambda: f"load needs a pointer or a block of pointers, got {self.pointer.type}",
            "pointer",
        )
        require(
            self.mask is None or element_of(self.mask.type) is BOOL,
            "memory.load#E2",
            lambda: f"the mask of load must be bool, got {self.mask and self.mask.type}",
            "mask",
        )
        require(
            self.other is None or self.mask is not None,
            "memory.load#E3",
            "`other` cannot be provided without `mask`",
            "other",
        )
        require(
            self.other is None or element_of(self.other.type) == pointee(self.pointer.type),
            "ir.type",
            lambda: f"other is {self.other and self.other.type}, the pointer gives {pointee(self.pointer.type)}",
            "other",
        )
        shapes = [shape_of(o.type) for o in self.operands if o is not None]
        require(
            join_shapes(*shapes) is not None,
            "shape.broadcast#E1",
            "pointer, mask and other do not broadcast",
            "mask",
        )
        require(
            self.cache in CACHE_LOAD,
            "memory.load#E5",
            lambda: f"cache modifier {self.cache} not supported; one of {CACHE_LOAD}",
            "cache",
        )
        require(
            self.eviction in EVICTION,
            "memory.load#E6",
            lambda: f"eviction policy {self.eviction} not supported",
            "eviction",
        )

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL if index == 1 else pointee(operands[0].type) if operands[0] is not None else None


class Store(Op, name="store", effects={"write"}, levels=BLOCKS):
    """Write ``value`` where ``mask`` is true; nothing else changes.  Spec: memory.store"""

    pointer = operand()
    value = operand()
    mask = operand(optional=True)
    cache = attr(str, "")
    eviction = attr(str, "")

    def verify(self, require) -> None:
        element = element_of(self.pointer.type)
        require(
            isinstance(element, PointerType),
            "memory.store#E1",
            lambda: f"store needs a pointer or a block of pointers, got {self.pointer.type}",
            "pointer",
        )
        require(not element.const, "memory.store#E2", "cannot store to a constant pointer", "pointer")
        require(
            element_of(self.value.type) == element.pointee,
            "ir.type",
            lambda: f"value is {self.value.type}, the pointer takes {element.pointee}",
            "value",
        )
        require(
            self.mask is None or element_of(self.mask.type) is BOOL,
            "memory.store#E3",
            lambda: f"the mask of store must be bool, got {self.mask and self.mask.type}",
            "mask",
        )
        shapes = [shape_of(o.type) for o in self.operands if o is not None]
        require(
            join_shapes(*shapes) == shape_of(self.pointer.type),
            "memory.store#E4",
            lambda: (
                f"value and mask must broadcast to the pointer's shape {shape_of(self.pointer.type)}, got "
                f"{', '.join(map(str, shapes[1:]))}"
            ),
            "value",
        )
        require(
            self.cache in CACHE_STORE,
            "memory.store#E5",
            lambda: f"cache modifier {self.cache} not supported; one of {CACHE_STORE}",
            "cache",
        )
        require(
            self.eviction in EVICTION,
            "memory.store#E6",
            lambda: f"eviction policy {self.eviction} not supported",
            "eviction",
        )

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL if index == 2 else pointee(operands[0].type) if operands[0] is not None else None
