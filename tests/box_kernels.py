"""Random kernels whose loads and stores are boxes, written in the many ways in which people write addresses."""

from __future__ import annotations

import random

import numpy as np

PROGRAMS, ROUNDS = 3, 3  # programs of a launch; iterations of the loop


class BoxKernel:
    """The text of one kernel, its signature, and the arguments of a launch.

    A kernel loads a box in each round of a loop from an array with some strides, and stores it, plus one, to an array
    with others. Along each axis the box stands still, moves with the program, or moves with the loop.
    """

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        pick = self.random.choice
        self.rank = pick([1, 2, 2, 2, 3])
        self.extents = [pick([1, 2, 4, 8]) for _ in range(self.rank)]
        self.moves = [pick(["program", "loop", "still"]) for _ in range(self.rank)]
        self.lengths = [self.length(a) for a in range(self.rank)]
        self.lines: list[str] = []
        self.params: list[tuple[str, str, int]] = []  # name, type in the signature, value
        self.x = self.array("x")
        self.out = self.array("out")

    def length(self, axis: int) -> int:
        """Indices along an axis that boxes may reach without a mask."""
        return self.extents[axis] * {"program": PROGRAMS, "loop": ROUNDS, "still": 1}[self.moves[axis]] + 3

    def array(self, name: str) -> dict:
        """Strides of an array, in a random order of its axes: parameters, constants, or parameters known to be 1."""
        order = self.random.sample(range(self.rank), self.rank)
        self.extents[order[-1]] = max(4, self.extents[order[-1]])
        self.lengths = [self.length(a) for a in range(self.rank)]
        strides, step = [0] * self.rank, 1
        for axis in reversed(order):
            strides[axis] = step
            step = -(-step * max(24, self.lengths[axis]) // 16) * 16
        texts = []
        for axis, stride in enumerate(strides):
            if self.random.random() < 0.5:
                texts.append(str(stride))
            else:
                self.params.append((f"{name}_stride{axis}", f"i32:{1 if stride == 1 else 16}", stride))
                texts.append(f"{name}_stride{axis}")
        return {"strides": strides, "texts": texts, "size": step}

    # --- text
    def start(self, axis: int) -> str:
        extent = self.extents[axis]
        return {"program": f"pid * {extent}", "loop": f"k * {extent}", "still": "0"}[self.moves[axis]]

    def along(self, axis: int, text: str) -> str:
        """A vector as a block in which it runs along ``axis``."""
        if self.rank == 1:
            return text
        return f"({text})[{', '.join(':' if a == axis else 'None' for a in range(self.rank))}]"

    def index(self, axis: int) -> str:
        arange, start = f"tl.arange(0, {self.extents[axis]})", self.start(axis)
        both = self.random.choice([f"{start} + {arange}", f"{arange} + {start}"])
        return self.along(axis, arange if start == "0" and self.random.random() < 0.5 else both)

    def condition(self, axis: int, name: str) -> str | None:
        """A bound of the array along an axis, said in one of many ways; none where the box cannot reach it."""
        form = self.random.choice(["none", "lt", "gt", "le", "relative", "relative", "both"])
        if form == "none":
            return None
        bound = f"{name}_n{axis}"
        self.params.append((bound, "i32", self.random.choice([0, 1, self.lengths[axis] - 4, self.lengths[axis]])))
        i = self.index(axis)
        arange = self.along(axis, f"tl.arange(0, {self.extents[axis]})")
        return {
            "lt": f"({i} < {bound})",
            "gt": f"({bound} > {i})",
            "le": f"({i} <= {bound} - 1)",
            "relative": f"({arange} < {bound} - {self.start(axis)})",
            "both": f"({i} >= 0) & ({i} < {bound})",
        }[form]

    def mask(self, name: str) -> str:
        conditions = [c for a in range(self.rank) if (c := self.condition(a, name)) is not None]
        self.random.shuffle(conditions)
        return " & ".join(conditions) or "None"

    def address(self, name: str, array: dict, carried: bool) -> str:
        terms = []
        for axis, stride in enumerate(array["texts"]):
            if carried and self.moves[axis] == "loop":
                terms.append(f"{self.along(axis, f'tl.arange(0, {self.extents[axis]})')} * {stride}")
            else:
                index = self.index(axis)
                wide = index if self.random.random() < 0.7 else f"({index}).to(tl.int64)"
                terms.append(self.random.choice([f"{wide} * {stride}", f"{stride} * {wide}"]))
        self.random.shuffle(terms)
        if self.random.random() < 0.5:
            return f"{name} + ({' + '.join(terms)})"
        return f"{name} + {' + '.join(terms)}"

    def text(self) -> str:
        moving = [a for a in range(self.rank) if self.moves[a] == "loop"]
        carried = bool(moving) and self.random.random() < 0.6
        other = self.random.choice([", other=0.0", ", other=0"])
        mask, out_mask = self.mask("x"), self.mask("out")
        step = " + ".join(f"{self.extents[a]} * {self.x['texts'][a]}" for a in moving)
        pointer = "p" if carried else self.address("x", self.x, False)
        load = f"tl.load({pointer}, mask={mask}{other if mask != 'None' else ''})"
        lines = [
            "pid = tl.program_id(0)",
            f"p = {self.address('x', self.x, True)}" if carried else "",
            f"for k in range({self.random.choice([f'{ROUNDS}', f'0, {ROUNDS}'])}):",
            f"    box = {load}",
            f"    tl.store({self.address('out', self.out, False)}, box + 1, mask={out_mask})",
            f"    p += {step}" if carried else "",
        ]
        names = ", ".join(dict.fromkeys(n for n, *_ in self.params))
        body = "\n".join(f"    {line}" for line in lines if line)
        return f"import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, out, {names}):\n{body}\n"

    def signature(self) -> str:
        parts = [f"{name}:{type_}" for name, type_, _ in self.params]
        return ", ".join(["x:*f32:16", "out:*f32:16", *parts])

    def arguments(self) -> dict:
        sizes = [2 * array["size"] for array in (self.x, self.out)]
        x = np.arange(1, sizes[0] + 1, dtype=np.float32)
        return {"x": x, "out": np.full(sizes[1], -7, np.float32), **{name: value for name, _, value in self.params}}

    @property
    def grid(self) -> tuple[int]:
        """Where no axis moves with the program all programs would store the same elements."""
        return (PROGRAMS if "program" in self.moves else 1,)
