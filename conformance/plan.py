"""What a run will do: targets this machine can serve, the instances of each, the floor under their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.adapters import TARGETS, Adapter, Info, TargetUnavailable, load
from conformance.floors import floor
from conformance.instances import Instance, collect, require_matches, shard
from conformance.model import TIERS, Feature
from conformance.runner import collect_for
from conformance.smoke import smoke


@dataclass
class Planned:
    """One target of a run: its adapter, its claims, what it will be asked, and what its smoke test found wrong."""

    target: str
    adapter: Adapter
    info: Info
    instances: list[Instance]
    complaint: str = ""


@dataclass
class Plan:
    """All targets of a run; `left_out` names targets that cannot be served with the reason; `floor` is 0 for a part."""

    targets: list[Planned] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    floor: int = 0

    @property
    def expected(self) -> int:
        return sum(len(p.instances) for p in self.targets)

    @property
    def whole(self) -> bool:
        return self.floor > 0


def make_plan(
    features: Sequence[Feature],
    select: Sequence[str] = (),
    targets: Sequence[str] = (),
    tier: str | None = None,
    part: tuple[int, int] = (1, 1),
    spec: Path | None = None,
) -> Plan:
    """Collect instances for the named targets, or for every target this machine can serve.

    Raises TargetUnavailable for a named target that cannot be served, SpecError for a selection that matches nothing.
    """
    plan = Plan()
    require_matches(features, select)
    chosen = collect(features, select)
    for name in targets or TARGETS:
        try:
            adapter = load(name)
            info = adapter.info()
        except TargetUnavailable as e:
            if targets:
                raise
            plan.left_out[name] = str(e)
            continue
        top = TIERS.index(tier or default_tier(info))
        mine = [i for i in collect_for(chosen, info) if TIERS.index(i.tier) <= top]
        plan.targets.append(Planned(name, adapter, info, shard(mine, *part) if part != (1, 1) else mine))
        plan.targets[-1].complaint = smoke(adapter)
    if not select and part == (1, 1) and spec is not None:
        plan.floor = sum(floor(spec, p.target, tier or default_tier(p.info), p.info) for p in plan.targets)
    return plan


def default_tier(info: Info) -> str:
    """`gpu` for a target that runs on a GPU, `pr` for all others."""
    return "gpu" if info.runs and info.device else "pr"
