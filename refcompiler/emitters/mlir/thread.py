"""Which thread and program this is, and exchange between the threads of a warp or a CTA."""

from __future__ import annotations

from refcompiler.dialects.simt.thread import ALL_LANES
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.writer import Writer, writes
from refcompiler.ir.core import Op
from refcompiler.ir.types import element_of

_ALL = -1  # every lane of the warp takes part


@writes("thread_id")
def write_thread_id(w: Writer, op: Op) -> None:
    w.define(op, "nvvm.read.ptx.sreg.tid.x : i32")


@writes("program_id", "num_programs")
def write_program(w: Writer, op: Op) -> None:
    register = "ctaid" if op.name == "program_id" else "nctaid"
    w.define(op, f"nvvm.read.ptx.sreg.{register}.{'xyz'[op.axis]} : i32")


@writes("barrier")
def write_barrier(w: Writer, op: Op) -> None:
    if w.func.attrs["threads"] > 32:
        w.line("nvvm.barrier0")
    else:
        w.line(f"nvvm.bar.warp.sync {w.constant(_ALL)} : i32")


@writes("named_barrier")
def write_named_barrier(w: Writer, op: Op) -> None:
    w.line(f"nvvm.barrier id = {w.constant(op.id)} number_of_threads = {w.constant(op.threads)}")


# PTX's name of each shuffle, and the last or first lane that it may read from.
_SHUFFLES = {"shfl_xor": ("bfly", 31), "shfl_idx": ("idx", 31), "shfl_up": ("up", 0), "shfl_down": ("down", 31)}


@writes(*_SHUFFLES)
def write_shuffle(w: Writer, op: Op) -> None:
    kind, bound = _SHUFFLES[op.name]
    if op.name == "shfl_idx":
        lane = w.value(op.lane)
    else:
        lane = w.constant(op.mask if op.name == "shfl_xor" else op.delta)
    element = t.element_type(element_of(op.x.type))
    members, end = w.constant(_signed(op.members)), w.constant(bound)

    def exchange(word: str) -> str:
        return w.let(f"nvvm.shfl.sync {kind} {members}, {word}, {lane}, {end} : i32 -> i32")

    w.set(op, [_through_words(w, register, element, exchange) for register in w.registers(op.x)])


@writes("vote_any")
def write_vote_any(w: Writer, op: Op) -> None:
    members = w.constant(_signed(ALL_LANES))
    w.set(op, [w.let(f"nvvm.vote.sync any {members}, {w.value(op.x)} -> i1")])


def _signed(bits: int) -> int:
    """32 bits as MLIR reads an i32."""
    return bits - (1 << 32) if bits >> 31 else bits


def _through_words(w: Writer, x: str, element: str, exchange) -> str:
    """``exchange`` on each 32-bit word of a register."""
    if element == t.GLOBAL:
        moved = _through_words(w, w.let(f"llvm.ptrtoint {x} : {t.GLOBAL} to i64"), "i64", exchange)
        return w.let(f"llvm.inttoptr {moved} : i64 to {t.GLOBAL}")
    if element in ("i64", "f64"):
        words = w.let(f"llvm.bitcast {x} : {element} to vector<2xi32>")
        moved = w.pack([exchange(word) for word in w.unpack(words, "i32", 2)], "i32")
        return w.let(f"llvm.bitcast {moved} : vector<2xi32> to {element}")
    if element in ("f16", "bf16"):
        bits = w.let(f"arith.bitcast {x} : {element} to i16")
        return w.let(f"arith.bitcast {_through_words(w, bits, 'i16', exchange)} : i16 to {element}")
    if element == "f32":
        bits = w.let(f"arith.bitcast {x} : f32 to i32")
        return w.let(f"arith.bitcast {exchange(bits)} : i32 to f32")
    if element == "i32":
        return exchange(x)
    wide = w.let(f"arith.extui {x} : {element} to i32")
    return w.let(f"arith.trunci {exchange(wide)} : i32 to {element}")
