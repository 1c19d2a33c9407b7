"""Remarks: what the passes that make kernels fast did and what they left, where in the source, why, and what helps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from refcompiler.errors import located
from refcompiler.source import Span


class Refusal(NamedTuple):
    """Why something is left as it is, and what the author of the kernel can do about it."""

    message: str
    advice: str = ""

    def after(self, what: str) -> Refusal:
        """The same as the reason of ``what``."""
        return self._replace(message=f"{what}: {self.message}")


@dataclass(frozen=True)
class Remark:
    """What the pass ``step`` did (``applied``) or left at ``span``; ``advice`` is for the author of the kernel."""

    step: str
    message: str
    span: Span | None = None
    advice: str = ""
    applied: bool = False

    def __str__(self) -> str:
        return located(f"remark[{self.step}]: {self.message}", self.span, (self.advice,) if self.advice else ())

    def to_json(self) -> dict[str, Any]:
        """As JSON; lines and columns from 1."""
        span = self.span
        place = {"file": span.file, "line": span.line, "column": span.col + 1} if span else {}
        return {"pass": self.step, "applied": self.applied, "message": self.message, "advice": self.advice, **place}


def remark(context: Any, step: str, at: Any, what: Refusal | str, applied: bool = False) -> None:
    """Record a remark on ``at``, an op or a function, if the context of a pass has a list for remarks."""
    found = getattr(context, "remarks", None)
    if found is not None:
        message, advice = (what, "") if isinstance(what, str) else what
        found.append(Remark(step, message, getattr(at, "span", None), advice, applied))


def recording(context: Any, into: list[Remark] | None) -> Any:
    """The context with another list for remarks; None: with none."""
    return context if getattr(context, "remarks", None) is None else replace(context, remarks=into)


def in_order(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """Each remark once, in the order of the source; those of one place in the order in which they were made."""
    return tuple(sorted(dict.fromkeys(remarks), key=_place))


def _place(remark: Remark) -> tuple[str, int, int]:
    return (remark.span.file, remark.span.line, remark.span.col) if remark.span else ("", 0, 0)
