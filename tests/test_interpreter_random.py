"""Random kernels run by the interpreter and by a plain one: a program at a time, every block fully expanded.

The plain interpreter shares the scalar table with the real one and nothing else: no symbolic blocks, no shared axes of
extent 1, no vectorisation over programs, no strided views.
"""

from __future__ import annotations

import itertools
import random
from math import prod

import numpy as np
import pytest

from refcompiler import interpreter
from refcompiler.dialects import numeric
from refcompiler.dialects.scalar import BY_NAME
from refcompiler.ir import Block, Builder, Constant, Func, Value, verify
from refcompiler.ir.types import (
    BOOL,
    F32,
    I32,
    I64,
    BlockType,
    PointerType,
    block_or_scalar,
    element_of,
    join_shapes,
    shape_of,
)

DATA = 256  # elements of the input array, a power of two
SHAPES = [(), (4,), (8,), (4, 8), (1, 8), (4, 1), (2, 4), (2, 2, 4)]


# --- the plain interpreter


class Plain:
    """One program; a pointer is (array, offsets), any other value a full array of its type's shape."""

    def __init__(self, func: Func, pid: tuple[int, ...], grid: tuple[int, ...], args: dict):
        self.pid, self.grid = pid, grid
        self.values = {}
        for p in func.params:
            if isinstance(p.type, PointerType):
                self.values[p] = (args[p.name], np.zeros((), np.int64))
            else:
                self.values[p] = np.array(args[p.name], p.type.numpy)

    def get(self, value: Value):
        if value is None:
            return None
        if isinstance(value, Constant):
            return np.array(value.value, value.type.numpy)
        return self.values[value]

    def block(self, block: Block) -> list:
        for op in block.ops:
            operands = [self.get(v) for v in op.operands]
            if op.name == "yield":
                return operands
            if op.name in ("for", "reduce"):
                results = getattr(self, f"op_{op.name}")(op, *operands)
            elif op.name in BY_NAME:
                results = [BY_NAME[op.name].numpy(*np.broadcast_arrays(*operands))]
            else:
                results = [getattr(self, f"op_{op.name}")(op, *operands)]
            for result, value in zip(op.results, results, strict=False):
                shape = shape_of(result.type)
                self.values[result] = value if isinstance(value, tuple) else np.broadcast_to(value, shape)
        return []

    def op_program_id(self, op):
        return np.int32(self.pid[op.axis])

    def op_num_programs(self, op):
        return np.int32(self.grid[op.axis])

    def op_arange(self, op):
        return np.arange(op.start, op.end, dtype=np.int32)

    def op_full(self, op, x):
        return x

    def op_broadcast(self, op, x):
        return x

    def op_expand_dims(self, op, x):
        return np.expand_dims(x, op.axis)

    def op_reshape(self, op, x):
        return x.reshape(shape_of(op.result.type))

    def op_trans(self, op, x):
        return x.transpose(op.order)

    def op_select(self, op, condition, x, y):
        if isinstance(x, tuple):
            raise NotImplementedError
        return np.where(condition, x, y)

    def op_cast(self, op, x):
        return numeric.cast(x, element_of(op.x.type), element_of(op.result.type))

    def op_addptr(self, op, pointer, offset):
        return (pointer[0], pointer[1] + offset.astype(np.int64))

    def op_load(self, op, pointer, mask, other):
        array, offsets = pointer
        shape = shape_of(op.result.type)
        out = np.empty(shape, array.dtype)
        offsets, mask, other = (np.broadcast_to(v, shape) for v in (offsets, mask, other))
        for i in np.ndindex(shape):
            out[i] = array.reshape(-1)[offsets[i]] if mask[i] else other[i]
        return out

    def op_store(self, op, pointer, value, mask):
        array, offsets = pointer
        value, mask = (
            np.broadcast_to(value, offsets.shape),
            np.broadcast_to(True if mask is None else mask, offsets.shape),
        )
        for i in np.ndindex(offsets.shape):
            if mask[i]:
                array.reshape(-1)[offsets[i]] = value[i]

    def op_for(self, op, start, stop, step, *carried):
        for index in range(int(start), int(stop), int(step)):
            index = np.array(index, op.start.type.numpy)
            self.values.update(zip(op.body.args, [index, *carried], strict=True))
            carried = self.block(op.body)
        return carried

    def op_reduce(self, op, *blocks):
        """The interpreter's order, an element with the one half the axis away, so that float sums agree in each bit."""
        parts = [list(np.moveaxis(b, op.axis, 0)) for b in blocks]
        while len(parts[0]) > 1:
            half = len(parts[0]) // 2
            pairs = [(p[:half], p[half:]) for p in parts]
            merged = [self.combine(op, [p[0][i] for p in pairs], [p[1][i] for p in pairs]) for i in range(half)]
            parts = [list(p) for p in zip(*merged, strict=True)]
        return [p[0] for p in parts]

    def combine(self, op, left, right):
        if op.body is None:
            return [BY_NAME[op.combine].numpy(left[0], right[0])]
        outs = [np.empty_like(v) for v in left]
        for i in np.ndindex(left[0].shape):
            self.values.update(zip(op.body.args, [v[i] for v in (*left, *right)], strict=True))
            for out, value in zip(outs, self.block(op.body), strict=True):
                out[i] = value
        return outs


