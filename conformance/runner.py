"""Runs instances on one implementation: what applies to it, the run itself, the verdict.

Compilations are shared: a `Session` compiles each request once. Nothing here knows an implementation; everything goes
through `conformance.adapters`.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from conformance import checks, execution
from conformance.adapters import Adapter, CompileRequest, Info, Rejected, Unsupported, Valid
from conformance.errors import SpecError
from conformance.instances import Instance, instances
from conformance.results import Result
from conformance.selfcheck import SelfCheck
from conformance.signatures import source_level
from conformance.tolerance import Unjudgeable


class Session:
    """One implementation during a run: its claims, its compiled kernels, and the self-check of the cases it ran.

    `snapshots` is the folder of blessed texts, None switches their comparison off; `law` False switches the comparison
    of hand-written SSA off (mutation testing asks what kills without either).
    """

    def __init__(
        self, name: str, adapter: Adapter, *, snapshots: Path | None = None, law: bool = True, bless: bool = False
    ) -> None:
        self.name, self.adapter, self.info = name, adapter, adapter.info()
        self.snapshots, self.law, self.bless = snapshots, law, bless
        self.selfcheck = SelfCheck()
        self.compile_ms = 0.0
        self._compiled: dict[CompileRequest, Valid | Rejected | Unsupported] = {}

    def compile(self, request: CompileRequest) -> Valid | Rejected | Unsupported:
        """The answer to a request, asked once."""
        if request not in self._compiled:
            started = time.perf_counter()
            self._compiled[request] = self.adapter.compile(request)
            self.compile_ms = (time.perf_counter() - started) * 1e3
        else:
            self.compile_ms = 0.0
        return self._compiled[request]

    def forget(self) -> None:
        """Drop compiled kernels; called between cases so that memory stays bounded."""
        self._compiled.clear()


def applies(instance: Instance, info: Info) -> bool:
    """Whether an implementation can say anything about an instance; if not, the instance is not collected for it."""
    check = instance.check
    if instance.program is not None and source_level(instance.program.source) not in ("kernel", *info.stages):
        return False
    match instance.kind:
        case "negative":
            phase = check.expect.phase
            if getattr(check, "transform", None) is not None:
                return info.passes and phase in info.phases
            return phase in info.phases and (phase != "launch" or info.runs)
        case "rewrite":
            return info.passes
        case "ssa" | "invariant" | "snapshot":
            return check.stage in info.stages
        case "budget":
            return ("counts" if check.counts else "resources") in info.stages
    return info.runs or info.compiles


def collect_for(chosen: Iterable[Instance], info: Info) -> list[Instance]:
    return [i for i in chosen if applies(i, info)]


def run_instance(session: Session, instance: Instance) -> Result:
    """One result, whatever happens: a suite mistake is `error`, an exception of the implementation is `crash`."""
    started = time.perf_counter()
    try:
        result = _judge(session, instance)
    except (Unjudgeable, SpecError) as e:
        result = verdict(session, instance, "error", str(e))
    except Exception as e:
        place = traceback.extract_tb(e.__traceback__)[-1]
        message = f"{type(e).__name__}: {e} (at {Path(place.filename).name}:{place.lineno})"
        result = verdict(session, instance, "crash", message)
    mark = instance.check.mark
    elapsed = (time.perf_counter() - started) * 1e3
    result.ms = {"total": round(elapsed, 2), **{k: round(v, 2) for k, v in result.ms.items()}}
    result.file, result.line = instance.feature.file, mark.line if mark else 0
    return result


def verdict(session: Session, instance: Instance, status: str, message: str = "", **fields: object) -> Result:
    """A result of this instance; clauses count as witnessed only by what actually judged them."""
    kind = str(fields.pop("kind", instance.kind))
    clauses = instance.clauses if status in ("pass", "warn", "fail") and kind == instance.kind else ()
    repro = f"tilespec run '{instance.id}' --target {session.name}"
    return Result(instance.id, session.name, status, kind, clauses, message, repro=repro, **fields)  # type: ignore[arg-type]


def _judge(session: Session, instance: Instance) -> Result:
    info = session.info
    missing = [r for r in instance.requires if r not in info.capabilities]
    if instance.feature.profile not in info.profiles:
        missing.append(instance.feature.profile)
    if missing:
        return verdict(
            session, instance, "unsupported", f"needs {', '.join(missing)}, which {session.name} does not claim"
        )
    status, message, fields = _STEPS[instance.kind](session, instance)
    return verdict(session, instance, status, message, **fields)


_STEPS: dict[str, Callable] = {
    "oracle": execution.run_oracle,
    "unpredictable": execution.run_unpredictable,
    "negative": execution.run_negative,
    "rewrite": checks.check_rewrite,
    "ssa": checks.check_ssa,
    "invariant": checks.check_invariants,
    "snapshot": checks.check_snapshot,
    "budget": checks.check_budget,
}


def run_all(session: Session, chosen: Sequence[Instance], each: Callable[[Result], None] | None = None) -> list[Result]:
    """Results of all instances in order, then one for each case that cannot fail."""
    results: list[Result] = []
    last = ""
    for instance in chosen:
        if instance.feature.id != last:
            session.forget()
            last = instance.feature.id
        results.append(run_instance(session, instance))
        if each:
            each(results[-1])
    for result in selfcheck_results(session, chosen):
        results.append(result)
        if each:
            each(result)
    return results


def selfcheck_results(session: Session, chosen: Sequence[Instance]) -> list[Result]:
    """An `error` for each case whose instances would all accept the same wrong answer; only for cases run in full."""
    places = {i.case_id: i for i in chosen}
    ran = Counter(i.case_id for i in chosen)
    found = []
    for case, sentence in session.selfcheck.complaints():
        instance = places.get(case)
        if instance is None or ran[case] < sum(i.case_id == case for i in instances(instance.feature)):
            continue
        r = verdict(session, instance, "error", f"this case cannot fail: {sentence}", kind="selfcheck")
        mark = instance.check.mark
        found.append(replace(r, i=case, file=instance.feature.file, line=mark.line if mark else 0))
    return found
