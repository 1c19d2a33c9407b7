"""The floor under the number of instances: a whole run that collects fewer has lost tests, and fails.

`spec/floors.yaml` maps target to tier to count. `tilespec bless` raises it; only a person lowers it. What a target
collects depends on whether it can run, so `compile` counts the tier `pr` where it only compiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance import output, yaml_text
from conformance.adapters import Info
from conformance.instances import Instance
from conformance.model import TIERS
from conformance.runner import collect_for

FILE = "floors.yaml"
HEADER = (
    "# The smallest number of instances a whole run may collect.\n"
    "# `tilespec bless` raises it; lower it by hand, and say why in the commit.\n"
)


def read_floors(spec: Path) -> dict[str, dict[str, int]]:
    """Target to tier to count; empty without a file. Raises SpecError with the place of a mistake."""
    path = spec / FILE
    if not path.is_file():
        return {}
    document = yaml_text.load(path, path.name)
    table: Any = document.data
    if not isinstance(table, dict):
        raise document.error("floors.value", "expected a mapping from target to tier to count", ())
    for target, tiers in table.items():
        if not isinstance(tiers, dict):
            raise document.error("floors.value", "expected a mapping from tier to count", (target,))
        for tier, count in tiers.items():
            if tier not in (*TIERS, "compile") or type(count) is not int:
                raise document.error("floors.value", f"expected a count for one of {', '.join(TIERS)}", (target, tier))
    return table


def floor(spec: Path, target: str, tier: str, info: Info) -> int:
    """The floor under a whole run of a target; 0 where none is written down.

    A target that only compiles has one floor, counted over the tier ``pr``: it does not bind the smaller smoke tier.
    """
    if not info.runs and TIERS.index(tier) < TIERS.index("pr"):
        return 0
    return read_floors(spec).get(target, {}).get(tier if info.runs else "compile", 0)


def counts(every: Iterable[Instance], info: Info) -> dict[str, int]:
    """Instances by tier for a target that runs, and for one that only compiles."""
    listed = list(every)

    def count(tier: str, claims: Info) -> int:
        return sum(TIERS.index(i.tier) <= TIERS.index(tier) for i in collect_for(listed, claims))

    found = {tier: count(tier, replace(info, runs=True)) for tier in TIERS}
    if info.compiles:
        found["compile"] = count("pr", replace(info, runs=False))
    return found


def raise_floors(spec: Path, found: Mapping[str, Mapping[str, int]]) -> int:
    """Write the larger of what is written and what was found; the number of floors that rose."""
    before = read_floors(spec)
    after: dict[str, dict[str, int]] = {t: dict(tiers) for t, tiers in before.items()}
    rose = 0
    for target, tiers in found.items():
        for tier, count in tiers.items():
            known = after.setdefault(target, {})
            rose += count > known.get(tier, 0)
            known[tier] = max(count, known.get(tier, 0))
    if rose:
        lines = [f"{t}: {{{', '.join(f'{k}: {v}' for k, v in tiers.items())}}}\n" for t, tiers in sorted(after.items())]
        output.write(spec / FILE, HEADER + "".join(lines))
    return rose
