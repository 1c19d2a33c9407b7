"""The roofline picture: how near to what the hardware can do each kernel and each peer comes; light and dark.

The upper panel has work that arithmetic limits, over the operations for each byte; the lower one has a row for each
line of work that memory limits, with the rate of everybody who did it.
"""

from __future__ import annotations

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
MOST_ROWS = 40  # of the lower panel in one column
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
    """One contestant on one line: operations a byte (0 where memory limits), and operations or bytes a second."""

    intensity: float
    rate: float
    operation: str
    line: str
    contestant: str


def points(made: Mapping[str, Any]) -> tuple[list[Point], list[Point]]:
    """What arithmetic limits, and what memory limits; contestants without a right result have no point."""
    arithmetic, memory = [], []
    for line in made["lines"]:
        for c in line["contestants"]:
            if c["status"] != "right" or "median_us" not in c:
                continue
            where = (line["operation"], line["id"].partition(":")[2].replace(";", " "), c["name"])
            if "flops_per_second" in c and line["bytes"]:
                arithmetic.append(Point(line["flops"] / line["bytes"], c["flops_per_second"], *where))
            elif not line["flops"]:
                memory.append(Point(0.0, c["bytes_per_second"], *where))
    return arithmetic, memory


def copy_rate(made: Mapping[str, Any]) -> float | None:
    """The fastest copy that was measured, beside a line or for the picture alone, in bytes a second."""
    rates = [c["bytes_per_second"] for line in made["lines"] for c in line["contestants"]
             if c["name"] == "copy" and c["times_us"]]  # fmt: skip
    return max(rates, default=made["machine"].get("copy_bytes_per_second"))


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

    columns = _columns(memory)
    most = max((len({(p.operation, p.line) for p in column}) for column in columns), default=0)
    heights = [h for h, panel in ((4.6, arithmetic), (1.0 + 0.21 * most, memory)) if panel]
    width = 9.6 if len(columns) < 2 else 14.4
    figure = Figure(figsize=(width, 0.6 + sum(heights)), facecolor=theme.ground, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_title(made), color=theme.ink, fontsize=11)
    grid = figure.add_gridspec(len(heights), max(1, len(columns)), height_ratios=heights)
    if arithmetic:
        _arithmetic(figure.add_subplot(grid[0, :]), made, arithmetic, theme)
    for place, column in enumerate(columns):
        axes = figure.add_subplot(grid[-1, place])
        _memory(axes, made, column, theme)
        axes.set_ylim(most - 0.4, -0.6)
        if place == len(columns) - 1:
            _legend(axes, memory, theme)
    data = io.BytesIO()
    dates: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    figure.savefig(data, format=kind, dpi=160, facecolor=theme.ground, metadata=dates[kind])
    return data.getvalue()


def _columns(memory: Sequence[Point]) -> list[list[Point]]:
    """The points of the lower panel, in two columns if one would be too long; an operation stays in one of them."""
    sizes: dict[str, set[str]] = {}
    for p in memory:
        sizes.setdefault(p.operation, set()).add(p.line)
    total = sum(map(len, sizes.values()))
    if total <= MOST_ROWS:
        return [list(memory)] if memory else []
    first: set[str] = set()
    above = 0
    for operation, lines in sizes.items():
        if 2 * above + len(lines) <= total:
            first.add(operation)
            above += len(lines)
    parts = ([p for p in memory if p.operation in first], [p for p in memory if p.operation not in first])
    return [part for part in parts if part]


def _title(made: Mapping[str, Any]) -> str:
    m = made["machine"]
    day = made["run"]["started"][:10]
    return f"{m.get('name', 'GPU')}, CUDA {m.get('cuda')}: each line measured in one process, {day}"


def _dress(axes: Any, theme: Theme) -> None:
    axes.set_facecolor(theme.ground)
    axes.grid(True, which="major", color=theme.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=theme.ink, labelsize=8)
    for side in axes.spines.values():
        side.set_color(theme.faint)