# --- random kernels


class Generator:
    """Builds a kernel of random ops over values of bool, i32, i64 and f32 in random shapes, all stored at the end."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.params = [
            Value(PointerType(F32), "x"),
            Value(PointerType(I32), "k"),
            Value(PointerType(I64), "ints"),
            Value(PointerType(F32), "floats"),
            Value(I32, "n"),
        ]
        self.func = Func("random", self.params)
        self.b = Builder(self.func.body)
        self.values: list[Value] = []
        self.stored = {I64: 0, F32: 0}

    def build(self, ops: int) -> Func:
        pids = [self.b.value("program_id", axis=axis) for axis in (0, 1)]
        self.values += [*pids, self.b.value("num_programs", axis=0), self.params[4]]
        for _ in range(ops):
            self.step(depth=0)
        width = self.b.value("num_programs", axis=0)
        program = self.b.value("add", self.b.value("mul", pids[1], width), pids[0])
        kept = [v for v in self.values[4:] if self.rng.random() < 0.6][:24]
        for value in kept:
            self.store(value, program)
        return self.func

    def pick(self, *elements) -> Value:
        fitting = [v for v in self.values if element_of(v.type) in elements]
        if not fitting or self.rng.random() < 0.12:
            element = self.rng.choice(elements)
            literal = {BOOL: self.rng.random() < 0.5, F32: self.rng.choice([0.0, -0.0, 1.5, -3.25])}
            return Constant(literal.get(element, self.rng.choice([0, 1, 2, 3, 7, -1, -5, 100, 1 << 20])), element)
        return self.rng.choice(fitting[-12:])

    def pair(self, *elements) -> tuple[Value, Value]:
        for _ in range(50):
            x = self.pick(*elements)
            y = self.pick(element_of(x.type))
            if join_shapes(shape_of(x.type), shape_of(y.type)) is not None:
                return x, y
        return x, x

    def step(self, depth: int) -> None:
        kinds = ["arange", "binary", "binary", "binary", "compare", "logic", "select", "cast", "shape", "shape"]
        kinds += ["full", "reduce", "load", "load", "unary", "gather"] + (["loop"] if depth < 2 else [])
        value = getattr(self, f"make_{self.rng.choice(kinds)}")(depth)
        if value is not None:
            self.values += value if isinstance(value, list) else [value]

    def make_arange(self, depth):
        start, extent = self.rng.choice([0, 0, 3, -2]), self.rng.choice([4, 8])
        return self.b.value("arange", types=[BlockType(I32, (extent,))], start=start, end=start + extent)

    def make_binary(self, depth):
        x, y = self.pair(I32, I64, F32)
        names = ["add", "sub", "mul", "maximum", "minimum"]
        if element_of(x.type) is not F32:
            names += ["add", "sub", "mul", "rem", "div", "and", "xor", "shr"]
        return self.b.value(self.rng.choice(names), x, y)

    def make_unary(self, depth):
        x = self.pick(I32, F32)
        return self.b.value(self.rng.choice(["neg", "abs"]), x)

    def make_compare(self, depth):
        x, y = self.pair(I32, I32, I64, F32)
        return self.b.value("cmp_" + self.rng.choice(["lt", "le", "gt", "ge", "eq", "ne"]), x, y)

    def make_logic(self, depth):
        return self.b.value(self.rng.choice(["and", "or", "xor"]), *self.pair(BOOL))

    def make_select(self, depth):
        x, y = self.pair(I32, F32, I64)
        condition = self.pick(BOOL)
        if join_shapes(*(shape_of(v.type) for v in (condition, x, y))) is None:
            return None
        return self.b.value("select", condition, x, y)

    def make_cast(self, depth):
        x = self.pick(I32, I64, BOOL)
        target = self.rng.choice([t for t in (I32, I64, F32) if t is not element_of(x.type)])
        return self.b.value("cast", x, types=[block_or_scalar(target, shape_of(x.type))])

    def make_full(self, depth):
        x = self.pick(I32, F32)
        if shape_of(x.type):
            return None
        return self.b.value("full", x, types=[BlockType(x.type, self.rng.choice(SHAPES[1:]))])

    def make_shape(self, depth):
        x = self.pick(I32, I64, F32, BOOL)
        shape, element = shape_of(x.type), element_of(x.type)
        kind = self.rng.choice(["expand_dims", "trans", "reshape", "broadcast"])
        if not shape:
            return None
        if kind == "expand_dims" and len(shape) < 3:
            return self.b.value(kind, x, axis=self.rng.randint(0, len(shape)))
        if kind == "trans":
            return self.b.value(kind, x, order=tuple(self.rng.sample(range(len(shape)), len(shape))))
        if kind == "reshape":
            fitting = [s for s in [*SHAPES[1:], (32,), (16,), (4, 4), (8, 1), (2, 16)] if prod(s) == prod(shape)]
            return self.b.value(kind, x, types=[BlockType(element, self.rng.choice(fitting))]) if fitting else None
        grown = tuple(self.rng.choice([2, 4]) if n == 1 else n for n in shape)
        return self.b.value("broadcast", x, types=[BlockType(element, grown)])

    def make_reduce(self, depth):
        x = self.pick(I32, F32, I64)
        shape = shape_of(x.type)
        if not shape:
            return None
        axis = self.rng.randrange(len(shape))
        if self.rng.random() < 0.7:
            return self.b.value("reduce", x, axis=axis, combine=self.rng.choice(["add", "maximum", "minimum"]))
        return self.argmax(x, axis, shape)

    def argmax(self, x, axis, shape):
        """The greatest element and its index, the least index among equals: a region on two blocks."""
        index = self.b.value("arange", types=[BlockType(I32, (shape[axis],))], start=0, end=shape[axis])
        for k in range(len(shape)):
            if k != axis:
                index = self.b.value("expand_dims", index, axis=k)
        index = self.b.value("broadcast", index, types=[BlockType(I32, shape)])
        element = element_of(x.type)
        a, i, b, j = args = [Value(element), Value(I32), Value(element), Value(I32)]
        body = Block(args)
        with self.b.inside(body):
            first = self.b.value("cmp_lt", i, j)
            better = self.b.value(
                "or", self.b.value("cmp_gt", a, b), self.b.value("and", self.b.value("cmp_eq", a, b), first)
            )
            picked = [self.b.value("select", better, *pair) for pair in ((a, b), (i, j))]
            self.b.op("yield", *picked)
        return list(self.b.op("reduce", x, index, axis=axis, body=body).results)

    def make_load(self, depth):
        """A load by an affine or any other index, masked to the array."""
        index = self.pick(I32, I64)
        dtype = element_of(index.type)
        low = self.b.value("cmp_ge", index, Constant(0, dtype))
        mask = self.b.value("and", low, self.b.value("cmp_lt", index, Constant(DATA, dtype)))
        if self.rng.random() < 0.4:
            more = self.pick(BOOL)
            if join_shapes(shape_of(more.type), shape_of(mask.type)) is not None:
                mask = self.b.value("and", mask, more)
        source = self.rng.choice(self.params[:2])
        other = Constant(self.rng.choice([0, 5]), source.type.pointee)
        return self.b.value("load", self.b.value("addptr", source, index), mask, other)

    def make_gather(self, depth):
        index = self.b.value("and", self.pick(I32), Constant(DATA - 1, I32))
        source = self.rng.choice(self.params[:2])
        mask, other = Constant(True, BOOL), Constant(0, source.type.pointee)
        return self.b.value("load", self.b.value("addptr", source, index), mask, other)

    def make_loop(self, depth):
        """A loop whose bounds may differ by program, over one carried value of a random type."""
        bounds = [self.pick(I32) for _ in range(2)]
        if any(shape_of(v.type) for v in bounds):
            return None
        start, stop = (self.b.value("rem", v, Constant(5, I32)) for v in bounds)
        init = self.pick(I32, F32)
        body = Block([Value(I32), Value(init.type)])
        outside = len(self.values)
        with self.b.inside(body):
            self.values += body.args
            for _ in range(self.rng.randint(1, 4)):
                self.step(depth + 1)
            fitting = [v for v in self.values[outside:] if v.type == init.type]
            self.b.op("yield", self.rng.choice(fitting))
        del self.values[outside:]
        step = Constant(self.rng.choice([1, 1, 2, -1]), I32)
        return self.b.value("for", start, stop, step, init, types=[init.type], body=body)

    def store(self, value: Value, program: Value) -> None:
        """``value`` in row-major order at a place of its own and of the program."""
        element = element_of(value.type)
        target = F32 if element is F32 else I64
        if element not in (F32, I64):
            value = self.b.value("cast", value, types=[block_or_scalar(I64, shape_of(value.type))])
        shape = shape_of(value.type)
        position = self.b.value("mul", program, Constant(PER_PROGRAM, I32))
        position = self.b.value("add", position, Constant(self.stored[target], I32))
        stride = 1
        for axis in reversed(range(len(shape))):
            steps = self.b.value("arange", types=[BlockType(I32, (shape[axis],))], start=0, end=shape[axis])
            for k in range(len(shape)):
                if k != axis:
                    steps = self.b.value("expand_dims", steps, axis=k)
            position = self.b.value("add", position, self.b.value("mul", steps, Constant(stride, I32)))
            stride *= shape[axis]
        self.stored[target] += stride
        pointer = self.b.value("addptr", self.params[2 if target is I64 else 3], position)
        mask = None
        if self.rng.random() < 0.3:
            mask = self.b.value("cmp_lt", position, Constant(PER_PROGRAM * self.rng.randint(1, 9), I32))
        self.b.op("store", pointer, value, mask)


PER_PROGRAM = 1024


def arrays(grid: tuple[int, int]) -> dict:
    rng = np.random.default_rng(5)
    size = PER_PROGRAM * prod(grid)
    return {
        "x": rng.integers(-8, 8, DATA).astype(np.float32) / 4,
        "k": rng.integers(-300, 300, DATA).astype(np.int32),
        "ints": np.full(size, -77, np.int64),
        "floats": np.full(size, -77, np.float32),
        "n": 6,
    }


@pytest.mark.parametrize("seed", range(120))
def test_random_kernels_agree_with_the_plain_interpreter(seed, monkeypatch):
    func = Generator(seed).build(30)
    verify(func)
    grid = [(3, 1), (2, 3), (1, 1), (5, 2)][seed % 4]
    if seed % 3 == 0:  # chunks of a few programs
        monkeypatch.setattr("refcompiler.interpreter.launch.CHUNK_ELEMENTS", 64)
    plain, got = arrays(grid), arrays(grid)
    with np.errstate(all="ignore"):
        for y, x in itertools.product(range(grid[1]), range(grid[0])):
            Plain(func, (x, y), grid, plain).block(func.body)
    interpreter.run(func, grid, got)
    for name in ("x", "k", "ints", "floats"):
        a, b = plain[name], got[name]
        differ = np.flatnonzero((a.view(f"u{a.itemsize}") != b.view(f"u{a.itemsize}")) & ~((a != a) & (b != b)))
        assert not differ.size, f"{name}{differ[:8]}: {b[differ[:8]]} instead of {a[differ[:8]]}\n{func}"
