"""Where random decisions come from: Hypothesis, whose own randomness is replaced by a stream that a seed fixes.

Hypothesis mixes constants of the loaded modules into what it draws, so that the same seed gives other programs after
any change of the source. Here a program follows from its seed and index alone; Hypothesis records and shrinks it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, PrimitiveProvider

T = TypeVar("T")
BACKEND = "tilespec"


@lru_cache(maxsize=4096)
def _integers(low: int, high: int) -> strategies.SearchStrategy[int]:
    return strategies.integers(low, high)


class Choices:
    """Decisions, made so that Hypothesis shrinks toward the first option and the smallest number."""

    def __init__(self, draw: Callable[[strategies.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return low if low == high else self._draw(_integers(low, high))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def one_in(self, n: int) -> bool:
        """True once in n times; shrinks to False."""
        return self.integer(1, n) == n


class Stream(PrimitiveProvider):
    """A backend of Hypothesis: the numbers of a generator that `start` has seeded."""

    lifetime = "test_case"
    source: ClassVar[random.Random] = random.Random(0)

    @classmethod
    def start(cls, seed: int, index: int) -> None:
        """Begin the program `index` of a seed."""
        digest = hashlib.sha256(f"{seed}:{index}".encode()).digest()
        cls.source = random.Random(int.from_bytes(digest[:16], "big"))

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        low = -(2**63) if min_value is None else min_value
        return self.source.randint(low, 2**63 - 1 if max_value is None else max_value)

    def draw_boolean(self, p: float = 0.5) -> bool:
        return self.source.random() < p

    def draw_float(self, **constraints: Any) -> float:
        raise NotImplementedError("programs are made of integers")

    def draw_string(self, *args: Any, **constraints: Any) -> str:
        raise NotImplementedError("programs are made of integers")

    def draw_bytes(self, *args: Any, **constraints: Any) -> bytes:
        raise NotImplementedError("programs are made of integers")


AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.Stream"
