"""The report JSON: everything a renderer needs, in one document that `report.schema.json` describes."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import jsonschema

from conformance import agreement, model, output
from conformance.adapters import Info
from conformance.coverage import clause_coverage, witnessed
from conformance.errors import SpecError
from conformance.instances import instances
from conformance.loader import spec_root
from conformance.results import Result, totals
from conformance.snapshots import snapshot_path

REPORT_VERSION = 1


def report(
    features: Sequence[model.Feature],
    results: Sequence[Result],
    infos: Mapping[str, Info],
    *,
    expected: int,
    run: Mapping[str, Any],
    smoke: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The document. `run` says when, how long, which tier and selection; `smoke` maps targets to complaints."""
    return {
        "report": REPORT_VERSION,
        "suite": suite(features),
        "run": {**run, "host": host(infos)},
        "implementations": [implementation(n, i, (smoke or {}).get(n, "")) for n, i in infos.items()],
        "totals": totals(results, expected),
        "agreement": agreement.summary(results),
        "features": [feature_entry(f, results) for f in features],
        "results": [r.to_json() for r in results],
    }


def suite(features: Sequence[model.Feature]) -> dict[str, Any]:
    """Version, commit and a digest that changes whenever anything that is asked changes."""
    digest = hashlib.sha256()
    for f in features:
        for i in instances(f):
            digest.update(f"{i.id}={i.digest()}\n".encode())
    commit, dirty = _commit()
    return {"version": version(), "commit": commit, "dirty": dirty, "spec_digest": digest.hexdigest()[:16]}


def version() -> str:
    try:
        return metadata.version("tilespec")
    except metadata.PackageNotFoundError:
        return "0+checkout"


def commit() -> dict[str, Any]:
    """The commit of the checkout, and whether anything in it differs from that."""
    name, dirty = _commit()
    return {"commit": name, "dirty": dirty}


def _commit() -> tuple[str, bool]:
    def git(*words: str) -> str:
        try:
            done = subprocess.run(
                ["git", *words], cwd=spec_root(), capture_output=True, text=True, check=False, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    return git("rev-parse", "HEAD"), bool(git("status", "--porcelain"))


def host(infos: Mapping[str, Info]) -> dict[str, str]:
    """What the machine is, without its name."""
    devices = sorted({i.device for i in infos.values() if i.device})
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": ", ".join(devices),
        **{f"{package}": _installed(package) for package in ("numpy", "ml_dtypes")},
    }


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def implementation(name: str, info: Info, smoke: str) -> dict[str, Any]:
    return {
        "id": name,
        "version": info.version,
        "profiles": list(info.profiles),
        "capabilities": sorted(info.capabilities),
        "stages": list(info.stages),
        "runs": info.runs,
        "why_not": info.why_not,
        "toolchain": info.toolchain,
        "device": info.device,
        "smoke": smoke or "pass",
    }


def feature_entry(feature: model.Feature, results: Iterable[Result]) -> dict[str, Any]:
    """One feature: its clauses with what judged them, and counts of its results by status and by kind."""
    mine = [r for r in results if r.i.startswith(feature.id + "/")]
    seen = witnessed(mine)
    clauses = []
    for entry in clause_coverage([feature]):
        clause = entry.clause
        clauses.append(
            {
                "id": clause.id,
                "level": clause.level,
                "kind": clause.kind,
                "text": clause.text,
                "covered": entry.covered,
                "cases": entry.cases,
                "statuses": sorted(seen.get(entry.id, ())),
            }
        )
    by_status: dict[str, int] = {}
    by_kind: dict[str, int] = {}
    for r in mine:
        by_status[r.status] = by_status.get(r.status, 0) + 1
        by_kind[r.kind] = by_kind.get(r.kind, 0) + 1
    return {
        "id": feature.id,
        "area": feature.area,
        "title": feature.title,
        "since": feature.since,
        "status": feature.status,
        "profile": feature.profile,
        "file": feature.file,
        "notes": feature.notes,
        "sources": {n: p.source for n, p in feature.programs.items()},
        "texts": stage_texts(feature),
        "negatives": {c.id: _demand(c) for c in feature.cases if c.expect.outcome == "error"},
        "clauses": clauses,
        "agreement": agreement.summary(mine),
        "by_status": by_status,
        "by_kind": by_kind,
    }


def stage_texts(feature: model.Feature) -> list[dict[str, str]]:
    """What the text of a stage must be: the SSA that is law, and the blessed snapshots."""
    found = []
    for instance in instances(feature):
        check = instance.check
        if not isinstance(check, model.IrCheck):
            continue
        if instance.kind == "ssa":
            text = check.text
        elif instance.kind == "snapshot" and (path := spec_root() / "snapshots" / snapshot_path(instance)).is_file():
            text = path.read_text(encoding="utf-8")
        else:
            continue
        at = ";".join(f"{k}={v}" for k, v in check.at.items())
        found.append({"stage": check.stage, "program": check.program.name, "at": at, "text": text})
    return found


def _demand(case: model.Case) -> dict[str, str]:
    """The error that a case demands, and its legal twin."""
    e = case.expect
    fields = {"phase": e.phase, "id": e.id, "at": e.at, "message": e.message, "control": case.control}
    return {k: v for k, v in fields.items() if v}


@lru_cache(maxsize=1)
def _validator() -> Any:
    schema = json.loads((spec_root() / "schema" / "report.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def write(document: Mapping[str, Any], path: Path) -> None:
    """Validate and write; a document that breaks the schema is our fault and raises jsonschema.ValidationError."""
    _validator().validate(document)
    output.write(path, _lines(document))


def _lines(document: Mapping[str, Any]) -> str:
    """JSON with one feature and one result a line: small, and readable in a diff."""
    parts = []
    for key, value in document.items():
        if key in ("features", "results") and value:
            rows = ",\n".join("  " + _compact(row) for row in value)
            parts.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {_compact(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read(path: Path) -> dict[str, Any]:
    """A report from a file, validated; raises SpecError (report.invalid) with the reason."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        _validator().validate(document)
    except jsonschema.ValidationError as e:
        raise SpecError("report.invalid", f"not a report: {e.json_path}: {e.message}", str(path)) from e
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as e:
        raise SpecError("report.invalid", f"not a report: {e}", str(path)) from e
    return document
