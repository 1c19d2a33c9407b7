"""Static HTML pages of one or several reports: plain files that link to each other and need no server."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any
from urllib.parse import quote

import jinja2

from conformance.report import charts, feature_page, history
from conformance.report.summary import (
    RED,
    WITNESSES,
    Lamp,
    Summary,
    failures,
    feature_of,
    only_compiled,
    percent,
    repro,
    slack_of,
    split_instance,
    visible,
)
from conformance.results import STATUSES

ASSETS = ("style.css", "page.js")
MOST_FAILURES = 300
MOST_RANKED = 200
MOST_CHANGES = 500
# What Windows takes for a device, whatever follows the first dot.
RESERVED = {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(10))}
# Status to one of five looks; the sign beside the colour says the same to who cannot see it.
LOOKS = {
    "pass": "good", "warn": "fair", "xfail": "fair", "skip": "mute", "unsupported": "mute", "compiled": "info",
    "unjudged": "mute", "none": "none", "uncovered": "bad", "absent": "none", **dict.fromkeys(RED, "bad"),
    "passed": "good", "failed": "bad", "incomplete": "bad",
}  # fmt: skip
SIGNS = {"good": "✓", "fair": "!", "mute": "–", "info": "c", "none": "·", "bad": "✕"}


def render(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """File name (relative, with `/`) to text, of the last of the runs; all runs are in the history."""
    past = [history.Run(r, Summary(r)) for r in runs]
    report, s = past[-1].document, past[-1].summary
    red = failures(report["results"])
    common = {"s": s, "report": report, "failures_total": len(red), "runs_total": len(runs)}
    by_feature: dict[str, list[Mapping[str, Any]]] = {f["id"]: [] for f in report["features"]}
    for r in report["results"]:
        by_feature.setdefault(feature_of(r["i"]), []).append(r)

    files = {f"assets/{name}": _asset(name) for name in ASSETS}
    files["index.html"] = _page("index", page="index.html", **common)
    files["clauses.html"] = _page("clauses", page="clauses.html", **common)
    files["failures.html"] = _page("failures", page="failures.html", failures=red[:MOST_FAILURES], **common)
    files["slack.html"] = _page("ranking", page="slack.html", **_slackest(report), **common)
    files["slowest.html"] = _page("ranking", page="slowest.html", **_slowest(report, s), **common)
    files["history.html"] = _page("history", page="history.html", **_past(past), **common)
    for feature in report["features"]:
        view = feature_page.view(feature, s.rows[feature["id"]], by_feature[feature["id"]], list(s.implementations))
        files[feature_file(feature["id"])] = _page("feature", page="", up="../", v=view, **common)
    return files


def feature_file(id: str) -> str:
    """Path of a feature's page. Ids that follow the schema stand as they are; others get a safe and distinct name."""
    safe = re.sub(r"[^a-z0-9._-]+", "-", id.lower())[:100].strip(".") or "feature"
    if safe.split(".")[0] in RESERVED:
        safe = f"feature-{safe}"
    if safe != id:
        safe += "-" + hashlib.sha256(id.encode(errors="replace")).hexdigest()[:8]
    return f"features/{safe}.html"


def fragment(id: str) -> str:
    """An element's id as it stands in the fragment of an address."""
    return quote(visible(id), safe="")


def case_id(instance: str) -> str:
    """The id of a case's section on its feature's page."""
    return f"case-{split_instance(instance)[0]}"


def case_link(instance: str) -> str:
    return f"{feature_file(feature_of(instance))}#{fragment(case_id(instance))}"


def clause_link(feature: str, clause: str) -> str:
    return f"{feature_file(feature)}#{fragment(clause)}"


def look(status: str) -> str:
    return LOOKS.get(status, "bad")


def sign(status: str) -> str:
    return SIGNS[look(status)]


def shown_status(r: Mapping[str, Any]) -> str:
    """A result's status, or `compiled` when it was never run."""
    return "compiled" if only_compiled(r) else r["status"]


def instance_look(by_impl: Mapping[str, Mapping[str, Any]]) -> str:
    """The worst look of one instance over all implementations."""
    order = ("bad", "fair", "good", "info", "mute", "none")
    return min((look(shown_status(r)) for r in by_impl.values()), key=order.index)


def lamp_text(lamp: Lamp) -> str:
    """What a lamp says, in words."""
    words = [f"{lamp.counts[s]:,} {s}" for s in STATUSES if lamp.counts[s]]
    words += [f"{lamp.compiled:,} compiled only"] if lamp.compiled else []
    return ", ".join(words) or "nothing"


