"""The ops, by family; importing this package fills the registry."""

from refcompiler.dialects import atomic, clusters, elementwise, laid_out, rings, scf, stages
from refcompiler.dialects.simt import asynchronous, matrices, registers, roles, tensor_cores, thread, warpgroup
from refcompiler.dialects.simt import clusters as simt_clusters
from refcompiler.dialects.simt import memory as simt_memory
from refcompiler.dialects.tile import descriptor, dot, memory, program, reduction, shape

__all__ = [
    "asynchronous",
    "atomic",
    "clusters",
    "descriptor",
    "dot",
    "elementwise",
    "laid_out",
    "matrices",
    "memory",
    "program",
    "reduction",
    "registers",
    "rings",
    "roles",
    "scf",
    "shape",
    "simt_clusters",
    "simt_memory",
    "stages",
    "tensor_cores",
    "thread",
    "warpgroup",
]
