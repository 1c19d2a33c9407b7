"""The summary of a run as Markdown, small enough for a step summary of a CI server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from conformance.report.history import compare
from conformance.report.summary import WITNESSES, Failure, Lamp, Row, Summary, failures, percent, repro, visible

LIMIT = 200_000  # bytes; GitHub drops a summary above 1 MiB altogether, and a reader gives up before
MAX_FAILURES = 20
MAX_MESSAGE = 300
MARKS = {"passed": "✅", "failed": "❌", "incomplete": "⛔"}
LAMP_MARKS = {
    "pass": "✅", "warn": "⚠️", "xfail": "⚠️", "none": "·", "compiled": "compiled", "skip": "skipped",
    "unsupported": "unsupported",
}  # fmt: skip


def markdown(
    report: Mapping[str, Any], *, base: Mapping[str, Any] | None = None, artifact: str = "", limit: int = LIMIT
) -> str:
    """Verdict, what is wrong with the run, difference to a base report, failures, and a table of features.

    `artifact` is the address of the full report. The text is at most `limit` bytes of UTF-8: features without red
    results give way first, then features, then failures.
    """
    summary = Summary(report)
    head = _head(summary, report, artifact) + (_difference(base, report) if base else [])
    groups = failures(report["results"])
    red = [r for r in summary.rows.values() if r.red]
    shown = list(summary.rows.values())
    choices = [(MAX_FAILURES, shown), (MAX_FAILURES, red), (MAX_FAILURES, red[:50]), (5, red[:10]), (0, [])]
    text = ""
    for count, rows in choices:
        text = "\n".join([*head, *_failures(groups, count), *_table(summary, rows)]) + "\n"
        if len(text.encode()) <= limit:
            return text
    return text.encode()[: max(0, limit - 40)].decode(errors="ignore").rsplit("\n", 1)[0] + "\n\n(cut here)\n"


def _head(s: Summary, report: Mapping[str, Any], artifact: str) -> list[str]:
    suite, host = report["suite"], report["run"]["host"]
    lines = [f"## {MARKS[s.verdict]} TileSpec conformance: {s.verdict}", "", _plain(s.sentence) + "."]
    lines += [""] if s.alarms else []
    lines += [f"- {'**Void:** ' if a.void else ''}{_plain(a.text)}" for a in s.alarms[:20]]
    facts = [f"suite {suite['version']}", f"digest {_code(suite['spec_digest'])}"]
    facts += [f"commit {_code(suite['commit'][:12])}"] if suite["commit"] else []
    facts += [f"tier {report['run']['tier']}"]
    facts += [f"{_plain(k)} {_plain(v)}" for k, v in host.items() if v]
    lines += ["", " · ".join(facts)]
    lines += ["", "| implementation | version | toolchain | device | passed of judged | instances | compiled only |"]
    lines += ["| --- | --- | --- | --- | ---: | ---: | ---: |"]
    for i in s.implementations.values():
        cells = [i.id, i.info["version"], i.info.get("toolchain", ""), i.info.get("device", "")]
        cells += [percent(i.score), f"{i.total:,}", f"{i.compiled:,}"]
        lines.append(_row(cells))
    agreement = report.get("agreement", {})
    if agreement.get("instances"):
        same, every = agreement["instances"] - agreement["disagreements"], agreement["instances"]
        targets = _plain(", ".join(agreement["targets"]))
        lines += ["", f"{targets} left the same bits in {same:,} of {every:,} instances of the exact vocabulary."]
    if artifact:
        lines += ["", f"[Full report]({_address(artifact)})"]
    return lines


def _difference(base: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    d = compare(base, report)
    words = f"{d.regressions:,} newly red, {d.repairs:,} repaired, {len(d.changed):,} changed, "
    words += f"{len(d.added):,} added, {len(d.removed):,} removed, {len(d.drifted):,} closer to their bound"
    return ["", f"Against the base: {words}."]


def _failures(groups: list[Failure], count: int) -> list[str]:
    if not groups:
        return []
    lines = ["", "### Failures", ""]
    for g in groups[:count]:
        r = g.first
        more = f" and {len(g.instances) - 1:,} more" if len(g.instances) > 1 else ""
        message = " ".join(r.get("message", "").split())
        message = message[: MAX_MESSAGE - 1] + "…" if len(message) > MAX_MESSAGE else message
        lines.append(f"- **{r['status']}** {_code(r['i'])}{more} on {_code(r['impl'])}: {_plain(message)}")
        lines.append(f"  {_code(repro(r))}")
    if len(groups) > count:
        lines.append(f"- … and {len(groups) - count:,} more kinds of failure; the full report has them all.")
    return lines


def _table(s: Summary, rows: list[Row]) -> list[str]:
    lines = []
    if rows:
        names = [*WITNESSES]
        several = len(s.implementations) > 1
        columns = [(i, w) for i in s.implementations for w in names]
        titles = [f"{w} ({i})" if several else w for i, w in columns]
        lines = ["", "### Features", "", _row(["feature", "clauses", *titles, "worst error / bound"])]
        lines.append("| --- | ---: |" + " --- |" * len(columns) + " ---: |")
        for r in rows:
            cells = [r.id, f"{r.covered}/{r.must}"]
            cells += [_lamp(r.lamps[i][w]) for i, w in columns]
            lines.append(_row([*cells, "" if r.slack is None else f"{r.slack:.2g}"]))
    if hidden := len(s.rows) - len(rows):
        lines += ["", f"{hidden:,} {'more ' if rows else ''}features are in the full report."]
    return lines


def _lamp(lamp: Lamp) -> str:
    if lamp.red:
        return f"❌ {lamp.red:,}/{lamp.total:,}"
    mark = LAMP_MARKS.get(lamp.state, lamp.state)
    return f"{mark} {lamp.total:,}" if lamp.total else mark


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_plain(c) for c in cells) + " |"


def _plain(text: str) -> str:
    """Text that Markdown takes for nothing but text, on one line."""
    text = " ".join(visible(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|#~$!])", r"\\\1", text)
    return text.replace("@", "@\u200b")  # no mention of a person


def _code(text: str) -> str:
    """A code span; its fence is longer than any run of backticks inside."""
    text = " ".join(visible(text).split()) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _address(text: str) -> str:
    return re.sub(r"[\s()<>\\]", lambda m: f"%{ord(m[0]):02X}", text)
