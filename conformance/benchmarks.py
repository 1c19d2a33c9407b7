"""The section `bench:` of feature files: reading it, its rules, and the lines that it expands to."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance import model, sections
from conformance.dtypes import DTYPES
from conformance.errors import SpecError
from conformance.expressions import ExpressionError, evaluate
from conformance.instances import Selection, instance_id
from conformance.lint import check_expression, check_numerics
from conformance.signatures import PLACEHOLDER, substitute
from conformance.yaml_text import Document, Path

# Contents of an input: normal(deviation), or uniform(low, high); integers of "bits" have all their bits random.
CONTENTS = re.compile(r"(?P<kind>normal|uniform|bits)(?:\((?P<numbers>[-+.\de, ]*)\))?")
ARITY = {"normal": (0, 1), "uniform": (2,), "bits": (0,)}


@dataclass(frozen=True)
class Line:
    """One size and dtype of a benchmark: what a row of the table shows. Work is in bytes and floating-point
    operations of one call; shapes by array, in elements."""

    id: str
    feature: str
    benchmark: model.Benchmark
    params: Mapping[str, model.Scalar]
    dtypes: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, Any]
    options: Mapping[str, Any]
    transposed: frozenset[str]
    bytes: float
    flops: float

    @property
    def label(self) -> str:
        """The parameters as they stand in the id."""
        return self.id.partition(":")[2]

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.benchmark.arguments if a.is_array and a.role != "in")

    @property
    def array_bytes(self) -> int:
        """Memory that one set of arguments takes."""
        total = 0
        for name, shape in self.shapes.items():
            elements = 1
            for extent in shape:
                elements *= extent
            total += elements * DTYPES[self.dtypes[name]].numpy.itemsize
        return total


def read(
    document: Document, oracle: model.Oracle | None, numerics: model.Numerics | None
) -> tuple[model.Benchmark, ...]:
    """The benchmarks of a feature; `oracle` and `numerics` are the feature's own, which an entry may replace."""
    found = []
    for i, body in enumerate(document.data.get("bench", ())):
        path: Path = ("bench", i)
        judged = (sections.oracle(body.get("oracle")) or oracle, sections.numerics(body.get("numerics")) or numerics)
        if judged[0] is None or judged[1] is None:
            missing = "oracle" if judged[0] is None else "numerics"
            hint = "what is measured is verified; give it here or at the top"
            raise document.error("spec.missing_key", f"key {missing!r} is missing", path, hint=hint)
        texts = {k: str(v) for k, v in body.items() if k in ("bytes", "flops", "where", "notes")}
        found.append(
            model.Benchmark(
                id=body["id"],
                entry=body["entry"],
                operation=body.get("operation", document.data["id"].partition(".")[2]),
                arguments=tuple(
                    sections.argument(document, (*path, "signature", k), text)
                    for k, text in enumerate(body["signature"])
                ),
                params=sections.axes(document, (*path, "params"), body["params"]),
                quick=sections.axes(document, (*path, "quick"), body.get("quick", {})),
                sample=body["sample"],
                oracle=judged[0],
                numerics=judged[1],
                transposed={k: str(v) for k, v in body.get("transposed", {}).items()},
                inputs=body.get("inputs", {}),
                options=body.get("options", {}),
                peers=tuple(body.get("peers", ())),
                floors=body.get("floors", {}),
                aims=body.get("aims", {}),
                means=body.get("means", {}),
                mark=document.values[path],
                **texts,
            )
        )
    return tuple(found)


def check(feature: model.Feature, document: Document) -> None:
    """Raise a located SpecError for the first rule that the section breaks."""
    seen: set[str] = set()
    for i, benchmark in enumerate(feature.bench):
        path: Path = ("bench", i)
        if benchmark.id in seen:
            raise document.error("spec.duplicate_id", f"benchmark {benchmark.id!r} is defined twice", (*path, "id"))
        seen.add(benchmark.id)
        _check_names(benchmark, document, path)
        for peer, floor in benchmark.floors.items():
            if floor > benchmark.aims.get(peer, floor):
                raise document.error("spec.value", f"the aim is below the floor {floor}", (*path, "aims", peer))
        try:
            every = [*lines(feature, benchmark), *lines(feature, benchmark, quick=True)]
        except SpecError as e:
            raise document.error(e.id, e.message, path) from None
        if not every:
            raise document.error("spec.value", "no line is left to measure", (*path, "params"))


