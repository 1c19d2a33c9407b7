"""Kernel source as a module: specification text with `triton` and `tl` in scope, and files written for upstream Triton.

A file may import what is not installed here and use parts of `triton` that serve launching and benchmarking. Such names
become placeholders: harmless on the host, an error of the compiler where a kernel uses one.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.abc
import importlib.util
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

# Profiles in which `triton` and `tl` are another package and its namespace.
PACKAGES = {"ext.mytriton": "refcompiler.mytriton"}


class SourceUnusable(Exception):
    """The kernel cannot be had: the source is not Python, its statements fail, or it has no such kernel."""

    def __init__(self, message: str, id: str = "source.import") -> None:
        super().__init__(message)
        self.id = id


class Absent:
    """Stands for something that is not here: any attribute and call gives it again; as a decorator it does nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Absent:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Absent(f"{self.name}.{attribute}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        decorates = len(args) == 1 and not kwargs and (callable(args[0]) and not isinstance(args[0], Absent))
        return args[0] if decorates else self

    def __getitem__(self, key: Any) -> Absent:
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __repr__(self) -> str:
        return f"<{self.name}, which is not here>"


class _Triton(ModuleType):
    """The reference compiler under the name `triton`; what it lacks is absent instead of an error."""

    def __init__(self, package: ModuleType) -> None:
        super().__init__("triton")
        self.__path__: list[str] = []
        self._package = package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._package, name) if name in self._package.__all__ else Absent(f"triton.{name}")


class _Loader(importlib.abc.ExecutionLoader):
    """Makes a module from text, with a file name under which tracebacks and the compiler find the text."""

    def __init__(self, source: str, file: str, lenient: bool) -> None:
        self.source, self.file, self.lenient = source, file, lenient

    def get_source(self, fullname: str) -> str:
        return self.source

    def get_filename(self, fullname: str) -> str:
        return self.file

    def is_package(self, fullname: str) -> bool:
        return False

    def get_code(self, fullname: str) -> Any:
        tree = ast.parse(self.source, self.file)
        if self.lenient:
            tree.body = [s for statement in tree.body for s in _lenient(statement)]
            ast.fix_missing_locations(tree)
        return compile(tree, self.file, "exec", dont_inherit=True)


def _lenient(statement: ast.stmt) -> list[ast.stmt]:
    """An import at the top of a file, with placeholders where it fails; any other statement as it is."""
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [statement]
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return [statement]
    found: list[ast.stmt] = []
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            one: ast.stmt = ast.Import([alias])
            bound, whole = alias.asname or alias.name.split(".")[0], alias.name
        else:
            one = ast.ImportFrom(statement.module, [alias], statement.level)
            bound, whole = alias.asname or alias.name, f"{statement.module}.{alias.name}"
        absent = ast.Call(ast.Name("__absent__", ast.Load()), [ast.Constant(whole)], [])
        handler = ast.ExceptHandler(
            ast.Name("ImportError", ast.Load()), None, [ast.Assign([ast.Name(bound, ast.Store())], absent)]
        )
        guarded = ast.Try([one], [handler], [], [])
        found.append(ast.copy_location(guarded, statement))
    return found


@lru_cache(maxsize=256)
def kernel_module(source: str, file: str = "", profile: str = "core") -> ModuleType:
    """The module of kernel source. With `file`, the text of that file; else specification text, which imports nothing.
    `profile` decides what `triton` and `tl` are.

    Raises SourceUnusable, or the compiler's own error when a kernel is refused at its decoration.
    """
    from refcompiler.errors import TileSpecError

    package = importlib.import_module(PACKAGES.get(profile, "refcompiler"))
    language = package.language
    shown = file or f"<kernel {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[shown] = (len(source), None, source.splitlines(keepends=True), shown)
    loader = _Loader(source, shown, lenient=bool(file))
    spec = importlib.util.spec_from_loader("kernels", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    triton = _Triton(package) if file else package
    vars(module).update(triton=triton, tl=language, __absent__=Absent)
    try:
        with _triton_is(triton, language):
            loader.exec_module(module)
    except (TileSpecError, SyntaxError):
        raise
    except (Exception, SystemExit) as e:
        raise SourceUnusable(f"{shown} cannot be imported: {type(e).__name__}: {e}") from e
    return module


@contextmanager
def _triton_is(package: ModuleType, language: ModuleType) -> Iterator[None]:
    """While a kernel file is imported, `triton` and `triton.language` are ours."""
    names = {"triton": package, "triton.language": language}
    before = {n: sys.modules.get(n) for n in names}
    sys.modules.update(names)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
