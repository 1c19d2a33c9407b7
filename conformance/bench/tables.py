"""Benchmark results as tables: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.bench import asked, profiles
from conformance.benchmarks import Line
from conformance.model import PEERS


def rate(line: Mapping[str, Any], contestant: Mapping[str, Any]) -> str:
    """`3.91 TB/s`, or for work that arithmetic limits `652 TFLOP/s`."""
    if "flops_per_second" in contestant:
        return f"{contestant['flops_per_second'] / 1e12:.4g} TFLOP/s"
    if "bytes_per_second" in contestant:
        return f"{contestant['bytes_per_second'] / 1e12:.3g} TB/s"
    return "-"


def peers_of(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Peers that any of these lines has been compared with, in their usual order."""
    found = {name for line in lines for name in line["ratios"]}
    return [p for p in PEERS if p in found]


def groups(made: Mapping[str, Any]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Lines by feature and benchmark."""
    by_place: dict[str, list[Mapping[str, Any]]] = {}
    for line in made["lines"]:
        by_place.setdefault(f"{line['feature']}/{line['benchmark']}", []).append(line)
    yield from by_place.items()


def means_of(made: Mapping[str, Any], place: str) -> dict[str, Mapping[str, Any]]:
    """The geometric means of a benchmark by peer."""
    return {m["peer"]: m for m in made["means"] if f"{m['feature']}/{m['benchmark']}" == place}


def cell(entry: Mapping[str, Any] | None) -> tuple[str, str]:
    """The text of a comparison, and how good it is: aim, floor, missed, or plain where nothing is asked."""
    if entry is None:
        return "-", "plain"
    if "value" not in entry:
        return entry.get("why", "-")[:20], "missed"
    spread = max(entry["high"] - entry["value"], entry["value"] - entry["low"])
    text = f"{entry['value']:.3f} ±{spread:.3f}"
    if entry.get("met") is False:
        sign = "<" if entry["low"] < entry["floor"] else "!"
        return f"{text} {sign} {entry['floor']:g}", "missed"
    if "aim" in entry and entry["reached"]:
        return text, "aim"
    return text, "floor" if "floor" in entry else "plain"


STYLES = {"aim": "bold green", "floor": "green", "missed": "bold red", "plain": ""}
MARKS = {"aim": " ✓", "floor": " ✓", "missed": " ✗", "plain": ""}


def show(made: Mapping[str, Any], console: Console) -> None:
    """Print a table for each benchmark, then what was wrong, too slow or absent, and one line that says it all."""
    for place, lines in groups(made):
        peers = peers_of(lines)
        table = Table(title=place, title_justify="left", box=None, pad_edge=False)
        for column in ("", "us", "rate", *(f"/ {p}" for p in peers)):
            table.add_column(column, justify="left" if not column else "right", no_wrap=True)
        for line in lines:
            mine = _ours(line)
            cells = [Text(*_styled(cell(line["ratios"].get(p)))) for p in peers]
            time = f"{mine['median_us']:.4g}" if "median_us" in mine else mine["status"]
            table.add_row(label(line), time, rate(line, mine), *cells)
        if means := means_of(made, place):
            table.add_row("geometric mean", "", "", *(Text(*_styled(cell(means.get(p)))) for p in peers))
        console.print(table)
        if notes := lines[0].get("notes"):
            console.print(notes.strip(), style="dim", highlight=False, markup=False)
        console.print()
    for kind, sentences in (("wrong", made["verdict"]["wrong"]), ("too slow", made["verdict"]["slow"])):
        for sentence in sentences:
            console.print(f"{kind}: {sentence}", style="red", highlight=False, markup=False, soft_wrap=True)
    for sentence in made["verdict"]["absent"]:
        console.print(f"left out: {sentence}", style="dim", highlight=False, markup=False, soft_wrap=True)
    console.print(summary(made), highlight=False, markup=False)


def _styled(found: tuple[str, str]) -> tuple[str, str]:
    return found[0], STYLES[found[1]]


def _ours(line: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(c for c in line["contestants"] if c["name"] == "ours")


def label(line: Mapping[str, Any]) -> str:
    """The parameters of a line."""
    return line["id"].partition(":")[2].replace(";", " ")


def summary(made: Mapping[str, Any]) -> str:
    """How many floors are met."""
    v, m = made["verdict"], made["machine"]
    where = f"{m.get('name', 'unknown GPU')}, driver {m.get('driver')}"
    floors = f"{v['met']} of {v['floors']} floors met, {len(v['wrong'])} results wrong"
    return f"{len(made['lines'])} lines on {where}: {floors}"


def markdown(made: Mapping[str, Any], wanted: Sequence[Line] = (), profiled: Sequence[Mapping[str, Any]] = ()) -> str:
    """The same as Markdown: machine, what was asked and seen, what is wrong, slow, absent or unmeasured, all figures.

    `wanted` are the lines of the specification that should have been measured, `profiled` profiles of launches, which
    say what limits what is too slow.
    """
    m = made["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in m.get("versions", {}).items())
    parts = [f"# Benchmarks\n\n{summary(made)}."]
    parts.append(f"CUDA {m.get('cuda')}; {versions}. {made['run']['started']}{_commits(made)}.")
    parts.append(
        "Ratios are our speed over the peer's: medians of one process in turns, ± the farther end of the 95 % "
        "interval. A floor is met when the lower end is not below it."
    )
    parts.append("## What was asked, and what was seen\n\n" + _rows(asked.table(made, wanted), "llrrrl"))
    verdict = {**made["verdict"], "unmeasured": asked.unmeasured(made, wanted)}
    verdict["slow"] = [text + _limits(text, profiled) for text in verdict["slow"]]
    for title, key in (
        ("Wrong", "wrong"),
        ("Too slow", "slow"),
        ("Left out", "absent"),
        ("Not measured", "unmeasured"),
    ):
        if verdict[key]:
            parts.append(f"## {title}\n\n" + "\n".join(f"- {s}" for s in verdict[key]))
    for place, lines in groups(made):
        peers = peers_of(lines)
        rows = [["size", "us", "rate", *(f"/ {p}" for p in peers)]]
        for line in lines:
            mine = _ours(line)
            time = f"{mine['median_us']:.4g}" if "median_us" in mine else mine["status"]
            rows.append([label(line), time, rate(line, mine), *(_marked(line["ratios"].get(p)) for p in peers)])
        if means := means_of(made, place):
            rows.append(["geometric mean", "", "", *(_marked(means.get(p)) for p in peers)])
        parts.append(f"## {place}\n\n" + _rows(rows, "l" + "r" * (len(rows[0]) - 1)))
        if notes := lines[0].get("notes"):
            parts.append(notes.strip())
    return "\n\n".join(parts) + "\n"


def _rows(rows: Sequence[Sequence[str]], sides: str) -> str:
    """A table; its columns flush left or right."""
    head, *body = rows
    rule = ["---" if side == "l" else "--:" for side in sides]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *body))


def _commits(made: Mapping[str, Any]) -> str:
    """At which commits which part of the lines was measured, and whether files had been changed."""
    counts: dict[str, int] = {}
    for line in made["lines"]:
        if commit := line.get("commit", "").rstrip("+"):
            name = commit[:7] + (" with changes" if line["commit"].endswith("+") else "")
            counts[name] = counts.get(name, 0) + 1
    if len(counts) == 1:
        return f", commit {next(iter(counts))}"
    return "".join(f", {count} lines at {commit}" for commit, count in counts.items())


def _limits(sentence: str, profiled: Sequence[Mapping[str, Any]]) -> str:
    """What the profile of our own launch says of a line that is too slow."""
    texts = [profiles.sentence(p) for p in profiled
             if p["contestant"] == "ours" and sentence.startswith(f"{p['line']}: ")]  # fmt: skip
    return "".join(f". Limited by {text}" for text in texts)


def _marked(entry: Mapping[str, Any] | None) -> str:
    text, state = cell(entry)
    return text + MARKS[state]