def _check_names(benchmark: model.Benchmark, document: Document, path: Path) -> None:
    """Expressions use known names, and what names arrays or parameters names some that there are."""
    params = {n for axis, _ in benchmark.params for n in axis}
    if benchmark.quick and {n for axis, _ in benchmark.quick for n in axis} != params:
        raise document.error("spec.value", f"quick has other parameters than {', '.join(params)}", (*path, "quick"))
    arrays = {a.name: a for a in benchmark.arguments if a.is_array}
    scalars = {a.name for a in benchmark.arguments} - set(arrays)
    for k, a in enumerate(benchmark.arguments):
        place = (*path, "signature", k)
        for m in PLACEHOLDER.finditer(a.dtype):
            if m[1] not in params:
                raise document.error("spec.expression", f"{m[0]} is not a parameter", place)
        for text in (*(a.shape or ()), a.value):
            check_expression(text, params | set(DTYPES), document, place)
        if not a.is_array and not a.value and a.name not in params:
            raise document.error("spec.expression", f"scalar argument {a.name!r} has no value", place)
    for key, text in (("bytes", benchmark.bytes), ("flops", benchmark.flops), ("where", benchmark.where)):
        check_expression(text, params | set(DTYPES), document, (*path, key))
    for name, text in benchmark.transposed.items():
        _check_array(name, arrays, document, (*path, "transposed", name))
        check_expression(text, params, document, (*path, "transposed", name))
    for name, value in benchmark.options.items():
        if isinstance(value, str):
            check_expression(value, params | set(DTYPES), document, (*path, "options", name))
    for name, text in benchmark.inputs.items():
        _check_array(name, arrays, document, (*path, "inputs", name))
        if contents(text) is None:
            message = f"{text!r}: write normal, normal(DEVIATION), uniform(LOW, HIGH) or bits"
            raise document.error("spec.inputs", message, (*path, "inputs", name))
    for name in benchmark.sample:
        if not any(name in (a.shape or ()) for a in arrays.values()):
            raise document.error(
                "spec.reference", f"no array has the extent {name!r}", (*path, "sample", name), key=True
            )
    if not any(a.role != "in" for a in arrays.values()):
        raise document.error("spec.oracle", "the signature has no out array, so nothing can be verified", path)
    every = params | scalars | set(arrays) | set(benchmark.options) | {f"{extent}_at" for extent in benchmark.sample}
    oracle = benchmark.oracle
    for text in (*oracle.inputs.values(), *(v for v in oracle.params.values() if isinstance(v, str))):
        check_expression(text, every | set(DTYPES), document, (*path, "oracle"))
    for entry in oracle.values.values():
        for text in (entry.value, entry.written, entry.unspecified):
            check_expression(text, every, document, (*path, "oracle"))
    check_numerics(benchmark.numerics, every, document, (*path, "numerics"))


def _check_array(name: str, arrays: Mapping[str, model.Argument], document: Document, path: Path) -> None:
    if name not in arrays:
        raise document.error("spec.reference", f"{name!r} is not an array of the signature", path, key=True)


def contents(text: str) -> tuple[str, tuple[float, ...]] | None:
    """The kind of an input's contents and its numbers; None for text that says neither."""
    m = CONTENTS.fullmatch(text.strip())
    if m is None:
        return None
    try:
        numbers = tuple(float(n) for n in (m["numbers"] or "").split(",") if n.strip())
    except ValueError:
        return None
    return (m["kind"], numbers) if len(numbers) in ARITY[m["kind"]] else None


def lines(feature: model.Feature, benchmark: model.Benchmark, *, quick: bool = False) -> Iterator[Line]:
    """Every line of a benchmark, or those of a quick run. Raises SpecError for an expression without a value."""
    axes = (benchmark.quick or _first(benchmark.params)) if quick else benchmark.params
    parts = [[dict(zip(names, row, strict=True)) for row in rows] for names, rows in axes]
    for combination in itertools.product(*parts):
        params = {k: v for part in combination for k, v in part.items()}
        try:
            if not benchmark.where or evaluate(benchmark.where, params):
                yield _line(feature, benchmark, params)
        except ExpressionError as e:
            raise SpecError("spec.expression", e.message, feature.file, benchmark.mark) from None


def _first(axes: model.Axes) -> model.Axes:
    """The first row of each axis."""
    return tuple((names, rows[:1]) for names, rows in axes)


def _line(feature: model.Feature, benchmark: model.Benchmark, params: Mapping[str, model.Scalar]) -> Line:
    words = {**{d: d for d in DTYPES}, **params}
    arrays = [a for a in benchmark.arguments if a.is_array]
    scalars = [a for a in benchmark.arguments if not a.is_array]
    return Line(
        id=instance_id(feature.id, benchmark.id, params),
        feature=feature.id,
        benchmark=benchmark,
        params=dict(params),
        dtypes={a.name: substitute(a.dtype, dict(params), triton=False) for a in arrays},
        shapes={a.name: tuple(int(evaluate(e, words)) for e in a.shape or ()) for a in arrays},
        scalars={a.name: evaluate(a.value, words) if a.value else params[a.name] for a in scalars},
        options={n: evaluate(v, words) if isinstance(v, str) else v for n, v in benchmark.options.items()},
        transposed=frozenset(n for n, text in benchmark.transposed.items() if evaluate(text, words)),
        bytes=float(evaluate(benchmark.bytes, words)),
        flops=float(evaluate(benchmark.flops, words)) if benchmark.flops else 0.0,
    )


def collect(features: Iterable[model.Feature], select: Sequence[str] = (), *, quick: bool = False) -> list[Line]:
    """Selected lines in the order of the features. Raises SpecError for a pattern that selects nothing."""
    features, chosen = list(features), Selection(select)
    every = [line for f in features for b in f.bench for line in lines(f, b)]
    short = [line for f in features for b in f.bench for line in lines(f, b, quick=True)]
    for pattern in chosen.unmatched(line.id for line in (*every, *short)):
        raise SpecError(
            "select.nothing", f"no benchmark matches {pattern!r}", hint="tilespec bench --dry-run lists them"
        )
    return [line for line in (short if quick else every) if line.id in chosen]
