"""Objects around a kernel: what a kernel may read, how faces relax it, and that changes are seen at the next launch."""

import dataclasses
import enum
import math
from typing import NamedTuple

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import mytriton
from refcompiler.errors import CompileError

PLAIN = 3
FLOAT = -0.0
NUMPY_FLOAT, NUMPY_INT, NUMPY_BOOL = np.float32(0.5), np.int32(7), np.bool_(True)
TUPLE, LIST, DICT, TEXT = (1, (2, 3)), [4, 5], {"a": 6, 7: (8,)}, "text"
WRAPPED = tl.constexpr(np.float32(0.25))
WRAPPED_LIST = tl.constexpr([1, 2])


class Mode(enum.Enum):
    FAST, SLOW = "fast", "slow"


class Level(enum.IntEnum):
    LOW, HIGH = 1, 2


class Pair(NamedTuple):
    a: object
    b: object = 5


@dataclasses.dataclass
class Settings:
    width: int = 4
    names: tuple = ("x", "y")

    def double(self, v):
        return 2 * v + self.width


SETTINGS = Settings()


def plain_helper(v, by=2, *, plus=0):
    """A function that no decorator marks."""
    return plain_inner(v) * by + plus


def plain_inner(v):
    return v + PLAIN


def result(kernel, *args, size=8, dtype=np.float64, **kwargs):
    out = np.zeros(size, dtype)
    kernel[1](out, *args, **kwargs)
    return out.tolist()


