"""Feature files to the model: YAML, then the JSON Schema, then the rules a schema cannot say; first error wins.

`load_suite(spec_dir)` reads every `features/<area>/<name>.yaml`. All errors are `SpecError`s with file, line, column.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from conformance import benchmarks, model, parsed, sections, yaml_text
from conformance.errors import SpecError
from conformance.lint import check_feature, check_suite
from conformance.signatures import entry_name
from conformance.yaml_text import Document

SCHEMA_PATH = "schema/feature.schema.json"


def spec_root() -> Path:
    """The `spec/` folder: in a checkout beside the packages, in a wheel inside `conformance`."""
    here = Path(__file__).resolve().parent
    for candidate in (here.parent / "spec", here / "spec"):
        if (candidate / SCHEMA_PATH).is_file():
            return candidate
    raise SpecError(
        "spec.missing",
        "the spec folder is not beside the conformance package",
        hint="run from a checkout or reinstall tilespec",
    )


@lru_cache(maxsize=8)
def _validator(schema_file: Path) -> Any:
    import jsonschema  # not needed for files that were accepted before

    schema = json.loads(schema_file.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def load_suite(root: Path | None = None) -> tuple[model.Feature, ...]:
    """Every feature under `root/features`, sorted by id; the first file with an error raises it."""
    features, errors = load_suite_with_errors(root)
    if errors:
        raise errors[0]
    return features


def load_suite_with_errors(root: Path | None = None) -> tuple[tuple[model.Feature, ...], list[SpecError]]:
    """Every readable feature, and one error for each file that is not."""
    root = root or spec_root()
    features: list[model.Feature] = []
    errors: list[SpecError] = []
    files = sorted((root / "features").glob("*/*.yaml"))
    for path in sorted({*(root / "features").rglob("*.y*ml")} - {*files}):
        if path.suffix in (".yml", ".yaml") and not path.name.startswith("."):
            message = "the file is not read: a feature is features/<area>/<name>.yaml"
            errors.append(SpecError("spec.file", message, _shown(path), hint="rename it or move it"))
    for path in files:
        try:
            features.append(load_feature(path, root))
        except SpecError as e:
            errors.append(e)
    errors += check_suite(features) if not errors else []
    return tuple(sorted(features, key=lambda f: f.id)), errors


def load_feature(path: Path, root: Path | None = None) -> model.Feature:
    """One feature file; its id must match its place when it lies under `root/features`."""
    text = yaml_text.decoded(_shown(path), path.read_bytes())
    features = (root / "features").resolve() if root else None
    expected = None
    if features and path.resolve().is_relative_to(features):
        relative = path.resolve().relative_to(features)
        expected = ".".join((*relative.parts[:-1], relative.stem))
    document = parsed.read(_shown(path), text)
    schema = spec_root() / SCHEMA_PATH
    checked = parsed.passed(text, schema)
    feature = _checked_feature(document, expected, checked)
    if not checked:
        parsed.note_passed(text, schema)
    return feature


def _shown(path: Path) -> str:
    cwd = Path.cwd()
    resolved = path.resolve()
    shown = resolved.relative_to(cwd) if resolved.is_relative_to(cwd) else resolved
    return shown.as_posix()


def parse_feature(text: str, file: str, expected_id: str | None = None) -> model.Feature:
    """A feature from YAML text; `expected_id` is the id its path promises."""
    return _checked_feature(yaml_text.read(file, text), expected_id, checked=False)


def _checked_feature(document: Document, expected_id: str | None, checked: bool) -> model.Feature:
    """The feature of a document, which is valid by itself where ``checked`` says so."""
    if not checked:
        validate(document, spec_root() / SCHEMA_PATH)
    if expected_id is not None and document.data["id"] != expected_id:
        raise document.error(
            "spec.id", f"id is {document.data['id']!r} but the file's place says {expected_id!r}", ("id",)
        )
    feature = _feature(document)
    if not checked:
        check_feature(feature, document)
        benchmarks.check(feature, document)
    return feature


def validate(document: Document, schema_file: Path) -> None:
    """Raise the first schema error of a document, at the key or value that is wrong."""
    errors = sorted(
        _validator(schema_file).iter_errors(document.data), key=lambda e: (_order(document, e), str(e.validator))
    )
    if errors:
        raise _schema_error(document, _innermost(errors[0]))


def _order(document: Document, error: Any) -> tuple[int, int]:
    path = tuple(error.absolute_path)
    mark = document.values.get(path)
    return (mark.line, mark.col) if mark else (0, 0)


def _innermost(error: Any) -> Any:
    """Of an `anyOf`, the branch that got furthest; `if/then` errors already are the inner ones."""
    while error.validator in ("anyOf", "oneOf") and error.context:
        deepest = max(error.context, key=lambda e: len(e.absolute_path))
        if len(deepest.absolute_path) <= len(error.absolute_path):
            return error
        error = deepest
    return error


def _schema_error(document: Document, error: Any) -> SpecError:
    path, value = tuple(error.absolute_path), error.instance
    match error.validator:
        case "additionalProperties":
            known = sorted(error.schema.get("properties", {}))
            allowed = error.schema.get("patternProperties", {})
            unknown = next(k for k in value if k not in known and not any(_matches(p, k) for p in allowed))
            close = difflib.get_close_matches(unknown, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}" if known else ""
            return document.error("spec.unknown_key", f"unknown key {unknown!r}", (*path, unknown), key=True, hint=hint)
        case "required":
            missing = next(k for k in error.validator_value if k not in value)
            return document.error(
                "spec.missing_key", f"key {missing!r} is missing", path, hint=_MISSING.get(missing, "")
            )
        case "type":
            wanted = error.validator_value
            wanted = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return document.error("spec.type", f"expected {wanted}, found {_kind(value)}", path)
        case "enum" | "const":
            options = error.validator_value if error.validator == "enum" else [error.validator_value]
            close = difflib.get_close_matches(str(value), [str(o) for o in options], 1)
            return document.error(
                "spec.value",
                f"{value!r} is not one of {', '.join(map(str, options))}",
                path,
                hint=f"did you mean {close[0]!r}?" if close else "",
            )
        case "pattern":
            return document.error("spec.value", f"{value!r} does not have the form {error.validator_value}", path)
        case "not":
            return document.error("spec.value", "phase, id, at and message belong to outcome: error only", path)
        case "anyOf" if error.schema.get("properties", {}).get("stage"):
            return document.error(
                "spec.value", "an ir entry needs text, has, lacks or count together with covers, or snapshot", path
            )
    return document.error("spec.value", error.message, path)


_MISSING = {
    "control": "every rejected case names its legal twin: a case of this feature that compiles and runs",
    "covers": "name the clauses this witnesses, for example covers: [C1]",
    "depth": 'the largest number of roundings one term meets, for example "cdiv(N, BLOCK) + log2(BLOCK)"',
}


def _matches(pattern: str, key: str) -> bool:
    import re

    return re.search(pattern, key) is not None


def _kind(value: Any) -> str:
    names = {
        dict: "a mapping",
        list: "a list",
        str: "text",
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        type(None): "nothing",
    }
    return f"{names[type(value)]} ({value!r})" if isinstance(value, (str, int, float)) else names[type(value)]


def _feature(document: Document) -> model.Feature:
    data = document.data
    programs = _programs(document)
    clauses = tuple(model.Clause(**c, mark=document.values[("clauses", i)]) for i, c in enumerate(data["clauses"]))
    shared_oracle, shared_numerics = sections.oracle(data.get("oracle")), sections.numerics(data.get("numerics"))
    cases = tuple(_case(document, i, programs, shared_oracle, shared_numerics) for i in range(len(data["cases"])))
    ir = tuple(_ir(document, i, programs) for i in range(len(data.get("ir", ()))))
    budgets = tuple(_budget(document, i, programs) for i in range(len(data.get("budgets", ()))))
    return model.Feature(
        id=data["id"],
        title=data["title"],
        status=data["status"],
        since=data["since"],
        file=document.file,
        clauses=clauses,
        programs=programs,
        cases=cases,
        ir=ir,
        budgets=budgets,
        bench=benchmarks.read(document, shared_oracle, shared_numerics),
        until=data.get("until", ""),
        profile=data.get("profile", "core"),
        requires=tuple(data.get("requires", ())),
        kills=tuple(data.get("kills", ())),
        notes=data.get("notes", ""),
    )


def _programs(document: Document) -> dict[str, model.Program]:
    data = document.data
    if "program" in data and "programs" in data:
        raise document.error("spec.value", "use program (one) or programs (several), not both", ("programs",), key=True)
    found: dict[str, model.Program] = {}
    if "program" in data:
        found["main"] = _program(document, ("program",), "main", data["program"])
    for name, body in data.get("programs", {}).items():
        found[name] = _program(document, ("programs", name), name, body)
    return found


def _program(document: Document, path: yaml_text.Path, name: str, body: dict[str, Any]) -> model.Program:
    arguments = tuple(
        sections.argument(document, (*path, "signature", i), text) for i, text in enumerate(body["signature"])
    )
    entry = body.get("entry") or entry_name(body["source"])
    if not entry:
        raise document.error(
            "spec.source",
            "no function in the source is decorated with @triton.jit",
            (*path, "source"),
            hint="decorate the kernel, or name it with entry:",
        )
    return model.Program(
        name=name,
        entry=entry,
        source=body["source"],
        arguments=arguments,
        grid=_texts(body["grid"]),
        grid_form=body.get("grid_form", "tuple"),
        profile=document.data.get("profile", "core"),
        constexprs=body.get("constexprs", {}),
        options=body.get("options", {}),
        oracle=sections.oracle(body.get("oracle")),
        numerics=sections.numerics(body.get("numerics")),
    )


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(str(v) for v in values)


def _pick_program(
    document: Document, path: yaml_text.Path, body: dict[str, Any], programs: dict[str, model.Program]
) -> model.Program:
    name = body.get("program")
    if name is None and len(programs) == 1:
        return next(iter(programs.values()))
    if name is None:
        raise document.error("spec.reference", f"say which program: {', '.join(programs) or 'none is declared'}", path)
    if name not in programs:
        raise document.error(
            "spec.reference", f"unknown program {name!r}; declared: {', '.join(programs) or 'none'}", (*path, "program")
        )
    return programs[name]


def _case(
    document: Document,
    index: int,
    programs: dict[str, model.Program],
    oracle: model.Oracle | None,
    numerics: model.Numerics | None,
) -> model.Case:
    path: yaml_text.Path = ("cases", index)
    body = document.data["cases"][index]
    transform = body.get("transform")
    program = None if transform else _case_program(document, path, body, programs)
    hypothesis = body.get("hypothesis")
    own = program or model.Program("", "", "", (), ())
    return model.Case(
        id=body["id"],
        covers=tuple(body["covers"]),
        tier=body.get("tier", "pr"),
        program=program,
        params=sections.axes(document, (*path, "params"), body.get("params", {})),
        where=body.get("where", ""),
        inputs={k: (v,) if isinstance(v, str) else tuple(v) for k, v in body.get("inputs", {}).items()},
        arguments=body.get("arguments", {}),
        hypothesis=model.Hypothesis(**hypothesis) if hypothesis else None,
        oracle=sections.oracle(body.get("oracle")) or own.oracle or oracle,
        numerics=sections.numerics(body.get("numerics")) or own.numerics or numerics,
        transform=model.Transform(tuple(transform["passes"]), transform["before"], transform.get("after", ""))
        if transform
        else None,
        requires=tuple(body.get("requires", ())),
        control=body.get("control", ""),
        expect=_expect(document.data["id"], body.get("expect")),
        mark=document.values[path],
    )


def _expect(feature: str, body: dict[str, Any] | None) -> model.Expect:
    fields = dict(body or {"outcome": "valid"})
    if "id" in fields and "#" not in fields["id"] and "." not in fields["id"]:
        fields["id"] = f"{feature}#{fields['id']}"
    return model.Expect(**fields)


def _case_program(
    document: Document, path: yaml_text.Path, body: dict[str, Any], programs: dict[str, model.Program]
) -> model.Program:
    """The program a case runs: the feature's, with what the case replaces."""
    full = all(k in body for k in ("source", "signature", "grid"))
    base = (
        model.Program("", "", "", (), ())
        if full and "program" not in body
        else _pick_program(document, path, body, programs)
    )
    source = body.get("source", base.source)
    for old, new in body.get("replace", {}).items():
        if source.count(old) != 1:
            raise document.error(
                "spec.reference",
                f"{old!r} occurs {source.count(old)} times in the source, not once",
                (*path, "replace", old),
                key=True,
            )
        source = source.replace(old, new)
    arguments = _arguments(document, path, body, base)
    entry = body.get("entry") or (entry_name(source) if "source" in body else "") or base.entry
    if not entry:
        raise document.error(
            "spec.source", "no function in the source is decorated with @triton.jit", (*path, "source")
        )
    return model.Program(
        name=base.name,
        entry=entry,
        source=source,
        arguments=arguments,
        grid=_texts(body.get("grid", base.grid)),
        grid_form=body.get("grid_form", base.grid_form),
        profile=document.data.get("profile", "core"),
        constexprs={**base.constexprs, **body.get("constexprs", {})},
        options={**base.options, **body.get("options", {})},
        oracle=base.oracle,
        numerics=base.numerics,
    )


