"""Known deviations of an implementation: strict, with a reason, an issue and an expiry of at most 180 days.

`spec/deviations/<target>.yaml` is a list of `{instance, status, signature, reason, issue, since, expires}`. A listed
instance must fail with that status and a message that contains the signature; it then counts as `xfail`. If it passes
it is `xpass`, and an entry that matches nothing, is too old or lacks its issue fails the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from conformance import yaml_text
from conformance.instances import Selection
from conformance.results import UNPLANNED, Result

KEYS = ("instance", "status", "signature", "reason", "issue", "since", "expires")
LONGEST_DAYS = 180


@dataclass
class Deviation:
    """One entry; `used` counts the results it matched."""

    target: str
    instance: str
    status: str
    signature: str
    reason: str
    issue: str
    since: date
    expires: date
    used: int = 0
    selection: Selection = field(init=False)

    def __post_init__(self) -> None:
        self.selection = Selection([self.instance])


def load_deviations(folder: Path, targets: Sequence[str]) -> list[Deviation]:
    """Entries of the targets' files; a missing file means none. Raises SpecError with the place."""
    found = []
    for target in targets:
        path = folder / f"{target}.yaml"
        if path.is_file():
            document = yaml_text.load(path, path.name)
            if not isinstance(document.data, list):
                raise document.error("deviation.value", "expected a list of deviations", ())
            found += [_entry(document, i, target) for i in range(len(document.data))]
    return found


def _entry(document: yaml_text.Document, index: int, target: str) -> Deviation:
    path: yaml_text.Path = (index,)
    body: Any = document.data[index]
    if not isinstance(body, dict) or sorted(body) != sorted(KEYS):
        raise document.error("deviation.value", f"a deviation has exactly the keys {', '.join(KEYS)}", path)
    for key, value in body.items():
        if not isinstance(value, str) or not value:
            raise document.error("deviation.value", f"{key} must be text", (*path, key))
    if not body["issue"].startswith("https://"):
        raise document.error("deviation.issue", "issue must be the URL of an issue", (*path, "issue"))
    if body["status"] not in ("fail", "crash", "timeout", "error"):
        raise document.error("deviation.value", "status is fail, crash, timeout or error", (*path, "status"))
    dates = {}
    for key in ("since", "expires"):
        try:
            dates[key] = date.fromisoformat(body[key])
        except ValueError:
            raise document.error("deviation.date", f"{key} must be a date like 2026-11-30", (*path, key)) from None
    if not 0 < (dates["expires"] - dates["since"]).days <= LONGEST_DAYS:
        raise document.error(
            "deviation.date", f"expires must be 1 to {LONGEST_DAYS} days after since", (*path, "expires")
        )
    return Deviation(target, **{**body, **dates})


def apply_deviations(
    results: Sequence[Result], deviations: Sequence[Deviation], *, whole: bool, today: date
) -> list[str]:
    """Turn expected failures into `xfail` and expected failures that pass into `xpass`, in place.

    Returns a sentence for each entry that is expired or, in a whole run, matched nothing.
    """
    for r in results:
        for d in deviations:
            if d.target == r.impl and r.kind not in UNPLANNED and r.i in d.selection:
                d.used += 1
                if r.status == "pass":
                    r.status, r.message = "xpass", f"passes, though it is listed as a deviation: {d.issue}"
                elif r.status == d.status and d.signature in r.message:
                    r.status, r.message = "xfail", f"{d.reason} ({d.issue}): {r.message}"
                break
    stale = [f"deviation {d.instance} of {d.target} expired on {d.expires}" for d in deviations if d.expires < today]
    if whole:
        stale += [f"deviation {d.instance} of {d.target} matches no instance" for d in deviations if not d.used]
    return stale
