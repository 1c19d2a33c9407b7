"""Rules of feature files that a JSON Schema cannot say: references, expressions, signatures, control twins."""

from __future__ import annotations

import ast
import itertools
import math
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from conformance import expressions, model
from conformance.dtypes import DTYPES
from conformance.errors import SpecError
from conformance.inputs import InputError, check_inputs
from conformance.instances import format_value, instances
from conformance.model import MODIFIERS
from conformance.signatures import PLACEHOLDER, defaults, parameters, source_level, substitute
from conformance.yaml_text import Document, Path

MOST_INSTANCES = 10_000  # of a case


def check_feature(feature: model.Feature, document: Document) -> None:
    """Raise a located SpecError for the first rule a feature breaks."""
    _check_clauses(feature, document)
    known = {c.id for c in feature.clauses}
    ids: dict[str, str] = {}
    sections: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("cases", feature.cases),
        ("ir", feature.ir),
        ("budgets", feature.budgets),
    )
    for section, checks in sections:
        for i, check in enumerate(checks):
            _check_covers(check.covers, known, document, (section, i))
            name = check.id if section == "cases" else f"{check.id}:{getattr(check, 'at', '')}"
            if name in ids:
                raise document.error(
                    "spec.duplicate_id",
                    f"id {check.id!r} is used twice in this feature",
                    (section, i, "id"),
                    hint="give each check its own id:",
                )
            ids[name] = section
    for i, case in enumerate(feature.cases):
        _check_case(feature, case, document, ("cases", i))
    for i, check in enumerate(feature.ir):
        _check_bound(check.program, check.at, document, ("ir", i, "at"))
    for i, budget in enumerate(feature.budgets):
        _check_bound(budget.program, budget.at, document, ("budgets", i, "at"))
        _check_counts(budget, document, ("budgets", i))
    called: set[str] = set()
    for instance in instances(feature):
        if instance.id in called:
            message, hint = f"two instances are called {instance.id}", "give the check another id:"
            raise SpecError("spec.duplicate_id", message, document.file, instance.check.mark, document.text, hint)
        called.add(instance.id)


def check_suite(features: Iterable[model.Feature]) -> list[SpecError]:
    """Errors between files: an expected error id must be an error clause of the feature it names."""
    clauses = {f"{f.id}#{c.id}" for f in features for c in f.clauses}
    errors = []
    for f in features:
        for c in f.cases:
            if "#" in c.expect.id and c.expect.id not in clauses:
                errors.append(
                    SpecError(
                        "spec.reference",
                        f"case {c.id!r} expects {c.expect.id}, and there is no such clause",
                        f.file,
                        c.mark,
                        pathlib.Path(f.file).read_text(encoding="utf-8") if pathlib.Path(f.file).is_file() else "",
                    )
                )
    return errors


def _check_clauses(feature: model.Feature, document: Document) -> None:
    seen: set[str] = set()
    for i, c in enumerate(feature.clauses):
        path: Path = ("clauses", i, "id")
        if c.id in seen:
            raise document.error("spec.duplicate_id", f"clause {c.id} is defined twice", path)
        seen.add(c.id)
        if (c.id[0] == "E") != (c.kind == "error"):
            raise document.error(
                "spec.clause",
                f"clause {c.id} has kind {c.kind}; E clauses, and only they, have kind error",
                ("clauses", i, "kind"),
            )
        if c.id[0] == "N" and c.level == "must":
            raise document.error(
                "spec.clause", f"clause {c.id} says must; N clauses say what is not promised", ("clauses", i, "level")
            )


def _check_covers(covers: Iterable[str], known: set[str], document: Document, path: Path) -> None:
    for k, clause in enumerate(covers):
        if clause not in known:
            raise document.error(
                "spec.reference",
                f"clause {clause} is not defined in this feature; defined: {', '.join(sorted(known))}",
                (*path, "covers", k),
            )