def test_what_every_kernel_reads():
    offset: tl.constexpr = tl.constexpr(10)
    mode, kind, nothing, size, function = Mode.FAST, tl.int64, None, math, len

    @triton.jit
    def kernel(out, n):
        tl.static_assert(mode is Mode.FAST and mode != Mode.SLOW and mode.value == "fast" and nothing is None)
        pair = Pair(n, b=WRAPPED)
        tl.static_assert(isinstance(pair, Pair) and WRAPPED_LIST == (1, 2))
        tl.store(out, offset + WRAPPED + Level.HIGH)
        tl.store(out + 1, tl.cast(n, kind) + size.floor(2.5) + function(WRAPPED_LIST))
        tl.store(out + 2, pair.a + pair.b + pair[0])

    assert result(kernel, 3) == [12.25, 7, 6.25, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("name", ["PLAIN", "FLOAT", "NUMPY_FLOAT", "TUPLE", "LIST", "DICT", "TEXT", "SETTINGS"])
def test_plain_values_are_refused(name):
    scope = {"PLAIN": PLAIN, "FLOAT": FLOAT, "NUMPY_FLOAT": NUMPY_FLOAT, "TUPLE": TUPLE, "LIST": LIST, "DICT": DICT}
    kernel = triton.jit(lambda out: tl.store(out, VALUE))  # noqa: F821
    kernel.source.scope = {"tl": tl, "VALUE": {**scope, "TEXT": TEXT, "SETTINGS": SETTINGS}[name]}
    with pytest.raises(CompileError) as caught:
        result(kernel)
    assert caught.value.id == "language.syntax#E5" and "VALUE = tl.constexpr(...)" in caught.value.message


def test_mytriton_reads_plain_values():
    local, numbers = 100, [10, 20]

    @mytriton.jit
    def kernel(out, n):
        total = n + PLAIN + TUPLE[1][0] + LIST[-1] + DICT["a"] + DICT[7][0] + local + numbers[0]
        if TEXT == "text" and NUMPY_BOOL:
            total += len(LIST)
        tl.store(out, total)
        tl.store(out + 1, NUMPY_FLOAT + NUMPY_INT)
        tl.store(out + 2, 1.0 / (FLOAT + n * FLOAT))
        tl.store(out + 3, SETTINGS.width + len(SETTINGS.names))
        tl.store(out + 4, SETTINGS.double(n))

    assert result(kernel, 1, dtype=np.float32)[:5] == [1 + 3 + 2 + 5 + 6 + 8 + 100 + 10 + 2, 7.5, -math.inf, 6, 6]


def test_changes_are_seen():
    values = {"VALUE": 1, "tl": tl}

    def launch(kernel):
        return result(kernel, size=1)[0]

    for face in (triton.jit, mytriton.jit):
        kernel = face(lambda out: tl.store(out, FUNCTION(VALUE)))  # noqa: F821
        source = kernel.__kernel_source__
        source.scope = values
        values["FUNCTION"] = triton.jit(lambda v: v + 1)
        for held in (tl.constexpr(1), tl.constexpr(True), tl.constexpr(1.5)):
            values["VALUE"] = held
            assert launch(kernel) == held.value + 1
        held.value = 7
        assert launch(kernel) == 8
        values["FUNCTION"] = triton.jit(lambda v: v + 2)
        assert launch(kernel) == 9


def test_changes_in_place_are_seen():
    holder, table = [1, 2], {"a": [1]}
    settings = Settings()

    @mytriton.jit
    def kernel(out):
        tl.store(out, holder[0] + 10 * table["a"][-1] + 100 * settings.width + 1000 * len(holder))

    assert result(kernel, size=1, dtype=np.float32) == [2411]
    holder[0] = 3
    assert result(kernel, size=1, dtype=np.float32) == [2413]
    table["a"].append(5)
    settings.width = 6
    holder.append(0)
    assert result(kernel, size=1, dtype=np.float32) == [3653]


def test_plain_functions_are_compiled_in_place():
    def local(v):
        return plain_helper(v, plus=1)

    sizes = []

    def with_effect(v):
        sizes.append(v)
        return v

    @mytriton.jit
    def kernel(out, n):
        tl.store(out, local(n))
        tl.store(out + 1, (lambda f, v: f(f(v)))(plain_inner, n))
        tl.store(out + 2, plain_helper(2, by=5))

    @mytriton.jit
    def wrong(out, n):
        tl.store(out, with_effect(n))

    assert result(kernel, 4, dtype=np.float32)[:3] == [15, 10, 25]
    with pytest.raises(CompileError) as caught:
        result(wrong, 4, dtype=np.float32)
    assert "with_effect" in str(caught.value) and "in the call at" in str(caught.value) and sizes == []

    @triton.jit
    def strict(out, n):
        tl.store(out, plain_helper(n))

    with pytest.raises(CompileError, match="@jit") as caught:
        result(strict, 4)
    assert caught.value.id == "control.calls#E2"


def test_numbers_stay_compile_time_in_mytriton():
    @mytriton.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        half = BLOCK // 2
        i = tl.arange(0, half)
        count, total, pair = 0, 0.0, (1, 2)
        for _ in range(0, n):
            count += 1
            total += 0.5
            pair = (pair[1], pair[0])
            step = 3
            last = count
            count = last + step - 3
        reset = 5
        for _ in range(0, n):
            reset = 7
        tl.store(out + i, count + total)
        tl.store(out + 4, pair[0] * 10 + pair[1])
        tl.store(out + 5, reset)

    assert result(kernel, 3, BLOCK=8, dtype=np.float32) == [4.5, 4.5, 4.5, 4.5, 21, 7, 0, 0]
    assert result(kernel, 0, BLOCK=8, dtype=np.float32) == [0, 0, 0, 0, 12, 5, 0, 0]


def test_static_print_prints_once_for_each_compilation(capsys):
    @triton.jit
    def kernel(out, n, C: tl.constexpr):
        tl.static_print("C is", C, "n", n, tl.arange(0, 8), (1, C), sep="|", end="!\n")
        tl.store(out, n)

    for n in (3, 5, 7):
        result(kernel, n, C=4)
    result(kernel, 7, C=5)
    assert capsys.readouterr().out.splitlines() == [
        "C is|4|n|int32|<[8], int32>|(1, 4)!",
        "C is|5|n|int32|<[8], int32>|(1, 5)!",
    ]
