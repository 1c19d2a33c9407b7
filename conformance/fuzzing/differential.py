"""One generated kernel on several targets: each must compile it and leave the same arrays behind.

The judge is the evaluation of the kernel as it was drawn (`evaluation`). Where the optimiser contracts products and
sums (`enable_fp_fusion`), the targets are compared with each other, and the first one with the judge once more, without
contraction.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from conformance.adapters import Adapter, CallArgument, CompileRequest, Ran, Rejected, Unsupported, Valid
from conformance.buffers import GuardedArray, guarded
from conformance.dtypes import DTYPES, bits
from conformance.fuzzing.evaluation import evaluate
from conformance.fuzzing.inputs import contents
from conformance.fuzzing.nodes import Program
from conformance.fuzzing.rendering import ENTRY, source
from oracles.compare import Tolerance, judge

ARCH = "sm_90a"
FUSION = "enable_fp_fusion"


@dataclass(frozen=True)
class Difference:
    """What is wrong, and between whom. Kinds: rejected, crash, values, memory, text."""

    kind: str
    target: str
    against: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.target} against {self.against}: {self.message}"


@dataclass(frozen=True)
class Member:
    """One target of the comparison."""

    name: str
    adapter: Adapter
    runs: bool
    fused: bool = True


def request(program: Program, text: str, emit: Sequence[str] = ()) -> CompileRequest:
    """What each adapter is asked to compile."""
    signature = [(a.name, f"*{a.dtype}" + (":16" if a.aligned else "")) for a in program.arrays]
    signature += [(s.name, s.dtype + (f":{s.hint}" if s.hint else "")) for s in program.scalars]
    return CompileRequest(text, ENTRY, tuple(signature), (), tuple(program.options.items()), ARCH, tuple(emit))


def initial(program: Program) -> dict[str, np.ndarray]:
    """The arrays before the launch."""
    return {a.name: contents(a, program.programs) for a in program.arrays}


class Comparison:
    """The targets that one process compares."""

    def __init__(self, members: Sequence[Member], unoptimised: Adapter) -> None:
        self.members, self.unoptimised = members, unoptimised

    def differences(self, program: Program) -> list[Difference]:
        """Everything that is wrong with this program; empty if all agree."""
        text, before = source(program), initial(program)
        expected = evaluate(program, before)
        found: list[Difference] = []
        tile = self._compiled("tile", self.unoptimised, request(program, text, ("tile",)), found)
        if tile is None:
            return found
        self._judge(
            "tile",
            "the evaluation",
            program,
            self._run("tile", self.unoptimised, tile, program, before, found),
            expected,
            found,
        )
        contracted = False
        reference, judge_name = expected, "the evaluation"
        for member in self.members:
            stages = tuple(s for s in ("tile_opt", "laid_out", "simt") if s in member.adapter.info().stages)
            compiled = self._compiled(
                member.name, member.adapter, request(program, text, stages if member.name != "cuda" else ()), found
            )
            if compiled is None:
                continue
            if "tile_opt" in compiled.texts and program.options.get(FUSION, True):
                contracted = compiled.texts["tile_opt"].count(" fma ") != tile.texts["tile"].count(" fma ")
            self._texts(compiled.texts, member.name, found)
            if not member.runs:
                continue
            after = self._run(member.name, member.adapter, compiled, program, before, found)
            if after is None:
                continue
            if contracted and judge_name == "the evaluation":
                reference, judge_name = after, member.name
                self._uncontracted(program, text, before, expected, found)
                continue
            self._judge(member.name, judge_name, program, after, reference, found)
        self._texts(tile.texts, "tile", found)
        return found

    def _uncontracted(
        self,
        program: Program,
        text: str,
        before: Mapping[str, np.ndarray],
        expected: Mapping[str, np.ndarray],
        found: list[Difference],
    ) -> None:
        """The first target again, without contraction: then the evaluation is its judge."""
        member = self.members[0]
        plain = replace(program, options={**program.options, FUSION: False})
        compiled = self._compiled(member.name, member.adapter, request(plain, text), found)
        if compiled is not None:
            after = self._run(member.name, member.adapter, compiled, plain, before, found)
            self._judge(f"{member.name} without contraction", "the evaluation", program, after, expected, found)

    # --- steps
    def _compiled(self, name: str, adapter: Adapter, asked: CompileRequest, found: list[Difference]) -> Valid | None:
        try:
            answer = adapter.compile(asked)
        except Exception as e:
            found.append(Difference("crash", name, "the language", _crash(e)))
            return None
        if isinstance(answer, Valid):
            return answer
        found.append(Difference("rejected", name, "the language", _refusal(answer)))
        return None

    def _run(
        self,
        name: str,
        adapter: Adapter,
        compiled: Valid,
        program: Program,
        before: Mapping[str, np.ndarray],
        found: list[Difference],
    ) -> dict[str, np.ndarray] | None:
        arrays = {a.name: _guarded(a.name, a.role, before[a.name]) for a in program.arrays}
        arguments = [CallArgument(n, g.array, g.storage, g.offset) for n, g in arrays.items()]
        arguments += [CallArgument(s.name, s.value) for s in program.scalars]
        try:
            answer = adapter.run(compiled, program.grid, arguments)
        except Exception as e:
            found.append(Difference("crash", name, "the language", _crash(e)))
            return None
        if not isinstance(answer, Ran):
            found.append(Difference("rejected", name, "the language", _refusal(answer)))
            return None
        for g in arrays.values():
            complaint = g.complaint()
            if complaint:
                found.append(Difference("memory", name, "the language", complaint))
        return {n: g.array for n, g in arrays.items()}

    def _judge(
        self,
        name: str,
        against: str,
        program: Program,
        after: Mapping[str, np.ndarray] | None,
        expected: Mapping[str, np.ndarray],
        found: list[Difference],
    ) -> None:
        if after is None:
            return
        for a in program.arrays:
            if a.role == "in":
                continue
            message = unlike(after[a.name], expected[a.name], a.ulps)
            if message:
                found.append(Difference("values", name, against, f"{a.name}{message}"))
                return

    def _texts(self, texts: Mapping[str, str], name: str, found: list[Difference]) -> None:
        """Every stage's text parses back to the same text."""
        for stage, text in texts.items():
            try:
                answer = self.unoptimised.transform(text, ())
            except Exception as e:
                found.append(Difference("crash", name, "the text of IR", f"{stage}: {_crash(e)}"))
                continue
            if isinstance(answer, Rejected | Unsupported):
                found.append(Difference("text", name, "the text of IR", f"{stage}: {_refusal(answer)}"))
            elif answer.text.strip() != text.strip():
                message = f"{stage} prints differently once parsed:\n{_changed_lines(text, answer.text)}"
                found.append(Difference("text", name, "the text of IR", message))


