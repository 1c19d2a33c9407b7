"""Judgement of an output against its reference: exact, ULP, dot bound, derived enclosure; case self-check.

`judge` is the one entry; `Tolerance` says how strict. Every mode treats NaN as a class (payload and sign
never matter) and asks for it exactly where the reference has it; infinities must agree in sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles.casts import convert
from oracles.formats import Format, format_of, round_to, to_format, ulp, widen
from oracles.registry import OracleError

MODES = ("exact", "ulp", "dot", "derived")


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be from the reference.

    mode: ``exact``; ``ulp`` (needs `ulp`, a number or an array that broadcasts to the output); ``dot``
    (needs `depth`, the most roundings one term can meet; `acc` is the accumulator's format); ``derived``
    (the oracle's enclosure). absolute: an error up to this is allowed as well (mode ``ulp`` only; number or
    array), for functions whose accuracy is stated absolutely near a zero. signed_zero: ``exact`` compares
    signbits, ``any`` does not; None means exact in mode exact, any otherwise. flush: results below the
    smallest normal may be zero. truncating: the accumulator rounds toward zero, which doubles its unit
    roundoff.
    """

    mode: str = "exact"
    ulp: Any = None
    absolute: Any = 0.0
    acc: str = "f32"
    depth: float | None = None
    signed_zero: str | None = None
    flush: bool = False
    truncating: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise OracleError(f"tolerance mode {self.mode!r}; expected one of {', '.join(MODES)}")
        if self.signed_zero not in (None, "exact", "any"):
            raise OracleError(f"signed_zero {self.signed_zero!r}; expected exact or any")
        if self.mode == "ulp" and self.ulp is None:
            raise OracleError("mode ulp needs a limit: ulp")
        if self.mode == "dot" and self.depth is None:
            raise OracleError("mode dot needs depth, the most roundings one term can meet")

    @property
    def zero_sign_matters(self) -> bool:
        return self.signed_zero == "exact" or (self.signed_zero is None and self.mode == "exact")


@dataclass(frozen=True)
class Comparison:
    """Outcome for one output. `index`, `got`, `ref`, `bound` describe the worst element (None if empty).

    `max_err_over_bound` is 0 for a perfect and at most 1 for an accepted output; inf where no error was
    allowed. `bound` is absolute. `failures` counts the elements outside their bound, of `compared`.
    """

    ok: bool
    max_err_over_bound: float
    index: tuple[int, ...] | None
    got: Any
    ref: Any
    bound: float
    message: str
    failures: int = 0
    compared: int = 0


@dataclass(frozen=True)
class Weakness:
    """A wrong output that a case would accept. `wrong`: zeros, stale, shifted, scaled, dropped, useless; or right."""

    wrong: str
    text: str


def gamma(h: Any, u: float) -> Any:
    """h u / (1 - h u), the relative error of h roundings; infinite once h u reaches 1."""
    hu = np.asarray(h, np.float64) * u
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(hu < 1, hu / (1 - hu), np.inf)


def judge(
    got: np.ndarray,
    refs: Mapping[str, Any],
    name: str = "out",
    tolerance: Tolerance | None = None,
    initial: np.ndarray | None = None,
) -> Comparison:
    """Compare one output with its reference.

    got: the output array, in its own dtype and the reference's shape. refs: what the oracle returned.
    initial: the content before the run; where ``<name>.written`` is false the output must still have those
    bits. Raises OracleError if the oracle does not describe `name`, its shape differs, or the mode lacks
    what it needs.
    """
    tolerance = tolerance or Tolerance()
    if name not in refs:
        raise OracleError(f"the oracle gives no reference for output {name!r}; it gives {', '.join(refs)}")
    got, ref = np.asarray(got), np.asarray(refs[name])
    if got.shape != ref.shape:
        raise OracleError(f"output {name!r} has shape {got.shape}, its reference {ref.shape}")
    with np.errstate(all="ignore"):
        ratio, bound, shown = _RULES[tolerance.mode](got, refs, name, tolerance)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        if tolerance.zero_sign_matters:
            expected = _as_stored(ref, format_of(got))
            zero = (got == 0) & (expected == 0)
            ratio = np.where(zero & (_sign(got) != _sign(expected)), np.inf, ratio)
    unwritten = _mask(refs, name, "written", got.shape, True) == np.False_
    if initial is not None:
        touched = _bits(got) != _bits(np.asarray(initial, got.dtype).reshape(got.shape))
        ratio = np.where(unwritten, np.where(touched, np.inf, 0.0), ratio)
        shown = np.where(unwritten, _float_view(initial).reshape(got.shape), shown)
    skipped = _mask(refs, name, "unspecified", got.shape, False)
    if initial is None:
        skipped = skipped | unwritten
    return _summary(name, got, np.where(skipped, 0.0, ratio), bound, shown, int((~skipped).sum()))


