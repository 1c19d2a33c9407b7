"""The process that judges programs: `python -m conformance.fuzzing.worker`, JSON lines in and out.

The first line says `targets`, `seed`, `plant` (a mutant, or null) and `smaller`; each later line is a list of indices.
Answers are `{claims}` once, `{start}` and `{done}` for each index, `{alive}` while a failing program is made smaller.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any, TextIO

from conformance.adapters import TargetUnavailable, load
from conformance.fuzzing.differential import Comparison, Difference, Member
from conformance.fuzzing.nodes import Program
from conformance.fuzzing.rendering import source
from conformance.fuzzing.reproducer import as_case, as_script
from conformance.fuzzing.search import Outcome, search

UNOPTIMISED = "conformance.adapters.reference:unoptimised"


def main(read: TextIO, write: TextIO) -> None:
    """Serve until the input ends."""

    def tell(**answer: Any) -> None:
        write.write(json.dumps(answer) + "\n")
        write.flush()

    request = json.loads(read.readline())
    if request["plant"] is not None:
        _apply(request["plant"])
    try:
        members = [Member(t, a, a.info().runs) for t in request["targets"] for a in [load(t)]]
    except TargetUnavailable as e:
        tell(unserved=str(e))
        return
    comparison = Comparison(members, load(UNOPTIMISED))
    tell(claims={m.name: _claims(m) for m in members})

    def judge(program: Program) -> list[Difference]:
        found = comparison.differences(program)
        tell(alive=True)
        return found

    for line in read:
        for index in json.loads(line):
            tell(start=index)
            outcome = search(request["seed"], index, judge, smaller=request["smaller"])
            tell(done=index, **_answer(outcome, request["seed"], index))


def _claims(member: Member) -> dict[str, Any]:
    info = member.adapter.info()
    return {"version": info.version, "runs": info.runs, "device": info.device, "why_not": info.why_not}


def _apply(mutant: dict[str, str]) -> None:
    from conformance.mutation.patching import install

    install(mutant["module"], mutant["find"], mutant["replace"], lambda: None)


def _answer(outcome: Outcome, seed: int, index: int) -> dict[str, Any]:
    program = outcome.program
    if not outcome.differences:
        return {"operations": dict(Counter(e.op for e in program.expressions()))}
    first = outcome.differences[0]
    return {
        "differences": [vars(d) for d in outcome.differences],
        "attempts": outcome.attempts,
        "source": source(program),
        "case": as_case(program, first, seed, index),
        "script": as_script(program, first, seed, index),
    }


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever else prints must not end up among the answers
    main(sys.stdin, answers)
