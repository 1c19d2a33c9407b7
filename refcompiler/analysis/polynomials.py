"""Polynomials with integer coefficients: what scalars of a kernel are, exactly, in terms of a few that are opaque."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Monomial = tuple[int, ...]  # the numbers of its factors, ascending; () for the constant
Interval = tuple[int, int]

INFINITE = 1 << 256  # stands for no bound; products of a few of them are still no bound


@dataclass(frozen=True)
class Polynomial:
    """A sum of monomials times integers, none of them 0. Factors are numbers that the maker knows the meaning of."""

    terms: Mapping[Monomial, int]

    @staticmethod
    def constant(number: int) -> Polynomial:
        return Polynomial({(): number} if number else {})

    @staticmethod
    def factor(number: int) -> Polynomial:
        return Polynomial({(number,): 1})

    @staticmethod
    def sum(terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
        """The sum of terms, in which monomials may repeat."""
        total: dict[Monomial, int] = {}
        for monomial, count in terms:
            total[monomial] = total.get(monomial, 0) + count
        return Polynomial({m: c for m, c in total.items() if c})

    def __add__(self, other: Polynomial) -> Polynomial:
        return Polynomial.sum((*self.terms.items(), *other.terms.items()))

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        return Polynomial.sum(
            (tuple(sorted(m + n)), c * d) for m, c in self.terms.items() for n, d in other.terms.items()
        )

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    @property
    def number(self) -> int | None:
        """The constant that it is; None where it is none."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def factors(self) -> set[int]:
        return {factor for monomial in self.terms for factor in monomial}

    def only(self, keep: Callable[[Monomial], bool]) -> Polynomial:
        """The terms whose monomials satisfy ``keep``."""
        return Polynomial({m: c for m, c in self.terms.items() if keep(m)})

    def quotient(self, divisor: Polynomial) -> Polynomial | None:
        """self / divisor for a divisor of one term; None where that is no polynomial."""
        ((factors, count),) = divisor.terms.items()
        terms: dict[Monomial, int] = {}
        for monomial, number in self.terms.items():
            rest = list(monomial)
            for factor in factors:
                if factor not in rest:
                    return None
                rest.remove(factor)
            if number % count:
                return None
            terms[tuple(rest)] = number // count
        return Polynomial(terms)

    def interval(self, of: Callable[[int], Interval]) -> Interval:
        """Bounds of the value, from bounds of the factors."""
        low = high = 0
        for monomial, count in self.terms.items():
            least, greatest = count, count
            for factor in monomial:
                corners = [a * b for a in (least, greatest) for b in of(factor)]
                least, greatest = min(corners), max(corners)
            low, high = low + least, high + greatest
        return low, high
