"""The results of `tilespec bench` as one JSON document: timings as measured, and what is concluded from them.

Conclusions follow from the timings alone, so a document that was read is judged again: `judge` is the only place where
a ratio is made or compared with a floor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema

from conformance import output
from conformance.bench import ceilings
from conformance.bench.statistics import Ratio, geometric_mean, median, ratio
from conformance.benchmarks import Line
from conformance.errors import SpecError
from conformance.loader import spec_root

VERSION = 1
# Faster than the pins of the memory or the multipliers can be: something was not measured.
IMPLAUSIBLE = 1.02


def line_entry(line: Line) -> dict[str, Any]:
    """What a line asks for, without timings."""
    b = line.benchmark
    dtype, precision = line.dtypes[next(a.name for a in b.arguments if a.is_array)], line.options.get("precision")
    return {
        "id": line.id,
        "feature": line.feature,
        "benchmark": b.id,
        "operation": b.operation,
        "notes": b.notes,
        "params": dict(line.params),
        "dtype": dtype,
        "multiplied": precision if precision in ("tf32", "tf32x3") else dtype,
        "bytes": line.bytes,
        "flops": line.flops,
        "floors": dict(b.floors),
        "aims": dict(b.aims),
        "means": dict(b.means),
    }


def document(lines: Sequence[Mapping[str, Any]], machine: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """The whole, judged. `lines` are entries with contestants; `run` says when, how long, what was selected."""
    made = {"bench": VERSION, "run": dict(run), "machine": dict(machine), "lines": [dict(line) for line in lines]}
    return judge(made)


def judge(made: dict[str, Any]) -> dict[str, Any]:
    """Medians, rates, ratios with intervals, floors met or missed, and means: from the timings, in place."""
    for line in made["lines"]:
        _judge_line(line, made["machine"])
    made["means"] = list(_means(made["lines"]))
    made["verdict"] = _verdict(made)
    return made


def _judge_line(line: dict[str, Any], machine: Mapping[str, Any]) -> None:
    by_name = {c["name"]: c for c in line["contestants"]}
    for c in line["contestants"]:
        if c["times_us"]:
            c["median_us"] = median(c["times_us"])
            c["bytes_per_second"] = line["bytes"] / c["median_us"] * 1e6
            if line["flops"] and c["name"] != "copy":
                c["flops_per_second"] = line["flops"] / c["median_us"] * 1e6
    mine = by_name["ours"]
    _check_plausible(mine, line, machine)
    line["ratios"] = {}
    for name, c in by_name.items():
        if name == "ours":
            continue
        floor, aim = line["floors"].get(name), line["aims"].get(name)
        if not _has_speed(mine) or not _has_speed(c):
            if floor is not None and not _has_speed(mine):
                line["ratios"][name] = {"floor": floor, "met": False, "why": mine.get("why") or mine["status"]}
            continue
        found = ratio(mine["times_us"], c["times_us"], line["id"])
        line["ratios"][name] = _compared(name, found, floor, aim)


def _has_speed(c: Mapping[str, Any]) -> bool:
    """A contestant that was wrong has no speed."""
    return c["status"] == "right" and bool(c["times_us"])


def _check_plausible(mine: dict[str, Any], line: Mapping[str, Any], machine: Mapping[str, Any]) -> None:
    """A rate above what the hardware can do is a mistake in the measurement or in the work that the line states."""
    if mine["status"] == "implausible":  # timings of a file, judged before: judged by what is known now
        mine["status"] = "right"
        del mine["why"]
    if not _has_speed(mine):
        return
    dtype = line.get("multiplied", line["dtype"])
    bounds = {
        "bytes_per_second": ceilings.bytes_per_second(machine),
        "flops_per_second": ceilings.flops_per_second(machine, dtype),
    }
    for rate, most in bounds.items():
        if most is not None and mine.get(rate, 0.0) > most * IMPLAUSIBLE:
            mine["status"], mine["why"] = "implausible", f"{mine[rate]:.4g} {rate}, the hardware can do {most:.4g}"


def _compared(name: str, found: Ratio, floor: float | None, aim: float | None) -> dict[str, Any]:
    """A ratio with what is asked of it; of our own two backends neither may be slower than the floor allows."""
    entry: dict[str, Any] = {"value": found.value, "low": found.low, "high": found.high}
    if floor is not None:
        least = min(found.low, 1 / found.high) if name == "mlir" else found.low
        entry.update(floor=floor, met=least >= floor)
    if aim is not None:
        entry.update(aim=aim, reached=found.value >= aim)
    return entry


def _means(lines: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """For each benchmark and peer the geometric mean over all its lines; with a floor where one is asked for."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        for name, entry in line["ratios"].items():
            if "value" in entry:
                groups.setdefault((line["feature"], line["benchmark"], name), []).append(line)
    for (feature, benchmark, name), members in groups.items():
        floor = members[0]["means"].get(name)
        if len(members) < 2 and floor is None:
            continue
        pairs = [(_times(m, "ours"), _times(m, name)) for m in members]
        entry = _compared(name, geometric_mean(pairs, [m["id"] for m in members]), floor, None)
        yield {"feature": feature, "benchmark": benchmark, "peer": name, "lines": len(members), **entry}


def _times(line: Mapping[str, Any], name: str) -> list[float]:
    return next(c["times_us"] for c in line["contestants"] if c["name"] == name)


