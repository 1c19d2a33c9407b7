"""PTX instructions as functions: what both backends print for ops that neither C++ nor LLVM has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Instruction:
    """An instruction, or a few, as the text of inline PTX: ``{0}`` stands for the first operand, ``{+0}`` for a
    constant that is added to its address.

    ``operands`` are names with their kinds: the address of a "shared" or "global" element, a tensor "map", a "word" of
    32 bits, a "long" one of 64. ``predicated`` says that a predicate may stand before the text; ``before`` is done by
    all threads.
    """

    name: str
    text: str
    operands: tuple[tuple[str, str], ...] = ()
    predicated: bool = False
    before: str = ""

    def inline(self, places: Sequence[str], predicate: str = "", added: Sequence[int] = ()) -> str:
        """The text with its operands, and what is ``added`` to the first of them, in bytes; where the word
        ``predicate`` is 0 nothing happens."""
        before, text = self.before, self.text
        for number, place in enumerate(places):
            distance = f" + {added[number]}" if number < len(added) and added[number] else ""
            text = text.replace(f"{{+{number}}}", distance)
            before, text = (part.replace(f"{{{number}}}", place) for part in (before, text))
        if predicate:
            return f"{{ {before}.reg .pred p; setp.ne.b32 p, {predicate}, 0; @p {text} }}"
        return f"{{ {before}{text} }}" if before else text


_BARRIER = ("barrier", "shared")
_WAIT = "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [{0}], {1}; @!done bra again; }"


# The last operand of an access with a cache hint for L2: what `createpolicy.fractional.L2::evict_first.b64 _, 1.0`
# gives on sm_80 to sm_100.
POLICIES = {"evict_first": "0x12F0000000000000", "evict_last": "0x14F0000000000000"}


def _cp_async(size: int, eviction: str = "") -> Instruction:
    """For sm_90a ptxas 12.9 and 13.0 give a copy with a hint the base of shared memory in a uniform register, beside
    its descriptor, and the GPU refuses what comes of it. A limit that no address reaches hides that it is a sum.
    """
    level = "cg" if size == 16 else "ca"  # only copies of 16 bytes may leave the first cache out
    text = f"cp.async.{level}.shared.global [{{0}}{{+0}}], [{{1}}{{+1}}], {size}, {{2}};"
    if eviction:
        text = text.replace("global [{0}", "global.L2::cache_hint [to").replace(";", f", {POLICIES[eviction]};")
        text = f"{{ .reg .b32 to; min.u32 to, {{0}}, 0x7fffffff; {text} }}"
    return Instruction(cp_async_name(size, eviction), text, (("to", "shared"), ("from", "global"), ("bytes", "word")))


def cp_async_name(size: int, eviction: str) -> str:
    """Of the instruction that copies ``size`` bytes with this priority in L2."""
    return f"cp_async_{size}_{eviction}" if eviction else f"cp_async_{size}"


def _tma(word: str, rank: int) -> Instruction:
    """A copy of a box; coordinates from the innermost dimension outwards, as PTX has them."""
    coordinates = tuple((f"x{i}", "word") for i in range(rank))
    box = "[{1}, {" + ", ".join(f"{{{i + 2}}}" for i in range(rank)) + "}]"
    start = f"cp.async.bulk.tensor.{rank}d"
    if word == "load":
        text = f"{start}.shared::cluster.global.mbarrier::complete_tx::bytes [{{0}}], {box}, [{{{rank + 2}}}];"
        operands = (("to", "shared"), ("map", "map"), *coordinates, _BARRIER)
    else:
        text = f"{start}.global.shared::cta.bulk_group {box}, [{{0}}];"
        operands = (("from", "shared"), ("map", "map"), *coordinates)
    return Instruction(f"tma_{word}_{rank}d", text, operands, predicated=True)


def _st_async(size: int, kind: str) -> Instruction:
    return Instruction(
        f"st_async_{size}",
        f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b{8 * size} [there], {{2}}, [bar];",
        (("to", "shared"), ("cta", "word"), ("value", kind), _BARRIER),
        predicated=True,
        before=".reg .b32 there, bar; "
        "mapa.shared::cluster.u32 there, {0}, {1}; mapa.shared::cluster.u32 bar, {3}, {1}; ",
    )


# Barriers: without .release.cluster, which would flush the caches of the GPU before each arrival.
INSTRUCTIONS = {
    i.name: i
    for i in (
        *(_cp_async(size, eviction) for size in (4, 8, 16) for eviction in ("", *POLICIES)),
        _st_async(4, "word"),
        _st_async(8, "long"),
        Instruction(
            "mbarrier_init", "mbarrier.init.shared::cta.b64 [{0}], {1};", (_BARRIER, ("arrivals", "word")), True
        ),
        Instruction(
            "mbarrier_expect_tx",
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};",
            (_BARRIER, ("bytes", "word")),
            True,
        ),
        Instruction("mbarrier_arrive", "mbarrier.arrive.shared::cta.b64 _, [{0}];", (_BARRIER,), True),
        Instruction("mbarrier_wait", _WAIT, (_BARRIER, ("parity", "word"))),
        Instruction("prefetch_tensor_map", "prefetch.tensormap [{0}];", (("map", "map"),), True),
        *(_tma(word, rank) for word in ("load", "store") for rank in (1, 2, 3, 4, 5)),
    )
}
