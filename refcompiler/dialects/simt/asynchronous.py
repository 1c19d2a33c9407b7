"""Asynchronous copies into and out of shared memory, and the barriers in memory that wait for them."""

from __future__ import annotations

from refcompiler.dialects.simt.ptx import INSTRUCTIONS, POLICIES, Instruction, cp_async_name
from refcompiler.dialects.simt.registers import SIMT, count_of
from refcompiler.dialects.simt.tensor_maps import LARGEST_BOX, MOST_DIMENSIONS
from refcompiler.dialects.tile.memory import pointee
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BOOL, I32, MBARRIER, TENSOR_MAP, DType, SharedType, Type, element_of

Argument = tuple[Value, Value] | Value | int  # an element of a buffer, a value, a number

COPY_BYTES = (4, 8, 16)
MOST_ARRIVALS = (1 << 20) - 1
MOST_BYTES = (1 << 20) - 1
MOST_PENDING = 7
FEWEST_REGISTERS, MOST_REGISTERS = 24, 256


class PtxOp(Op):
    """An op that is one PTX instruction in every backend."""

    @property
    def instruction(self) -> Instruction:
        """What it is in PTX."""
        return INSTRUCTIONS[self.name]

    @property
    def arguments(self) -> list[Argument]:
        """What stands for the operands of the instruction."""
        return []


# --- copies of a few bytes by each thread
class CpAsync(PtxOp, name="cp_async", effects={"read", "write_shared"}, levels=SIMT, needs="has_async_copy"):
    """Copy ``width`` consecutive elements from each global pointer to each element ``index`` of ``buffer``, without
    waiting; zeros where ``mask`` is false (PTX cp.async). 4, 8 or 16 bytes, aligned to their number on both sides.
    ``eviction`` is their priority in L2.

    The thread has them after a ``cp_async_wait`` for its group, the others after a barrier that follows.
    Spec: exec.async_copies
    """

    buffer = operand()
    index = operand()
    pointer = operand()
    mask = operand(optional=True)
    width = attr(int, 1)
    eviction = attr(str, "")

    @property
    def bytes(self) -> int:
        return self.width * element_of(self.buffer.type).itemsize

    @property
    def instruction(self) -> Instruction:
        return INSTRUCTIONS[cp_async_name(self.bytes, self.eviction)]

    def verify(self, require) -> None:
        _check_element(self, require, self.buffer, self.index)
        count = count_of(self.index.type)
        same = pointee(self.pointer.type) is element_of(self.buffer.type)
        require(same, "ir.type", "cp_async between elements of two types", "pointer")
        require(self.eviction in ("", *POLICIES), "ir.attribute", lambda: f"no priority {self.eviction}", "eviction")
        require(self.bytes in COPY_BYTES, "exec.async_copies#E2", lambda: f"no copy of {self.bytes} bytes", "width")
        require(count_of(self.pointer.type) == count, "ir.type", "a pointer per access", "pointer")
        if self.mask is not None:
            fits = element_of(self.mask.type) is BOOL and count_of(self.mask.type) in (1, count)
            require(fits, "ir.type", "mask per access", "mask")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return (None, I32, None, BOOL)[index]


class CpAsyncCommit(PtxOp, name="cp_async_commit", effects={"commit"}, levels=SIMT, needs="has_async_copy"):
    """The copies of this thread since the last commit become a group.  Spec: exec.async_copies"""

    @property
    def instruction(self) -> Instruction:
        return Instruction("cp_async_commit", "cp.async.commit_group;")


class CpAsyncWait(PtxOp, name="cp_async_wait", effects={"wait"}, levels=SIMT, needs="has_async_copy"):
    """Wait until no more than the ``pending`` latest groups of this thread are on their way.
    Spec: exec.async_copies
    """

    pending = attr(int, 0)

    @property
    def instruction(self) -> Instruction:
        return Instruction("cp_async_wait", f"cp.async.wait_group {self.pending};")

    def verify(self, require) -> None:
        _check_pending(self, require)


# --- barriers in shared memory
class MbarrierAlloc(Op, name="mbarrier_alloc", effects={"alloc"}, levels=SIMT):
    """``count`` barriers in shared memory, 8 bytes each, which share their bytes with nothing.
    Spec: exec.mbarriers
    """

    count = attr(int)
    offset = attr(int, -1)

    def infer(self) -> list[Type]:
        return [SharedType(MBARRIER, self.count)]

    def verify(self, require) -> None:
        require(self.count > 0, "ir.attribute", lambda: f"{self.count} barriers", "count")


