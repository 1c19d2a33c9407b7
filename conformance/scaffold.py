"""`tilespec new`: a feature file that loads and runs, with every place to fill in marked."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2

from conformance import output
from conformance.errors import SpecError

TEMPLATE = Path(__file__).parent / "templates" / "feature.yaml.j2"


def create(feature: str, spec: Path) -> Path:
    """Write `spec/features/<area>/<name>.yaml`; raises SpecError for a bad name or an existing file."""
    match = re.fullmatch(r"([a-z][a-z0-9_]*)[/.]([a-z][a-z0-9_]*)", feature)
    if match is None:
        raise SpecError(
            "spec.id", f"{feature!r} is not AREA/NAME in lower case", hint="for example elementwise/softsign"
        )
    area, name = match.groups()
    path = spec / "features" / area / f"{name}.yaml"
    if path.exists():
        raise SpecError("spec.id", f"{path} exists already")
    text = jinja2.Template(TEMPLATE.read_text(encoding="utf-8"), keep_trailing_newline=True).render(
        area=area, name=name
    )
    output.write(path, text)
    return path