def _check_case(feature: model.Feature, case: model.Case, document: Document, path: Path) -> None:
    _check_control(feature, case, document, path)
    if case.transform is not None:
        _check_transform(case, document, path)
        return
    assert case.program is not None
    valid = case.expect.outcome != "error"
    names = {n for axis, _ in case.params for n in axis}
    if case.hypothesis:
        for n, strategy in case.hypothesis.draw.items():
            check_expression(strategy, None, document, (*path, "hypothesis", "draw", n), draw=True)
        names |= set(case.hypothesis.draw)
    check_expression(case.where, names, document, (*path, "where"))
    _check_axes(case, document, path)
    _check_program(case, names, document, path, valid)
    _check_inputs(case, names, document, path, valid)
    if valid:
        _check_oracle(case, names, document, path, is_draft=feature.status == "draft")
    elif case.expect.phase in ("parse", "type") and not case.expect.at:
        raise document.error(
            "spec.missing_key",
            f"an error of phase {case.expect.phase} says which source text it points at",
            (*path, "expect"),
            hint="add at: with the exact text the caret should cover",
        )
    elif case.expect.at:
        _check_at(case, document, path)


def _check_axes(case: model.Case, document: Document, path: Path) -> None:
    """Each parameter is given once, no instance occurs twice, there are some, and not too many to run."""
    given: set[str] = set()
    for (axis, rows), key in zip(case.params, document.at((*path, "params")) or (), strict=True):
        place = (*path, "params", key)
        if twice := given & set(axis):
            raise document.error("spec.value", f"parameter {min(twice)!r} is given twice", place, key=True)
        given |= set(axis)
        seen: set[str] = set()
        for i, row in enumerate(rows):
            text = ";".join(map(format_value, row))
            if text in seen:
                raise document.error("spec.value", f"{text} is given twice, so two instances have one id", (*place, i))
            seen.add(text)
    count = math.prod(len(part) for part in (*(rows for _, rows in case.params), *case.inputs.values()))
    if count > MOST_INSTANCES:
        message = f"the case has {count} instances; at most {MOST_INSTANCES} are run"
        raise document.error("spec.value", message, (*path, "params"), hint="draw parameters: hypothesis:")
    if case.where and not (case.hypothesis and case.hypothesis.draw):
        try:
            kept = [bool(expressions.evaluate(case.where, params)) for params in first_instances(case, count)]
        except expressions.ExpressionError as e:
            raise document.error("spec.expression", e.message, (*path, "where")) from None
        if not any(kept):
            raise document.error("spec.value", "no instance is left: where drops all of them", (*path, "where"))


def _check_control(feature: model.Feature, case: model.Case, document: Document, path: Path) -> None:
    if not case.control:
        return
    twin = next((c for c in feature.cases if c.id == case.control), None)
    if twin is None:
        raise document.error(
            "spec.reference", f"control {case.control!r} is not a case of this feature", (*path, "control")
        )
    if twin.expect.outcome != "valid":
        raise document.error(
            "spec.reference",
            f"control {case.control!r} is itself not valid; a control compiles and runs",
            (*path, "control"),
        )


def _check_transform(case: model.Case, document: Document, path: Path) -> None:
    transform = case.transform
    assert transform is not None
    if case.expect.outcome == "error":
        if transform.after:
            raise document.error("spec.value", "a rejected text has no after:", (*path, "transform", "after"))
        if case.expect.at and case.expect.at not in transform.before:
            raise document.error("spec.reference", "at: is not in the text of before:", (*path, "expect", "at"))
    elif not transform.after:
        raise document.error(
            "spec.missing_key", "key 'after' is missing: the text the passes must give", (*path, "transform")
        )


def _check_at(case: model.Case, document: Document, path: Path) -> None:
    assert case.program is not None
    for params in first_instances(case, 64):
        if substitute(case.expect.at, params) not in substitute(case.program.source, params):
            raise document.error(
                "spec.reference",
                "at: is not in the kernel's source (after its {PARAMS} are filled in)",
                (*path, "expect", "at"),
            )


