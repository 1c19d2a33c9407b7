"""Instances judged by text: the tile SSA that is law, rewrite rules, invariants, snapshots, budgets."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from conformance import output, ssa
from conformance.adapters import Counted, Rejected, Transformed, Unsupported, Valid
from conformance.calls import call_arguments
from conformance.execution import Outcome, _refused, _valid, arrays_of, bound
from conformance.expressions import evaluate
from conformance.instances import Instance
from conformance.snapshots import snapshot_path

if TYPE_CHECKING:
    from conformance.runner import Session

TINY = 1e-9  # counts are whole, ratios of counts are not


def _text(session: Session, instance: Instance) -> str | Outcome:
    """The text of the check's stage, or the outcome if there is none."""
    check = instance.check
    call = bound(check.program, check.at, shapes=False)
    answer = _valid(session, session.compile(call.request((check.stage,), check.arch)))
    if not isinstance(answer, Valid):
        return answer
    if check.stage not in answer.texts:
        return "fail", f"claims the stage {check.stage} and gives no text for it", {}
    return answer.texts[check.stage]


def check_ssa(session: Session, instance: Instance) -> Outcome:
    """The tile SSA written in the YAML, up to renumbering."""
    text = _text(session, instance)
    if isinstance(text, tuple):
        return text
    if not session.law or ssa.same(instance.check.text, text):
        return "pass", "", {"ir": {instance.check.stage: _sha(text)}}
    difference = ssa.difference(instance.check.text, text)
    return "fail", f"the {instance.check.stage} SSA differs from the specification", {"ir": {"diff": difference}}


def check_rewrite(session: Session, instance: Instance) -> Outcome:
    """Tile text after passes."""
    transform = instance.check.transform
    answer = session.adapter.transform(transform.before, transform.passes)
    if isinstance(answer, (Rejected, Unsupported)):
        return _refused(session, answer, {})
    assert isinstance(answer, Transformed)
    if ssa.same(transform.after, answer.text):
        return "pass", "", {}
    difference = ssa.difference(transform.after, answer.text)
    return "fail", f"after {', '.join(transform.passes)} the text differs", {"ir": {"diff": difference}}


def check_invariants(session: Session, instance: Instance) -> Outcome:
    """`has`, `lacks` and `count`."""
    text = _text(session, instance)
    if isinstance(text, tuple):
        return text
    check, broken = instance.check, []
    broken += [f"lacks {part!r}" for part in check.has if part not in text]
    broken += [f"has {part!r}" for part in check.lacks if part in text]
    for word, (low, high) in check.count.items():
        n = ssa.count_word(word, text)
        if not low <= n <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            broken.append(f"has {n} of {word!r} instead of {wanted}")
    if broken:
        return "fail", f"the {check.stage} text {', '.join(broken)}", {"ir": {"text": text[:4000]}}
    return "pass", "", {"ir": {check.stage: _sha(text)}}


def check_snapshot(session: Session, instance: Instance) -> Outcome:
    """The blessed text of a later stage; a missing snapshot is a failure, never a silent pass."""
    text = _text(session, instance)
    if isinstance(text, tuple):
        return text
    if session.snapshots is None:
        return "pass", "comparison switched off", {"kind": "compile"}
    path = session.snapshots / snapshot_path(instance)
    if session.bless:
        changed = not path.is_file() or path.read_text(encoding="utf-8") != text
        if changed:
            output.write(path, text)
        return "pass", "blessed" if changed else "", {}
    if not path.is_file():
        return "fail", f"there is no snapshot {path.name}; review and write it with: tilespec bless '{instance.id}'", {}
    blessed = path.read_text(encoding="utf-8")
    if blessed == text:
        return "pass", "", {"ir": {instance.check.stage: _sha(text)}}
    difference = ssa.diff_lines(blessed.splitlines(), text.splitlines())
    return "fail", f"the {instance.check.stage} text differs from its snapshot", {"ir": {"diff": difference}}


