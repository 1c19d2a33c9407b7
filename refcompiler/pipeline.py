"""From tile IR to CUDA C++. Read top to bottom: this file is the compiler's table of contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from refcompiler.ir import Func, Pass, PassManager
from refcompiler.passes.canonicalize import canonicalize
from refcompiler.passes.cse import cse
from refcompiler.passes.dce import dce
from refcompiler.passes.form_fma import form_fma
from refcompiler.passes.licm import licm


@dataclass(frozen=True)
class Options:
    """What a launch may choose: warps per program, pipeline stages, contraction to fma, checks of ``assert``."""

    num_warps: int = 4
    num_stages: int = 3
    enable_fp_fusion: bool = True
    debug: bool = False


@dataclass(frozen=True)
class Context:
    """What every pass may ask: the options, and the target where one is chosen."""

    options: Options = field(default_factory=Options)
    target: Any = None

    @property
    def num_warps(self) -> int:
        return self.options.num_warps


TILE = (
    Pass("canonicalize", canonicalize, "later passes match fewer shapes"),
    Pass("cse", cse, "unrolled loops and helpers repeat address arithmetic"),
    Pass("licm", licm, "loops recompute what does not change"),
    Pass("form_fma", form_fma, "one rounding for every target, decided here and by no C++ compiler"),
    Pass("dce", dce, "no layout is wasted on a value that nobody uses"),
)

# "a before b" with the reason; checked when this module is imported.
MUST_PRECEDE = (
    ("canonicalize", "cse", "cse compares operands by identity and wants one form of each"),
    ("form_fma", "dce", "a contracted product is left without uses"),
)


def optimize(func: Func, context: Context | None = None, observer: Callable[[str, Func], None] | None = None) -> Func:
    """Tile IR, optimised; the function given stays as it is."""
    return _run(TILE, func.clone(), context or Context(), observer)


def _run(passes: tuple[Pass, ...], func: Func, context: Context, observer) -> Func:
    manager = PassManager(passes, context, observer)
    return manager.run(func)


def _check_order(passes: tuple[Pass, ...]) -> None:
    names = [p.name for p in passes]
    for first, second, reason in MUST_PRECEDE:
        if first in names and second in names and names.index(first) > names.index(second):
            raise ValueError(f"pass {first} must precede {second}: {reason}")


_check_order(TILE)
