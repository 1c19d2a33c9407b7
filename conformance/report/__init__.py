"""Renders report documents: static HTML pages with history, JUnit XML, a Markdown summary, badges.

A document is the dictionary that `spec/schema/report.schema.json` describes. Rendering reads nothing else: not the
clock, not the environment, not the specification, so equal documents give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance import output, report_data
from conformance.report import badges
from conformance.report.junit import junit
from conformance.report.markdown import markdown
from conformance.report.summary import rows

__all__ = ["write", "write_junit", "junit", "markdown", "rows"]

Document = Mapping[str, Any]


def write(reports: Document | Sequence[Document], out: Path | str) -> Path:
    """Render the newest report into a folder, with the history of all of them; gives the path of the first page.

    The folder is made if need be; files of the same names are overwritten, others are left alone. Raises ValueError
    when there is no report, jsonschema.ValidationError when one breaks the schema, OSError when the folder cannot be
    written.
    """
    from conformance.report import pages  # imports jinja2, which a run without --report does not need

    runs = [reports] if isinstance(reports, Mapping) else list(reports)
    if not runs:
        raise ValueError("no report to render; give at least one")
    runs.sort(key=lambda r: str(r["run"]["started"]))
    latest = runs[-1]
    files = pages.render(runs)
    files["junit.xml"] = junit(latest)
    files["summary.md"] = markdown(latest, base=runs[-2] if len(runs) > 1 else None)
    for name, badge in badges.badges(latest).items():
        files[f"badges/{name}.json"] = json.dumps(badge, ensure_ascii=False) + "\n"
    folder = Path(out)
    report_data.write(latest, folder / "report.json")  # first: it refuses what breaks the schema
    for name, text in files.items():
        output.write(folder / name, text)
    return folder / "index.html"


def write_junit(report: Document, path: Path | str) -> None:
    """The JUnit XML of a report as a file; its folder is made if need be."""
    output.write(Path(path), junit(report))
