"""The command `tilespec`: list, run, compile, bless, report, parity, new, explain, mutate, fuzz, bench, cache, doctor.

Names, options and exit codes are a contract with other tools. Work happens in the modules that the commands import when
they run, so that `--help` and shell completion stay fast.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from conformance import completion
from conformance.bench.command import bench
from conformance.errors import SpecError
from conformance.options import Output, example, features_of, part_of, select_argument, spec_option, targets
from conformance.results import EXIT

LONG_RUN = 1000  # instances from which starting a process a core pays
STAGES = ("tile", "tile_opt", "laid_out", "simt", "cuda", "mlir", "ptx", "cubin", "sass", "resources", "remarks")
ARCHITECTURES = ("sm_80", "sm_89", "sm_90a", "sm_100a")


class Commands(click.Group):
    """Turns the harness's own errors into one message and an exit code: 2 for mistakes of the user, 3 for ours."""

    def invoke(self, ctx: click.Context) -> Any:
        from conformance.adapters import TargetUnavailable

        try:
            return super().invoke(ctx)
        except SpecError as e:
            click.echo(e.render(), err=True)
            ctx.exit(EXIT["nothing"] if e.id == "select.nothing" else EXIT["usage"])
        except TargetUnavailable as e:
            click.echo(f"error: {e}", err=True)
            ctx.exit(EXIT["usage"])
        except (click.ClickException, click.exceptions.Exit, click.Abort, KeyboardInterrupt, BrokenPipeError):
            raise
        except OSError as e:  # a disk that is full, a folder that went away: no mistake of ours
            click.echo(f"error: {e.filename or 'input or output'}: {e.strerror or e}", err=True)
            ctx.exit(EXIT["usage"])
        except Exception as e:
            import traceback

            traceback.print_exc()
            click.echo(f"error: internal: {type(e).__name__}: {e}", err=True)
            ctx.exit(EXIT["internal"])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=example(
        "Exit codes: 0 all passed, 1 failures, 2 usage, 3 internal error, 5 nothing collected,\n"
        "10 only budgets exceeded, 11 stale deviation, 12 kill rate under its gate,\n"
        "13 clause coverage under its gate, 14 an adapter failed its smoke test,\n"
        "15 fewer instances than the floor, 16 benchmarks left for another run.\n\n"
        'Shell completion: eval "$(_TILESPEC_COMPLETE=bash_source tilespec)"   (zsh_source, fish_source)'
    ),
)
@click.version_option(package_name="tilespec")
@click.option("--no-color", is_flag=True, help="Plain text even on a terminal.")
@click.pass_context
def main(ctx: click.Context, no_color: bool) -> None:
    """TileSpec: the executable specification of a tile language, and the judge of its implementations.

    SELECT is an area, feature, case or instance id, or any text with *: memory, memory.store, memory.store/tail,
    "memory.store/tail:T=f32;*".
    """
    from rich.console import Console

    plain: dict[str, Any] = {"force_terminal": False, "color_system": None} if no_color else {}
    ctx.obj = Console(soft_wrap=False, **plain)
    if not ctx.obj.is_terminal:
        ctx.obj.width = 120


@main.command("list", epilog=example("tilespec list memory\ntilespec list --json | jq '.features[].id'"))
@select_argument
@click.option("--json", "as_json", is_flag=True, help="Print the document that other tools read.")
@spec_option
@click.pass_obj
def list_(console: Any, select: tuple[str, ...], as_json: bool, spec: Path | None) -> None:
    """Features, clauses, cases, targets."""
    from conformance import listing

    features, _ = features_of(spec)
    document = listing.document(features, select)
    if as_json:
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        listing.show(document, console)
    if not document["features"]:
        click.echo("error: nothing matches; tilespec list shows what there is", err=True)
        sys.exit(EXIT["nothing"])