def check_counts(session: Session, instance: Instance) -> Outcome:
    """What one launch costs: transactions, conflicts, barriers; arrays begin where a device would put them."""
    budget = instance.check
    call = bound(budget.program, budget.at)
    answer = _valid(session, session.compile(call.request()))
    if not isinstance(answer, Valid):
        return answer
    arrays = arrays_of(call, budget.inputs, instance.id, aligned=True)
    counted = session.adapter.count(answer, call.grid, call_arguments(call, arrays, {}))
    if not isinstance(counted, Counted):
        return _refused(session, counted, {})
    broken, limits, measured = [], {}, {}
    for name, texts in budget.counts.items():
        low, high = limits[name] = [float(evaluate(text, call.names())) for text in texts]
        measured[name] = found = float(counted.counts.get(name, 0))
        if not low - TINY <= found <= high + TINY:
            wanted = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            broken.append(f"{name} {found:g} instead of {wanted}")
    fields = {"perf": {**measured, "limits": limits}}
    return ("fail", "; ".join(broken), fields) if broken else ("pass", "", fields)


def check_budget(session: Session, instance: Instance) -> Outcome:
    """Resources and instruction mix; another version of the budget's compiler gives `warn` instead of `fail`.

    Of another compiler's code only what no good code has is judged: spills and local memory.
    """
    budget = instance.check
    if budget.counts:
        return check_counts(session, instance)
    call = bound(budget.program, budget.at, shapes=False)
    emit = ("resources", "sass") if budget.mix or "sass_instrs" in budget.max else ("resources",)
    answer = _valid(session, session.compile(call.request(emit, budget.arch)))
    if not isinstance(answer, Valid):
        return answer
    mnemonics = _mnemonics(answer.texts.get("sass", ""))
    measured: dict[str, Any] = {**answer.resources, **({"sass_instrs": len(mnemonics)} if mnemonics else {})}
    own = _family(session.info.toolchain) == _family(budget.toolchain)
    most = {k: v for k, v in budget.max.items() if own or k in ("stack", "spill_bytes")}
    mix = budget.mix if own else {}
    broken = []
    for name, limit in most.items():
        if name not in measured:
            broken.append(f"{name} was not measured")
        elif measured[name] > limit:
            broken.append(f"{name} {measured[name]} over {limit}")
    for prefix, (low, high) in mix.items():
        n = sum(m == prefix or m.startswith(prefix + ".") for m in mnemonics)
        measured[prefix] = n
        if not low <= n <= high:
            broken.append(f"{n} {prefix} instructions instead of {low if low == high else f'{low} to {high}'}")
    limits = {**most, **{k: list(v) for k, v in mix.items()}}
    fields = {"perf": {**measured, "limits": limits, "arch": budget.arch, "toolchain": session.info.toolchain}}
    if not broken:
        return "pass", "", fields
    if own and session.info.toolchain != budget.toolchain:
        return (
            "warn",
            f"{'; '.join(broken)} (budget is for {budget.toolchain}, this is {session.info.toolchain})",
            fields,
        )
    return "fail", "; ".join(broken), fields


def _family(toolchain: str) -> str:
    """`cuda` of `cuda-12.9`."""
    return toolchain.partition("-")[0]


def _mnemonics(sass: str) -> list[str]:
    """Instruction mnemonics of a disassembly: the first word of each instruction, predicates skipped."""
    found = []
    for line in sass.splitlines():
        body = line.split("*/", 1)[-1] if line.lstrip().startswith("/*") else line
        words = body.split("/*")[0].replace(";", " ").split()
        while words and (words[0].startswith("@") or words[0] in ("{", "}")):
            words = words[1:]
        if words and words[0][0].isupper() and words[0].replace(".", "").replace("_", "").isalnum() and ";" in body:
            found.append(words[0])
    return found


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
