"""Badges in the endpoint format of shields.io: conformance, clauses, mutants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.report.summary import Summary, percent


def badges(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Badge name to its JSON. A void run never shows a percentage: it proves nothing."""
    s = Summary(report)
    version = report["suite"]["version"]
    clauses = s.covered / s.must if s.must else None
    found = {
        "conformance": _badge(f"conformance {version}", s.score, s.verdict),
        "clauses": _badge("clauses", clauses, "passed" if s.total else "incomplete"),
    }
    mutation = report.get("mutation")
    if mutation is None:
        found["mutants"] = _plain("mutants", "not measured", "lightgrey")
    else:
        live = mutation["total"] - mutation.get("equivalent", 0)
        found["mutants"] = _badge("mutants", mutation["killed"] / live if live else None, "passed")
    return found


def _badge(label: str, score: float | None, verdict: str) -> dict[str, Any]:
    if verdict == "incomplete" or score is None:
        return _plain(label, "incomplete" if score is not None else "nothing judged", "red")
    color = "brightgreen" if score >= 1 and verdict == "passed" else "orange" if score >= 0.95 else "red"
    return _plain(label, percent(score), color)


def _plain(label: str, message: str, color: str) -> dict[str, Any]:
    return {"schemaVersion": 1, "label": label, "message": message, "color": color}
