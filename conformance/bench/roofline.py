"""The roofline picture: how near to what the hardware can do each kernel and each peer comes; light and dark.

The upper panel has work that arithmetic limits, over the operations for each byte; the lower one work that memory
limits, over the bytes of a call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance import output
from conformance.bench import ceilings
from conformance.errors import SpecError

FORMATS = ("png", "svg", "pdf")
# Okabe and Ito's palette, which people who confuse red with green can tell apart; one colour for each contestant.
COLOURS = {
    "ours": "#d55e00", "mlir": "#e69f00", "copy": "#7f7f7f", "torch": "#56b4e9", "compile": "#0072b2",
    "cublas": "#009e73", "cudnn": "#009e73", "triton": "#cc79a7",
}  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


@dataclass(frozen=True)
class Theme:
    """Colours of one version of the picture."""

    name: str
    ground: str
    ink: str
    faint: str


THEMES = (Theme("light", "#ffffff", "#1f2328", "#d0d7de"), Theme("dark", "#0d1117", "#e6edf3", "#30363d"))


@dataclass(frozen=True)
class Point:
    """One contestant on one line: `x` is operations a byte or bytes of a call, `y` operations or bytes a second."""

    x: float
    y: float
    operation: str
    contestant: str


def points(made: Mapping[str, Any]) -> tuple[list[Point], list[Point]]:
    """What arithmetic limits, and what memory limits; contestants without a right result have no point."""
    arithmetic, memory = [], []
    for line in made["lines"]:
        for c in line["contestants"]:
            if c["status"] != "right" or "median_us" not in c:
                continue
            if "flops_per_second" in c and line["bytes"]:
                intensity = line["flops"] / line["bytes"]
                arithmetic.append(Point(intensity, c["flops_per_second"], line["operation"], c["name"]))
            elif not line["flops"]:
                memory.append(Point(line["bytes"], c["bytes_per_second"], line["operation"], c["name"]))
    return arithmetic, memory


def copy_rate(made: Mapping[str, Any]) -> float | None:
    """The fastest copy that was measured, in bytes a second."""
    rates = [c["bytes_per_second"] for line in made["lines"] for c in line["contestants"]
             if c["name"] == "copy" and c["times_us"]]  # fmt: skip
    return max(rates, default=None)


def draw(made: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write roofline-light and roofline-dark as png, svg and pdf. Raises SpecError without Matplotlib."""
    try:
        import matplotlib
    except ImportError as error:
        raise SpecError(
            "bench.drawing", f"pictures need Matplotlib ({error})", hint="pip install tilespec[bench]"
        ) from None
    arithmetic, memory = points(made)
    if not arithmetic and not memory:
        return []
    written = []
    for theme in THEMES:
        for kind in FORMATS:
            path = folder / f"roofline-{theme.name}.{kind}"
            # Text stays text, and the same document gives the same file.
            with matplotlib.rc_context({"svg.hashsalt": "tilespec", "svg.fonttype": "none", "pdf.fonttype": 42}):
                output.write(path, _picture(made, arithmetic, memory, theme, kind))
            written.append(path)
    return written


