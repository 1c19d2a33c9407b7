"""`tilespec compile`: one kernel of a Python file or of a case, down to any stage, printed or written to files."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from conformance import model, output
from conformance.adapters import CompileRequest, Rejected, TargetUnavailable, Unsupported, Valid, load
from conformance.calls import bind
from conformance.instances import Selection, instances
from conformance.results import EXIT
from conformance.signatures import parameters

FILES = {
    "cuda": "cuda.cu",
    "mlir": "mlir.mlir",
    "ptx": "ptx.ptx",
    "cubin": "cubin.cubin",
    "resources": "resources.json",
    "remarks": "remarks.json",
}
MACHINE_STAGES = frozenset({"ptx", "cubin", "sass", "resources"})


def run(
    what: str,
    features: Sequence[model.Feature],
    stages: tuple[str, ...],
    arch: str,
    settings: Sequence[str],
    signature: str | None,
    out: Path | None,
    backend: str | None = None,
) -> int:
    """Compile and deliver; exit code 1 with the rendered error when the kernel is rejected."""
    values = dict(parse_setting(s) for s in settings)
    make = _file_request if "::" in what else _case_request
    request = make(what, features, stages, arch, values, signature)
    try:
        adapter = load(target_for(stages, backend))
    except TargetUnavailable as e:
        raise click.ClickException(str(e)) from None
    answer = adapter.compile(request)
    if isinstance(answer, (Rejected, Unsupported)):
        shown = answer.rendered if isinstance(answer, Rejected) and answer.rendered else answer.message
        click.echo(shown or str(answer), err=True)
        return EXIT["failures"]
    deliver(answer, stages, out)
    return EXIT["ok"]


def target_for(stages: Sequence[str], backend: str | None = None) -> str:
    """The target that gives these stages. Texts need no external compiler; machine code comes by way of ``backend``,
    by itself CUDA C++ unless MLIR is the only one of the two that is wanted as text."""
    if MACHINE_STAGES.isdisjoint(stages):
        return "simt" if set(stages) - {"tile", "tile_opt"} else "interp"
    return backend or ("mlir" if "mlir" in stages and "cuda" not in stages else "cuda")


def parse_setting(text: str) -> tuple[str, Any]:
    """`BLOCK=256` to a name and a Python value; what is no literal stays text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--set")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        return name.strip(), value.strip()


def _file_request(what, features, stages, arch, values, signature) -> CompileRequest:
    place, _, kernel = what.partition("::")
    path = Path(place)
    if not path.is_file():
        raise click.BadParameter(f"there is no file {place}", param_hint="FILE::KERNEL")
    try:
        source = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise click.BadParameter(f"{place} is not UTF-8: byte {e.start}", param_hint="FILE::KERNEL") from None
    takes = _parameters(source, kernel, place)
    if signature is None:
        runtime = [n for n, is_constexpr in takes.items() if not is_constexpr]
        example = ",".join(f"{n}:*f32" for n in runtime)
        raise click.UsageError(f'say the types of the runtime arguments, for example --signature "{example}"')
    types = tuple(_typed(part) for part in signature.split(",") if part.strip())
    if len(dict(types)) < len(types):
        twice = next(name for i, (name, _) in enumerate(types) if name in dict(types[:i]))
        raise click.BadParameter(f"the type of {twice!r} is given twice", param_hint="--signature")
    unknown = [n for n in (*dict(types), *values) if n not in takes]
    if unknown:
        raise click.UsageError(f"{kernel} has no parameter {unknown[0]!r}; it takes {', '.join(takes)}")
    return CompileRequest(source, kernel, types, tuple(values.items()), (), arch, stages, str(path))


def _typed(part: str) -> tuple[str, str]:
    name, colon, type_text = part.strip().partition(":")
    if not colon:
        raise click.BadParameter(f"{part.strip()!r} is not NAME:TYPE", param_hint="--signature")
    return name.strip(), type_text.strip()


def _parameters(source: str, kernel: str, place: str) -> dict[str, bool]:
    takes = parameters(source, kernel)
    if takes:
        return takes
    try:
        tree = ast.parse(source)
    except SyntaxError as e:
        raise click.UsageError(f"{place}:{e.lineno}:{e.offset}: error[syntax]: {e.msg}") from None
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    if kernel in names:
        return {}
    raise click.UsageError(f"{place} has no function {kernel!r}; it has {', '.join(names) or 'none'}")


def _case_request(what, features, stages, arch, values, signature) -> CompileRequest:
    if signature is not None:
        raise click.UsageError("--signature is for FILE::KERNEL; a case has its own arguments")
    chosen = Selection([what])
    found = next((i for f in features for i in instances(f) if i.id in chosen and i.program is not None), None)
    if found is None:
        raise click.BadParameter(
            f"no case matches {what!r}; tilespec list shows what there is", param_hint="FEATURE/CASE"
        )
    program = found.program
    takes = {**found.params, **program.constexprs, **parameters(program.source, program.entry)}
    unknown = [name for name in values if name not in takes]
    if unknown:
        raise click.UsageError(f"{found.case_id} has no parameter {unknown[0]!r}; it takes {', '.join(takes)}")
    call = bind(program, {**found.params, **values}, shapes=False)
    return call.request(stages, arch)


def deliver(answer: Valid, stages: Sequence[str], out: Path | None) -> None:
    """Print the text stages, or write one file a stage."""
    contents: dict[str, str | bytes] = {}
    for stage in stages:
        if stage == "resources":
            contents[stage] = json.dumps(dict(answer.resources), indent=1) + "\n"
        elif stage == "remarks" and out is not None:
            contents[stage] = json.dumps(list(answer.remarks), indent=1) + "\n"
        else:
            contents[stage] = answer.blobs[stage] if stage in answer.blobs else answer.texts[stage]
    if out is not None:
        for stage, content in contents.items():
            output.write(out / FILES.get(stage, f"{stage}.txt"), content)
        return
    for stage, content in contents.items():
        if len(contents) > 1:
            click.echo(f"// ---- {stage}")
        click.echo(f"<{len(content)} bytes; use --out DIR>" if isinstance(content, bytes) else content.rstrip("\n"))
