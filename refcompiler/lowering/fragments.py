"""Operands that stay in shared memory until the steps of a product that multiply them."""

from __future__ import annotations

from refcompiler.dialects.tile.dot import STEPWISE
from refcompiler.ir.core import Op, Value
from refcompiler.layouts import LinearLayout, SharedAccess
from refcompiler.layouts.matrices import MatrixAccess, steps_along_k
from refcompiler.lowering.shared import loaded
from refcompiler.lowering.state import Lowering, inverse, layout_of


class Fragments:
    """A block in shared memory, from element ``first`` of a buffer on, that threads read by ``load``."""

    def __init__(self, buffer: Value, first: Value | None, load: SharedAccess | MatrixAccess):
        self.buffer, self.first, self.load = buffer, first, load

    def all(self, state: Lowering) -> Value:
        """The registers of the whole block."""
        given = loaded(state, self.buffer, self.first, self.load, list(range(len(self.load.vectors))))
        return state.pick(given, inverse([register for _, vector in self.load.vectors for register in vector]))

    def step(self, state: Lowering, registers: list[int]) -> Value:
        """The registers of one step along K, in that order."""
        wanted = set(registers)
        accesses = [n for n, (_, vector) in enumerate(self.load.vectors) if wanted & set(vector)]
        given = loaded(state, self.buffer, self.first, self.load, accesses)
        order = [register for n in accesses for register in self.load.vectors[n][1]]
        places = {register: place for place, register in enumerate(order)}
        return state.pick(given, [places[register] for register in registers])


def step_registers(target: LinearLayout, element_bytes: int) -> list[list[int]]:
    """The registers of each step along K of an operand's fragments, in their order."""
    bits = steps_along_k(target, element_bytes)
    mask = sum(1 << bit for bit in bits)
    found: dict[int, list[int]] = {}
    for register in range(target.num_registers):
        found.setdefault(register & mask, []).append(register)
    return [found[key] for key in sorted(found)]


def is_operand(state: Lowering, op: Op) -> bool:
    """Whether what ``op`` gives is an operand of products and nothing else, also transposed."""
    return bool(users := _products(state, op)) and None not in users


def taken(state: Lowering, op: Op, fragments: Fragments) -> Fragments | Value:
    """What ``op`` gives: fragments that stay in shared memory where products alone read it, step by step; else the
    registers of the block. Tensor cores read it in the same block: what others multiply again is in registers."""
    target, vectors = layout_of(op.result), fragments.load.vectors
    if not is_operand(state, op):
        return fragments.all(state)
    products = [user for user in _products(state, op) if user is not None]
    if all(user.strategy == "fma" for user in products):
        return fragments
    if not all(state.in_block(user) for user in products):
        return fragments.all(state)
    steps = [set(step) for step in step_registers(target, op.result.type.element.itemsize)]
    apart = all(any(step >= set(vector) for step in steps) for _, vector in vectors)
    return fragments if apart else fragments.all(state)


def _products(state: Lowering, op: Op) -> list[Op | None]:
    """The products that read what ``op`` gives; None stands for anything else."""
    found: list[Op | None] = []
    for user in state.users.get(op.result, []):
        if user.name == "trans":
            found += _products(state, user)
        else:
            multiplies = user.name == "dot" and user.strategy in STEPWISE and op.result is not user.acc
            found.append(user if multiplies else None)
    return found
