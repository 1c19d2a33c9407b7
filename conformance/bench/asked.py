"""What was asked of the kernels and what was seen: a row for each demand, and lines that nobody measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.benchmarks import Line
from conformance.model import PEERS


@dataclass(frozen=True)
class Demand:
    """A floor, an aim, or both, of a benchmark against a peer, and the lines that were compared with it.

    `asked` counts the lines that the specification has; `values` are the comparisons. A mean is one value of all lines.
    """

    place: str
    peer: str
    floor: float | None
    aim: float | None
    asked: int
    values: Sequence[Mapping[str, Any]]
    mean: bool = False

    @property
    def under(self) -> int:
        """How many do not meet the floor; one that has no speed meets none."""
        return sum(v.get("met") is False for v in self.values)

    @property
    def short_of_aim(self) -> int:
        return sum(v.get("reached") is False for v in self.values)

    @property
    def seen(self) -> str:
        """The ratios, from the smallest to the largest; of a single one the interval."""
        found = sorted((v for v in self.values if "value" in v), key=lambda v: float(v["value"]))
        if not found:
            return "-"
        if len(found) == 1:
            return f"{found[0]['value']:.3f} [{found[0]['low']:.3f}, {found[0]['high']:.3f}]"
        return f"{found[0]['value']:.3f} to {found[-1]['value']:.3f}"

    @property
    def verdict(self) -> str:
        """In words; what is bold is missed."""
        count = len(self.values)
        if not count:
            return "**not measured**"
        if self.under:
            found = f"**{self.under} of {count} under the floor**" if count > 1 else "**under the floor**"
        elif self.floor is None:
            found = "measured"
        else:
            found = "met"
        if self.aim is not None:
            found += f", {count - self.short_of_aim} of {count} reach the aim" if count > 1 else self._aim
        return found if self.mean or count == self.asked else f"{found}; {self.asked - count} not compared"

    @property
    def _aim(self) -> str:
        return ", aim missed" if self.short_of_aim else ", aim reached"


def demands(made: Mapping[str, Any], asked: Sequence[Line]) -> Iterator[Demand]:
    """In the order of the specification; benchmarks that it does not have come last."""
    counts: dict[str, int] = {}
    wanted: dict[str, dict[str, Mapping[str, float]]] = {}
    for line in asked:
        place, b = f"{line.feature}/{line.benchmark.id}", line.benchmark
        counts[place] = counts.get(place, 0) + 1
        wanted[place] = {"floors": b.floors, "aims": b.aims, "means": b.means}
    measured: dict[str, list[Mapping[str, Any]]] = {}
    for line in made["lines"]:
        place = f"{line['feature']}/{line['benchmark']}"
        measured.setdefault(place, []).append(line)
        wanted[place] = {kind: line[kind] for kind in ("floors", "aims", "means")}
    means = {(f"{m['feature']}/{m['benchmark']}", m["peer"]): m for m in made["means"]}
    for place, words in wanted.items():
        lines = measured.get(place, [])
        for peer in PEERS:
            if peer in words["floors"] or peer in words["aims"]:
                values = [line["ratios"][peer] for line in lines if peer in line["ratios"]]
                count = max(counts.get(place, 0), len(lines))
                yield Demand(place, peer, words["floors"].get(peer), words["aims"].get(peer), count, values)
            if peer in words["means"]:
                values = [means[place, peer]] if (place, peer) in means else []
                yield Demand(place, peer, words["means"][peer], None, 1, values, mean=True)


def unmeasured(made: Mapping[str, Any], asked: Sequence[Line]) -> list[str]:
    """Lines of the specification without figures."""
    measured = {line["id"] for line in made["lines"]}
    return [line.id for line in asked if line.id not in measured]


def table(made: Mapping[str, Any], asked: Sequence[Line]) -> list[list[str]]:
    """Rows of a table, the first one its head."""
    rows = [["work", "against", "floor", "aim", "seen", "verdict"]]
    before = ""
    for d in demands(made, asked):
        against = f"{d.peer}, geometric mean" if d.mean else d.peer
        limits = ["" if limit is None else f"{limit:g}" for limit in (d.floor, d.aim)]
        rows.append([d.place if d.place != before else "", against, *limits, d.seen, d.verdict])
        before = d.place
    return rows
