"""Derandomised Hypothesis: `draw:` strategies of a case, and the loop that draws, runs and shrinks.

Strategies: `int(lo, hi, edges=[...])`, where edges are drawn about half of the time, and `sample([...])`.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import hypothesis
from hypothesis import strategies

from conformance.expressions import ExpressionError
from conformance.instances import Instance, allowed, format_value
from conformance.tolerance import Unjudgeable

if TYPE_CHECKING:
    from conformance.runner import Session

Outcome = tuple[str, str, dict[str, Any]]


def check_strategy(text: str) -> None:
    """Raise ExpressionError unless the text is a strategy."""
    name, args, keys = _parse(text)
    if name == "int":
        good = len(args) == 2 and all(type(a) is int for a in args) and args[0] <= args[1] and set(keys) <= {"edges"}
        if not good:
            raise ExpressionError("int takes a lower and an upper integer, and edges=[...]")
    elif not (len(args) == 1 and isinstance(args[0], list) and args[0] and not keys):
        raise ExpressionError("sample takes one list that is not empty")


def _parse(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as e:
        raise ExpressionError(f"not a strategy: {e.msg}", max(0, (e.offset or 1) - 1)) from None
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "sample")):
        raise ExpressionError("a strategy is int(lo, hi, edges=[...]) or sample([...])")
    try:
        args = [ast.literal_eval(a) for a in node.args]
        keys = {k.arg or "": ast.literal_eval(k.value) for k in node.keywords}
    except ValueError:
        raise ExpressionError("strategy arguments are plain numbers, texts and lists") from None
    return node.func.id, args, keys


def strategy(text: str) -> strategies.SearchStrategy[Any]:
    """The Hypothesis strategy of a text."""
    name, args, keys = _parse(text)
    if name == "sample":
        return strategies.sampled_from(args[0])
    low, high = args
    plain = strategies.integers(low, high)
    edges = sorted({low, high, *(e for e in keys.get("edges", ()) if low <= e <= high)})
    return strategies.one_of(strategies.sampled_from(edges), plain)


def smallest(draw: Mapping[str, str]) -> dict[str, Any]:
    """One value for each drawn parameter, enough to compile."""
    values = {}
    for name, text in draw.items():
        kind, args, _ = _parse(text)
        values[name] = args[0] if kind == "int" else args[0][0]
    return values


def run_examples(
    session: Session,
    instance: Instance,
    run_once: Callable[[Session, Instance, Mapping[str, Any], str], Outcome],
) -> Outcome:
    """Run drawn examples; the outcome of the smallest failing one, or a pass with the number that ran.

    The seed is the instance id's SHA-256, so the same examples are drawn on every machine.
    """
    case = instance.check
    failing: list[tuple[dict[str, Any], Outcome]] = []
    ran, slack = 0, 0.0

    @hypothesis.seed(int.from_bytes(hashlib.sha256(instance.id.encode()).digest()[:8], "big"))
    @hypothesis.settings(
        max_examples=case.hypothesis.max_examples,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
    )
    @hypothesis.given(strategies.fixed_dictionaries({n: strategy(t) for n, t in case.hypothesis.draw.items()}))
    def example(drawn: dict[str, Any]) -> None:
        nonlocal ran, slack
        params = {**instance.params, **drawn}
        hypothesis.assume(allowed(case, params))
        seed = f"{instance.id};" + ";".join(f"{k}={format_value(v)}" for k, v in drawn.items())
        outcome = run_once(session, instance, params, seed)
        ran += 1
        if outcome[0] not in ("pass", "warn"):
            failing.append((drawn, outcome))
            raise AssertionError(outcome[1])
        worst = outcome[2].get("numerics", {}).get("max_err_over_bound", 0.0)
        slack = max(slack, worst if isinstance(worst, float) else 0.0)

    try:
        example()
    except hypothesis.errors.Unsatisfiable as e:
        raise Unjudgeable(f"where: leaves nothing of what is drawn ({e})") from e
    except AssertionError:
        drawn, (status, message, fields) = failing[-1]
        shown = ", ".join(f"{k}={v}" for k, v in drawn.items())
        return status, f"for {shown}: {message}", fields
    if not ran:
        raise Unjudgeable("no example was drawn that where: allows")
    return "pass", f"{ran} examples", {"numerics": {"max_err_over_bound": slack}}
