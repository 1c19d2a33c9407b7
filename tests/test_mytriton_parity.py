"""Faults of mytriton that are no value of one kernel: what the table of spec/parity/mytriton.yaml names as tests."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import sys
import threading

import numpy as np
import pytest

import refcompiler.mytriton as mytriton
import refcompiler.mytriton.language as tl
from refcompiler.errors import CompileError
from refcompiler.jit import from_source
from tests.targets import Launcher, on  # noqa: F401  a fixture

FACTOR = 3
SCALE = np.float32(2.5)
SHIFT = np.int32(-7)


# --------------------------------------------------------------------------- W13: arguments
@mytriton.jit
def keep(out, n):
    tl.store(out, n)
    tl.store(out + 1, n - 1)


@pytest.mark.parametrize(
    "n", [2**40, np.int64(2**40), np.int64(-(2**40)), np.uint64(2**63), np.int8(-5), np.uint16(65535)], ids=repr
)
def test_wide_arguments(on: Launcher, n):  # noqa: F811
    out = np.zeros(2, np.uint64 if n > 2**62 else np.int64)
    if on(keep, 1, out, n):
        assert [int(v) for v in out] == [int(n), int(n) - 1]


# --------------------------------------------------------------------------- W18, C11, W26: what stands around a kernel
def score(a):
    return tl.where(a == 4, 10, 20) + tl.where(a != 4, 1, 2)


@mytriton.jit
def scores(x, out):
    i = tl.arange(0, 8)
    tl.store(out + i, score(tl.load(x + i)))


def test_equality_in_a_plain_function(on: Launcher):  # noqa: F811
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    if on(scores, 1, x, out):
        np.testing.assert_array_equal(out, np.where(x == 4, 12, 21))


@mytriton.jit
def scaled(x, out):
    i = tl.arange(0, 8)
    tl.store(out + i, tl.load(x + i) * SCALE + SHIFT)


def test_numpy_numbers_as_globals(on: Launcher):  # noqa: F811
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    if on(scaled, 1, x, out):
        np.testing.assert_array_equal(out, x * np.float32(2.5) - 7)


SEEN: list[object] = []


@mytriton.jit
def noting(x):
    SEEN.append(x)
    tl.store(x, 1.0)


def test_effects_of_python_are_refused(on: Launcher):  # noqa: F811
    with pytest.raises(CompileError, match="append"):
        on(noting, 1, np.zeros(1, np.float32))
    assert not SEEN


# --------------------------------------------------------------------------- W19: what changes between launches
@mytriton.jit
def by_factor(x, out):
    i = tl.arange(0, 8)
    tl.store(out + i, tl.load(x + i) * FACTOR)


def test_changed_global(on: Launcher, monkeypatch):  # noqa: F811
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for factor in (3, 5, 3):
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", factor)
        if on(by_factor, 1, x, out):
            np.testing.assert_array_equal(out, x * factor)
        assert f"mul %3, {factor}.0" in text_of(by_factor, x, out)


def test_changed_closure(on: Launcher):  # noqa: F811
    bias = 1

    @mytriton.jit
    def kernel(x, out):
        i = tl.arange(0, 8)
        tl.store(out + i, tl.load(x + i) + bias)

    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for value in (1, 10):
        bias = value
        if on(kernel, 1, x, out):
            np.testing.assert_array_equal(out, x + value)
        assert f", {value}.0 : vector" in text_of(kernel, x, out)


def text_of(kernel: mytriton.Kernel, *args) -> str:
    """The tile SSA that a launch with these arguments runs."""
    return kernel.compiler.warmup(*args).asm["tile"]


# --------------------------------------------------------------------------- W21: threads
def kernels(count: int) -> list[tuple[str, str]]:
    """Text and name of kernels of different lengths, each with a constant of its own in every op."""
    made = []
    for k in range(count):
        lines = [f"    v = v * {k + 2} + {k + 2}" for _ in range(1 + k % 5)]
        text = "\n".join(["@triton.jit", f"def kernel{k}(x, n):", "    v = n", *lines, "    tl.store(x, v)"])
        made.append((text, f"kernel{k}"))
    return made


STAGE = {"interp": "tile_opt", "simt": "simt", "cuda": "cuda", "mlir": "mlir"}


def test_threads_compile_at_once(on: Launcher):  # noqa: F811
    backend = "cuda" if on.target == "interp" else on.target

    def compiled(text: str, entry: str) -> str:
        kernel = from_source(text, entry).compile("x:*i32,n:i32", backend=backend)
        return kernel.asm["tile"] + kernel.asm[STAGE[on.target]]

    sources = kernels(32)
    alone = [compiled(*source) for source in sources]
    together: dict[int, list[str]] = {k: [] for k in range(len(sources))}
    start = threading.Barrier(len(sources))

    def work(k: int) -> None:
        start.wait()
        for _ in range(3):
            together[k].append(compiled(*sources[k]))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in together]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert together == {k: [text] * 3 for k, text in enumerate(alone)}


# --------------------------------------------------------------------------- C15: grids
@pytest.mark.parametrize("grid", [np.int64(4), (np.int32(2), np.int64(2)), (np.uint8(4),)], ids=repr)
def test_grids_of_numpy_integers(on: Launcher, grid):  # noqa: F811
    @mytriton.jit
    def count(out):
        tl.store(out + tl.program_id(0) * 2 + tl.program_id(1), 1.0)

    out = np.zeros(8, np.float32)
    if on(count, grid, out):
        assert out.sum() == 4


# --------------------------------------------------------------------------- C16: where the source is
def marked(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def test_wrapped_kernels(on: Launcher):  # noqa: F811
    @mytriton.jit
    @marked
    def double(x, out):
        i = tl.arange(0, 8)
        tl.store(out + i, tl.load(x + i) * 2)

    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    if on(double, 1, x, out):
        np.testing.assert_array_equal(out, x * 2)


MADE = """
def made(x, out):
    i = tl.arange(0, 8)
    tl.store(out + i, tl.load(x + i) + 1)
"""


def test_kernels_made_by_exec(on: Launcher):  # noqa: F811
    scope, file = {"tl": tl}, f"<made for {on.target}>"
    exec(compile(MADE, file, "exec"), scope)
    with pytest.raises(CompileError, match="its text to"):
        on(mytriton.jit(scope["made"]), 1, np.zeros(8, np.float32), np.zeros(8, np.float32))
    linecache.cache[file] = (len(MADE), None, MADE.splitlines(keepends=True), file)
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    if on(mytriton.jit(scope["made"]), 1, x, out):
        np.testing.assert_array_equal(out, x + 1)


NESTED = """
import refcompiler.mytriton as mytriton
import refcompiler.mytriton.language as tl


def make():
    @mytriton.jit
    def kernel(x, out):
        i = tl.arange(0, 8)
# a comment where no statement of this function may stand
        tl.store(out + i, tl.load(x + i) - 1)
    return kernel
"""


def test_comments_at_column_zero(on: Launcher, tmp_path):  # noqa: F811
    path = tmp_path / f"nested_{on.target}.py"
    path.write_text(NESTED, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    if on(module.make(), 1, x, out):
        np.testing.assert_array_equal(out, x - 1)