@main.command(
    epilog=example(
        "tilespec run --tier smoke\n"
        "tilespec run memory 'reduce.*' --target interp --json out/results.json\n"
        "tilespec run 'memory.store/tail:T=f32;*' --target cuda\n"
        "tilespec run reduce.sum/exact --target simt --plant M-BAR-05"
    )
)
@select_argument
@click.option(
    "--target",
    callback=targets,
    shell_complete=completion.listed(completion.targets),
    help="Targets, separated by commas; every servable one if left out. cuda@sm_80: for that GPU only.",
)
@click.option(
    "--tier", type=click.Choice(["smoke", "pr", "gpu", "nightly"]), help="Up to this tier; pr, or gpu on a GPU."
)
@click.option("--json", "json_file", type=Output(folder=False), help="Write the report JSON.")
@click.option("--junit", type=Output(folder=False), help="Write JUnit XML.")
@click.option("--report", "report_dir", type=Output(folder=True), help="Write the report pages.")
@click.option("-n", "--workers", type=click.IntRange(1), help="Processes; one a core for long runs if left out.")
@click.option("--shard", callback=part_of, metavar="I/N", help="Part I of N.")
@click.option("--plant", metavar="MUTANT", help="Put one mistake of the catalogue into the reference compiler first.")
@spec_option
@click.pass_obj
def run(
    console: Any,
    select: tuple[str, ...],
    target: tuple[str, ...],
    tier: str | None,
    json_file: Path | None,
    junit: Path | None,
    report_dir: Path | None,
    workers: int | None,
    shard: tuple[int, int],
    plant: str | None,
    spec: Path | None,
) -> None:
    """Judge implementations; ends with a table per feature."""
    if plant:
        from conformance.mutation import planting

        planting.plant(plant)
    from conformance import report_data, running
    from conformance.plan import make_plan

    features, root = features_of(spec)
    plan = make_plan(features, select, target, tier, shard, root)
    document, code = running.run(
        features,
        plan,
        spec=root,
        workers=workers or (os.cpu_count() or 1 if plan.expected >= LONG_RUN else 1),
        tier=tier,
        select=select,
        part=shard,
        console=console,
    )
    if json_file:
        report_data.write(document, json_file)
    if junit or report_dir:
        from conformance import report

        if report_dir:
            report.write(document, report_dir)
        if junit:
            report.write_junit(document, junit)
    sys.exit(code)


@main.command(
    "compile",
    epilog=example(
        'tilespec compile kernels.py::add --signature "x:*f32,y:*f32,out:*f32,n:i32" --set BLOCK=256 --emit tile,cuda\n'
        "tilespec compile memory.store/whole --emit sass,resources --arch sm_80\n"
        "tilespec compile memory.store/whole --emit cuda,mlir,ptx --backend mlir\n"
        "tilespec compile kernels.py::add ... --emit tile,cubin --out out/add\n"
        "tilespec compile kernels.matmul/bf16 --emit remarks"
    ),
)
@click.argument("what", metavar="FILE::KERNEL|FEATURE/CASE", shell_complete=completion.files_and_ids)
@click.option(
    "--emit",
    default="tile",
    show_default=True,
    shell_complete=completion.listed(lambda: STAGES),
    help=f"Stages, separated by commas: {', '.join(STAGES)}.",
)
@click.option("--arch", type=click.Choice(ARCHITECTURES), default="sm_90a", show_default=True)
@click.option("--backend", type=click.Choice(["cuda", "mlir"]), help="What machine code is made by way of.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A constexpr or a case parameter.")
@click.option("--signature", help='Types of the runtime arguments, "x:*f32,n:i32"; for FILE::KERNEL.')
@click.option("--out", type=Output(folder=True), help="One file a stage, instead of printing.")
@spec_option
def compile_(
    what: str,
    emit: str,
    arch: str,
    backend: str | None,
    settings: tuple[str, ...],
    signature: str | None,
    out: Path | None,
    spec: Path | None,
) -> None:
    """Compile a kernel down to any stage; no GPU needed.

    `remarks` says what passes did to make the kernel fast, what they left, why, and what helps; with --out as JSON.
    """
    from conformance import compiling

    stages = tuple(dict.fromkeys(s.strip() for s in emit.split(",")))
    for stage in stages:
        if stage not in STAGES:
            raise click.BadParameter(f"unknown stage {stage!r}; known: {', '.join(STAGES)}", param_hint="--emit")
    features = () if "::" in what else features_of(spec)[0]
    sys.exit(compiling.run(what, features, stages, arch, settings, signature, out, backend))


