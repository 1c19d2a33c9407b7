"""What a face of the language may relax: how kernels meet plain Python functions, globals and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """The choices in which faces of the language differ; a kernel and the functions it calls each have their own.

    ``plain_functions``: a Python function without ``@jit`` is compiled in place where a kernel calls it, and the
    functions that it calls likewise. ``plain_globals``: numbers, strings, tuples, lists and dicts outside of a kernel
    are read as if they were ``tl.constexpr``. ``plain_numbers``: a number assigned to a name stays a compile-time value
    until a run-time loop or branch assigns the name; otherwise it is a run-time scalar at once.
    """

    plain_functions: bool = False
    plain_globals: bool = False
    plain_numbers: bool = False


STRICT = Rules()