def first_instances(case: model.Case, limit: int) -> Iterable[dict[str, model.Scalar]]:
    """The first `limit` parameter sets of a case, before `where`."""
    axes = [[dict(zip(names, row, strict=True)) for row in rows] for names, rows in case.params]
    for combination in itertools.islice(itertools.product(*axes), limit):
        yield {k: v for part in combination for k, v in part.items()}


def check_expression(text: str, names: set[str] | None, document: Document, path: Path, *, draw: bool = False) -> None:
    """Syntax, and unknown names unless `names` is None; the caret stands under the wrong part of the expression."""
    if not text:
        return
    whole = document.at(path)
    start = max(0, whole.find(text)) if isinstance(whole, str) else 0  # an expression may be a part of its scalar
    try:
        if draw:
            from conformance.fuzz import check_strategy

            check_strategy(text)
            return
        used = expressions.names(text)
    except expressions.ExpressionError as e:
        raise document.error(
            "spec.expression", f"in {text!r}: {e.message}", path, offset=(start + e.col, e.width)
        ) from None
    for name, col in used.items():
        if names is not None and name not in names:
            raise document.error(
                "spec.expression",
                f"in {text!r}: unknown name {name!r}; known here: {', '.join(sorted(names))}",
                path,
                offset=(start + col, len(name)),
            )


def _check_program(case: model.Case, names: set[str], document: Document, path: Path, valid: bool) -> None:
    program = case.program
    assert program is not None
    if case.expect.phase != "parse" and source_level(program.source) == "kernel":
        _check_python(program, document, _place(document, path, program.name, "source"))
    for m in PLACEHOLDER.finditer(program.source):
        if valid and m[1] not in names:
            raise document.error(
                "spec.expression", f"the source uses {m[0]} and the case has no parameter {m[1]!r}", path
            )
    scalars = {a.name for a in program.arguments if not a.is_array}
    signature = _place(document, path, program.name, "signature")
    for i, a in enumerate(program.arguments):
        for m in PLACEHOLDER.finditer(a.dtype):
            if m[1] not in names:
                raise document.error(
                    "spec.expression",
                    f"argument {a.name!r} uses {m[0]} and the case {case.id!r} has no parameter {m[1]!r}",
                    (*signature, i),
                )
        for text in a.shape or ():
            check_expression(text, names | scalars, document, (*signature, i))
        check_expression(a.value, names, document, (*signature, i))
        if not a.is_array and not a.value and a.name not in names and a.name not in case.arguments:
            raise document.error(
                "spec.expression",
                f"scalar argument {a.name!r} has no value",
                path,
                hint=f"add a parameter {a.name!r}, or write '{a.name}: {a.dtype} = EXPRESSION'",
            )
    grid = _place(document, path, program.name, "grid")
    for i, text in enumerate(program.grid):
        check_expression(text, names | scalars, document, (*grid, i))
    for name, value in program.constexprs.items():
        if isinstance(value, str):
            places = [(*p, name) for p in _places(path, program.name, "constexprs")]
            place = next((p for p in places if p in document.values), path)
            check_expression(value, names | scalars | set(DTYPES), document, place)
    if valid:
        own = (*path, "signature") in document.values or not {"source", "replace", "entry"} & set(document.at(path))
        _check_call(case, names, document, path, signature if own else path)


def _check_python(program: model.Program, document: Document, path: Path) -> None:
    try:
        ast.parse(substitute(program.source, None))
    except SyntaxError as e:
        line = e.lineno or 1
        text = (program.source.splitlines() or [""])[min(line, program.source.count("\n") + 1) - 1]
        message = f"the kernel is not Python: line {line}: {e.msg}"
        raise document.error_in_block("spec.source", message, path, line, text, e.offset or 1) from None


