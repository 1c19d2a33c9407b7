"""The process that runs cases on one mutant: `python -m conformance.mutation.child REQUEST ANSWERS`.

REQUEST is JSON: `spec` (folder), `target`, `select` (patterns), `tier`, and `mutant` (or null for the compiler as it
is). ANSWERS receives one JSON object a line as things happen, so that a process that dies leaves what it knew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from conformance.instances import Instance, collect
from conformance.loader import load_feature, load_suite
from conformance.model import Case, Feature


def main(request_file: str, answers_file: str) -> None:
    """Run the request; answers are `{reached}`, `{start}`, `{result}`, `{unserved}` and, at the end, `{done}`."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    with Path(answers_file).open("w", encoding="utf-8") as file:
        if request["mutant"] is not None:
            _apply(request["mutant"], file)
        _run(request, file)
        _tell(file, {"done": True})


def _tell(file: TextIO, answer: dict[str, Any]) -> None:
    file.write(json.dumps(answer) + "\n")
    file.flush()


def _apply(mutant: dict[str, str], file: TextIO) -> None:
    from conformance.mutation.patching import install

    told: list[bool] = []

    def reached() -> None:
        if not told:
            told.append(True)
            _tell(file, {"reached": True})

    install(mutant["module"], mutant["find"], mutant["replace"], reached)


def _run(request: dict[str, Any], file: TextIO) -> None:
    from conformance.adapters import TargetUnavailable, load
    from conformance.runner import Session, applies, run_instance

    target = request["target"]
    try:
        adapter = load(target)
    except TargetUnavailable as e:
        _tell(file, {"unserved": str(e)})
        return
    session = Session(target, adapter, snapshots=None, law=False)
    features = named_features(Path(request["spec"]), request["select"])
    for instance in collect(features, request["select"], request["tier"]):
        if not applies(instance, session.info) or instance.kind in ("ssa", "snapshot"):
            continue
        _tell(file, {"start": instance.id})
        result = run_instance(session, instance)
        answer = {"i": result.i, "status": result.status, "message": result.message[:400], "tier": instance.tier}
        _tell(file, {"result": {**answer, "witness": witness(instance, result.kind, session.info.name)}})


def witness(instance: Instance, kind: str, implementation: str) -> str:
    """What judged an instance, in the catalogue's words; `kind` is the result's (compiling alone judges nothing)."""
    if kind == "compile":
        return "compile"
    if implementation == "emulator":
        return "emulator"
    if kind == "oracle":
        assert isinstance(instance.check, Case) and instance.check.numerics is not None
        return "exact" if instance.check.numerics.mode == "exact" else "bound"
    return {"rewrite": "transform", "unpredictable": "negative"}.get(kind, kind)


def named_features(spec: Path, select: Sequence[str]) -> Iterable[Feature]:
    """Only the features that patterns like `area.name/case` name: reading every file takes longer than the cases."""
    names = [pattern.split("/")[0].split(".") for pattern in select]
    if not names or any(len(n) != 2 or "*" in n[0] for n in names):
        return load_suite(spec)
    files = {path for area, name in names for path in (spec / "features" / area).glob(f"{name}.yaml")}
    return [load_feature(path, spec) for path in sorted(files)]


if __name__ == "__main__":
    main(*sys.argv[1:])
