"""Steps of ldmatrix and stmatrix: rows of 16 bytes of shared memory and the words that the lanes of a warp hold."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects.simt.matrices import MATRIX_ROWS, ROW_BYTES, Ldmatrix, MatrixOp, Stmatrix
from refcompiler.ir.types import element_of
from refcompiler.simulator.access import Access, race
from refcompiler.simulator.machine import WARP, Machine, Step, numpy_type, registers_of, steps
from refcompiler.simulator.memory import Conflict, items
from refcompiler.simulator.tensor_cores import check_whole_warps

_WORDS = 4  # in a row


@steps("ldmatrix")
def ldmatrix(op: Ldmatrix) -> Step:
    dtype = numpy_type(op.result.type)

    def step(m: Machine) -> None:
        places, who, here = _rows(m, op, store=False)
        access = _access(op)
        if (unset := m.shared.unwritten(places, ROW_BYTES)).any():
            what = f"{m.thread(int(who[unset.argmax()] - m.who[0]))} names a row that no thread has written"
            raise m.error(op, "exec.shared_memory#E4", what, "index")
        found = m.shared.read(places, ROW_BYTES, who, m.order)
        if isinstance(found, Conflict):
            raise race(m, access, m.shared, places, who, found, "reads")
        rows = found.view(np.uint8).reshape(len(here), -1, op.count, MATRIX_ROWS, ROW_BYTES)
        out = np.zeros((m.lanes // WARP, WARP, registers_of(op.result)), dtype)
        out[here] = _words(rows, op.trans).view(dtype).reshape(len(here), WARP, -1)
        m.values[op.result] = out.reshape(m.lanes, -1)

    return step


@steps("stmatrix")
def stmatrix(op: Stmatrix) -> Step:
    size, dtype = registers_of(op.value), numpy_type(op.value.type)

    def step(m: Machine) -> None:
        places, who, here = _rows(m, op, store=True)
        values = np.ascontiguousarray(m.full(op.value, size), dtype).reshape(-1, WARP, size)[here]
        words = np.ascontiguousarray(values).view(np.uint8).reshape(len(here), WARP, -1, op.count, 4)
        rows = _rows_of(words, op.trans)
        found = m.shared.write(places, rows.reshape(-1).view(items(ROW_BYTES)), who, m.order)
        if found is not None:
            raise race(m, _access(op), m.shared, places, who, found, "writes")

    return step


def _access(op: MatrixOp) -> Access:
    dtype = element_of(op.operands[0].type).numpy
    return Access(op, 1, ROW_BYTES // dtype.itemsize, dtype)


def _rows(m: Machine, op: Ldmatrix | Stmatrix, store: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the warps that come here the byte of each row, in the order (warp, access, matrix, row), the thread that names
    it, and the warps."""
    check_whole_warps(m, op)
    accesses, rows, size = registers_of(op.index), op.count * MATRIX_ROWS, element_of(op.buffer.type).itemsize
    active = m.narrowed(np.ones(1, bool)).reshape(-1, WARP)
    here = np.flatnonzero(active.any(axis=1))
    index = m.full(op.index, accesses).astype(np.int64)
    naming = np.zeros((m.lanes // WARP, WARP), bool)
    naming[here, :rows] = True
    if m.counts is not None:
        offsets = (index * size).T
        m.counts.shared_access(offsets, np.broadcast_to(naming.reshape(-1), offsets.shape), ROW_BYTES, store)
    mine = index.reshape(-1, WARP, accesses)[here][:, :rows].transpose(0, 2, 1).reshape(-1)
    who = np.repeat(m.who.reshape(-1, WARP)[here][:, None, :rows], accesses, axis=1).reshape(-1)
    lanes = who - m.who[0]
    outside = (mine < 0) | (mine + ROW_BYTES // size > op.buffer.type.count)
    if outside.any():
        at = int(outside.argmax())
        what = f"{m.thread(int(lanes[at]))} names the row from element {int(mine[at])} on"
        raise m.error(op, "exec.shared_memory#E2", f"{what} of a buffer of {op.buffer.type.count} elements", "index")
    places = mine * size + op.buffer.owner.offset
    if (wrong := places % ROW_BYTES != 0).any():
        what = f"{m.thread(int(lanes[int(wrong.argmax())]))} names a row at no multiple of {ROW_BYTES} bytes"
        raise m.error(op, "exec.shared_memory#E3", what, "index")
    return places + lanes // m.threads * m.stride, who, here


def _words(rows: np.ndarray, trans: bool) -> np.ndarray:
    """(warp, access, matrix, row, bytes) as the bytes of each (warp, lane, access, matrix, word)."""
    if trans:  # lane = column * 4 + pair of rows
        pairs = rows.reshape(*rows.shape[:3], 4, 2, 8, 2).transpose(0, 5, 3, 1, 2, 4, 6)
        return np.ascontiguousarray(pairs.reshape(len(rows), WARP, *rows.shape[1:3], 4))
    words = rows.reshape(*rows.shape[:3], MATRIX_ROWS, _WORDS, 4).transpose(0, 3, 4, 1, 2, 5)
    return np.ascontiguousarray(words.reshape(len(rows), WARP, *rows.shape[1:3], 4))


def _rows_of(words: np.ndarray, trans: bool) -> np.ndarray:
    """The inverse of :func:`_words`."""
    warps, _, accesses, count, _ = words.shape
    if trans:
        pairs = words.reshape(warps, 8, 4, accesses, count, 2, 2).transpose(0, 3, 4, 2, 5, 1, 6)
        return np.ascontiguousarray(pairs.reshape(warps, accesses, count, MATRIX_ROWS, ROW_BYTES))
    lanes = words.reshape(warps, MATRIX_ROWS, _WORDS, accesses, count, 4).transpose(0, 3, 4, 1, 2, 5)
    return np.ascontiguousarray(lanes.reshape(warps, accesses, count, MATRIX_ROWS, ROW_BYTES))
