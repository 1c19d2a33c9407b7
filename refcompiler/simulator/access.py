"""Steps of loads and stores: bounds, alignment and races checked, transactions counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from refcompiler.ir.core import Op
from refcompiler.ir.types import BOOL, DType, element_of
from refcompiler.simulator.machine import Machine, Step, garbage, numpy_type, registers_of, steps
from refcompiler.simulator.memory import MANY, Conflict, Memory, items

POINTER_BYTES = 8


@dataclass(frozen=True)
class Access:
    """One op: registers of addresses, elements an access has, bytes an element has."""

    op: Op
    accesses: int
    width: int
    dtype: np.dtype

    @property
    def size(self) -> int:
        return self.width * self.dtype.itemsize

    @property
    def shared(self) -> bool:
        return not hasattr(self.op, "pointer")

    @property
    def spec(self) -> str:
        return "exec.shared_memory" if self.shared else "exec.global_memory"


def element_bytes(type_) -> int:
    element = element_of(type_)
    return element.itemsize if isinstance(element, DType) else POINTER_BYTES


def _access(op: Op, data) -> Access:
    address = op.index if op.name.endswith("_shared") else op.pointer
    element = element_of(data.type)
    return Access(op, registers_of(address), op.width, np.dtype(np.uint8) if element is BOOL else numpy_type(element))


@steps("ld_global", "ld_shared")
def load(op: Op) -> Step:
    access = _access(op, op.results[0])
    is_bool = element_of(op.results[0].type) is BOOL
    other = getattr(op, "other", None)

    def step(m: Machine) -> None:
        addresses, chosen = addresses_of(m, access)
        read = _read(m, access, addresses, chosen)
        if chosen is None:
            out = read
        else:
            shape = (m.lanes, access.accesses * access.width)
            out = garbage(shape, access.dtype) if other is None else np.array(m.full(other, shape[1]), access.dtype)
            out = out.reshape(-1).view(items(access.size))
            out[chosen] = read
        values = out.view(access.dtype).reshape(m.lanes, -1)
        m.values[op.results[0]] = values != 0 if is_bool else values

    return step


@steps("st_global", "st_shared")
def store(op: Op) -> Step:
    access = _access(op, op.value)

    def step(m: Machine) -> None:
        addresses, chosen = addresses_of(m, access)
        data = np.ascontiguousarray(m.full(op.value, access.accesses * access.width).astype(access.dtype, copy=False))
        data = data.reshape(-1).view(items(access.size))
        if chosen is not None:
            data = data[chosen]
        who = who_of(m, access, chosen)
        for memory, part in parts_of(m, access, addresses, chosen):
            found = memory.write(addresses[part], data[part], who[part], m.order)
            if found is not None:
                raise race(m, access, memory, addresses[part], who[part], found, "writes")

    return step


def _read(m: Machine, access: Access, addresses: np.ndarray, chosen: np.ndarray | None) -> np.ndarray:
    """What is at the addresses, one item for each."""
    who = who_of(m, access, chosen)
    out: np.ndarray | None = None
    for memory, part in parts_of(m, access, addresses, chosen):
        if access.shared and (unset := memory.unwritten(addresses, access.size)).any():
            lane = int(who[unset.argmax()] - m.who[0])
            what = f"{m.thread(lane)} reads shared memory that no thread has written"
            raise m.error(access.op, "exec.shared_memory#E4", what, "index")
        found = memory.read(addresses[part], access.size, who[part], m.order)
        if isinstance(found, Conflict):
            raise race(m, access, memory, addresses[part], who[part], found, "reads")
        if isinstance(part, slice):
            return found
        out = np.empty(addresses.size, items(access.size)) if out is None else out
        out[part] = found
    return np.empty(0, items(access.size)) if out is None else out


def who_of(m: Machine, access: Access, chosen: np.ndarray | None) -> np.ndarray:
    """The thread of each access."""
    if chosen is None:
        return m.who if access.accesses == 1 else np.repeat(m.who, access.accesses)
    return m.who[chosen if access.accesses == 1 else chosen // access.accesses]


def addresses_of(m: Machine, access: Access) -> tuple[np.ndarray, np.ndarray | None]:
    """The address of each access that happens, and their indices in (lanes, accesses) order; None where all do.

    Shared memory of the CTAs of a machine lies side by side, so an address there is CTA * stride + offset.
    """
    op, shape = access.op, (m.lanes, access.accesses)
    mask = getattr(op, "mask", None)
    active = None
    if mask is not None:
        wanted = m.values[mask]
        active = np.broadcast_to(wanted if m.active is None else wanted & m.active[:, None], shape)
    elif m.active is not None:
        active = np.broadcast_to(m.active[:, None], shape)
    chosen = None if active is None or active.all() else np.flatnonzero(active.reshape(-1))
    if access.shared:
        places = m.full(op.index, access.accesses).astype(np.int64)
        _check_buffer(m, access, places, chosen)
        places = places * access.dtype.itemsize + op.buffer.owner.offset
    else:
        places = m.full(op.pointer, access.accesses)
    if m.counts is not None:
        count = m.counts.shared_access if access.shared else m.counts.global_access
        count(places.T, None if chosen is None else active.T, access.size, op.name.startswith("st_"))
    if access.shared and m.ctas > 1:
        places = places + (np.arange(m.lanes) // m.threads * m.stride)[:, None]
    flat = places.reshape(-1)
    if chosen is not None:
        flat = flat[chosen]
    wrong = flat % access.size != 0
    if wrong.any():
        kind = "offset" if access.shared else "address"
        what = f"an {kind} that is not a multiple of {access.size} bytes"
        raise _bad(m, access, int(wrong.argmax()), chosen, "E3", what)
    return flat, chosen


def _check_buffer(m: Machine, access: Access, places: np.ndarray, chosen: np.ndarray | None) -> None:
    count = access.op.buffer.type.count
    flat = places.reshape(-1) if chosen is None else places.reshape(-1)[chosen]
    outside = (flat < 0) | (flat + access.width > count)
    if outside.any():
        at = int(outside.argmax())
        first, last = int(flat[at]), int(flat[at]) + access.width - 1
        span = f"index {first}" if access.width == 1 else f"indices {first} to {last}"
        raise _bad(m, access, at, chosen, "E2", f"{span} of a buffer of {count} elements")


def parts_of(m: Machine, access: Access, addresses: np.ndarray, chosen: np.ndarray | None):
    if access.shared:
        return [(m.shared, slice(None))] if addresses.size else []
    found = m.memory.split(addresses, access.size)
    if found is None:
        outside = m.memory.outside(addresses, access.size)
        at = int(outside.argmax())
        partly = access.width > 1 and not m.memory.outside(addresses[at : at + 1], access.dtype.itemsize)[0]
        what = "an access that reaches past the end of its array" if partly else "an address outside every array"
        raise _bad(m, access, at, chosen, "E2", what)
    return found


def _bad(m: Machine, access: Access, at: int, chosen: np.ndarray | None, clause: str, what: str):
    """The error of the access with index ``at`` among those that happen."""
    index = at if chosen is None else int(chosen[at])
    lane, number = divmod(index, access.accesses)
    which = "" if access.accesses == 1 else f" in access {number}"
    field = "index" if access.shared else "pointer"
    return m.error(access.op, f"{access.spec}#{clause}", f"{m.thread(lane)} has {what}{which}", field)


def race(m: Machine, access: Access, memory: Memory, addresses, who, found: Conflict, verb: str):
    """Two threads at one place: of one CTA without a barrier, or of two CTAs."""
    accesses = max(1, access.size // memory.granule)
    at = found.at // accesses
    address, mine = int(addresses[at]), int(who[at])
    place = f"byte {address % m.stride} of shared memory" if access.shared else _array(m, address)
    other = "several threads" if found.other == MANY else m.name(found.other)
    verb_line = f"{m.name(mine)} {verb} {place} that {other} {found.did}"
    if not found.between_ctas:
        return m.error(access.op, f"{access.spec}#E1", f"{verb_line}, without {_missing(m, found)}")
    notes = ["programs of one launch run in any order: only atomics may meet"]
    return m.error(access.op, "memory.order#E1", f"{verb_line}: a conflict between programs", notes=notes)


def _missing(m: Machine, found: Conflict) -> str:
    """What would have ordered two accesses; a copy is waited for."""
    return "a wait for it" if m.copies is not None and m.copies.order.is_agent(found.other) else found.missing


def _array(m: Machine, address: int) -> str:
    for name, array in m.names.items():
        if array.ctypes.data <= address < array.ctypes.data + array.nbytes:
            return f"byte {address - array.ctypes.data} of {name}"
    return f"address {address:#x}"
