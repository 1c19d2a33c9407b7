"""Rounding models: how accurately a target computes each operation, and the two accuracy classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from oracles.formats import Format, format_of
from oracles.registry import OracleError


@dataclass(frozen=True)
class Ulp:
    """Accuracy of a function: |error| <= max((base + slope |x|) ulp(result), absolute)."""

    base: float
    slope: float = 0.0
    absolute: float = 0.0


CORRECT = Ulp(0.5)
# The accuracy classes of the language; a target's table may replace any row. Sources: the CUDA programming
# guide's tables for the standard functions (precise) and for the intrinsics (fast).
PRECISE: dict[str, Ulp] = {
    **dict.fromkeys(("div", "sqrt"), CORRECT),
    **dict.fromkeys(("exp", "exp2", "sin", "cos", "rsqrt", "erf", "tanh"), Ulp(2)),
    **dict.fromkeys(("log", "log2"), Ulp(1)),
}
FAST: dict[str, Ulp] = {
    **PRECISE,
    "div": Ulp(2),
    "sqrt": Ulp(1),
    "exp": Ulp(2, slope=1.173),
    "log": Ulp(3, absolute=2.0**-21.41),
    "log2": Ulp(2, absolute=2.0**-22),
    "sin": Ulp(2, absolute=2.0**-21.41),
    "cos": Ulp(2, absolute=2.0**-21.19),
}


@dataclass(frozen=True)
class Model:
    """How a target rounds. `fmt`: the format all arithmetic is done in. `ulp`: accuracy of each function.

    depth: roundings that one term of a sum of n terms can meet, as a function of n; None means n, which
    holds for every order. sum_u: unit roundoff of sums and matrix products where it is not the format's
    (truncating tensor cores). flush: results and inputs below the smallest normal may become zero.
    """

    fmt: str = "f32"
    ulp: Mapping[str, Ulp] = field(default_factory=lambda: PRECISE)
    depth: Callable[[int], float] | None = None
    sum_u: float | None = None
    flush: bool = False

    @property
    def format(self) -> Format:
        return format_of(self.fmt)

    def row(self, function: str) -> Ulp:
        if function not in self.ulp:
            raise OracleError(f"the rounding model of {self.fmt} has no accuracy row for {function!r}")
        return self.ulp[function]

    def sum_error(self, n: int) -> float:
        """gamma(depth(n), u): the error of a sum of n terms, relative to the sum of their absolute values."""
        hu = (self.depth(n) if self.depth else n) * (self.sum_u or self.format.u)
        if hu >= 1:
            raise OracleError(f"a sum of {n} terms in {self.fmt} has no error bound: depth times u is {hu:.3g}")
        return hu / (1 - hu)