def _check_call(case: model.Case, names: set[str], document: Document, path: Path, signature: Path) -> None:
    """Every parameter of the kernel gets an argument or a constexpr, and nothing is passed that it does not take."""
    program = case.program
    assert program is not None
    takes = parameters(program.source, program.entry)
    if not takes:
        raise document.error("spec.source", f"the source has no function {program.entry!r}", path)
    given = {a.name for a in program.arguments}
    for i, extra in enumerate(a.name for a in program.arguments):
        if extra not in takes:
            message = f"the kernel {program.entry!r} has no parameter {extra!r}; it has {', '.join(takes)}"
            raise document.error("spec.signature", message, (*signature, i) if signature != path else path)
    optional = defaults(program.source, program.entry)
    for name, is_constexpr in takes.items():
        known = name in given or (is_constexpr and (name in names or name in program.constexprs)) or name in optional
        if not known:
            what = "no value: add it to params or constexprs" if is_constexpr else "not in the signature"
            raise document.error(
                "spec.signature",
                f"parameter {name!r} of the kernel {program.entry!r} has {what}"
                if is_constexpr
                else f"parameter {name!r} of the kernel {program.entry!r} is {what}",
                path if is_constexpr else signature,
            )


def _check_inputs(case: model.Case, names: set[str], document: Document, path: Path, valid: bool) -> None:
    program = case.program
    assert program is not None
    arrays = {a.name: a for a in program.arguments if a.is_array}
    for name, sets in case.inputs.items():
        if name not in arrays:
            raise document.error(
                "spec.reference", f"{name!r} is not an array of the signature", (*path, "inputs", name), key=True
            )
        if arrays[name].role == "out":
            raise document.error(
                "spec.reference",
                f"{name!r} is an out array and starts as poison; only in and inout have inputs",
                (*path, "inputs", name),
                key=True,
            )
        for i, text in enumerate(sets):
            place = (
                (*path, "inputs", name, i) if (*path, "inputs", name, i) in document.values else (*path, "inputs", name)
            )
            try:
                used = check_inputs(text)
            except InputError as e:
                raise document.error("spec.inputs", str(e), place) from None
            unknown = used - names
            if unknown:
                raise document.error("spec.inputs", f"in {text!r}: unknown name {min(unknown)!r}", place)
    if valid:
        for name, a in arrays.items():
            if a.role != "out" and name not in case.inputs:
                raise document.error(
                    "spec.inputs",
                    f"array {name!r} has no inputs",
                    path,
                    hint=f'add inputs: {{{name}: "ints(-8, 8)"}} or another named set',
                )
    for name, modifier in case.arguments.items():
        if modifier.partition("(")[0] not in MODIFIERS:
            message = f"unknown change {modifier!r}; known: {', '.join(MODIFIERS)}"
            raise document.error("spec.value", message, (*path, "arguments", name))
        if name not in {a.name for a in program.arguments}:
            raise document.error(
                "spec.reference", f"{name!r} is not an argument of the signature", (*path, "arguments", name), key=True
            )


def _check_oracle(case: model.Case, names: set[str], document: Document, path: Path, is_draft: bool) -> None:
    program = case.program
    assert program is not None
    if case.expect.outcome == "unpredictable":
        return
    every = names | {a.name for a in program.arguments} | {"grid"}
    place = _place(document, path, program.name, "oracle")
    oracle = case.oracle
    if oracle is None:
        raise document.error(
            "spec.missing_key",
            "no oracle: say where the expected outputs come from",
            path,
            hint='oracle: {ref: "oracles.elementwise:add"} or oracle: {out: "x + 1"}',
        )
    if oracle.ref and not is_draft:  # which may name an oracle that is yet to be written
        _check_ref(oracle.ref, document, (*place, "ref"))
    for text in (*oracle.inputs.values(), *(v for v in oracle.params.values() if isinstance(v, str))):
        check_expression(text, every | set(DTYPES), document, place)
    for output in program.outputs if not oracle.ref else ():
        if output not in oracle.values:
            raise document.error(
                "spec.oracle", f"output {output!r} has no oracle", place, hint=f'add {output}: "EXPRESSION"'
            )
        entry = oracle.values[output]
        for text in (entry.value, entry.written, entry.unspecified):
            word = next(w for w in ("value", "written", "unspecified") if getattr(entry, w) == text)
            inner = (*place, output, word)
            check_expression(text, every, document, inner if inner in document.values else inner[:-1])
    for extra in sorted({*oracle.values, *oracle.outputs} - set(program.outputs)):
        raise document.error("spec.oracle", f"{extra!r} has an oracle and is not an output of the signature", place)
    if not program.outputs:
        raise document.error("spec.oracle", "the signature has no out or inout array, so nothing can be judged", path)
    if case.numerics is None:
        raise document.error(
            "spec.missing_key",
            "no numerics: say how outputs are compared",
            path,
            hint="numerics: {mode: exact} unless the clause allows an error",
        )
    check_numerics(case.numerics, every, document, _place(document, path, program.name, "numerics"))


