"""Layouts of blocks over registers, lanes, warps and shared memory: one algebra of linear maps over GF(2)."""

from refcompiler.layouts.addressing import (
    OwnerBits,
    Piece,
    are_disjoint,
    contiguous_elements,
    evaluate,
    index_pieces,
    is_additive,
    owner_bits,
    owner_registers,
    pieces_of,
    register_offsets,
    vector_groups,
)
from refcompiler.layouts.constructors import (
    blocked,
    blocked_for,
    in_every_thread,
    outer_product,
    row_major,
    swizzle_bytes,
    swizzled,
)
from refcompiler.layouts.conversion import Conversion, Shuffle, ShuffleRound, Swap, broadcast, conversion
from refcompiler.layouts.linear import LinearLayout
from refcompiler.layouts.reduction import Reduction, mixes_axis, reduction
from refcompiler.layouts.scan import Scan, Step, WarpExchange, is_scannable, scan, warp_exchange
from refcompiler.layouts.shared import SharedAccess, SharedExchange, shared_access, shared_exchange
from refcompiler.layouts.tensor_cores import batched, mma_accumulator, mma_operand_a, mma_operand_b, wgmma_accumulator

__all__ = [
    "Conversion",
    "LinearLayout",
    "OwnerBits",
    "Piece",
    "Reduction",
    "Scan",
    "SharedAccess",
    "SharedExchange",
    "Shuffle",
    "ShuffleRound",
    "Step",
    "Swap",
    "WarpExchange",
    "are_disjoint",
    "batched",
    "blocked",
    "blocked_for",
    "broadcast",
    "contiguous_elements",
    "conversion",
    "evaluate",
    "index_pieces",
    "is_additive",
    "is_scannable",
    "mixes_axis",
    "mma_accumulator",
    "mma_operand_a",
    "mma_operand_b",
    "outer_product",
    "owner_bits",
    "owner_registers",
    "pieces_of",
    "reduction",
    "register_offsets",
    "in_every_thread",
    "row_major",
    "scan",
    "shared_access",
    "shared_exchange",
    "swizzle_bytes",
    "swizzled",
    "vector_groups",
    "warp_exchange",
    "wgmma_accumulator",
]
