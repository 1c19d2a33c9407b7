"""Steps of matrix products on tensor cores: the fragments of a warp as matrices, exact products, sums in f64."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects.simt.tensor_cores import MmaSync
from refcompiler.ir.core import Op
from refcompiler.ir.types import F32, DType
from refcompiler.layouts import LinearLayout, mma_accumulator, mma_operand_a, mma_operand_b
from refcompiler.simulator.machine import WARP, Machine, Step, registers_of, steps

_TF32 = np.uint32(0xFFFFE000)  # the bits of an f32 that count


@steps("mma_sync")
def mma_sync(op: MmaSync) -> Step:
    """PTX mma.sync: each tile along k is added to the accumulator, which is rounded then."""
    (m_tiles, n_tiles, k_tiles), (m, n, k) = op.tiles, op.shape
    type_a, type_b, type_c = op.elements
    one = (1, 1)
    in_a, in_b = mma_operand_a((m, k), one, type_a.itemsize), mma_operand_b((k, n), one, type_b.itemsize)
    in_c = mma_accumulator((m, n), one)
    registers = [registers_of(v) for v in op.operands]

    def step(machine: Machine) -> None:
        check_whole_warps(machine, op)
        a, b, c = (machine.full(v, count) for v, count in zip(op.operands, registers, strict=True))
        x = _matrices(as_numbers(a, type_a), in_a, (m_tiles, k_tiles))
        y = _matrices(as_numbers(b, type_b), in_b, (n_tiles, k_tiles))
        z = _matrices(c.astype(np.float64), in_c, (m_tiles, n_tiles))
        for t in range(k_tiles):
            z = rounded(z + x[:, :, None, t] @ y[:, None, :, t], type_c)
        machine.values[op.result] = _fragments(z, in_c).astype(type_c.numpy)

    return step


def check_whole_warps(m: Machine, op: Op) -> None:
    """Raise the error of an op that some lanes of a warp do not come to."""
    if m.active is None:
        return
    active = m.active.reshape(-1, WARP)
    parted = active.any(axis=1) & ~active.all(axis=1)
    if parted.any():
        warp = int(parted.argmax())
        lane = warp * WARP + int((~active[warp]).argmax())
        what = f"{m.thread(lane)} does not take part with the other lanes of its warp"
        raise m.error(op, "exec.tensor_cores#E3", what, notes=["all lanes of a warp execute it together"])


def as_numbers(x: np.ndarray, dtype: DType) -> np.ndarray:
    """What a tensor core takes the elements for."""
    if dtype is F32:
        x = (np.ascontiguousarray(x).view(np.uint32) & _TF32).view(np.float32)
    return x.astype(np.float64)


def rounded(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Sums as an accumulator holds them: floats rounded, integers wrapped."""
    if dtype.is_float:
        return x.astype(dtype.numpy).astype(np.float64)
    return x.astype(np.int64).astype(np.int32).astype(np.float64)


def _places(layout: LinearLayout) -> np.ndarray:
    """The position in the matrix, row by row, of each (lane, register)."""
    return np.array([[layout.packed_at(register=r, lane=i) for r in range(layout.num_registers)] for i in range(WARP)])


def _matrices(x: np.ndarray, layout: LinearLayout, tiles: tuple[int, int]) -> np.ndarray:
    """Fragments (lanes, registers) as matrices (warps, *tiles, rows, columns)."""
    warps = len(x) // WARP
    tiled = x.reshape(warps, WARP, *tiles, layout.num_registers).transpose(0, 2, 3, 1, 4)
    out = np.empty((warps, *tiles, layout.shape[0] * layout.shape[1]), x.dtype)
    out[..., _places(layout)] = tiled
    return out.reshape(warps, *tiles, *layout.shape)


def _fragments(x: np.ndarray, layout: LinearLayout) -> np.ndarray:
    """The inverse of :func:`_matrices`."""
    warps, tiles = len(x), x.shape[1:3]
    tiled = x.reshape(warps, *tiles, -1)[..., _places(layout)]
    return tiled.transpose(0, 3, 1, 2, 4).reshape(warps * WARP, -1)
