"""Steps of atomics: lane after lane; they race with plain accesses of their CTA, not with each other."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects import atomic
from refcompiler.ir.types import element_of
from refcompiler.simulator.access import Access, addresses_of, parts_of, race, who_of
from refcompiler.simulator.machine import Machine, Step, garbage, numpy_type, registers_of, steps


@steps("atomic_rmw", "atomic_cas")
def step_atomic(op: atomic.Atomic) -> Step:
    dtype = element_of(op.result.type)
    access = Access(op, registers_of(op.pointer), 1, numpy_type(op.result.type))
    operands = [op.value] if op.kind != "cas" else [op.compare, op.value]

    def step(m: Machine) -> None:
        addresses, chosen = addresses_of(m, access)
        lanes = slice(None) if chosen is None else chosen
        given = [
            np.ascontiguousarray(m.full(v, access.accesses).astype(access.dtype, copy=False)).reshape(-1)[lanes]
            for v in operands
        ]
        who = who_of(m, access, chosen)
        found = garbage((m.lanes * access.accesses,), access.dtype)
        at = np.arange(found.size)[lanes]
        for memory, part in parts_of(m, access, addresses, chosen):
            conflict = memory.change(addresses[part], access.size, who[part], m.order)
            if conflict is not None:
                raise race(m, access, memory, addresses[part], who[part], conflict, "changes")
            bits = memory.view(access.size)
            index = memory.position(addresses[part]) // access.size
            values = [v[part] for v in given]
            if op.kind == "cas":
                old = atomic.cas(bits, index, *(v.view(bits.dtype) for v in values))
            else:
                old = atomic.rmw(op.kind, dtype, bits, index, values[0])
            memory.changed = memory.changed or bool((bits[index] != old.view(bits.dtype)).any())
            found[at[part]] = old.view(access.dtype)
        m.values[op.result] = found.reshape(m.lanes, access.accesses)

    return step