def _arithmetic(axes: Any, made: Mapping[str, Any], panel: Sequence[Point], theme: Theme) -> None:
    """Slopes of memory, flats of the multipliers, one marker for each operation, one colour for each contestant."""
    from matplotlib.ticker import FixedLocator, NullLocator

    _dress(axes, theme)
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = min(p.intensity for p in panel) / 3, max(p.intensity for p in panel) * 3
    flats = _flats(made)
    top = max([f for f, _ in flats] + [p.rate for p in panel])
    for rate, style, name in _memory_rates(made):
        end = min(high, top / rate)
        if end > low:
            axes.plot([low, end], [low * rate, end * rate], style, color=theme.ink, linewidth=1.1, label=name)
    for flat, name in flats:
        axes.axhline(flat, color=theme.ink, linewidth=1.1)
        place = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 8}
        axes.annotate(name, (low, flat), color=theme.ink, **place)
    operations = list(dict.fromkeys(p.operation for p in panel))
    for p in sorted(panel, key=lambda p: p.contestant == "ours"):
        _mark(axes, p.intensity, p.rate, p.contestant, MARKERS[operations.index(p.operation) % len(MARKERS)])
    for index, operation in enumerate(operations):
        shape = {"color": theme.ink, "markerfacecolor": "none", "linestyle": "none"}
        axes.plot([], [], MARKERS[index % len(MARKERS)], label=operation, **shape)
    axes.set_xlim(low, high)
    bottom = min(p.rate for p in panel) / 1.6
    axes.set_ylim(bottom, top * 1.5)
    for axis, least, most in ((axes.xaxis, low, high), (axes.yaxis, bottom, top * 1.5)):
        marks = [m * 10.0**e for e in range(-3, 17) for m in (1, 2, 5)]
        axis.set_major_locator(FixedLocator([m for m in marks if least <= m <= most]))
        axis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda v, _: f"{v / 1e12:g}")
    axes.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    axes.set_xlabel("floating-point operations for each byte", color=theme.ink, fontsize=9)
    axes.set_ylabel("TFLOP/s", color=theme.ink, fontsize=9)
    _legend(axes, panel, theme)


def _memory(axes: Any, made: Mapping[str, Any], panel: Sequence[Point], theme: Theme) -> None:
    """A row for each line; upright lines for what memory gives."""
    _dress(axes, theme)
    rows = list(dict.fromkeys((p.operation, p.line) for p in panel))
    for rate, style, name in _memory_rates(made):
        axes.axvline(rate, linestyle=style, color=theme.ink, linewidth=1.1, label=name)
    for p in sorted(panel, key=lambda p: p.contestant == "ours"):
        _mark(axes, p.rate, rows.index((p.operation, p.line)), p.contestant, "o")
    axes.set_yticks(range(len(rows)), [f"{operation}  {line}" for operation, line in rows])
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda v, _: f"{v / 1e12:g}")
    axes.set_xlabel("TB/s of what must be read and written", color=theme.ink, fontsize=9)


def _mark(axes: Any, x: float, y: float, contestant: str, marker: str) -> None:
    """Ours full and large, so that it is seen among the others."""
    colour, mine = COLOURS[contestant], contestant == "ours"
    face, size = (colour, 7) if mine else ("none", 5.5)
    axes.plot(x, y, marker, color=colour, markerfacecolor=face, markersize=size, markeredgewidth=1.2, linestyle="none")


def _legend(axes: Any, panel: Sequence[Point], theme: Theme) -> None:
    for name in COLOURS:
        if any(p.contestant == name for p in panel):
            face = COLOURS[name] if name == "ours" else "none"
            axes.plot([], [], "s", color=COLOURS[name], markerfacecolor=face, label=name, linestyle="none")
    axes.legend(fontsize=8, frameon=False, labelcolor=theme.ink, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _flats(made: Mapping[str, Any]) -> list[tuple[float, str]]:
    """Ceilings of the dtypes that were measured, lowest first."""
    lines = [line for line in made["lines"] if line["flops"]]
    dtypes = {line.get("multiplied", line["dtype"]) for line in lines}
    by_rate: dict[float, list[str]] = {}
    for dtype in sorted(dtypes):
        if rate := ceilings.flops_per_second(made["machine"], dtype):
            by_rate.setdefault(rate, []).append(dtype)
    return [(r, f"{', '.join(names)} at the highest clock: {r / 1e12:.0f}") for r, names in sorted(by_rate.items())]


def _memory_rates(made: Mapping[str, Any]) -> list[tuple[float, str, str]]:
    """Rates of memory with the style of their line: as copied here, and of the pins."""
    copied, pins = copy_rate(made), ceilings.bytes_per_second(made["machine"])
    found = []
    if copied:
        found.append((copied, "-", f"copy: {copied / 1e12:.2f} TB/s"))
    if pins:
        found.append((pins, ":", f"pins: {pins / 1e12:.2f} TB/s"))
    return found
