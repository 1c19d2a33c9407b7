"""Random tile kernels over i32 blocks: loads in any order, elementwise ops, views, reductions and loops."""

from __future__ import annotations

import random
from math import prod

import numpy as np

SIZE = 4096  # elements of the input
MAX_BLOCK = 512
_BINARY = ("add", "sub", "mul", "maximum", "minimum", "xor", "and")


class RandomKernel:
    """IR text built line by line. ``pool`` holds (name, shape) of blocks that later ops may use."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.indent = "  "
        self.pool: list[tuple[str, tuple[int, ...]]] = []
        self.outputs: list[tuple[int, ...]] = []
        for _ in range(self.random.randint(1, 2)):
            self.load(self.shape())
        for _ in range(self.random.randint(3, 9)):
            self.step()
        for name, shape in self.random.sample(self.pool, min(3, len(self.pool))):
            self.store(name, shape)

    # --- text
    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def emit(self, text: str, type_: str) -> str:
        name = self.fresh()
        self.lines.append(f"{self.indent}{name} = {text} : {type_}")
        return name

    @staticmethod
    def type(shape: tuple[int, ...], element: str = "i32") -> str:
        word = "vector" if len(shape) == 1 else "block"
        return f"{word}<{'x'.join(map(str, shape))} x {element}>" if shape else element

    def func(self) -> str:
        outs = "".join(f", out{i}: ptr<i32>" for i in range(len(self.outputs)))
        return f"func @k(x: ptr<i32>{outs}, n: i32) {{\n" + "\n".join(self.lines) + "\n}\n"

    def arguments(self) -> list:
        data = np.random.default_rng(self.count).integers(-1000, 1000, SIZE).astype(np.int32)
        return [data, *(np.zeros(max(1, prod(s)), np.int32) for s in self.outputs), 3]

    # --- pieces
    def shape(self) -> tuple[int, ...]:
        rank = self.random.choice([1, 2, 2, 2, 3])
        while True:
            shape = tuple(1 << self.random.randint(0, 8 // rank + 1) for _ in range(rank))
            if prod(shape) <= MAX_BLOCK:
                return shape

    def offsets(self, shape: tuple[int, ...]) -> str:
        """Each element's place in an array whose dimensions are ordered at random: contiguous along any of them."""
        order = self.random.sample(range(len(shape)), len(shape))
        stride, total, total_shape = 1, "", ()
        for dim in order:
            index = self.emit(f"arange {{start=0, end={shape[dim]}}}", self.type((shape[dim],)))
            here = [shape[dim]]
            for _ in range(dim):
                here.insert(0, 1)
                index = self.emit(f"expand_dims {index} {{axis=0}}", self.type(tuple(here)))
            for _ in range(dim + 1, len(shape)):
                here.append(1)
                index = self.emit(f"expand_dims {index} {{axis={len(here) - 1}}}", self.type(tuple(here)))
            scaled = self.emit(f"mul {index}, {stride}", self.type(tuple(here)))
            stride *= shape[dim]
            if not total:
                total, total_shape = scaled, tuple(here)
            else:
                total_shape = tuple(map(max, total_shape, here))
                total = self.emit(f"add {total}, {scaled}", self.type(total_shape))
        return total

    def load(self, shape: tuple[int, ...]) -> str:
        shift = self.random.choice([0, 0, 4, 5])
        offsets = self.emit(f"add {self.offsets(shape)}, {shift}", self.type(shape))
        pointer = self.emit(f"addptr x, {offsets}", self.type(shape, "ptr<i32>"))
        mask, other = "none", "none"
        if self.random.random() < 0.5:
            bound = self.random.choice([prod(shape) // 2, prod(shape) - 1, prod(shape)])
            mask = self.emit(f"cmp_lt {offsets}, {bound + shift}", self.type(shape, "bool"))
            other = "7"
        name = self.emit(f"load {pointer}, {mask}, {other}", self.type(shape))
        self.pool.append((name, shape))
        return name

    def store(self, name: str, shape: tuple[int, ...]) -> None:
        out = f"out{len(self.outputs)}"
        self.outputs.append(shape)
        pointer = out
        if shape:
            pointer = self.emit(f"addptr {out}, {self.offsets(shape)}", self.type(shape, "ptr<i32>"))
        self.lines.append(f"{self.indent}store {pointer}, {name}, none")

    def step(self) -> None:
        choices = [self.elementwise, self.elementwise, self.view, self.view, self.reduce, self.outer, self.loop]
        self.random.choice(choices)()

    def block(self) -> tuple[str, tuple[int, ...]]:
        return self.random.choice([p for p in self.pool if p[1]] or [(self.load((8,)), (8,))])

    def elementwise(self) -> None:
        name, shape = self.block()
        partners = [n for n, s in self.pool if s == shape or not s] + ["n", "3"]
        op = self.random.choice(_BINARY)
        result = self.emit(f"{op} {name}, {self.random.choice(partners)}", self.type(shape))
        if self.random.random() < 0.3:
            condition = self.emit(f"cmp_gt {result}, {self.random.choice(partners)}", self.type(shape, "bool"))
            result = self.emit(f"select {condition}, {result}, {name}", self.type(shape))
        self.pool.append((result, shape))

    def view(self) -> None:
        name, shape = self.block()
        kind = self.random.choice(["expand", "trans", "reshape", "broadcast"])
        if kind == "expand" and len(shape) < 3:
            axis = self.random.randint(0, len(shape))
            shape = (*shape[:axis], 1, *shape[axis:])
            text = f"expand_dims {name} {{axis={axis}}}"
        elif kind == "trans" and len(shape) > 1:
            order = tuple(self.random.sample(range(len(shape)), len(shape)))
            shape = tuple(shape[i] for i in order)
            text = f"trans {name} {{order={order}}}"
        elif kind == "reshape":
            total = prod(shape).bit_length() - 1
            cut = self.random.randint(0, total)
            shape = self.random.choice([(1 << total,), (1 << cut, 1 << (total - cut))])
            text = f"reshape {name}"
        elif kind == "broadcast" and 1 in shape and prod(shape) * 8 <= MAX_BLOCK:
            axis = self.random.choice([i for i, e in enumerate(shape) if e == 1])
            shape = (*shape[:axis], 8, *shape[axis + 1 :])
            text = f"broadcast {name}"
        else:
            return
        self.pool.append((self.emit(text, self.type(shape)), shape))

    def reduce(self) -> None:
        name, shape = self.block()
        axis = self.random.randrange(len(shape))
        result = shape[:axis] + shape[axis + 1 :]
        if self.random.random() < 0.7:
            combine = self.random.choice(["add", "maximum", "minimum", "xor"])
            self.pool.append(
                (self.emit(f"reduce {name} {{axis={axis}, combine={combine!r}}}", self.type(result)), result)
            )
            return
        # the largest element and how often it occurs
        ones = self.emit("full 1", self.type(shape))
        a, b, c, d, e, f, g, h, i, total, largest, number = (self.fresh() for _ in range(12))
        lines = [
            f"{largest}, {number} = reduce {name}, {ones} {{axis={axis}}} : "
            f"{self.type(result)}, {self.type(result)} ({a}: i32, {b}: i32, {c}: i32, {d}: i32) {{",
            f"  {e} = maximum {a}, {c} : i32",
            f"  {f} = cmp_eq {a}, {e} : bool",
            f"  {g} = cmp_eq {c}, {e} : bool",
            f"  {h} = select {f}, {b}, 0 : i32",
            f"  {i} = select {g}, {d}, 0 : i32",
            f"  {total} = add {h}, {i} : i32",
            f"  yield {e}, {total}",
            "}",
        ]
        self.lines += [self.indent + line for line in lines]
        self.pool += [(largest, result), (number, result)]

    def outer(self) -> None:
        """a[:, None] op b[None, :]"""
        vectors = [p for p in self.pool if len(p[1]) == 1]
        if not vectors:
            return
        (a, (m,)), (b, (n,)) = self.random.choice(vectors), self.random.choice(vectors)
        if m * n > MAX_BLOCK:
            return
        column = self.emit(f"expand_dims {a} {{axis=1}}", self.type((m, 1)))
        row = self.emit(f"expand_dims {b} {{axis=0}}", self.type((1, n)))
        op = self.random.choice(_BINARY)
        self.pool.append((self.emit(f"{op} {column}, {row}", self.type((m, n))), (m, n)))

    def loop(self) -> None:
        """Carries a block, and swaps it with what an iteration computes from it."""
        name, shape = self.block()
        init = self.random.choice([name, self.emit("full 0", self.type(shape))])
        result, other, index, first, second = (self.fresh() for _ in range(5))
        type_ = self.type(shape)
        self.lines.append(
            f"{self.indent}{result}, {other} = for {index} in range(0, n, 1) "
            f"iter_args({first} = {init}, {second} = {name}) : {type_}, {type_} {{"
        )
        kept, indent = list(self.pool), self.indent
        self.indent += "  "
        self.pool = [*kept, (first, shape), (second, shape), (index, ())]
        self.random.choice([self.elementwise, self.view, self.reduce, self.outer, lambda: self.load(shape)])()
        candidates = [n for n, s in self.pool if s == shape]
        value = self.emit(f"add {first}, {self.random.choice(candidates)}", type_)
        self.lines.append(f"{self.indent}yield {self.random.choice([second, value])}, {value}")
        self.pool, self.indent = kept, indent
        self.lines.append(f"{self.indent}}}")
        self.pool += [(result, shape), (other, shape)]