def _verdict(made: Mapping[str, Any]) -> dict[str, Any]:
    """Counts, and sentences for what is wrong and what is too slow."""
    wrong, slow, peers_absent = [], [], set()
    for line in made["lines"]:
        mine = next(c for c in line["contestants"] if c["name"] == "ours")
        if mine["status"] != "right":
            wrong.append(f"{line['id']}: {mine['status']}: {mine.get('why', '')}")
        for name, entry in line["ratios"].items():
            if entry.get("met") is False and "value" in entry:
                slow.append(f"{line['id']}: {_missed(name, entry)}")
        peers_absent |= {
            f"{c['name']}: {c.get('why', '')}" for c in line["contestants"] if c["name"] != "ours" and not c["times_us"]
        }
    for entry in made["means"]:
        if entry.get("met") is False:
            place = f"{entry['feature']}/{entry['benchmark']}"
            slow.append(f"{place}: mean {_missed(entry['peer'], entry)}")
    floors = [e for line in made["lines"] for e in line["ratios"].values() if "floor" in e]
    met = sum(bool(e["met"]) for e in floors)
    return {"floors": len(floors), "met": met, "wrong": wrong, "slow": slow, "absent": sorted(peers_absent)}


def missed(made: Mapping[str, Any]) -> list[str]:
    """Ids of lines whose own kernel is slower than a floor against a peer allows; our second backend is no peer."""
    return [
        line["id"]
        for line in made["lines"]
        if any(name != "mlir" and "value" in e and e.get("met") is False for name, e in line["ratios"].items())
    ]


def _missed(name: str, entry: Mapping[str, Any]) -> str:
    """By how much a floor is missed, as the share of the faster one's speed."""
    value, low, high = entry["value"], entry["low"], entry["high"]
    what = f"of {name}"
    if low >= entry["floor"]:  # then it is the other one that is too slow
        value, low, high, what = 1 / value, 1 / high, 1 / low, f"is what {name} has of ours"
    short = f"short by {entry['floor'] - low:.3f}"
    return f"{value:.3f} [{low:.3f}, {high:.3f}] {what}, floor {entry['floor']:g}: {short}"


@lru_cache(maxsize=1)
def _validator() -> Any:
    schema = json.loads((spec_root() / "schema" / "bench.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def write(made: Mapping[str, Any], path: Path) -> None:
    """Validate and write, one line of the table on one line of text."""
    _validator().validate(made)
    _write(made, path)


def record(lines: Sequence[Mapping[str, Any]], machine: Mapping[str, Any], run: Mapping[str, Any], path: Path) -> None:
    """Write what has been measured so far, without conclusions, so that a run that is ended loses nothing."""
    _write({"bench": VERSION, "run": run, "machine": machine, "lines": lines}, path)


def _write(made: Mapping[str, Any], path: Path) -> None:
    parts = []
    for key, value in made.items():
        if key == "lines" and value:
            rows = ",\n".join("  " + _compact(row) for row in value)
            parts.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {_compact(value)}")
    output.write(path, "{\n" + ",\n".join(parts) + "\n}\n")


def _compact(value: Any) -> str:
    return json.dumps(_rounded(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _rounded(value: Any) -> Any:
    """Floats to six digits: a clock is not finer, and the file stays readable."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, (list, tuple)) else value


def read(*paths: Path) -> dict[str, Any]:
    """A document from one file or several, validated and judged anew; of a line that several have, the last one counts.

    Raises SpecError: bench.invalid with the reason, bench.machine for files of different machines.
    """
    found = [(path, _read(path)) for path in paths]
    first = found[0][1]
    lines: dict[str, dict[str, Any]] = {}
    for path, made in found:
        for word in ("name", "driver"):
            ours, theirs = first["machine"].get(word), made["machine"].get(word)
            if ours != theirs:
                raise SpecError("bench.machine", f"measured on {theirs}, and {paths[0]} on {ours}", str(path))
        for line in made["lines"]:
            lines.pop(line["id"], None)
            lines[line["id"]] = {"commit": commit_of(made["run"]), **line}
    try:
        return judge({**first, "run": _run([made["run"] for _, made in found]), "lines": list(lines.values())})
    except (ValueError, StopIteration, KeyError) as e:
        raise SpecError("bench.invalid", f"not a benchmark document: {e}", ", ".join(map(str, paths))) from e


def _read(path: Path) -> dict[str, Any]:
    try:
        made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _validator().validate(made)
    except jsonschema.ValidationError as e:
        raise SpecError("bench.invalid", f"not a benchmark document: {e.json_path}: {e.message}", str(path)) from e
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, ValueError) as e:
        raise SpecError("bench.invalid", f"not a benchmark document: {e}", str(path)) from e
    return made


def commit_of(run: Mapping[str, Any]) -> str:
    """The commit that a run measured; `+` behind it says that files had been changed."""
    return f"{run.get('commit', '')}{'+' if run.get('dirty') else ''}"


def _run(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several runs as one: since when, how long all together, everything that was selected."""
    if len(runs) == 1:
        return dict(runs[0])
    return {
        **runs[0],
        "started": min(run["started"] for run in runs),
        "seconds": sum(run.get("seconds", 0.0) for run in runs),
        "select": list(dict.fromkeys(word for run in runs for word in run["select"])),
        "quick": all(run.get("quick", False) for run in runs),
        "dirty": any(run.get("dirty", False) for run in runs),
    }
