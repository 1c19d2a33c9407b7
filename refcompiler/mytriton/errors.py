"""This compiler's errors as the exceptions of Python that mytriton's scripts catch: each is both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from refcompiler.errors import CompileError, LaunchError, TileSpecError


class KernelTypeError(CompileError, TypeError):
    """A kernel breaks a rule of the language."""


class ArgumentTypeError(LaunchError, TypeError):
    """An argument of a launch does not fit the kernel."""


class LaunchValueError(LaunchError, ValueError):
    """A grid or a backend that is none."""


@contextmanager
def pythons_errors() -> Iterator[None]:
    """Raise what is refused inside as a TypeError or a ValueError too."""
    try:
        yield
    except TileSpecError as error:
        kind = _kind(error)
        if kind is None:
            raise
        raised = kind(error.id, error.message, error.span, notes=error.notes, phase=error.phase)
        raise raised.with_traceback(error.__traceback__) from None


def _kind(error: TileSpecError) -> type[TileSpecError] | None:
    if type(error) is CompileError:
        return KernelTypeError
    if type(error) is LaunchError:
        return LaunchValueError if error.id.startswith(("program.grid#", "config.")) else ArgumentTypeError
    return None
