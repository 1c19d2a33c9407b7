"""Derandomised Hypothesis: `draw:` strategies of a case, and the loop that draws, runs and shrinks.

Strategies: `int(lo, hi, edges=[...])`, `sample([...])`. Edges are drawn about half of the time.
"""

from __future__ import annotations

import ast
from typing import Any

from conformance.expressions import ExpressionError

STRATEGIES = ("int", "sample")


def check_strategy(text: str) -> ast.Call:
    """The call of a strategy text; raises ExpressionError."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as e:
        raise ExpressionError(f"not a strategy: {e.msg}", max(0, (e.offset or 1) - 1)) from None
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in STRATEGIES):
        raise ExpressionError("a strategy is int(lo, hi, edges=[...]) or sample([...])")
    try:
        arguments(node)
    except ValueError:
        raise ExpressionError("strategy arguments are plain numbers, texts and lists") from None
    return node


def arguments(node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    return [ast.literal_eval(a) for a in node.args], {k.arg or "": ast.literal_eval(k.value) for k in node.keywords}
