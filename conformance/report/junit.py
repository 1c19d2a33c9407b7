"""JUnit XML for CI servers: a test suite for each feature and implementation, a test for each instance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree

from conformance.report.summary import Row, Summary, feature_of, repro, slack_of

# Everything that XML 1.0 cannot hold, not even escaped.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ELEMENT = {
    "fail": "failure",
    "xpass": "failure",
    "error": "error",
    "crash": "error",
    "timeout": "error",
    "skip": "skipped",
    "unsupported": "skipped",
    "xfail": "skipped",
}


def junit(report: Mapping[str, Any]) -> str:
    """The document as JUnit XML.

    `name` is the instance id and `classname` the feature; CI servers take two tests with the same pair for one, so with
    several implementations `classname` is `<feature>@<implementation>`. The schemas allow properties on suites only:
    a suite has those of its feature, and a test says clauses and slack in its `system-out`.
    """
    summary = Summary(report)
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for r in report["results"]:
        groups.setdefault((feature_of(r["i"]), r["impl"]), []).append(r)
    several = len({impl for _, impl in groups}) > 1
    root = ElementTree.Element("testsuites", name="tilespec")
    for (feature, impl), results in groups.items():
        name = f"{feature}@{impl}" if several else feature
        _suite(root, name, impl, results, summary.rows.get(feature), report)
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", _seconds(_ms(report["results"])))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(
    root: ElementTree.Element,
    name: str,
    impl: str,
    results: list[Mapping[str, Any]],
    row: Row | None,
    report: Mapping[str, Any],
) -> None:
    elements = [ELEMENT.get(r["status"], "") for r in results]
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=_text(name),
        tests=str(len(results)),
        failures=str(elements.count("failure")),
        errors=str(elements.count("error")),
        skipped=str(elements.count("skipped")),
        time=_seconds(_ms(results)),
        timestamp=_text(_timestamp(report["run"]["started"])),
    )
    slacks = [s for r in results if (s := slack_of(r)) is not None]
    properties = {"impl": impl, "suite": report["suite"]["version"], "spec_digest": report["suite"]["spec_digest"]}
    if row:
        properties |= {"profile": row.profile, "clauses": " ".join(c.id for c in row.clauses)}
    if slacks:
        properties["slack"] = f"{max(slacks):.3g}"
    holder = ElementTree.SubElement(suite, "properties")
    for key, value in properties.items():
        ElementTree.SubElement(holder, "property", name=key, value=_text(value))
    for r in results:
        _test(suite, name, r)


def _test(suite: ElementTree.Element, classname: str, r: Mapping[str, Any]) -> None:
    name = f"{r['i']} (agreement)" if r["kind"] == "agreement" else r["i"]  # one instance, judged in two ways
    test = ElementTree.SubElement(
        suite, "testcase", classname=_text(classname), name=_text(name), time=_seconds(_ms([r]))
    )
    message = r.get("message", "")
    if element := ELEMENT.get(r["status"]):
        reason = message or f"{r['status']} without a reason"
        child = ElementTree.SubElement(test, element, type=r["status"], message=_text(reason.split("\n")[0]))
        place = f"{r['file']}:{r['line']}" if r.get("file") and r.get("line") else r.get("file", "")
        if element != "skipped":
            diff = r.get("ir", {}).get("diff", "")
            child.text = _text("\n".join(str(part) for part in (reason, diff, place, repro(r)) if part))
    facts = [f"kind: {r['kind']}", f"impl: {r['impl']}"]
    facts += [f"clauses: {' '.join(r['clauses'])}"] if r["clauses"] else []
    facts += [f"slack: {slack:.3g}"] if (slack := slack_of(r)) is not None else []
    facts += [f"warning: {message}"] if r["status"] == "warn" else []
    ElementTree.SubElement(test, "system-out").text = _text("\n".join(facts))


def _text(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


def _timestamp(started: str) -> str:
    """ISO 8601 without fractions and offset, which is all that the schema's type takes."""
    return started.partition(".")[0].partition("+")[0].removesuffix("Z")


def _ms(results: Iterable[Mapping[str, Any]]) -> float:
    return sum(float(r.get("ms", {}).get("total", 0.0)) for r in results)


def _seconds(ms: float) -> str:
    return f"{ms / 1e3:.3f}"