class MbarrierOp(PtxOp):
    """An op on barrier ``index`` of ``barrier``."""

    @property
    def arguments(self) -> list[Argument]:
        return [(self.barrier, self.index)]

    def verify(self, require) -> None:
        _check_barrier(self, require, self.barrier, self.index)

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return (None, I32, I32 if cls is MbarrierWait else BOOL)[index]


class MbarrierInit(MbarrierOp, name="mbarrier_init", effects={"mbarrier"}, levels=SIMT, needs="has_tma"):
    """A barrier whose phases each need ``arrivals``; its first phase begins.  Spec: exec.mbarriers"""

    barrier = operand()
    index = operand()
    predicate = operand(optional=True)
    arrivals = attr(int)

    @property
    def arguments(self) -> list[Argument]:
        return [(self.barrier, self.index), self.arrivals]

    def verify(self, require) -> None:
        super().verify(require)
        fits = 0 < self.arrivals <= MOST_ARRIVALS
        require(
            fits, "exec.mbarriers#E2", lambda: f"arrivals are 1 to {MOST_ARRIVALS}, got {self.arrivals}", "arrivals"
        )


class MbarrierExpectTx(MbarrierOp, name="mbarrier_expect_tx", effects={"mbarrier"}, levels=SIMT, needs="has_tma"):
    """Arrive, and let the phase wait for ``bytes`` more of copies as well.  Spec: exec.mbarriers"""

    barrier = operand()
    index = operand()
    predicate = operand(optional=True)
    bytes = attr(int)

    @property
    def arguments(self) -> list[Argument]:
        return [(self.barrier, self.index), self.bytes]

    def verify(self, require) -> None:
        super().verify(require)
        fits = 0 < self.bytes <= MOST_BYTES
        require(fits, "exec.mbarriers#E2", lambda: f"bytes are 1 to {MOST_BYTES}, got {self.bytes}", "bytes")


class MbarrierArrive(MbarrierOp, name="mbarrier_arrive", effects={"mbarrier"}, levels=SIMT, needs="has_tma"):
    """Arrive: what this thread did before is done for those who wait for the phase.  Spec: exec.mbarriers"""

    barrier = operand()
    index = operand()
    predicate = operand(optional=True)


class MbarrierWait(MbarrierOp, name="mbarrier_wait", effects={"mbarrier", "wait"}, levels=SIMT, needs="has_tma"):
    """Wait until the phase of ``parity`` is complete: 0 for the first, the third ..., 1 for the second, the fourth ...
    The phase before the first counts as complete.  Spec: exec.mbarriers
    """

    barrier = operand()
    index = operand()
    parity = operand()

    @property
    def arguments(self) -> list[Argument]:
        return [(self.barrier, self.index), self.parity]

    def verify(self, require) -> None:
        super().verify(require)
        require(self.parity.type is I32, "ir.type", lambda: f"a parity is an i32, not {self.parity.type}", "parity")


class FenceMbarrierInit(PtxOp, name="fence_mbarrier_init", effects={"fence"}, levels=SIMT, needs="has_tma"):
    """Barriers that this thread has initialised are ready for copies and other threads, after a barrier of these.
    Spec: exec.mbarriers
    """

    @property
    def instruction(self) -> Instruction:
        return Instruction("fence_mbarrier_init", "fence.mbarrier_init.release.cluster;")


class FenceProxyAsync(PtxOp, name="fence_proxy_async", effects={"fence"}, levels=SIMT, needs="has_tma"):
    """What this thread stored to shared memory is there for asynchronous copies and matrix products that follow it, or
    that a barrier orders after it.  Spec: exec.async_copies
    """

    @property
    def instruction(self) -> Instruction:
        return Instruction("fence_proxy_async", "fence.proxy.async.shared::cta;")


# --- grids that overlap
class GriddepWait(PtxOp, name="griddep_wait", effects={"wait"}, levels=SIMT, needs="has_tma"):
    """Wait until what was queued before this grid is complete and seen; a kernel that has this op may begin before, and
    accesses no global memory until then (PTX griddepcontrol.wait).  Spec: exec.dependent_grids
    """

    @property
    def instruction(self) -> Instruction:
        return Instruction("griddep_wait", "griddepcontrol.wait;")