def _check_ref(ref: str, document: Document, path: Path) -> None:
    from oracles.registry import OracleError, lookup  # not needed for files that were accepted before

    try:
        lookup(ref)
    except OracleError as e:
        raise document.error("spec.oracle", str(e), path, hint="oracles.names() lists them") from None


def _place(document: Document, path: Path, program: str, key: str) -> Path:
    """Where a case's `key` stands; the case, where it stands nowhere."""
    return next((p for p in _places(path, program, key) if p in document.values), path)


def _places(path: Path, program: str, key: str) -> Iterable[Path]:
    """Where a case's `key` may stand: in the case, in its program, at the top."""
    for head in (path, ("program",), ("programs", program), ()):
        yield (*head, key)


def check_numerics(block: model.Numerics, names: set[str], document: Document, path: Path) -> None:
    """Expressions of a `numerics:` block, which stands at a path, and limits that are numbers."""
    for key in ("depth", "magnitude", "ulp", "absolute"):
        limits = getattr(block, key)
        for dtype, limit in limits.items() if isinstance(limits, Mapping) else ((None, limits),):
            place = (*path, key) if dtype is None else (*path, key, dtype)
            if isinstance(limit, str):
                check_expression(limit, names, document, place)
            elif limit is not None and not limit >= 0:
                raise document.error("spec.value", f"a limit is a number from 0, found {limit}", place)
    for output, own in block.outputs.items():
        check_numerics(own, names, document, (*path, "outputs", output))


def _check_bound(program: model.Program, at: Mapping[str, model.Scalar], document: Document, path: Path) -> None:
    """`at` gives every parameter a compilation needs: dtypes and constexprs."""
    needed = {
        m[1] for text in (program.source, *(a.dtype for a in program.arguments)) for m in PLACEHOLDER.finditer(text)
    }
    optional = defaults(program.source, program.entry)
    for name, is_constexpr in parameters(program.source, program.entry).items():
        if is_constexpr and name not in program.constexprs and name not in optional:
            needed.add(name)
    for value in program.constexprs.values():
        if isinstance(value, str):
            needed |= set(expressions.names(value)) - set(DTYPES) - {a.name for a in program.arguments}
    missing = sorted(needed - set(at))
    if missing:
        raise document.error(
            "spec.missing_key", f"at: lacks {', '.join(missing)}, which the kernel needs to compile", path
        )


def _check_counts(budget: model.Budget, document: Document, path: Path) -> None:
    """Limits of counts are expressions over `at`, the scalars of the signature and the grid; inputs are named sets."""
    arrays = {a.name for a in budget.program.arguments if a.is_array}
    names = set(budget.at) | {a.name for a in budget.program.arguments if not a.is_array} | {"grid"}
    for name, limits in budget.counts.items():
        for text in limits:
            check_expression(text, names, document, (*path, "counts", name))
    for name, text in budget.inputs.items():
        if name not in arrays:
            message = f"{name!r} is not an array of the signature"
            raise document.error("spec.reference", message, (*path, "inputs", name), key=True)
        try:
            check_inputs(text)
        except InputError as e:
            raise document.error("spec.inputs", str(e), (*path, "inputs", name)) from None