@main.command(epilog=example("tilespec bless\ntilespec bless memory.store"))
@select_argument
@spec_option
@click.pass_obj
def bless(console: Any, select: tuple[str, ...], spec: Path | None) -> None:
    """Rewrite the snapshots of later stages and show the difference.

    The tile SSA in the feature files is law and is never rewritten; where it differs, the difference is shown.
    """
    from conformance import blessing

    features, root = features_of(spec)
    sys.exit(blessing.run(features, root, select, console))


@main.command(epilog=example("tilespec report out/results.json --out out/report"))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--out", required=True, type=Output(folder=True), help="Folder to write.")
def report(files: tuple[Path, ...], out: Path) -> None:
    """Render reports: static HTML, JSON, JUnit, Markdown, badges; several runs give history.

    Runs of one specification must also agree bit for bit, as far as their kernels are exact; else the exit code is 1.
    """
    from conformance import report_data

    documents = [report_data.read(f) for f in files]
    from conformance import report as renderers

    renderers.write(documents, out)
    click.echo(f"wrote {out}")
    if len(documents) > 1:
        from conformance import agreement

        lines, agree = agreement.sentences(documents)
        click.echo("\n".join(lines))
        sys.exit(EXIT["ok"] if agree else EXIT["failures"])


@main.command(
    epilog=example(
        "tilespec run $(tilespec parity) --target interp,simt,cuda,mlir --json results.json\n"
        "tilespec parity results.json --junit tests.xml --out reports/parity.json"
    )
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--junit", "suites", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="JUnit XML of the tests that the table names.")  # fmt: skip
@click.option("--out", type=Output(folder=False), help="Where the answers go.")
@spec_option
def parity(files: tuple[Path, ...], suites: tuple[Path, ...], out: Path | None, spec: Path | None) -> None:
    """Known faults of another implementation: the instances to run, or from results what each target answered."""
    from conformance import output, report_data
    from conformance import parity as table
    from conformance.instances import collect

    rows = table.rows(spec)
    if not files:
        click.echo("\n".join(table.selection(rows)))
        return
    features, _ = features_of(spec)
    documents = [report_data.read(f) for f in files]
    answers = table.evidence(rows, collect(features), documents, [s.read_text(encoding="utf-8") for s in suites])
    text = json.dumps(answers, indent=1) + "\n"
    if out is None:
        click.echo(text, nl=False)
    else:
        output.write(out, text)
        click.echo(f"wrote {out}")


@main.command(epilog=example("tilespec new elementwise/softsign"))
@click.argument("feature", metavar="AREA/NAME")
@spec_option
def new(feature: str, spec: Path | None) -> None:
    """Scaffold a feature file."""
    from conformance import scaffold
    from conformance.loader import spec_root

    path = scaffold.create(feature, spec or spec_root())
    click.echo(f"wrote {path}\nnext: fill in the clauses, then: tilespec run {feature.replace('/', '.')}")


@main.command(
    epilog=example(
        "tilespec explain memory.store#C2\ntilespec explain 'memory.store/tail:T=f32;N=300;n=0;BLOCK=64;x=random'"
    )
)
@click.argument("what", metavar="CLAUSE|INSTANCE", shell_complete=completion.ids)
@click.option("--results", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A report JSON to quote.")
@spec_option
def explain(what: str, results: Path | None, spec: Path | None) -> None:
    """The sentence, its tests, last results."""
    from conformance import listing, report_data

    features, _ = features_of(spec)
    click.echo(listing.explain(what, features, report_data.read(results) if results else None))


@main.command(
    epilog=example("tilespec mutate\ntilespec mutate --mutant folds\ntilespec mutate reduce --mutant 'M-RED-*'")
)
@select_argument
@click.option("--mutant", "mutants", multiple=True, help="Only these: an id, an area of the catalogue, or M-...-*.")
@click.option("--gate", type=click.FloatRange(0, 1), default=0.95, show_default=True, help="Smallest kill rate.")
@click.option("--json", "json_file", type=Output(folder=False), help="Write the mutation block.")
@click.option("-n", "--workers", type=click.IntRange(0), default=0, help="Processes; 0: one a core.")
@spec_option
@click.pass_obj
def mutate(
    console: Any,
    select: tuple[str, ...],
    mutants: tuple[str, ...],
    gate: float,
    json_file: Path | None,
    workers: int,
    spec: Path | None,
) -> None:
    """Mutation testing of the suite: which mistakes in the reference compiler its cases find.

    Each mutant meets the cases that claim to kill it or, with SELECT, all selected ones. SSA and snapshot comparison
    are switched off, so that only meaning can kill.
    """
    from conformance import mutation
    from conformance.instances import require_matches
    from conformance.mutation import summary

    require_matches(features_of(spec)[0], select)
    report = mutation.run(
        select,
        workers or os.cpu_count() or 1,
        json_file,
        mutants=mutants,
        gate=gate,
        spec=spec,
        each=lambda v: console.print(summary.line(v), markup=False, highlight=False),
    )
    summary.show(report, console)
    sys.exit(report.exit_code)


@main.command(
    epilog=example(
        "tilespec fuzz\ntilespec fuzz --programs 2000 --target interp,simt,cuda --json out/fuzz.json --out out/fuzz\n"
        "tilespec fuzz --seed 1 --first 17 --programs 1\ntilespec fuzz --plant all"
    )
)
@click.option("--programs", type=click.IntRange(1), default=200, show_default=True, help="How many.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Same seed, same programs.")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="The first program of the seed.")
@click.option(
    "--target",
    callback=targets,
    shell_complete=completion.listed(completion.targets),
    help="Targets, separated by commas; every servable one if left out.",
)
@click.option("-n", "--jobs", type=click.IntRange(0), default=0, help="Processes; 0: one a core.")
@click.option(
    "--plant", metavar="MUTANT", help="Fuzz a compiler with this mistake of the mutation catalogue; all: ten."
)
@click.option("--shrink/--no-shrink", default=True, help="Make failing programs small.")
@click.option("--json", "json_file", type=Output(folder=False), help="Write what was run and found.")
@click.option("--out", type=Output(folder=True), help="Write a feature file and a script for each difference.")
@click.pass_obj
def fuzz(
    console: Any,
    programs: int,
    seed: int,
    first: int,
    target: tuple[str, ...],
    jobs: int,
    plant: str | None,
    shrink: bool,
    json_file: Path | None,
    out: Path | None,
) -> None:
    """Random kernels on all targets: whatever they do not agree on is a difference.

    Each target must compile each kernel and, where it runs, leave the bits that the kernel's evaluation by the oracles
    leaves. Exit code 1 if there are differences; with --plant 12 if a mistake is not found.
    """
    from conformance.fuzzing import command

    code = command.fuzz(
        target or command.default_targets(),
        seed,
        first,
        programs,
        jobs or os.cpu_count() or 1,
        plant=plant,
        smaller=shrink,
        json_file=json_file,
        out=out,
        console=console,
    )
    sys.exit(code)


@main.command(epilog=example("tilespec cache\ntilespec cache --clear"))
@click.option("--clear", is_flag=True, help="Remove every entry.")
def cache(clear: bool) -> None:
    """The cache on disk: compiled kernels and parsed feature files; always safe to remove."""
    from conformance.adapters import storage

    if clear:
        storage.clear()
    folder, entries, size = storage.contents()
    click.echo(f"{folder}: {entries} entries, {size / 1e6:.1f} MB")


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def doctor(as_json: bool) -> None:
    """What this machine has, and what will be left out and why."""
    from conformance import diagnosis

    document = diagnosis.document()
    click.echo(json.dumps(document, indent=1) if as_json else diagnosis.text(document))


main.add_command(bench)