def total_lamp(s: Summary, impl: str, witness: str) -> Lamp:
    """The sum of one column."""
    total = Lamp()
    for row in s.rows.values():
        total.counts.update(row.lamps[impl][witness].counts)
        total.compiled += row.lamps[impl][witness].compiled
    return total


def milliseconds(ms: float) -> str:
    if ms >= 60_000:
        return f"{int(ms // 60_000)} min {int(ms % 60_000 / 1e3)} s"
    return f"{ms / 1e3:,.2f} s" if ms >= 1e3 else f"{ms:,.3g} ms"


def _slackest(report: Mapping[str, Any]) -> dict[str, Any]:
    measured = [(slack, r) for r in report["results"] if (slack := slack_of(r)) is not None]
    measured.sort(key=lambda pair: (-pair[0], pair[1]["i"], pair[1]["impl"]))
    rows = [(r, charts.number(slack), min(slack, 1.0), _worst(r)) for slack, r in measured[:MOST_RANKED]]
    return {
        "title": "Closest to the bound",
        "about": "The largest error of an instance over the bound that its oracle allows. Near 1 the next change of "
        "the code may cross it; beyond 1 it is a failure.",
        "columns": ("error / bound", "worst element"),
        "ranked": rows,
        "ranked_total": len(measured),
        "by_feature": [],
        "bars": charts.histogram(slack for slack, _ in measured),
    }


def _slowest(report: Mapping[str, Any], s: Summary) -> dict[str, Any]:
    timed = sorted(
        ((float(r["ms"]["total"]), r) for r in report["results"] if r.get("ms", {}).get("total")),
        key=lambda pair: (-pair[0], pair[1]["i"], pair[1]["impl"]),
    )
    most = timed[0][0] if timed else 1.0
    parts = [(r, milliseconds(ms), ms / most, _parts(r)) for ms, r in timed[:MOST_RANKED]]
    features = sorted(s.rows.values(), key=lambda row: (-row.ms, row.id))
    return {
        "title": "Slowest",
        "about": "Wall-clock time of the whole instance: compiling, running, the oracle. It orders the list and judges "
        "nothing. The first instance of a kernel pays for its compilation.",
        "columns": ("time", "of it"),
        "ranked": parts,
        "ranked_total": len(timed),
        "bars": [],
        "by_feature": [(row.id, milliseconds(row.ms), row.total) for row in features if row.ms][:20],
    }


def _parts(r: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {milliseconds(v)}" for k, v in r["ms"].items() if k != "total")


def _worst(r: Mapping[str, Any]) -> str:
    numerics = r.get("numerics", {})
    if not (worst := numerics.get("worst")):
        return ""
    return f"{numerics.get('output', '')}{worst['index']}: {worst['got']} for {worst['ref']}"


def _past(past: Sequence[history.Run]) -> dict[str, Any]:
    latest = past[-1]
    table = {}
    for impl in latest.summary.implementations:
        table[impl] = {
            feature: [(charts.sparkline(points, len(past)), points) for points in (course.passed, course.slack)]
            for feature, course in history.courses(past, impl).items()
        }
    keys = list(dict.fromkeys(r.key for r in past))
    return {
        "past": [(n, r, keys.index(r.key) + 1) for n, r in enumerate(past, 1)],
        "sparks": table,
        "comparison": history.compare(past[-2].document, latest.document) if len(past) > 1 else None,
        "aligned": len(past) > 1 and past[-2].key == latest.key,
        "most_changes": MOST_CHANGES,
    }


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("conformance.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals.update(
        STATUSES=STATUSES, WITNESSES=list(WITNESSES), feature_file=feature_file, fragment=fragment, case_id=case_id,
        case_link=case_link, clause_link=clause_link, look=look, sign=sign, lamp_text=lamp_text, total_lamp=total_lamp,
        percent=percent, repro=repro, split_instance=split_instance, feature_of=feature_of, number=charts.number,
        status_bar_pieces=charts.status_bar, shown_status=shown_status, instance_look=instance_look,
        milliseconds=milliseconds,
    )  # fmt: skip
    env.filters.update(percent=percent, number=charts.number)
    return env


def _page(template: str, **values: Any) -> str:
    text = _environment().get_template(f"{template}.html.j2").render(**{"up": "", **values})
    return visible(text)


@lru_cache
def _asset(name: str) -> str:
    return resources.files("conformance.report").joinpath("assets", name).read_text(encoding="utf-8")
