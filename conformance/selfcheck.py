"""Checks that each numeric case can fail: somewhere it must reject zeros, stale memory, a scaled result, a lost term.

A wrong answer that no instance of a case rejects makes the case an error. The judgement is over a case and output
dtype as a whole, because single instances may rightly accept one (every result of `zeros_products` is zero).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oracles.compare import Tolerance, self_check

# What must be rejected somewhere. `right` is the opposite: the rounded reference itself must always pass.
MUST_REJECT = ("zeros", "stale", "scaled", "dropped", "shifted")


@dataclass
class Teeth:
    """What one case (and output and dtype) rejected so far."""

    tried: int = 0
    nonzero: int = 0
    accepted: dict[str, int] = field(default_factory=dict)
    wrong_reference: str = ""


class SelfCheck:
    """Collects over a run what wrong answers each case would have accepted."""

    def __init__(self) -> None:
        self.cases: dict[tuple[str, str, str], Teeth] = {}

    def observe(
        self,
        case: str,
        refs: Mapping[str, Any],
        output: str,
        dtype: str,
        limits: Tolerance,
        initial: np.ndarray,
    ) -> None:
        """Try the wrong answers on one instance's references."""
        teeth = self.cases.setdefault((case, output, dtype), Teeth())
        if np.asarray(refs[output]).size == 0:
            return
        teeth.tried += 1
        with np.errstate(all="ignore"):
            teeth.nonzero += bool(np.any(np.asarray(refs[output]) != 0))
            weaknesses = self_check(refs, output, initial.dtype, limits, stale=initial)
        for weakness in weaknesses:
            if weakness.wrong == "right":
                teeth.wrong_reference = weakness.text
            else:
                teeth.accepted[weakness.wrong] = teeth.accepted.get(weakness.wrong, 0) + 1

    def complaints(self) -> list[tuple[str, str]]:
        """(case, sentence) for each case that accepts a wrong answer in every instance."""
        found = []
        for (case, output, dtype), teeth in sorted(self.cases.items()):
            if teeth.wrong_reference:
                found.append((case, f"output {output!r} ({dtype}): {teeth.wrong_reference}"))
            for wrong in MUST_REJECT:
                if wrong == "zeros" and not teeth.nonzero:
                    continue  # a case about zeros; that it rejects untouched memory is what counts
                if teeth.tried and teeth.accepted.get(wrong, 0) == teeth.tried:
                    found.append(
                        (case, f"output {output!r} ({dtype}): {_SENTENCE[wrong]} in all {teeth.tried} instances")
                    )
        return found


_SENTENCE = {
    "zeros": "zeros everywhere would be accepted",
    "stale": "memory that was never written would be accepted",
    "scaled": "values off by 1 % (integers: by one) would be accepted",
    "dropped": "a result that lacks one term would be accepted",
    "shifted": "every value one element further would be accepted",
}