def unlike(got: np.ndarray, expected: np.ndarray, ulps: int) -> str:
    """How two arrays differ: in any bit, NaN being one value, or by more than a bound; empty if they do not."""
    if ulps:
        result = judge(got, {"out": expected}, "out", Tolerance("ulp", ulp=2.0 * ulps + 8, absolute=2.0**-20))
        return "" if result.ok else f": {result.message}"
    same = bits(got) == bits(expected)
    if got.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):
            same |= np.isnan(got) & np.isnan(expected)
    if same.all():
        return ""
    (place,) = np.nonzero(~same)
    i = int(place[0])
    return f"[{i}] is {_shown(got[i])}, not {_shown(expected[i])}; so are {len(place) - 1} more elements"


def _changed_lines(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.strip().splitlines(), after.strip().splitlines(), lineterm="", n=0)
    return "\n".join(list(lines)[2:8])


def _shown(value: np.generic) -> str:
    raw = int(bits(np.asarray([value]))[0])
    return f"{value!s} (0x{raw:0{2 * value.dtype.itemsize}x})"


def _guarded(name: str, role: str, before: np.ndarray) -> GuardedArray:
    dtype = next(d.name for d in DTYPES.values() if d.numpy == before.dtype)
    return guarded(name, role, dtype, before.shape, before, 0)


def _crash(e: Exception) -> str:
    place = traceback.extract_tb(e.__traceback__)[-1]
    return f"{type(e).__name__}: {e} (at {Path(place.filename).name}:{place.lineno})"


def _refusal(answer: Rejected | Unsupported) -> str:
    if isinstance(answer, Rejected):
        return f"{answer.phase} {answer.id}: {answer.rendered or answer.message}"
    return f"unsupported: {answer.capability} {answer.message}"