class GriddepLaunch(PtxOp, name="griddep_launch", effects={"wait"}, levels=SIMT, needs="has_tma"):
    """From here on in every block, the next grid may begin, if it waits by itself for the end of this one
    (PTX griddepcontrol.launch_dependents).  Spec: exec.dependent_grids
    """

    @property
    def instruction(self) -> Instruction:
        return Instruction("griddep_launch", "griddepcontrol.launch_dependents;")


# --- copies of boxes by one thread
class TensorMapOp(Op, name="tensor_map", levels=SIMT):
    """Tensor map ``descriptor`` of the function's attribute ``tensor_maps``: a hidden parameter, which the launcher
    makes.  Spec: exec.tensor_maps
    """

    descriptor = attr(int)

    def infer(self) -> list[Type]:
        return [TENSOR_MAP]


class PrefetchTensorMap(PtxOp, name="prefetch_tensor_map", effects={"tma"}, levels=SIMT, needs="has_tma"):
    """Have a tensor map ready for copies that follow, which wait for it otherwise.  Spec: exec.tensor_maps"""

    map = operand()
    predicate = operand(optional=True)

    @property
    def arguments(self) -> list[Argument]:
        return [self.map]

    def verify(self, require) -> None:
        _check_map(self, require)

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL if index == 1 else None


class TmaOp(PtxOp):
    """A copy of a box whose first element has ``coordinates``, from the outermost dimension inwards; the last one is at
    a multiple of 16 bytes. ``rest`` ends with three operands, of which the last is the predicate."""

    @property
    def coordinates(self) -> list[Value]:
        return self.rest[:-3]

    @property
    def predicate(self) -> Value | None:
        return self.rest[-1]

    @property
    def instruction(self) -> Instruction:
        return INSTRUCTIONS[f"{self.name}_{len(self.box)}d"]

    def check_box(self, require) -> None:
        rank = len(self.box)
        _check_map(self, require)
        require(1 <= rank <= MOST_DIMENSIONS, "ir.attribute", lambda: f"a box of {rank} dimensions", "box")
        inside = all(isinstance(n, int) and 0 < n <= LARGEST_BOX for n in self.box)
        require(inside, "ir.attribute", lambda: f"extents of a box are 1 to {LARGEST_BOX}, got {self.box}", "box")
        count = len(self.coordinates)
        require(count == rank, "ir.arity", lambda: f"{count} coordinates of a box of {rank} dimensions")
        for coordinate in self.coordinates:
            fits = coordinate is not None and coordinate.type is I32
            require(fits, "ir.type", lambda: f"{self.name} takes i32 coordinates")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL if index == len(operands) - 1 else I32


class TmaLoad(TmaOp, name="tma_load", effects={"tma", "write_shared"}, levels=SIMT, needs="has_tma"):
    """Copy the box at ``coordinates`` of the tensor of ``map`` to ``buffer`` from element ``index`` on, without waiting
    (PTX cp.async.bulk.tensor). Its bytes count down what barrier ``bar_index`` of ``bar`` expects in its phase.

    Operands: buffer, index, map, coordinates ..., bar, bar_index, predicate.  Spec: exec.async_copies
    """

    buffer = operand()
    index = operand()
    map = operand()
    rest = operand(optional=True, variadic=True)
    box = attr(tuple)

    @property
    def bar(self) -> Value:
        return self.rest[-3]

    @property
    def bar_index(self) -> Value:
        return self.rest[-2]

    @property
    def arguments(self) -> list[Argument]:
        return [(self.buffer, self.index), self.map, *reversed(self.coordinates), (self.bar, self.bar_index)]

    def verify(self, require) -> None:
        require(len(self.rest) > 3, "ir.arity", "tma_load takes coordinates, a barrier, its index and a predicate")
        _check_element(self, require, self.buffer, self.index)
        self.check_box(require)
        _check_barrier(self, require, self.bar, self.bar_index)


