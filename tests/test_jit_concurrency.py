"""Threads and processes that compile at once never mix kernels, and no text depends on a hash seed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from refcompiler.jit import from_source

STAGES = ("tile", "tile_opt", "laid_out", "simt", "cuda", "mlir")
# Each kernel stores values that only its own number explains, through a helper of a name that all share.
TEXT = """
@triton.jit
def helper(v):
    return v * {n} + {n}

@triton.jit
def kernel_{n}(x, out, limit, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    m = i < limit
    total = tl.sum(tl.where(m, tl.load(x + i, mask=m, other=0), 0), axis=0)
    tl.store(out + i, helper(tl.load(x + i, mask=m, other=0)) + total * {n}, mask=m)
"""


def made(n: int):
    return from_source(TEXT.format(n=n), f"kernel_{n}", f"<kernel {n}>")


def expected(n: int, x: np.ndarray) -> np.ndarray:
    return x * n + n + x.sum(dtype=np.int32) * n


def texts(n: int, block: int) -> dict[str, str]:
    kernel = made(n).compile("x:*i32:16,out:*i32:16,limit:i32", {"BLOCK": block}, arch="sm_90a")
    return {stage: kernel.asm[stage] for stage in STAGES}


def in_threads(count: int, work) -> None:
    """Run work(0), work(1), ... at once, switching as often as Python can; the first failure is raised."""
    failures: list[BaseException] = []
    together = threading.Barrier(count)

    def guarded(who: int) -> None:
        try:
            together.wait()
            work(who)
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=guarded, args=(who,)) for who in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if failures:
        raise failures[0]


def test_threads_compile_different_kernels_at_once():
    alone = {who: texts(who + 2, 32 << who % 3) for who in range(32)}
    found: dict[int, dict[str, str]] = {}

    def work(who: int) -> None:
        found[who] = texts(who + 2, 32 << who % 3)
        x, out = np.arange(20, dtype=np.int32), np.zeros(20, np.int32)
        made(who + 2)[(1,)](x, out, 20, BLOCK=32)
        assert (out == expected(who + 2, x)).all()

    in_threads(32, work)
    assert found == alone


def test_threads_share_one_kernel_object():
    kernel = made(3)
    kernels: list = []

    def work(who: int) -> None:
        block = 32 << who % 4
        x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
        for limit in (16, 32, 7):
            kernels.append((block, limit % 16 == 0, kernel[(1,)](x, out, limit, BLOCK=block)))
            assert (out[:limit] == (x[:limit] * 3 + 3 + x[:limit].sum() * 3)).all()
            if who % 8 == 0:
                kernel.clear_cache()

    in_threads(16, work)
    for block, aligned, compiled in kernels:
        head = compiled.asm["tile"].splitlines()[0]
        assert f"BLOCK={block}" in head and ("limit: i32 {divisible=16}" in head) == aligned


_PROCESS = """
import json, sys
sys.path[:0] = json.loads(sys.argv[3])
import test_jit_concurrency as t
from refcompiler import toolchain
who = int(sys.argv[1])
answers = {}
for n in (who + 2, 3):  # one kernel of its own, one that all processes compile
    kernel = t.made(n).compile("x:*i32:16,out:*i32:16,limit:i32", {"BLOCK": 32}, arch="sm_90a")
    answers[n] = [kernel.asm["cuda"], kernel.asm["ptx"], kernel.asm["cubin"].hex()]
print(json.dumps(answers))
"""


def test_processes_share_the_cache_on_disk(tmp_path):
    pytest.importorskip("cuda.bindings.nvrtc", reason="the compiler wheels are not installed")

    def started(who: int, folder) -> subprocess.Popen:
        environment = {"TILESPEC_CACHE_DIR": str(folder), "PYTHONHASHSEED": str(who)}
        words = [sys.executable, "-W", "error::RuntimeWarning", "-c", _PROCESS, str(who), "", json.dumps(sys.path)]
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)

    running = [started(who, tmp_path / "shared") for who in range(8)]
    answers = [json.loads(process.communicate()[0]) for process in running]
    assert [process.returncode for process in running] == [0] * 8
    for who, answer in enumerate(answers):
        assert answer["3"] == answers[0]["3"]
        for n, (cuda, ptx, cubin) in answer.items():
            name = f"kernel_{n}"
            assert name in cuda and name in ptx and name.encode().hex() in cubin, (who, n)
    again = started(0, tmp_path / "shared")
    assert json.loads(again.communicate()[0]) == answers[0]


_SEEDED = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
import test_jit_concurrency as t
kernel = t.made(5).compile("x:*i32:16,out:*i32:16,limit:i32", {"BLOCK": 256}, arch="sm_90a")
loop = t.from_source(t.LOOP, "kernel").compile("x:*f32,y:*f32,n:i32", {"BLOCK": 64}, arch="sm_90a")
stages = t.STAGES + (("ptx",) if json.loads(sys.argv[2]) else ())
print(json.dumps([[k.asm[s] for s in stages] + [k.key] for k in (kernel, loop)]))
"""
LOOP = """
@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, c, d, e = 0, 1.0, x, n
    best = tl.zeros((BLOCK,), tl.float32)
    for k in range(n):
        e += 1
        d += e
        c = c * 2
        a = a + k
        if a > 5:
            best = tl.maximum(best, tl.load(x + i) * c)
    tl.store(d, c + a + tl.argmax(tl.arange(0, 8), 0))
    tl.store(y + i, best + tl.sum(best[:, None] * best[None, :], axis=1))
"""


def test_no_stage_depends_on_the_hash_seed(tmp_path):
    try:
        from cuda.bindings import nvrtc  # noqa: F401

        compiles = "true"
    except ImportError:
        compiles = "false"
    found = set()
    for seed in ("0", "1", "7"):
        environment = {"TILESPEC_CACHE_DIR": str(tmp_path / seed), "PYTHONHASHSEED": seed}
        words = [sys.executable, "-c", _SEEDED, json.dumps(sys.path), compiles]
        found.add(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(found) == 1 and "kernel_5" in found.pop()