def _arguments(
    document: Document, path: yaml_text.Path, body: dict[str, Any], base: model.Program
) -> tuple[model.Argument, ...]:
    """Those of a case's or budget's own signature, else the program's."""
    if "signature" not in body:
        return base.arguments
    return tuple(sections.argument(document, (*path, "signature", i), t) for i, t in enumerate(body["signature"]))


def _counts(body: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {k: (v, v) if isinstance(v, int) else (v[0], v[1]) for k, v in body.items()}


def _ir(document: Document, index: int, programs: dict[str, model.Program]) -> model.IrCheck:
    path: yaml_text.Path = ("ir", index)
    body = document.data["ir"][index]
    default = f"ir_{body['stage']}" + (f"_{body['program']}" if "program" in body else "")
    return model.IrCheck(
        id=body.get("id", default),
        stage=body["stage"],
        program=_pick_program(document, path, body, programs),
        at=body.get("at", {}),
        arch=body.get("arch", ""),
        tier=body.get("tier", "pr"),
        text=body.get("text", ""),
        snapshot=body.get("snapshot", False),
        has=tuple(body.get("has", ())),
        lacks=tuple(body.get("lacks", ())),
        count=_counts(body.get("count", {})),
        covers=tuple(body.get("covers", ())),
        mark=document.values[path],
    )


def _budget(document: Document, index: int, programs: dict[str, model.Program]) -> model.Budget:
    path: yaml_text.Path = ("budgets", index)
    body = document.data["budgets"][index]
    default = f"budget_{body.get('arch', 'counts')}" + (f"_{body['program']}" if "program" in body else "")
    limits = {k: v if isinstance(v, list) else [v, v] for k, v in body.get("counts", {}).items()}
    program = _pick_program(document, path, body, programs)
    return model.Budget(
        id=body.get("id", default),
        program=replace(program, arguments=_arguments(document, path, body, program)),
        at=body["at"],
        arch=body.get("arch", ""),
        toolchain=body.get("toolchain", ""),
        max=body.get("max", {}),
        mix=_counts(body.get("mix", {})),
        counts={k: (str(low), str(high)) for k, (low, high) in limits.items()},
        inputs=body.get("inputs", {}),
        tier=body.get("tier", "pr"),
        covers=tuple(body.get("covers", ())),
        mark=document.values[path],
    )
