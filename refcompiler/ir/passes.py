"""Passes and the pass manager: order, verification after every pass, dumps, timing and reproducers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refcompiler.errors import InternalError, TileSpecError
from refcompiler.ir.core import Func
from refcompiler.ir.printer import print_func
from refcompiler.ir.verifier import verify


@dataclass(frozen=True)
class Pass:
    """A named step: ``run(func, context)`` edits the function or returns a new one; ``why`` is why it stands here."""

    name: str
    run: Callable[[Func, Any], Any]
    why: str


@dataclass
class PassManager:
    """Runs passes in order and verifies after each. ``observer(name, func)`` sees the function after every pass;
    ``dump`` is a folder that receives one numbered text file per pass; ``reproducers`` one that receives, when a pass
    fails, the input function and the names of the passes that lead to the failure."""

    passes: Sequence[Pass]
    context: Any = None
    observer: Callable[[str, Func], None] | None = None
    dump: Path | None = None
    reproducers: Path | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, func: Func) -> Func:
        """The function after all passes. A limit of the target passes through, all else is an InternalError."""
        origin = print_func(func)
        for number, step in enumerate(self.passes):
            started = time.perf_counter()
            try:
                func = step.run(func, self.context) or func
                verify(func)
            except Exception as error:
                if isinstance(error, TileSpecError) and error.phase in ("lower", "codegen", "internal"):
                    raise  # an honest limit, found while lowering
                raise self._internal(number, origin, error) from error
            self.seconds[step.name] = self.seconds.get(step.name, 0.0) + time.perf_counter() - started
            if self.dump:
                _write(self.dump, f"{number:02d}-{step.name}.txt", print_func(func))
            if self.observer:
                self.observer(step.name, func)
        return func

    def _internal(self, number: int, origin: str, error: Exception) -> InternalError:
        step = self.passes[number]
        notes = [f"{type(error).__name__}: {error}"]
        if self.reproducers:
            names = ",".join(p.name for p in self.passes[: number + 1])
            digest = hashlib.sha256((origin + names).encode()).hexdigest()[:12]
            path = _write(self.reproducers, f"{step.name}-{digest}.txt", f"// passes: {names}\n{origin}")
            notes.append(f"reproducer: {path}")
        return InternalError("internal.pass", f"pass {step.name} failed", getattr(error, "span", None), notes=notes)


def _write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