def _summary(name: str, got: np.ndarray, ratio: np.ndarray, bound: Any, ref: np.ndarray, compared: int) -> Comparison:
    failures = int((ratio > 1).sum())
    if not got.size:
        return Comparison(True, 0.0, None, None, None, 0.0, f"{name}: empty", 0, 0)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), got.shape))
    limit = float(np.broadcast_to(bound, got.shape)[index])
    worst, value, expected = (
        float(ratio[index]),
        got[index].item(),
        np.broadcast_to(ref, got.shape)[index].item(),
    )
    if failures:
        allowed = f" within {limit:.3g}" if limit else ""
        message = (
            f"{name}[{', '.join(map(str, index))}]: got {_show(got[index])}, expected {expected!r}{allowed}; "
            f"{failures} of {compared} elements differ"
        )
    else:
        message = f"{name}: {compared} elements agree, largest error {worst:.3g} of its bound"
    return Comparison(not failures, worst, index, value, expected, limit, message, failures, compared)


def _show(value: Any) -> str:
    bits = int(_bits(np.asarray(value)).item())
    return f"{value.item()!r} (0x{bits:0{2 * value.dtype.itemsize}x})"


def _bits(x: np.ndarray) -> np.ndarray:
    """The elements as unsigned integers of their width."""
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)


def _sign(x: np.ndarray) -> np.ndarray:
    return np.signbit(widen(x))


