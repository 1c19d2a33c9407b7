"""Number formats: widths, precision, limits, correct rounding from fp64, and the size of an ULP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Format:
    """One element type. `p` counts the hidden bit; `emin`, `emax`: exponents of the normal range."""

    name: str
    kind: str  # "bool", "signed", "unsigned" or "float"
    bits: int
    dtype: np.dtype
    p: int = 0
    emin: int = 0
    emax: int = 0
    largest: float = 0.0  # of a format that has no infinity, or to which conversions saturate

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def u(self) -> float:
        """Unit roundoff of round-to-nearest, 2^-p."""
        return 2.0**-self.p

    @property
    def min_normal(self) -> float:
        return 2.0**self.emin

    @property
    def min_subnormal(self) -> float:
        return 2.0 ** (self.emin - self.p + 1)

    @property
    def max(self) -> float | int:
        """Largest finite value."""
        if self.is_float:
            return self.largest or (2.0 - 2.0 ** (1 - self.p)) * 2.0**self.emax
        return {"bool": 1, "signed": 2 ** (self.bits - 1) - 1, "unsigned": 2**self.bits - 1}[self.kind]

    @property
    def min(self) -> float | int:
        """Most negative finite value."""
        if self.is_float:
            return -self.max
        return -(2 ** (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def overflow(self) -> float:
        """Smallest magnitude that rounds to infinity; infinity itself for f64, where fp64 cannot hold it, and for
        formats that conversions saturate to."""
        return np.inf if self.name == "f64" or self.largest else (2.0 - self.u) * 2.0**self.emax


def _integer(name: str, kind: str, bits: int, dtype: Any) -> Format:
    return Format(name, kind, bits, np.dtype(dtype))


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        _integer("bool", "bool", 1, np.bool_),
        *(_integer(f"i{b}", "signed", b, f"int{b}") for b in (8, 16, 32, 64)),
        *(_integer(f"u{b}", "unsigned", b, f"uint{b}") for b in (8, 16, 32, 64)),
        Format("f8e4m3", "float", 8, np.dtype(ml_dtypes.float8_e4m3fn), 4, -6, 8, 448.0),
        Format("f8e5m2", "float", 8, np.dtype(ml_dtypes.float8_e5m2), 3, -14, 15, 57344.0),
        Format("f16", "float", 16, np.dtype(np.float16), 11, -14, 15),
        Format("bf16", "float", 16, np.dtype(ml_dtypes.bfloat16), 8, -126, 127),
        Format("f32", "float", 32, np.dtype(np.float32), 24, -126, 127),
        Format("f64", "float", 64, np.dtype(np.float64), 53, -1022, 1023),
    )
}
ALIASES = {"fp16": "f16", "fp32": "f32", "fp64": "f64", "i1": "bool", "u1": "bool"}
_BY_DTYPE = {f.dtype: f for f in FORMATS.values()}


def format_of(what: Any) -> Format:
    """The format of a name (`"f16"`, `"fp16"`), a NumPy dtype, an array or a `Format`; else ValueError."""
    if isinstance(what, Format):
        return what
    if isinstance(what, str):  # never NumPy's codes: its "i8" has 8 bytes
        found = FORMATS.get(ALIASES.get(what, what))
    else:
        try:
            found = _BY_DTYPE.get(np.dtype(what if isinstance(what, type) else getattr(what, "dtype", what)))
        except TypeError:
            found = None
    if found is None:
        raise ValueError(f"no number format {what!r}; expected one of {', '.join(FORMATS)}")
    return found


def widen(x: Any) -> np.ndarray:
    """`x` as fp64, exactly for every format of at most 53 bits of precision."""
    with np.errstate(invalid="ignore"):  # a NaN of bf16
        return np.asarray(x).astype(np.float64)


def _exponent(magnitude: np.ndarray) -> np.ndarray:
    """floor(log2(m)) of positive finite fp64 values, exactly; subnormals included."""
    return np.frexp(magnitude)[1] - 1


def round_to(x: Any, fmt: Any) -> np.ndarray:
    """fp64 values rounded once, to nearest even, to values of a float format, as fp64; overflow: infinity, or the
    largest number of a format that saturates, which infinity becomes too.

    The result is exact in the format, so a later ``astype`` cannot round again (ml_dtypes rounds f64
    through f32).
    """
    fmt = format_of(fmt)
    x = np.asarray(x, np.float64)
    if fmt.name == "f64":
        return x.copy()
    finite = np.isfinite(x) & (x != 0)
    magnitude = np.where(finite, np.abs(x), 1.0)
    quantum = np.maximum(_exponent(magnitude), fmt.emin) - (fmt.p - 1)
    rounded = np.ldexp(np.rint(np.ldexp(magnitude, -quantum)), quantum)
    rounded = np.where(rounded > fmt.max, np.inf, rounded)
    rounded = np.where(finite, np.copysign(rounded, x), x)
    return np.clip(rounded, -fmt.largest, fmt.largest) if fmt.largest else rounded


def to_format(x: Any, fmt: Any) -> np.ndarray:
    """fp64 values rounded once into an array of the format's own dtype."""
    fmt = format_of(fmt)
    with np.errstate(invalid="ignore"):
        return round_to(x, fmt).astype(fmt.dtype)


def ulp(x: Any, fmt: Any) -> np.ndarray:
    """Size of one ULP at the real value x (J.-M. Muller's definition), as fp64.

    Between two neighbours: their distance. At a representable value: the distance to its nearest neighbour,
    so half the size above at a power of two. At zero and below the normal range: the smallest subnormal.
    Beyond the largest finite value: the last gap. NaN for NaN.
    """
    fmt = format_of(fmt)
    x = np.abs(np.asarray(x, np.float64))
    magnitude = np.where(np.isfinite(x) & (x > 0), np.minimum(x, fmt.max), 1.0)
    fraction, exponent = np.frexp(magnitude)
    exponent = np.where(fraction == 0.5, exponent - 2, exponent - 1)
    size = np.ldexp(1.0, np.maximum(exponent, fmt.emin) - (fmt.p - 1))
    size = np.where(x == 0, fmt.min_subnormal, size)
    size = np.where(np.isinf(x), np.ldexp(1.0, fmt.emax - fmt.p + 1), size)
    return np.where(np.isnan(x), np.nan, size)
