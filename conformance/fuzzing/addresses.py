"""Draws addresses, masks, loads and stores: inside their arrays, and no element twice in one store."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from conformance.fuzzing.nodes import Array, Atomic, Expr, Shape, Store, Type, literal
from conformance.fuzzing.values import Values
from conformance.fuzzing.vocabulary import ATOMIC, DTYPES, INTEGERS, NUMBERS

CONTENTS = ("small", "counting", "special", "special", "bits", "normal")


def i32(value: int) -> Expr:
    return literal(value, "i32")


def op(row: str, x: Expr, y: Expr, shape: Shape | None = None) -> Expr:
    """An integer operation of one dtype."""
    return Expr(row, Type(x.type.dtype, shape if shape is not None else x.type.shape or y.type.shape), (x, y))


class Addresses(Values):
    """Arrays lie in memory as one region of elements for each program; programs write to their own region only."""

    def input(self) -> Array:
        """An array to read, perhaps one that is there already."""
        known = [a for a in self.arrays if a.role != "out"]
        if known and not self.one_in(3):
            return self.pick(known)
        return self.new_array("in")

    def new_array(self, role: str) -> Array:
        region = self.limit * self.pick((1, 2))
        contents = (self.pick(CONTENTS), self.integer(0, 255))
        return self.array(self.pick(DTYPES), region, role, contents, aligned=self.one_in(4))

    def memory(self) -> Array:
        """An array to read and write."""
        known = [a for a in self.arrays if a.role == "inout"]
        return self.pick(known) if known and not self.one_in(4) else self.new_array("inout")

    # --- pointers
    def pointer(self, array: Array) -> Expr:
        return Expr("array", Type(array.dtype, (), True), (), {"name": array.name})

    def own(self, array: Array) -> Expr:
        """The start of this program's region."""
        base: Expr = op("mul", self.names["pid"], i32(array.region))
        if self.one_in(6) and array.region % 4 == 0:
            base = Expr("hint", base.type, (base,), {"function": "multiple_of", "value": 4})
        return self.moved_by(self.pointer(array), base)

    def moved_by(self, pointer: Expr, offset: Expr) -> Expr:
        shape = offset.type.shape if not pointer.type.shape else pointer.type.shape
        return Expr("addptr", Type(pointer.type.dtype, shape, True), (pointer, offset))

    def offsets(self, shape: Shape, region: int) -> Expr:
        """A place of its own in [0, region) for every element: rows and columns in any order, reversed, strided,
        permuted, shifted."""
        order = list(range(len(shape)))
        for i in range(len(order) - 1):
            j = self.integer(i, len(order) - 1)
            order[i], order[j] = order[j], order[i]
        stride, total = 1, None
        if prod(shape) * 2 <= region and self.one_in(6):
            stride = 2
        for axis in reversed(order):
            part = self._along(shape, axis)
            if stride != 1:
                part = op("mul", part, i32(stride))
            stride *= shape[axis]
            if total is None:
                total = part
            else:
                joined_shape = tuple(max(a, b) for a, b in zip(total.type.shape, part.type.shape, strict=True))
                pair = (total, part) if self.one_in(2) else (part, total)
                total = op("add", *pair, joined_shape)
        assert total is not None
        if self.one_in(6):
            total = op("and", op("mul", total, i32(self.pick((3, 5, 7)))), i32(region - 1))
        elif stride < region and self.one_in(4):
            total = op("add", total, i32(self.integer(0, region - stride)))
        return self.cast(total, "i64") if self.one_in(8) else total

    def _along(self, shape: Shape, axis: int) -> Expr:
        """The index along one axis, as a block of extent 1 elsewhere."""
        index = Expr("arange", Type("i32", (shape[axis],)), (), {"start": 0})
        if self.one_in(6):
            index = op("sub", i32(shape[axis] - 1), index)
        elif self.one_in(8):
            index = op("xor", index, i32(self.integer(0, shape[axis] - 1)))
        if len(shape) == 1:
            return index
        others = tuple(a for a in range(len(shape)) if a != axis)
        extents = tuple(e if a == axis else 1 for a, e in enumerate(shape))
        return Expr("expand_dims", Type("i32", extents), (index,), {"axes": others})

    def gathered(self, region: int) -> Expr | None:
        """Places in [0, region) that depend on data, and may repeat."""
        e = self.operand(INTEGERS)
        return self.masked_to(e, region - 1) if e.type.shape else None

    def remember(self, array: Array, pointer: Expr, apart: bool) -> None:
        """Let later accesses go to the same place; `apart`: every element has an address of its own."""
        if array.role == "inout":
            self.places.append((array, pointer, apart))

    def place(self, apart: bool) -> tuple[Array, Expr] | None:
        """Where an earlier access went, if the variables of its address are still there."""
        found = [
            (array, pointer)
            for array, pointer, distinct in self.places
            if (distinct or not apart) and all(self._same(e) for e in pointer.walk() if e.op == "name")
        ]
        return self.pick(found[-3:]) if found and self.one_in(2) else None

    def _same(self, e: Expr) -> bool:
        known = self.names.get(e.attributes["name"])
        return known is not None and known.type == e.type

    # --- accesses
    def mask(self, shape: Shape, offset: Expr | None) -> Expr | None:
        """A mask that broadcasts to a shape, or none."""
        if self.one_in(2):
            return None
        if offset is not None and self.one_in(2):
            bound = self.pick(
                [e for e in self.variables(lambda e: e.type == Type("i32")) if e.attributes["name"] != "pid"]
                or [i32(prod(shape) // 2)]
            )
            return Expr(
                "lt",
                Type("bool", offset.type.shape),
                (offset, bound if not self.one_in(2) else i32(self.integer(0, prod(shape)))),
            )
        e = self.operand(("bool",), shape)
        return e if self._within(e, shape) else None

    def _within(self, e: Expr, shape: Shape) -> bool:
        """Whether `e` broadcasts to exactly this shape."""
        given = (1,) * (len(shape) - len(e.type.shape)) + e.type.shape
        return len(given) == len(shape) and all(g in (1, s) for g, s in zip(given, shape, strict=True))

    def load(self) -> Expr:
        """A load of a scalar or block: from anywhere in an array that nobody writes, else from the own region."""
        known = self.place(False)
        if known is not None:
            return self._load(*known, None)
        array = self.input()
        base = self.own(array) if array.role != "in" or not self.one_in(4) else self.pointer(array)
        if self.one_in(6):
            return self._scalar_load(array, base)
        offset = self.gathered(array.region) if self.one_in(4) else None
        beyond, distinct = False, offset is None
        if offset is None:
            shape = self.shape()
            offset = self.offsets(shape, array.region)
            beyond = self.one_in(6)
        shape = offset.type.shape
        if beyond:
            offset = op("add", offset, literal(self.integer(0, 2 * array.region), offset.type.dtype))
            mask: Expr | None = Expr("lt", Type("bool", shape), (offset, literal(array.region, offset.type.dtype)))
        else:
            mask = self.mask(shape, offset)
        pointer = self.moved_by(base, offset)
        if not beyond and base.op == "addptr":
            self.remember(array, pointer, distinct)
        return self._load(array, pointer, mask)

    def _scalar_load(self, array: Array, base: Expr) -> Expr:
        pointer = self.moved_by(base, i32(self.integer(0, array.region - 1)))
        if base.op == "addptr":
            self.remember(array, pointer, True)
        mask = self.operand(("bool",), ()) if self.one_in(4) else None
        return self._load(array, pointer, mask if mask is not None and not mask.type.shape else None)

    def _load(self, array: Array, pointer: Expr, mask: Expr | None) -> Expr:
        operands = [pointer]
        if mask is not None:
            operands += [mask, self._other(array.dtype, pointer.type.shape)]
        options = self.pick(("", "", "", ", volatile=True", ', cache_modifier=".cg"', ', eviction_policy="evict_last"'))
        loaded = Expr("load", Type(array.dtype, pointer.type.shape), tuple(operands), {"options": options})
        small = array.contents[0] == "small" and array.role == "in" and mask is None
        return replace(loaded, whole=8) if small else loaded

    def _other(self, dtype: str, shape: Shape) -> Expr:
        if self.one_in(3):
            e = self.operand(NUMBERS if dtype != "bool" else ("bool",), shape)
            if self._within(e, shape):
                return e
        return self.literal_beside(dtype)

    def store(self) -> Store:
        """A store to the own region of an array."""
        known = self.place(True)
        if known is not None:
            return self._overwritten(*known)
        array = self.memory()
        value = self.operand() if self.one_in(2) else self.value(1)
        if not value.type.shape and self.one_in(2):
            pointer = self.moved_by(self.own(array), i32(self.integer(0, array.region - 1)))
            self.remember(array, pointer, True)
            return Store(pointer, value, None)
        shape = value.type.shape or self.shape()
        offset = self.offsets(shape, array.region)
        mask = self.mask(shape, offset)
        options = self.pick(("", "", "", ', cache_modifier=".cs"', ', eviction_policy="evict_first"'))
        pointer = self.moved_by(self.own(array), offset)
        self.remember(array, pointer, True)
        return Store(pointer, value, mask, options)

    def atomic(self) -> Atomic | None:
        """An atomic on the own region, several elements of which may meet in one place; its order does not matter."""
        found = [a for a in self.arrays if a.role == "inout" and a.dtype in ATOMIC]
        array = self.pick(found) if found else self.memory()
        if array.dtype not in ATOMIC:
            return None
        offset = self.gathered(array.region) if self.one_in(2) else None
        if offset is None:
            offset = self.offsets(self.shape(), array.region)
        value = self.operand((array.dtype,), offset.type.shape)
        if not self._within(value, offset.type.shape):
            value = self.number(array.dtype)
        function = self.pick(("add", "max", "min", "and", "or", "xor"))
        pointer = self.moved_by(self.own(array), offset)
        return Atomic(pointer, value, self.mask(offset.type.shape, offset), function=function)

    def _overwritten(self, array: Array, pointer: Expr) -> Store:
        """A store to where an earlier access went."""
        value = self.operand(shape=pointer.type.shape)
        if not self._within(value, pointer.type.shape):
            value = self.number(array.dtype)
        return Store(pointer, value, self.mask(pointer.type.shape, None) if pointer.type.shape else None)

    def result(self, value: Expr, ulps: int = 0) -> Store:
        """A store of a value to an array of its own."""
        array = self.array(value.type.dtype, value.type.numel, "out", ulps=ulps)
        if not value.type.shape:
            return Store(self.moved_by(self.pointer(array), self.names["pid"]), value)
        return Store(self.moved_by(self.own(array), self.offsets(value.type.shape, array.region)), value)
