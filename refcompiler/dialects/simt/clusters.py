"""Clusters: stores to the shared memory of other CTAs of the cluster, and the barrier of all its threads."""

from __future__ import annotations

from refcompiler.dialects.simt.asynchronous import Argument, PtxOp
from refcompiler.dialects.simt.ptx import INSTRUCTIONS, Instruction
from refcompiler.dialects.simt.registers import SIMT
from refcompiler.ir.core import Value
from refcompiler.ir.opdef import operand
from refcompiler.ir.types import BOOL, I32, I64, MBARRIER, DType, SharedType, element_of


class StAsync(PtxOp, name="st_async", effects={"write_shared"}, levels=SIMT, needs="has_clusters"):
    """Write ``value``, i32 or i64, to element ``index`` of ``buffer`` in the CTA number ``cta`` of the cluster, where
    ``predicate`` is true, and tell barrier ``bar_index`` of ``bar`` there when it has come (PTX st.async).

    The CTA counts the bytes of the value as those of a copy: it waits for the phase that expects them.
    Spec: exec.clusters
    """

    buffer = operand()
    index = operand()
    cta = operand()
    value = operand()
    bar = operand()
    bar_index = operand()
    predicate = operand(optional=True)

    @property
    def instruction(self) -> Instruction:
        return INSTRUCTIONS[f"st_async_{element_of(self.buffer.type).itemsize}"]

    @property
    def arguments(self) -> list[Argument]:
        return [(self.buffer, self.index), self.cta, self.value, (self.bar, self.bar_index)]

    def verify(self, require) -> None:
        shared = isinstance(self.buffer.type, SharedType) and element_of(self.buffer.type) in (I32, I64)
        require(shared, "ir.type", "st_async writes i32 or i64 to shared memory", "buffer")
        require(self.value.type is element_of(self.buffer.type), "ir.type", "st_async of another type", "value")
        numbers = all(v.type is I32 for v in (self.index, self.cta, self.bar_index))
        require(numbers, "ir.type", "indices and the number of a CTA are i32 scalars", "index")
        counts = isinstance(self.bar.type, SharedType) and element_of(self.bar.type) is MBARRIER
        require(counts, "ir.type", "st_async tells a barrier in shared memory", "bar")
        if self.predicate is not None:
            require(self.predicate.type is BOOL, "ir.type", "a predicate is a bool scalar", "predicate")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list) -> DType | None:
        return (None, I32, I32, element_of(operands[0].type), None, I32, BOOL)[index]


class ClusterBarrier(PtxOp, name="cluster_barrier", effects={"barrier"}, levels=SIMT, needs="has_clusters"):
    """All threads of the cluster arrive; what they wrote before is visible to all of them after (PTX barrier.cluster).
    Spec: exec.clusters
    """

    @property
    def instruction(self) -> Instruction:
        text = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
        return Instruction("cluster_barrier", text)
