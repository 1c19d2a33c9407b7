"""Every environment variable TileSpec reads, typed and documented, in one table.

``config.REQUIRE_GPU()`` gives the value now: variables are read when asked for, never at import, so that a test or a
host program may change them. No other module reads ``os.environ``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from refcompiler.errors import LaunchError

T = TypeVar("T")


@dataclass(frozen=True)
class Flag(Generic[T]):
    """One environment variable: its name, what its text may be, its value when unset or empty, and what it does."""

    name: str
    expects: str
    parse: Callable[[str], T]
    default: T
    doc: str

    def __call__(self) -> T:
        text = os.environ.get(self.name, "").strip()
        if not text:
            return self.default
        try:
            return self.parse(text)
        except ValueError:
            raise LaunchError(
                "config.value",
                f"environment variable {self.name} is {text!r}, expected {self.expects}",
                notes=[f"{self.name}: {self.doc}", "unset it to get the default"],
            ) from None


def _switch(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _positive(text: str) -> int:
    if int(text) <= 0:
        raise ValueError(text)
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(sorted({word.strip() for word in text.split(",")} - {""}))


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return parse


def _user_cache() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("tilespec", appauthor=False))


CACHE_DIR: Flag[Path | None] = Flag(
    "TILESPEC_CACHE_DIR", "a folder", _path, None,
    "folder of compiled kernels and reproducers; default: the user's cache folder of this system",
)  # fmt: skip
CACHE_MEGABYTES: Flag[int] = Flag(
    "TILESPEC_CACHE_MEGABYTES", "a positive integer", _positive, 1024,
    "size in MB over which the entries of the disk cache used longest ago are removed",
)  # fmt: skip
DUMP: Flag[Path | None] = Flag(
    "TILESPEC_DUMP", "a folder", _path, None,
    "folder that receives the text after every pass, in KERNEL/STAGE/NN-PASS.txt",
)  # fmt: skip
WITHOUT_PASSES: Flag[tuple[str, ...]] = Flag(
    "TILESPEC_WITHOUT_PASSES", "names of passes, with commas between them", _words, (),
    "passes that are left out, of those that only make code faster: to see what they are worth",
)  # fmt: skip
BACKEND: Flag[str] = Flag(
    "TILESPEC_BACKEND", "auto, interp, simt, cuda or mlir", _one_of("auto", "interp", "simt", "cuda", "mlir"), "auto",
    "what `kernel[grid](...)` runs on; auto: the interpreter for NumPy arrays, the GPU for device arrays",
)  # fmt: skip
MYTRITON_BACKEND: Flag[str] = Flag(
    "MYTRITON_BACKEND", "cuda or mlir", _one_of("cuda", "mlir"), "cuda",
    "the compiler behind kernels of refcompiler.mytriton where TILESPEC_BACKEND names none",
)  # fmt: skip
PRINT_AUTOTUNING: Flag[bool] = Flag(
    "TILESPEC_PRINT_AUTOTUNING", "0 or 1", _switch, False,
    "1: the autotuner writes what it tried, the times and what it left out to the standard error output",
)  # fmt: skip
REQUIRE_GPU: Flag[bool] = Flag(
    "TILESPEC_REQUIRE_GPU", "0 or 1", _switch, False,
    "1: a missing or unusable GPU is a failure instead of a reason to skip",
)  # fmt: skip
CUDA_HOME: Flag[Path | None] = Flag(
    "CUDA_HOME", "a folder", _path, None,
    "root of an installed CUDA toolkit, searched last for nvdisasm; wheels and PATH come first",
)  # fmt: skip

FLAGS: tuple[Flag, ...] = (
    CACHE_DIR,
    CACHE_MEGABYTES,
    DUMP,
    WITHOUT_PASSES,
    BACKEND,
    MYTRITON_BACKEND,
    PRINT_AUTOTUNING,
    REQUIRE_GPU,
    CUDA_HOME,
)


_BACKEND_KEY = os.environ.encodekey(BACKEND.name)


# ``backend_setting()`` is what ``BACKEND`` depends on, unparsed: the text in the environment as the system has it, or
# None. Every launch asks; ``os.environ`` would decode the text, which takes a fifth of a whole launch.
backend_setting: Callable[[], Any] = functools.partial(os.environ._data.get, _BACKEND_KEY)  # type: ignore[attr-defined]


def cache_dir() -> Path:
    """The folder of the artifact cache and of reproducers; not created here."""
    return CACHE_DIR() or _user_cache()


def markdown_table() -> str:
    """The flags as a Markdown table, for the documentation."""
    rows = ["| variable | value | default | effect |", "| --- | --- | --- | --- |"]
    for flag in FLAGS:
        default = {None: "unset", True: "1", False: "0"}.get(flag.default, str(flag.default))
        rows.append(f"| `{flag.name}` | {flag.expects} | {default} | {flag.doc} |")
    return "\n".join(rows) + "\n"
