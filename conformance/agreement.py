"""Bit-for-bit agreement of targets: digests of what each left behind, and the instances on which they differ.

Only kernels of the exact vocabulary have digests: operations that leave no bit of their result open. NaN is one value;
elements that a case leaves unspecified do not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.dtypes import bits
from conformance.results import Result

Digests = Mapping[str, str]


def digest(array: np.ndarray, unspecified: Any = False) -> str:
    """Sixteen hexadecimal digits of dtype, shape and all bits of an array; NaN is one value, unspecified elements 0."""
    plain = bits(array).copy()
    if array.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):
            plain[np.isnan(array)] = np.iinfo(plain.dtype).max
    plain[np.broadcast_to(np.asarray(unspecified, bool), plain.shape)] = 0
    words = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
    words.update(plain.tobytes())
    return words.hexdigest()[:16]


def disagreements(results: Iterable[Result]) -> list[Result]:
    """A failure for each instance and output of which two targets left different bits, the first target the judge."""
    return [
        Result(
            first.i,
            other.impl,
            "fail",
            "agreement",
            message=f"{first.impl} and {other.impl} differ in the bits of {', '.join(outputs)}",
            file=other.file or first.file,
            line=other.line or first.line,
            repro=f"tilespec run '{first.i}' --target {first.impl},{other.impl}",
        )
        for first, other, outputs in _pairs(_comparable(results))
    ]


def summary(results: Iterable[Result]) -> dict[str, Any]:
    """How many instances were compared, on which targets, and how many of them differ."""
    groups = [g for g in _comparable(results) if len(g) > 1]
    return {
        "instances": len(groups),
        "targets": list(dict.fromkeys(r.impl for g in groups for r in g)),
        "disagreements": len({first.i for first, _, _ in _pairs(groups)}),
    }


def across(documents: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[Result]]:
    """Agreement over several runs, of one specification: as if their targets had run in one. The latest result counts
    where a target ran an instance more than once."""
    latest = documents[-1]["suite"]["spec_digest"]
    merged: dict[tuple[str, str], Result] = {}
    for document in documents:
        if document["suite"]["spec_digest"] == latest:
            for data in document["results"]:
                if data.get("bits"):
                    merged[data["i"], data["impl"]] = Result.from_json(data)
    return summary(merged.values()), disagreements(merged.values())


def sentences(documents: Sequence[Mapping[str, Any]]) -> tuple[list[str], bool]:
    """What `across` found, in words, and whether all agree."""
    found, wrong = across(sorted(documents, key=lambda d: str(d["run"]["started"])))
    lines = [f"{r.i}: {r.message}" for r in wrong]
    if found["instances"]:
        same = found["instances"] - found["disagreements"]
        targets = ", ".join(found["targets"])
        lines.append(
            f"{targets} left the same bits in {same} of {found['instances']} instances of the exact vocabulary"
        )
    else:
        lines.append("no instance of the exact vocabulary was run by two targets on one specification")
    return lines, not wrong


def _comparable(results: Iterable[Result]) -> list[list[Result]]:
    """Results with digests, by instance."""
    groups: dict[str, list[Result]] = {}
    for r in results:
        if r.bits:
            groups.setdefault(r.i, []).append(r)
    return list(groups.values())


def _pairs(groups: Iterable[Sequence[Result]]) -> list[tuple[Result, Result, list[str]]]:
    found = []
    for first, *others in groups:
        for other in others:
            outputs = [n for n in {**first.bits, **other.bits} if first.bits.get(n) != other.bits.get(n)]
            if outputs:
                found.append((first, other, outputs))
    return found
