"""Draws whole kernels: a sequence of loads, assignments, loops and stores, then a store of what is left."""

from __future__ import annotations

from collections.abc import Callable

from conformance.fuzzing.addresses import Addresses, i32, op
from conformance.fuzzing.nodes import (
    Assign,
    Branch,
    Expr,
    Helper,
    Loop,
    Program,
    Remark,
    Return,
    Statement,
    Store,
    Type,
    While,
    name,
)
from conformance.fuzzing.vocabulary import BINARY, FLOATS, INEXACT, INTEGERS, NUMBERS
from oracles.promotion import promote

MOST_STATEMENTS = 12
MOST_RESULTS = 4
DEEPEST = 2
REMARKS = ("tl.device_assert(pid >= 0)", "tl.assume(pid >= 0)", "tl.static_assert(True)")


class Generator(Addresses):
    """One kernel; `program` draws it."""

    def program(self) -> Program:
        body: list[Statement] = [self.number_of_program()]
        for _ in range(self.integer(0, 2)):
            self.scalar(
                *self.pick((("i32", 3), ("i32", 0), ("i64", 2), ("i32", 16), ("f32", 1.5), ("u32", 7), ("i32", 1)))
            )
        body.append(self.let(self.load()))
        body += self.statements(MOST_STATEMENTS, 0)
        body += self.results()
        options: dict[str, object] = {"num_warps": self.pick((1, 2, 4, 8))}
        if self.one_in(2):
            options["enable_fp_fusion"] = False
        arrays = tuple(self.arrays)
        return Program(arrays, tuple(self.scalars), self.grid, options, tuple(self.helpers), tuple(body))

    def number_of_program(self) -> Assign:
        """`pid`: the number of the program, the first axis of the grid fastest."""
        total = Expr("program_id", Type("i32"), (), {"axis": len(self.grid) - 1})
        for axis in reversed(range(len(self.grid) - 1)):
            extent = Expr("num_programs", Type("i32"), (), {"axis": axis})
            total = op("add", Expr("program_id", Type("i32"), (), {"axis": axis}), op("mul", extent, total))
        self.names["pid"] = name("pid", Type("i32"), whole=8)
        return Assign(("pid",), (total,))

    def let(self, value: Expr) -> Assign:
        """A new variable."""
        text = self.fresh("v")
        self.bind(text, value)
        return Assign((text,), (value,))

    def statements(self, most: int, depth: int) -> list[Statement]:
        found: list[Statement] = []
        while len(found) < most and self.integer(0, most) > 0:
            kinds: list[Callable[[int], Statement | list[Statement] | None]] = [
                lambda d: self.let(self.value()),
                lambda d: self.let(self.load()),
                lambda d: self.store(),
                lambda d: self.atomic(),
                lambda d: self.updated(),
                lambda d: self.reassigned(),
                lambda d: self.augmented(),
                lambda d: self.swapped(),
                lambda d: self.remark(),
                lambda d: self.called(),
                lambda d: self.custom_reduction(),
                lambda d: self.custom_scan(),
                self.ended,
            ]
            if depth < DEEPEST:
                kinds += [self.loop, self.branch, self.loop, self.repeated]
            made = self.pick(kinds)(depth)
            if made is not None:
                found += made if isinstance(made, list) else [made]
        return found

    def updated(self) -> list[Statement]:
        """A load, a store to the same place, the same load again, and a store of what it gives."""
        array = self.memory()
        shape = self.pick(((), self.shape()))
        offset = self.offsets(shape, array.region) if shape else i32(self.integer(0, array.region - 1))
        pointer = self.moved_by(self.own(array), offset)
        found: list[Statement] = []
        for _ in range(2):
            loaded = self.let(self._load(array, pointer, None))
            row = self.pick(("xor", "or")) if array.dtype == "bool" else self.pick(("add", "sub", "mul"))
            changed = Expr(row, loaded.values[0].type, (self.names[loaded.names[0]], self.literal_beside(array.dtype)))
            found += [loaded, Store(pointer, changed)]
        return found

    # --- assignments
    def adapted(self, type_: Type) -> Expr:
        """A value of exactly a type: another value, converted and broadcast."""
        value = self.value(1) if self.one_in(2) else self.operand(shape=type_.shape)
        if not self._within(value, type_.shape):
            value = self.operand(shape=type_.shape)
            if not self._within(value, type_.shape):
                value = self.operand((type_.dtype,), ())
                value = value if not value.type.shape else self.names["pid"]
        value = self.cast(value, type_.dtype)
        while value.type.shape and len(value.type.shape) < len(type_.shape):
            value = self.expand(value, 0)
        return value if value.type.shape == type_.shape else self.moved("broadcast_to", value, type_.shape)

    def reassigned(self) -> Assign | None:
        found = self.replaceable()
        if not found:
            return None
        target = self.pick(found)
        return self._replace((target,), (self.adapted(target.type),))

    def _replace(self, targets: tuple[Expr, ...], values: tuple[Expr, ...], augmented: str = "") -> Assign:
        names = tuple(t.attributes["name"] for t in targets)
        for n, value in zip(names, values, strict=True):
            # inside a loop or branch what a name holds is known by its type only
            self.bind(n, value if self.assignable is None else name(n, value.type))
        return Assign(names, values, augmented)

    def augmented(self) -> Assign | None:
        found = self.replaceable(lambda e: e.type.dtype in NUMBERS)
        if not found:
            return None
        target = self.pick(found)
        rows = [r for r in BINARY[:9] if r.typing(target.type.dtype, target.type.dtype) == target.type.dtype]
        row = self.pick(rows)
        other = self.operand((target.type.dtype,), target.type.shape)
        if not self._within(other, target.type.shape) or self.one_in(3):
            other = self.literal_beside(target.type.dtype)
        value = Expr(row.name, target.type, (target, other))
        return self._replace((target,), (value,), row.spellings[0].split()[1])

    def swapped(self) -> Assign | None:
        """Two or three variables of one type change places."""
        found = self.replaceable()
        if not found:
            return None
        first = self.pick(found)
        alike = [e for e in found if e.type == first.type and e is not first]
        if not alike:
            return None
        second = self.pick(alike)
        third = next((e for e in alike if e is not second), None)
        targets = (first, second) if third is None or self.one_in(2) else (first, second, third)
        return self._replace(targets, (*targets[1:], targets[0]))

    def remark(self) -> Remark:
        return Remark(self.pick(REMARKS))

    # --- helpers
    def called(self) -> Assign | None:
        """A call of a function whose body is drawn for the types of its arguments."""
        arguments = tuple(self.operand() for _ in range(self.integer(1, 3)))
        if any(a.op != "name" for a in arguments):
            return None
        outer, helper = self.names, self.fresh("h")
        self.names = {f"a{i}": name(f"a{i}", a.type) for i, a in enumerate(arguments)}
        try:
            results = tuple(self.value() for _ in range(self.pick((1, 1, 2))))
        finally:
            parameters, self.names = tuple(self.names), outer
        function = Helper(helper, parameters, results)
        self.helpers.append(function)
        texts = tuple(self.fresh("v") for _ in results)
        for text, r in zip(texts, results, strict=True):
            self.names[text] = name(text, r.type)
        call = Expr("call", results[0].type, arguments, {"helper": function, "types": tuple(r.type for r in results)})
        return Assign(texts, (call,))

    def custom_reduction(self) -> Assign | None:
        """tl.reduce with a function, or the largest element with its place."""
        e = self.block(lambda e: e.type.dtype in INTEGERS or e.whole is not None)
        if e.type.dtype == "bool":
            return None
        axis = self.integer(0, len(e.type.shape) - 1)
        shape = (*e.type.shape[:axis], *e.type.shape[axis + 1 :])
        if self.one_in(2) or e.type.dtype in FLOATS:
            function = self.pick(("max", "min"))
            attributes = {"function": function, "meaning": f"{function}_places", "axis": axis}
            attributes["keywords"] = {"return_indices": True}
            value = Expr("reduce", Type(e.type.dtype, shape), (e,), attributes)
            texts = (self.fresh("v"), self.fresh("v"))
            self.names[texts[0]] = name(texts[0], value.type, whole=e.whole)
            self.names[texts[1]] = name(texts[1], Type("i32", shape))
            return Assign(texts, (value,))
        meaning, result = self.pick((("product", "a * b"), ("and", "a & b"), ("exclusive", "(a | b) & ~(a & b)")))
        combine = self.fresh("h")
        self.helpers.append(Helper(combine, source=f"@triton.jit\ndef {combine}(a, b):\n    return {result}\n"))
        attributes = {"function": "reduce", "meaning": meaning, "axis": axis, "combine": combine}
        return self.let(Expr("reduce", Type(e.type.dtype, shape), (e,), attributes))

    def custom_scan(self) -> Assign | None:
        """tl.associative_scan with functions that are not commutative: the latest element, products of affine maps."""
        e = self.block(lambda e: e.type.dtype in INTEGERS)
        if e.type.dtype not in INTEGERS:
            return None
        attributes = {"function": "associative_scan", "axis": self.integer(0, len(e.type.shape) - 1)}
        attributes["keywords"] = {"reverse": True} if self.one_in(3) else {}
        combine = self.fresh("h")
        attributes["combine"] = combine
        other = self.operand((e.type.dtype,), e.type.shape)
        if other.type.shape != e.type.shape or self.one_in(3):
            self.helpers.append(Helper(combine, source=f"@triton.jit\ndef {combine}(a, b):\n    return b\n"))
            return self.let(Expr("scan", e.type, (e,), {**attributes, "meaning": "latest"}))
        text = f"@triton.jit\ndef {combine}(a, b, c, d):\n    return a * c, b * c + d\n"
        self.helpers.append(Helper(combine, source=text))
        attributes["types"] = (e.type, e.type)
        value = Expr("scan", e.type, (e, other), {**attributes, "meaning": "affine"})
        texts = (self.fresh("v"), self.fresh("v"))
        for n in texts:
            self.names[n] = name(n, e.type)
        return Assign(texts, (value,))

    # --- loops
    def _carried(self) -> set[str]:
        """Some of the variables, which a body may replace."""
        found = self.replaceable()
        return {self.pick(found).attributes["name"] for _ in range(self.integer(1, 3))} if found else set()

    def _body(self, replaceable: set[str], depth: int) -> tuple[Statement, ...]:
        """Statements inside a loop or branch; an empty body replaces something, if it may."""
        with self.inside(replaceable):
            body = self.statements(5, depth + 1)
            if not body:
                body = [s for s in (self.augmented(), self.swapped()) if s is not None]
        return tuple(body or [Remark("pass")])

    def branch(self, depth: int) -> Branch:
        """A branch on a scalar, whose sides may replace some of the variables."""
        condition = self.condition()
        replaceable = self._carried()
        then = self._body(replaceable, depth)
        return Branch(condition, then, self._body(replaceable, depth) if self.one_in(2) else ())

    def ended(self, depth: int) -> Branch | None:
        """Some programs return early, perhaps after a store."""
        if depth or not self.one_in(3):
            return None
        first = [self.store()] if self.one_in(2) else []
        return Branch(self.condition(), (*first, Return()))

    def repeated(self, depth: int) -> list[Statement]:
        """A while loop that counts to a small number, perhaps of run time, or stops before."""
        count = self.fresh("w")
        start = Assign((count,), (i32(0),))
        counter = name(count, Type("i32"), whole=8)
        found = self.variables(lambda e: not e.type.shape and e.type.dtype in INTEGERS)
        limit = self.masked_to(self.pick(found), 3) if self.one_in(2) else i32(self.integer(0, 4))
        condition = Expr("lt", Type("bool"), (counter, limit))
        if self.one_in(3):
            other = self.operand(("bool",), ())
            if not other.type.shape:
                condition = Expr(self.pick(("and_", "and")), Type("bool"), (condition, other))
        replaceable = self._carried()
        self.names[count] = counter
        body = self._body(replaceable, depth)
        step = Assign((count,), (Expr("add", Type("i32"), (counter, i32(1))),), "+")
        return [start, While(condition, (*body, step))]

    def loop(self, depth: int) -> Loop:
        """A loop that carries some of the variables; how many rounds it makes may be known at run time only."""
        form, dtype, bounds = self.bounds()
        replaceable, index, outer = self._carried(), self.fresh("k"), self.names
        self.names = dict(outer)
        if form != "tl.static_range":
            self.names[index] = name(index, Type(dtype))
        body = self._body(replaceable, depth)
        self.names = outer
        self.forget_facts(replaceable)
        return Loop(index, dtype, bounds, body, form)

    def bounds(self) -> tuple[str, str, tuple[Expr, Expr, Expr]]:
        """The spelling of a range of few rounds, the dtype of its index, and start, stop, step."""
        form = self.pick(("range", "range", "tl.range", "tl.static_range"))
        start, step, rounds = self.integer(0, 2), self.pick((1, 1, 2, 3)), self.integer(0, 4)
        stop = start + step * rounds
        if form == "tl.static_range" or self.one_in(3):
            if self.one_in(3):
                return form, "i32", (i32(stop), i32(start), i32(-step))
            return form, "i32", (i32(start), i32(stop), i32(step))
        found = self.variables(lambda e: not e.type.shape and e.type.dtype in INTEGERS)
        limit = self.masked_to(self.pick(found), 3)
        if self.one_in(3):
            limit = self.cast(limit, self.pick(INTEGERS))
        dtype = promote("i32", limit.type.dtype).name  # the literals are i32
        return form, dtype, (i32(start), limit, i32(step))

    # --- the end
    def results(self) -> list[Statement]:
        """Stores of the latest variables, of what an optimiser may simplify, and of an inexact function."""
        found = [e for e in self.variables() if e.attributes["name"].startswith("v")]
        stores: list[Statement] = [self.result(e) for e in found[:MOST_RESULTS]]
        plain = self.neutral(0) if self.one_in(2) else None
        if plain is not None:
            stores.append(self.result(plain))
        if self.one_in(4):
            row = self.pick(INEXACT)
            x = self.operand(INTEGERS)
            dtype = self.pick(("f32", "f64"))
            argument = Expr(
                "mul",
                Type(dtype, x.type.shape),
                (self.cast(self.masked_to(x, 15), dtype), Expr("literal", Type(dtype), (), {"value": 0.25})),
            )
            stores.append(self.result(Expr(row.name, argument.type, (argument,), ulps=row.ulps), row.ulps))
        return stores