def _float_view(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return widen(x) if format_of(x).is_float else x


def _mask(refs: Mapping[str, Any], name: str, word: str, shape: tuple[int, ...], default: bool) -> np.ndarray:
    return np.broadcast_to(np.asarray(refs.get(f"{name}.{word}", default), bool), shape)


def _as_stored(ref: np.ndarray, fmt: Format) -> np.ndarray:
    """The reference after the store's implicit conversion."""
    return convert(ref, fmt)


def _special(got: np.ndarray, ref: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """NaN and infinities of the reference decide alone; a NaN that the reference lacks is never right."""
    ratio = np.where(np.isnan(got), np.inf, ratio)
    ratio = np.where(np.isinf(ref), np.where(got == ref, 0.0, np.inf), ratio)
    return np.where(np.isnan(ref), np.where(np.isnan(got), 0.0, np.inf), ratio)


# ------------------------------------------------------------------------------------- the four rules
# Each returns (error over bound, absolute bound, reference to show), all of the output's shape.
def _exact(got: np.ndarray, refs: Mapping[str, Any], name: str, tolerance: Tolerance) -> tuple[Any, Any, Any]:
    expected = _as_stored(np.asarray(refs[name]), format_of(got))
    same = got == expected
    if format_of(got).is_float:
        same |= np.isnan(got) & np.isnan(expected)
    return np.where(same, 0.0, np.inf), 0.0, _float_view(expected)


def _ulp(got: np.ndarray, refs: Mapping[str, Any], name: str, tolerance: Tolerance) -> tuple[Any, Any, Any]:
    fmt = _float_output(got, name, "ulp")
    y, ref = widen(got), np.asarray(refs[name], np.float64)
    tail = np.asarray(refs.get(f"{name}.tail", 0.0), np.float64)
    limit = np.asarray(tolerance.ulp, np.float64)
    size = ulp(_true(ref, tail), fmt)
    # an infinity stands for the first value past the format, so that premature overflow is judged, not
    # excused
    beyond = np.inf if fmt.name == "f64" else np.ldexp(1.0, fmt.emax + 1)
    finite = np.where(np.isinf(y), np.copysign(beyond, y), y)
    error = np.abs((finite - ref) - tail)
    past = np.isinf(y) & (np.sign(y) == np.sign(ref)) & (np.abs(ref) >= beyond)
    bound = np.maximum(limit * size, tolerance.absolute)
    ratio = _ratio(np.where(past, 0.0, error), bound)
    if tolerance.flush:
        ratio = np.where((y == 0) & (np.abs(ref) - bound < fmt.min_normal), 0.0, ratio)
    return _special(y, ref, ratio), bound, ref


def _true(ref: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """ref + tail in fp64; where the sum is ref itself, its neighbour on the tail's side, for ULPs change at ref."""
    total = ref + tail
    beside = np.nextafter(ref, np.where(tail > 0, np.inf, -np.inf))
    return np.where((total == ref) & (tail != 0), beside, total)


def _dot(got: np.ndarray, refs: Mapping[str, Any], name: str, tolerance: Tolerance) -> tuple[Any, Any, Any]:
    """|y - ref| <= gamma(h, u_acc) A + u_out (|ref| + gamma A) + h eta; A = 0 gives exactly zero."""
    fmt, acc = _float_output(got, name, "dot"), format_of(tolerance.acc)
    if f"{name}.abs_terms" not in refs:
        raise OracleError(f"mode dot needs '{name}.abs_terms' from the oracle")
    y, ref = widen(got), np.asarray(refs[name], np.float64)
    tail = np.asarray(refs.get(f"{name}.tail", 0.0), np.float64)
    terms = np.asarray(refs[f"{name}.abs_terms"], np.float64)
    depth = tolerance.depth or 0.0
    g = gamma(depth, acc.u * (2 if tolerance.truncating else 1))
    if not np.all(np.isfinite(g)):
        raise OracleError(f"depth {depth:g} is too large for an accumulator in {acc.name}: no bound exists")
    underflow = acc.min_normal if tolerance.flush else acc.min_subnormal
    # the last rounding is of the output's format: below its normal range it errs by half a subnormal
    store = fmt.u * (np.abs(ref) + g * terms) + (fmt.min_subnormal / 2 if fmt != acc else 0.0)
    bound = g * terms + store + depth * underflow
    error = np.abs((y - ref) - tail)
    ratio = _ratio(error, bound)
    overflowed = np.isinf(y) & (np.sign(y) == np.sign(ref)) & (np.abs(ref) + bound >= fmt.overflow)
    ratio = np.where(overflowed, 0.0, ratio)
    ratio = np.where(terms == 0, np.where(y == 0, 0.0, np.inf), ratio)
    ratio = _special(y, ref, ratio)
    # partial sums may have overflowed in some order: nothing can be said (only finite references come here)
    possible = np.isfinite(ref) & (terms * (1 + g) >= acc.overflow)
    return np.where(possible, 0.0, ratio), np.where(terms == 0, 0.0, bound), ref


def _derived(got: np.ndarray, refs: Mapping[str, Any], name: str, tolerance: Tolerance) -> tuple[Any, Any, Any]:
    fmt = _float_output(got, name, "derived")
    if f"{name}.lower" not in refs:
        raise OracleError(
            f"mode derived needs '{name}.lower' and '{name}.upper': call the oracle with a BoundedNamespace"
        )
    y, ref = widen(got), np.asarray(refs[name], np.float64)
    # rounding is monotone: what was in [lower, upper] is stored inside the rounded ends
    lower, upper = (round_to(refs[f"{name}.{end}"], fmt) for end in ("lower", "upper"))
    if tolerance.flush:
        lower = np.where(np.abs(lower) < fmt.min_normal, np.minimum(lower, 0.0), lower)
        upper = np.where(np.abs(upper) < fmt.min_normal, np.maximum(upper, 0.0), upper)
    inside = (y >= lower) & (y <= upper)
    room = np.where(y > ref, upper - ref, ref - lower)
    ratio = np.where(
        inside, np.minimum(_ratio(np.abs(y - ref), room), 1.0), np.maximum(_ratio(np.abs(y - ref), room), 2.0)
    )
    ratio = np.where(y == ref, np.where(inside, 0.0, ratio), np.where(inside & ~np.isfinite(ratio), 1.0, ratio))
    ratio = np.where(np.isnan(lower), np.where(np.isnan(y), 0.0, np.inf), ratio)
    anything = np.isneginf(lower) & np.isposinf(upper)
    return np.where(anything, 0.0, ratio), np.maximum(upper - ref, ref - lower), ref


_RULES = {"exact": _exact, "ulp": _ulp, "dot": _dot, "derived": _derived}


def _ratio(error: np.ndarray, bound: Any) -> np.ndarray:
    return np.where(error == 0, 0.0, error / np.where(np.asarray(bound) == 0, np.nan, bound))


def _float_output(got: np.ndarray, name: str, mode: str) -> Format:
    fmt = format_of(got)
    if not fmt.is_float:
        raise OracleError(f"mode {mode} judges floats, output {name!r} is {fmt.name}; use mode exact")
    return fmt


# ------------------------------------------------------------------------------------- self-check of a case
def self_check(
    refs: Mapping[str, Any],
    name: str,
    dtype: Any,
    tolerance: Tolerance,
    stale: np.ndarray | None = None,
) -> list[Weakness]:
    """Wrong outputs that the case would accept; an empty list means the case has teeth.

    Tried: all zeros; a stale buffer (`stale`, the poison the harness fills outputs with, and the reference
    moved on by one element); the reference times 1.01 (floats), plus one (integers) or inverted (bool); the
    oracle's ``<name>.dropped``. A wrong output that happens to equal the right one is no weakness, except
    all zeros: a case whose reference is zero everywhere cannot reject them and says so. The rounded
    reference itself must pass.
    """
    fmt, ref = format_of(dtype), np.asarray(refs[name])
    right = _as_stored(ref, fmt)
    found: list[Weakness] = []
    verdict = judge(right, refs, name, tolerance)
    if not verdict.ok:
        found.append(Weakness("right", f"the reference itself, rounded to {fmt.name}, is rejected: {verdict.message}"))
    if tolerance.mode == "derived" and (share := _useless(refs, name, fmt)) > 0.01:
        found.append(Weakness("useless", f"output {name!r}: the enclosure admits zero for {share:.0%} of the elements"))
    for wrong, text, array in _wrong_outputs(refs, name, right, stale):
        different = not np.array_equal(_bits(array), _bits(right))
        if (different or wrong == "zeros") and judge(array, refs, name, tolerance).ok:
            found.append(Weakness(wrong, f"output {name!r}: {text} would be accepted"))
    return found


def _useless(refs: Mapping[str, Any], name: str, fmt: Format) -> float:
    """Share of the elements whose enclosure would accept zero although the reference is a normal number."""
    ref, lower, upper = (np.asarray(refs[f"{name}{end}"], np.float64) for end in ("", ".lower", ".upper"))
    admits = (np.abs(ref) >= fmt.min_normal) & (lower <= 0) & (upper >= 0)
    return float(np.mean(admits)) if ref.size else 0.0


def _wrong_outputs(
    refs: Mapping[str, Any], name: str, right: np.ndarray, stale: np.ndarray | None
) -> list[tuple[str, str, np.ndarray]]:
    fmt = format_of(right)
    wrongs = [("zeros", "zeros everywhere", np.zeros_like(right))]
    if stale is not None:
        wrongs.append(("stale", "the content before the run", np.asarray(stale, right.dtype).reshape(right.shape)))
    wrongs.append(("shifted", "every value one element further", np.roll(right.ravel(), 1).reshape(right.shape)))
    if fmt.is_float:
        scaled = to_format(widen(refs[name]) * 1.01, fmt)
        wrongs.append(("scaled", "the reference times 1.01", scaled))
    elif fmt.kind == "bool":
        wrongs.append(("scaled", "the inverted reference", ~right))
    else:
        wrongs.append(("scaled", "the reference plus one", right + right.dtype.type(1)))
    if f"{name}.dropped" in refs:
        dropped = np.asarray(refs[f"{name}.dropped"])
        wrongs.append(("dropped", "the result without one of its terms", _as_stored(dropped, fmt)))
    return wrongs