class TmaStore(TmaOp, name="tma_store", effects={"tma", "read_shared", "store"}, levels=SIMT, needs="has_tma"):
    """Copy ``buffer`` from element ``index`` on to the box at ``coordinates`` of the tensor of ``map``, without waiting
    (PTX cp.async.bulk.tensor). Elements outside the tensor are left out.

    Operands: map, coordinates ..., buffer, index, predicate.  Spec: exec.async_copies
    """

    map = operand()
    rest = operand(optional=True, variadic=True)
    box = attr(tuple)

    @property
    def buffer(self) -> Value:
        return self.rest[-3]

    @property
    def index(self) -> Value:
        return self.rest[-2]

    @property
    def arguments(self) -> list[Argument]:
        return [(self.buffer, self.index), self.map, *reversed(self.coordinates)]

    def verify(self, require) -> None:
        require(len(self.rest) > 3, "ir.arity", "tma_store takes coordinates, a buffer, its index and a predicate")
        _check_element(self, require, self.buffer, self.index)
        self.check_box(require)


class BulkCommit(PtxOp, name="bulk_commit", effects={"commit"}, levels=SIMT, needs="has_tma"):
    """The stores of boxes by this thread since the last commit become a group.  Spec: exec.async_copies"""

    @property
    def instruction(self) -> Instruction:
        return Instruction("bulk_commit", "cp.async.bulk.commit_group;")


class BulkWait(PtxOp, name="bulk_wait", effects={"wait"}, levels=SIMT, needs="has_tma"):
    """Wait until no more than the ``pending`` latest groups of stores of this thread are on their way; with ``read``
    only until the others have read shared memory, which may then be written again.  Spec: exec.async_copies
    """

    pending = attr(int, 0)
    read = attr(bool, False)

    @property
    def instruction(self) -> Instruction:
        return Instruction("bulk_wait", f"cp.async.bulk.wait_group{'.read' if self.read else ''} {self.pending};")

    def verify(self, require) -> None:
        _check_pending(self, require)


class SetMaxRegisters(PtxOp, name="set_max_registers", effects={"registers"}, levels=SIMT, needs="has_tma"):
    """The warps of a warpgroup, all together, take (``increase``) or give registers until each thread has ``count``
    (PTX setmaxnreg).  Spec: exec.roles
    """

    count = attr(int)
    increase = attr(bool)

    @property
    def instruction(self) -> Instruction:
        direction = "inc" if self.increase else "dec"
        return Instruction("set_max_registers", f"setmaxnreg.{direction}.sync.aligned.u32 {self.count};")

    def verify(self, require) -> None:
        fits = FEWEST_REGISTERS <= self.count <= MOST_REGISTERS and self.count % 8 == 0
        wanted = f"a multiple of 8 from {FEWEST_REGISTERS} to {MOST_REGISTERS}"
        require(fits, "exec.roles#E4", lambda: f"registers of a thread are {wanted}, got {self.count}", "count")


# --- rules
def _check_map(op: Op, require) -> None:
    require(op.map.type is TENSOR_MAP, "ir.type", lambda: f"a tensor map, not {op.map.type}", "map")
    named = isinstance(op.map.owner, Op) and op.map.owner.name == "tensor_map"
    require(named, "exec.tensor_maps#E1", "a tensor map is named where it is used, and neither carried nor chosen")


def _check_element(op, require, buffer: Value, index: Value) -> None:
    plain = buffer is not None and isinstance(buffer.type, SharedType) and element_of(buffer.type) is not MBARRIER
    require(plain, "ir.type", lambda: f"{op.name} needs a shared buffer, not {_shown(buffer)}")
    fits = index is not None and element_of(index.type) is I32
    require(fits, "ir.type", lambda: f"{op.name} is indexed by i32, not {_shown(index)}")


def _check_barrier(op, require, barrier: Value, index: Value) -> None:
    fits = barrier is not None and isinstance(barrier.type, SharedType) and element_of(barrier.type) is MBARRIER
    require(fits, "ir.type", lambda: f"{op.name} needs barriers, not {_shown(barrier)}")
    fits = index is not None and index.type is I32
    require(fits, "ir.type", lambda: f"the index of a barrier is an i32, not {_shown(index)}")


def _shown(value: Value | None) -> str:
    return "none" if value is None else str(value.type)


def _check_pending(op, require) -> None:
    fits = 0 <= op.pending <= MOST_PENDING
    require(
        fits, "exec.async_copies#E2", lambda: f"pending groups are 0 to {MOST_PENDING}, got {op.pending}", "pending"
    )
