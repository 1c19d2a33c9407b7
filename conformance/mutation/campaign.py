"""Runs mutants, each in a process and a cache folder of its own, several at a time, and judges what they answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conformance import output
from conformance.errors import SpecError
from conformance.loader import spec_root
from conformance.mutation import catalogue
from conformance.mutation.catalogue import DeadAnchor, Mutant
from conformance.mutation.verdicts import KILLED, SURVIVED, UNSERVED, Kill, MutationReport, Verdict
from conformance.results import RED

SILENCE_SECONDS = 120.0  # far above any instance: a process that says nothing for so long hangs
GATE = 0.95


def run(
    select: Sequence[str] = (),
    jobs: int = 1,
    out: Path | None = None,
    *,
    mutants: Sequence[str] = (),
    gate: float = GATE,
    spec: Path | None = None,
    path: Path = catalogue.CATALOGUE,
    each: Callable[[Verdict], None] | None = None,
) -> MutationReport:
    """Run the mutants of a catalogue, `jobs` at a time, and write the report's JSON to `out`.

    Without `select` each mutant meets the cases that claim to kill it; with it, every selected case of the tiers smoke
    and pr. `mutants` are ids, areas or globs. Raises SpecError for a catalogue or selection that is wrong.
    """
    started = time.perf_counter()
    rows = chosen(catalogue.load_catalogue(path), mutants)
    spec = spec or spec_root()
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        bases = {t: pool.submit(baseline, [m for m in rows if m.target == t], t, spec, select) for t in _targets(rows)}
        red = {t: f.result() for t, f in bases.items()}
        verdicts = []
        for verdict in pool.map(lambda m: judge(m, spec=spec, select=select, known=red[m.target]), rows):
            verdicts.append(verdict)
            if each:
                each(verdict)
    broken = {f"{i} on {target}": why for target, failed in red.items() for i, why in failed.items()}
    report = MutationReport(tuple(verdicts), gate, broken, time.perf_counter() - started)
    if out is not None:
        output.write(out, json.dumps(report.to_json(), indent=1) + "\n")
    return report


def chosen(rows: Sequence[Mutant], patterns: Sequence[str]) -> list[Mutant]:
    """Mutants by id, area or glob; none given means all."""
    for p in patterns:
        if not any(p == m.area or fnmatchcase(m.id, p) for m in rows):
            raise SpecError("mutation.select", f"no mutant matches {p!r}", hint="give an id, an area, or M-...-*")
    return [m for m in rows if not patterns or any(p == m.area or fnmatchcase(m.id, p) for p in patterns)]


def _targets(rows: Sequence[Mutant]) -> list[str]:
    return list(dict.fromkeys(m.target for m in rows))


def baseline(rows: Sequence[Mutant], target: str, spec: Path, select: Sequence[str] = ()) -> dict[str, str]:
    """Instances that the compiler as it is fails, with the reason, among all that the mutants would run."""
    patterns = select or list(dict.fromkeys(p for m in rows for p in m.killed_by))
    answers = run_child(None, target, spec, patterns)
    if answers.unserved:
        return {}
    if not answers.done:
        raise SpecError("mutation.baseline", f"the compiler without a mutant did not finish: {answers.trouble}")
    return {r["i"]: r["message"] for r in answers.results if r["status"] in RED}


def judge(
    mutant: Mutant, *, spec: Path | None = None, select: Sequence[str] = (), known: Container[str] = ()
) -> Verdict:
    """The verdict on one mutant; instances in `known` are red without it and kill nothing."""
    started = time.perf_counter()
    try:
        catalogue.check(mutant)
    except DeadAnchor as e:
        return Verdict(mutant, "dead_anchor", message=str(e))
    answers = run_child(mutant, mutant.target, spec or spec_root(), select or mutant.killed_by)
    status, how, message = _judge(answers, known)
    kills = tuple(_kill(r) for r in answers.results if _kills(r, known))
    return Verdict(mutant, status, how, kills, message, len(answers.results), time.perf_counter() - started)


def _kills(result: dict[str, Any], known: Container[str]) -> bool:
    return result["status"] in RED and result["status"] != "error" and result["i"] not in known


def _kill(result: dict[str, Any]) -> Kill:
    return Kill(result["i"], result["witness"], result["tier"], result["message"])


def _judge(answers: Answers, known: Container[str]) -> tuple[str, str, str]:
    if answers.unserved:
        return UNSERVED, "", answers.unserved
    if not answers.done and not answers.started:
        return "broken", "", answers.trouble
    if answers.done and not answers.results:
        return "no_cases", "", "no instance matches on this target"
    if not answers.reached:
        return "not_activated", "", f"the changed statement never ran in {len(answers.results)} instances"
    if not answers.done:
        return KILLED, answers.how, f"{answers.trouble}, in {answers.started}"
    mistake = next((r for r in answers.results if r["status"] == "error" and r["i"] not in known), None)
    if mistake is not None:
        return "broken", "", f"{mistake['i']} cannot be judged: {mistake['message']}"
    return (KILLED, "red", "") if any(_kills(r, known) for r in answers.results) else (SURVIVED, "", "")


@dataclass
class Answers:
    """What a child process said: results, whether the changed statement ran, how it ended."""

    results: list[dict[str, Any]] = field(default_factory=list)
    reached: bool = False
    done: bool = False
    started: str = ""
    unserved: str = ""
    how: str = ""
    trouble: str = ""


def run_child(
    mutant: Mutant | None,
    target: str,
    spec: Path,
    select: Sequence[str],
    tier: str = "pr",
) -> Answers:
    """Run cases on a mutant (None: the compiler as it is) in a fresh process with an empty artifact cache."""
    with tempfile.TemporaryDirectory(prefix="tilespec-mutant-") as folder:
        request, answers = Path(folder, "request.json"), Path(folder, "answers.jsonl")
        asked = {"spec": str(spec), "target": target, "select": list(select), "tier": tier}
        request.write_text(json.dumps({**asked, "mutant": mutant.to_json() if mutant else None}), encoding="utf-8")
        command = [sys.executable, "-m", "conformance.mutation.child", str(request), str(answers)]
        how, trouble = "", ""
        with Path(folder, "words").open("w+", encoding="utf-8") as words:
            child = subprocess.Popen(command, env=_environment(folder), stdout=subprocess.DEVNULL, stderr=words)
            try:
                if not _ends(child, answers):
                    how, trouble = "timeout", f"nothing ended for {SILENCE_SECONDS:g} s"
                elif child.returncode:
                    words.seek(0)
                    how, trouble = "crash", _last_words(child.returncode, words.read())
            finally:
                child.kill()
                child.wait()
        return _read(answers, how, trouble)


def _ends(child: subprocess.Popen[bytes], answers: Path) -> bool:
    """Whether a process ends, for as long as its answers become more."""
    size, since = -1, time.monotonic()
    while time.monotonic() - since < SILENCE_SECONDS:
        try:
            child.wait(timeout=min(1.0, SILENCE_SECONDS))
            return True
        except subprocess.TimeoutExpired:
            found = answers.stat().st_size if answers.exists() else 0
            if found != size:
                size, since = found, time.monotonic()
    return False


def _environment(folder: str) -> dict[str, str]:
    """The child finds the same packages; its artifacts meet those of no other compiler."""
    here = str(Path(__file__).resolve().parents[2])
    inherited = dict(os.environ)  # noqa: TID251  a child process inherits all of it, and one folder changes
    path = os.pathsep.join(p for p in (here, inherited.get("PYTHONPATH", "")) if p)
    return {**inherited, "PYTHONPATH": path, "TILESPEC_CACHE_DIR": str(Path(folder, "cache"))}


def _last_words(code: int, words: str) -> str:
    lines = words.strip().splitlines()
    return f"the process ended with {code}" + (f": {lines[-1]}" if lines else "")


def _read(file: Path, how: str, trouble: str) -> Answers:
    answers = Answers(how=how, trouble=trouble)
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        answer = json.loads(line)
        answers.reached |= "reached" in answer
        answers.done |= "done" in answer
        answers.unserved = answer.get("unserved", answers.unserved)
        answers.started = answer.get("start", answers.started)
        if "result" in answer:
            answers.results.append(answer["result"])
    return answers