def _picture(
    made: Mapping[str, Any], arithmetic: Sequence[Point], memory: Sequence[Point], theme: Theme, kind: str
) -> bytes:
    """The picture as bytes of one format."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [p for p in (arithmetic, memory) if p]
    figure = Figure(figsize=(8.6, 1.0 + 4.4 * len(panels)), facecolor=theme.ground, layout="constrained")
    FigureCanvasAgg(figure)
    for place, (axes, panel) in enumerate(
        zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True)
    ):
        _dress(axes, theme)
        if panel is arithmetic:
            _arithmetic_roofs(axes, made, arithmetic, theme)
        else:
            _memory_roofs(axes, made, memory, theme)
        _scatter(axes, panel, theme)
        if place == 0:
            axes.set_title(_title(made), color=theme.ink, loc="left", fontsize=11)
    data = io.BytesIO()
    dates: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    figure.savefig(data, format=kind, dpi=160, facecolor=theme.ground, metadata=dates[kind])
    return data.getvalue()


def _title(made: Mapping[str, Any]) -> str:
    m = made["machine"]
    return f"{m.get('name', 'GPU')}, CUDA {m.get('cuda')}: measured in one process, {made['run']['started'][:10]}"


def _dress(axes: Any, theme: Theme) -> None:
    axes.set_facecolor(theme.ground)
    axes.grid(True, which="major", color=theme.faint, linewidth=0.6)
    axes.tick_params(which="both", colors=theme.ink, labelsize=9)
    for side in axes.spines.values():
        side.set_color(theme.faint)
    axes.set_xscale("log")


def _arithmetic_roofs(axes: Any, made: Mapping[str, Any], panel: Sequence[Point], theme: Theme) -> None:
    """Slopes of memory, flats of the multipliers."""
    axes.set_yscale("log")
    low = min(p.x for p in panel) / 4
    high = max(p.x for p in panel) * 4
    for rate, style, name in _memory_rates(made):
        flat = max((f for f, _ in _flats(made)), default=math.inf)
        end = min(high, flat / rate)
        if end > low:
            axes.plot([low, end], [low * rate, end * rate], style, color=theme.ink, linewidth=1.2)
            axes.annotate(
                name, (low, low * rate), xytext=(4, 6), textcoords="offset points", color=theme.ink, fontsize=8
            )
    for flat, name in _flats(made):
        axes.axhline(flat, color=theme.ink, linewidth=1.2)
        axes.annotate(
            name, (high, flat), xytext=(-4, 4), textcoords="offset points", ha="right", color=theme.ink, fontsize=8
        )
    axes.set_xlim(low, high)
    axes.set_xlabel("floating-point operations for each byte", color=theme.ink, fontsize=9)
    axes.set_ylabel("operations a second", color=theme.ink, fontsize=9)
    axes.yaxis.set_major_formatter(lambda v, _: f"{v / 1e12:g} T")


def _flats(made: Mapping[str, Any]) -> list[tuple[float, str]]:
    """Ceilings of the dtypes that were measured, highest first."""
    dtypes = {
        "tf32" if line["params"].get("PRECISION") == "tf32" else line["dtype"]
        for line in made["lines"]
        if line["flops"]
    }
    found = {(rate, d) for d in dtypes if (rate := ceilings.flops_per_second(made["machine"], d))}
    by_rate: dict[float, list[str]] = {}
    for rate, dtype in sorted(found):
        by_rate.setdefault(rate, []).append(dtype)
    return [(r, f"{', '.join(names)} at the highest clock: {r / 1e12:.0f} T") for r, names in sorted(by_rate.items())]


def _memory_roofs(axes: Any, made: Mapping[str, Any], panel: Sequence[Point], theme: Theme) -> None:
    for rate, style, name in _memory_rates(made):
        axes.axhline(rate, linestyle=style, color=theme.ink, linewidth=1.2)
        axes.annotate(name, (1, rate), xycoords=("axes fraction", "data"), xytext=(-4, 4), textcoords="offset points",
                      ha="right", color=theme.ink, fontsize=8)  # fmt: skip
    top = max([p.y for p in panel] + [rate for rate, _, _ in _memory_rates(made)])
    axes.set_ylim(0, top * 1.12)
    low, high = min(p.x for p in panel), max(p.x for p in panel)
    axes.set_xlim(low / 2, high * 2)
    axes.set_xlabel("bytes that a call must read and write", color=theme.ink, fontsize=9)
    axes.set_ylabel("bytes a second", color=theme.ink, fontsize=9)
    axes.yaxis.set_major_formatter(lambda v, _: f"{v / 1e12:.2g} TB/s")
    axes.xaxis.set_major_formatter(lambda v, _: f"{v / 1e9:g} GB" if v >= 1e9 else f"{v / 1e6:g} MB")


def _memory_rates(made: Mapping[str, Any]) -> list[tuple[float, str, str]]:
    """Rates of memory with the style of their line: as copied here, and of the pins."""
    copied, pins = copy_rate(made), ceilings.bytes_per_second(made["machine"])
    found = []
    if copied:
        found.append((copied, "-", f"copy, measured: {copied / 1e12:.2f} TB/s"))
    if pins:
        found.append((pins, ":", f"pins of the memory: {pins / 1e12:.2f} TB/s"))
    return found


def _scatter(axes: Any, panel: Sequence[Point], theme: Theme) -> None:
    """One marker for each operation, one colour for each contestant; ours last and full, so that it is seen."""
    operations = list(dict.fromkeys(p.operation for p in panel))
    contestants = [c for c in COLOURS if any(p.contestant == c for p in panel)]
    for p in sorted(panel, key=lambda p: p.contestant == "ours"):
        colour, mine = COLOURS[p.contestant], p.contestant == "ours"
        marker = MARKERS[operations.index(p.operation) % len(MARKERS)]
        face = colour if mine else "none"
        axes.plot(p.x, p.y, marker, color=colour, markerfacecolor=face, markersize=7 if mine else 6,
                  markeredgewidth=1.2, linestyle="none")  # fmt: skip
    for c in contestants:
        axes.plot([], [], "o", color=COLOURS[c], markerfacecolor=COLOURS[c] if c == "ours" else "none", label=c)
    for index, operation in enumerate(operations):
        axes.plot([], [], MARKERS[index % len(MARKERS)], color=theme.ink, markerfacecolor="none", label=operation)
    legend = axes.legend(fontsize=8, frameon=False, labelcolor=theme.ink, loc="center left", bbox_to_anchor=(1.0, 0.5))
    legend.set_zorder(5)
