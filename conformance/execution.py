"""Instances that compile and launch a kernel: against the oracle, against a demanded error, or merely not harming."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance import model, tolerance
from conformance.adapters import Rejected, Unsupported, Valid
from conformance.agreement import digest
from conformance.buffers import GuardedArray, never_written
from conformance.calls import BoundCall, bind, call_arguments, make_arrays
from conformance.expressions import ExpressionError
from conformance.instances import Instance
from conformance.signatures import substitute
from conformance.tolerance import Unjudgeable

if TYPE_CHECKING:
    from conformance.runner import Session

Outcome = tuple[str, str, dict[str, Any]]


def bound(program: model.Program, params: Mapping[str, Any], *, shapes: bool = True) -> BoundCall:
    """`calls.bind`, with mistakes in the YAML as Unjudgeable."""
    try:
        call = bind(program, params, shapes=shapes)
        if shapes:
            call.names()  # which gives scalars their types
        return call
    except (ExpressionError, TypeError, ValueError, ArithmeticError) as e:
        raise Unjudgeable(f"the call cannot be built: {type(e).__name__}: {e}") from e


def arrays_of(
    call: BoundCall, inputs: Mapping[str, str], seed: str, *, aligned: bool = False
) -> dict[str, GuardedArray]:
    """`calls.make_arrays`, with mistakes in the YAML as Unjudgeable."""
    try:
        return make_arrays(call, inputs, seed, aligned=aligned)
    except (ExpressionError, TypeError, ValueError, ArithmeticError, MemoryError) as e:
        raise Unjudgeable(f"the arrays cannot be made: {type(e).__name__}: {e}") from e


def run_oracle(session: Session, instance: Instance) -> Outcome:
    """Compile, run where the target runs, and judge every output; drawn cases repeat it for each example."""
    drawing = instance.check.hypothesis
    if drawing is None:
        return run_once(session, instance, instance.params, instance.id)
    from conformance import fuzz  # imports Hypothesis, which takes longer than a smoke run's first case

    if session.info.runs:
        return fuzz.run_examples(session, instance, run_once)
    return run_once(session, instance, {**instance.params, **fuzz.smallest(drawing.draw)}, instance.id)


def run_once(session: Session, instance: Instance, params: Mapping[str, Any], seed: str) -> Outcome:
    """One run of an oracle case with these parameters; `seed` decides the inputs."""
    case = instance.check
    call = bound(case.program, params, shapes=session.info.runs)
    answer = session.compile(call.request())
    compiled = _valid(session, answer)
    if not isinstance(compiled, Valid):
        return compiled
    fields: dict[str, Any] = {"ms": {"compile": session.compile_ms}}
    if not session.info.runs:
        fields["kind"] = "compile"
        return "pass", f"compiled only: {session.info.why_not}", fields
    arrays = arrays_of(call, instance.inputs, seed)
    initial = {n: a.initial for n, a in arrays.items()}
    outputs = {n: initial[n] for n in case.program.outputs}
    names = call.names()
    refs = tolerance.references(case.oracle, case.numerics, outputs, initial, names)
    started = time.perf_counter()
    ran = session.adapter.run(compiled, call.launch_grid, call_arguments(call, arrays, case.arguments))
    fields["ms"]["run"] = (time.perf_counter() - started) * 1e3
    if isinstance(ran, (Rejected, Unsupported)):
        return _refused(session, ran, fields)
    complaint = _complaint(arrays)
    if complaint:
        return "fail", complaint, fields
    status, message, fields["numerics"] = _judge_outputs(session, instance, call, arrays, refs)
    if compiled.exact and instance.check.hypothesis is None:  # what is drawn may differ between processes
        fields["bits"] = {n: digest(arrays[n].array, refs.get(f"{n}.unspecified", False)) for n in case.program.outputs}
    if status == "pass" and case.numerics.repeat_bitwise:
        status, message = _repeat(session, case, call, compiled, instance, seed, arrays)
    return status, message, fields


def _judge_outputs(
    session: Session,
    instance: Instance,
    call: BoundCall,
    arrays: Mapping[str, GuardedArray],
    refs: Mapping[str, Any],
) -> tuple[str, str, dict[str, Any]]:
    numerics = instance.check.numerics
    env = {**call.names(), **{n: a.initial for n, a in arrays.items()}}
    slack: dict[str, Any] = {"max_err_over_bound": 0.0}
    for argument in call.arguments:
        output, role = argument.declared.name, argument.declared.role
        if argument.shape is None or role == "in":
            continue
        array = arrays[output]
        limits = tolerance.tolerance(numerics, output, argument.dtype, env)
        found = tolerance.compare(array.array, refs, output, limits, array.initial)
        if instance.check.hypothesis is None:
            session.selfcheck.observe(instance.case_id, refs, output, argument.dtype, limits, array.initial)
        if role == "out" and (stale := _stale(array, refs, output)):
            return "fail", stale, slack
        if not found.ok or found.max_err_over_bound >= slack["max_err_over_bound"]:
            slack = {"max_err_over_bound": _finite(found.max_err_over_bound), "output": output}
            if found.index is not None:
                slack["worst"] = {"index": list(found.index), "got": _plain(found.got), "ref": _plain(found.ref)}
        if not found.ok:
            return "fail", found.message, slack
    return "pass", "", slack


def _finite(x: float) -> float | str:
    return float(x) if np.isfinite(x) else "inf"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return repr(value)
    return value if isinstance(value, (int, float, bool, str)) else str(value)


def _stale(array: GuardedArray, refs: Mapping[str, Any], output: str) -> str | None:
    """An output element that should be written and still holds the poison bytes (a NaN that a NaN would excuse)."""
    must = np.broadcast_to(np.asarray(refs.get(f"{output}.written", True), bool), array.array.shape)
    free = np.broadcast_to(np.asarray(refs.get(f"{output}.unspecified", False), bool), array.array.shape)
    left = never_written(array) & must & ~free
    if not left.any():
        return None
    index = tuple(int(i) for i in np.argwhere(left)[0])
    return f"{output}{list(index)} was never written; so are {int(left.sum()) - 1} more elements"


def _repeat(session: Session, case: model.Case, call, compiled, instance, seed, first) -> tuple[str, str]:
    """A second run on the same inputs must give the same bits."""
    again = arrays_of(call, instance.inputs, seed)
    answer = session.adapter.run(compiled, call.launch_grid, call_arguments(call, again, case.arguments))
    if isinstance(answer, (Rejected, Unsupported)):
        return "fail", f"the second run was refused: {answer.message}"
    for name, array in first.items():
        if array.array.tobytes() != again[name].array.tobytes():
            return "fail", f"two runs on the same inputs differ in {name!r}"
    return "pass", ""


def _complaint(arrays: Mapping[str, GuardedArray]) -> str | None:
    return next((c for a in arrays.values() if (c := a.complaint())), None)


def _valid(session: Session, answer: Valid | Rejected | Unsupported) -> Valid | Outcome:
    return answer if isinstance(answer, Valid) else _refused(session, answer, {})


def _refused(session: Session, answer: Rejected | Unsupported, fields: dict[str, Any]) -> Outcome:
    """A legal program was refused."""
    if isinstance(answer, Unsupported):
        info = session.info
        if answer.capability in info.capabilities or answer.capability in info.profiles:
            return "fail", f"claims {answer.capability} and answers that it is unsupported: {answer.message}", fields
        if not answer.capability:
            return "fail", f"answers unsupported without naming a capability: {answer.message}", fields
        return "unsupported", f"{answer.capability}: {answer.message}", fields
    rendered = answer.rendered or answer.message
    return "fail", f"a legal program was rejected ({answer.phase}, {answer.id}): {rendered}", fields


def run_unpredictable(session: Session, instance: Instance) -> Outcome:
    """Any values are right; nothing else may be written, and the implementation survives."""
    case = instance.check
    call = bound(case.program, instance.params, shapes=session.info.runs)
    compiled = _valid(session, session.compile(call.request()))
    if not isinstance(compiled, Valid):
        return compiled
    if not session.info.runs:
        return "pass", f"compiled only: {session.info.why_not}", {"kind": "compile"}
    arrays = arrays_of(call, instance.inputs, instance.id)
    answer = session.adapter.run(compiled, call.launch_grid, call_arguments(call, arrays, case.arguments))
    if isinstance(answer, Unsupported):
        return _refused(session, answer, {})
    if isinstance(answer, Rejected) and answer.phase not in ("run", "simulate"):
        return "fail", f"a legal program was rejected ({answer.phase}, {answer.id}): {answer.message}", {}
    complaint = _complaint(arrays)
    return ("fail", complaint, {}) if complaint else ("pass", "", {})


def run_negative(session: Session, instance: Instance) -> Outcome:
    """The implementation must refuse: in the phase, with the id, at the place, leaving outputs as they were."""
    case = instance.check
    if case.transform is not None:
        transformed = session.adapter.transform(case.transform.before, case.transform.passes)
        return judge_rejection(transformed, case.expect, case.transform.before)
    call = bound(case.program, instance.params, shapes=case.expect.phase in model.PHASES_OF_A_RUN)
    expect = replace(case.expect, at=substitute(case.expect.at, instance.params))
    answer = session.compile(call.request())
    if not isinstance(answer, Valid) or case.expect.phase not in model.PHASES_OF_A_RUN:
        return judge_rejection(answer, expect, call.source)
    arrays = arrays_of(call, instance.inputs, instance.id)
    ran = session.adapter.run(answer, call.launch_grid, call_arguments(call, arrays, case.arguments))
    outcome = judge_rejection(ran, expect, call.source)
    if outcome[0] == "pass":
        complaint = next((c for a in arrays.values() if (c := a.complaint())), None)
        if complaint:
            return "fail", complaint, {}
        if case.expect.outputs == "untouched":
            written = [n for n, a in arrays.items() if not a.untouched()]
            if written:
                return "fail", f"rejected, and yet {', '.join(written)} was written", {}
    return outcome


def judge_rejection(answer: Any, expect: model.Expect, source: str) -> Outcome:
    """Compare an answer with the demanded error."""
    if isinstance(answer, Unsupported):
        return "fail", f"answered unsupported ({answer.capability}) instead of the error {expect.id}", {}
    if not isinstance(answer, Rejected):
        return "fail", f"accepted; expected the error {expect.id} in phase {expect.phase}", {}
    shown = f"{answer.phase} error {answer.id}: {answer.message}"
    if answer.id != expect.id:
        return "fail", f"expected the error {expect.id}, found {shown}", {}
    if answer.phase != expect.phase:
        return "fail", f"expected phase {expect.phase}, found {shown}", {}
    if expect.message and expect.message not in answer.message:
        return "fail", f"expected a message with {expect.message!r}, found {shown}", {}
    if expect.at:
        if answer.span is None:
            return "fail", f"expected a span over {expect.at!r}, found none with {shown}", {}
        covered = span_text(source, answer.span)
        if _squeezed(covered) != _squeezed(expect.at):
            return "fail", f"expected the span to cover {expect.at!r}, it covers {covered!r} ({shown})", {}
    return "pass", "", {}


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def span_text(source: str, span: tuple[int, int, int, int]) -> str:
    """The source under a span (lines from 1, columns from 0)."""
    line, col, end_line, end_col = span
    lines = source.splitlines()
    if not (1 <= line <= end_line <= len(lines)):
        return ""
    if line == end_line:
        return lines[line - 1][col:end_col]
    return "\n".join([lines[line - 1][col:], *lines[line : end_line - 1], lines[end_line - 1][:end_col]])
