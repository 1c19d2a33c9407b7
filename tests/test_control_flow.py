"""Branches in combine functions, and programs that wait for flags, in the interpreter."""

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import interpreter
from refcompiler.errors import CompileError
from refcompiler.frontend.compile import compile_to_tile


@triton.jit
def farther(a, b):
    if tl.abs(a) > tl.abs(b):
        return a
    return b


@triton.jit
def remainder(a, b):
    while a > b:
        a = a - b
    return a


@triton.jit
def combined(x, out, f: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, BLOCK)), 0, f))


@triton.jit
def relay(flag, data, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = i
    if pid > 0:
        spins = 0
        while tl.load(flag + pid - 1, volatile=True) == 0:
            spins += 1
        v = tl.load(data + (pid - 1) * BLOCK + i)
    tl.store(data + pid * BLOCK + i, v + 1)
    tl.atomic_xchg(flag + pid, 1, sem="release")


def test_a_branch_of_a_combination_chooses_by_element():
    func = compile_to_tile(combined, "x:*f32,out:*f32", {"f": farther, "BLOCK": 8})
    assert not any(op.name == "if" for op in func.walk())
    out = np.zeros(1, np.float32)
    interpreter.run(func, (1,), {"x": np.array([1, -3, 2, 5, -9, 4, 8, 1], np.float32), "out": out})
    assert out[0] == -9


def test_a_combination_cannot_loop_on_a_condition():
    with pytest.raises(CompileError, match="run-time condition"):
        compile_to_tile(combined, "x:*f32,out:*f32", {"f": remainder, "BLOCK": 8})


def test_programs_wait_for_flags_that_others_set():
    func = compile_to_tile(relay, "flag:*i32,data:*i32", {"BLOCK": 4})
    flag, data = np.zeros(200, np.int32), np.zeros((200, 4), np.int32)
    interpreter.run(func, (200,), {"flag": flag, "data": data})
    assert (data == np.arange(4) + np.arange(1, 201)[:, None]).all() and flag.all()
