"""The one table from op names to the functions that interpret them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# fn(programs, op, *operand values) -> the value of the result, a tuple of them, or None for an op without results;
# a generator function where the op's regions may wait for other programs
Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}


def interprets(*names: str) -> Callable[[Handler], Handler]:
    """Register a function as the meaning of the ops ``names``."""

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise TypeError(f"two interpreters of {name}")
            HANDLERS[name] = handler
        return handler

    return register
