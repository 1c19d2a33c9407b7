"""Compiling kernels ahead of a launch: signatures, the text of every stage, the cache on disk, what is launched."""

import subprocess
import sys

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import CompileError, LaunchError


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr = 8):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


def vectors(n=20, dtype=np.float32):
    x, y = np.arange(n).astype(dtype), np.ones(n, dtype)
    return x, y, np.zeros(n, dtype)


def test_compile_for_a_signature():
    kernel = add.compile(signature="x:*f32:16, y:*fp32, out:*f32, n:i32:16", constexprs={"BLOCK": 4}, arch="sm_90a")
    head = kernel.asm["tile"].splitlines()[0]
    assert head == (
        "func @add(x: ptr<f32> {divisible=16}, y: ptr<f32>, out: ptr<f32>, n: i32 {divisible=16}, BLOCK=4) {"
    )
    assert (
        add.compile(signature={"x": "*f32:16", "y": "*f32", "out": "*f32", "n": "i32:16"}, constexprs={"BLOCK": 4})
        is kernel
    )
    x, y, out = vectors(16)
    kernel[4](x, y, out, 16)
    assert out.tolist() == (x + y).tolist()
    with pytest.raises(LaunchError, match="i32, found ndarray"):
        kernel[4](x, y, out, out)
    with pytest.raises(LaunchError, match="array of f64"):
        kernel[4](x.astype(np.float64), y, out, 16)


@pytest.mark.parametrize(
    ("arguments", "id", "shown"),
    [
        ({"signature": "x:*f32"}, "program.arguments#E1", "parameter `y` of add needs a type"),
        ({"signature": "x:*f32,y:*f32,out:*f32,n:i32,z:i32"}, "program.arguments#E1", "no parameter `z`"),
        ({"signature": "x:*f32,y:*f32,out:*f32,n:i33"}, "program.arguments#E2", "unknown type 'i33'"),
        ({"signature": "x:*f32,y:*f32,out:*f32,n"}, "program.arguments#E2", "'n' in a signature is not NAME:TYPE"),
        ({"signature": "x:*f32,y:*f32,out:*f32,n:i32,x:i32"}, "program.arguments#E1", "`x` twice"),
        ({"signature": 3}, "program.arguments#E2", "found 3"),
        ({"signature": "x:*f32,y:*f32,out:*f32,n:i32,BLOCK:i32"}, "program.arguments#E1", "is constexpr"),
        ({"signature": "x:*f32,y:*f32,out:*f32,n:i32:x"}, "program.arguments#E2", "positive divisor"),
        ({"signature": "x:*f32,y:*f32,out:*f32,n:i32", "arch": "sm_1"}, "target.arch", "sm_1"),
        ({"signature": "x:*f32,y:*f32,out:*f32,n:i32", "foo": 1}, "program.arguments#E1", "foo"),
        ({"signature": "x:*f32,y:*f32,out:*f32,n:i32", "backend": "c"}, "program.arguments#E2", "unknown backend 'c'"),
    ],
)
def test_wrong_signatures(arguments, id, shown):
    with pytest.raises((LaunchError, CompileError)) as caught:
        add.compile(**arguments)
    assert caught.value.id == id
    assert shown in str(caught.value)


def test_tile_text_does_not_depend_on_the_hash_seed():
    program = (
        "import refcompiler as triton, refcompiler.language as tl\n"
        "@triton.jit\n"
        "def k(x, n):\n"
        "    a, c, d, e = 0, 1.0, x, n\n"
        "    for i in range(n):\n"
        "        e += 1; d += e; c = c * 2; a = a + i\n"
        "    tl.store(d, c + a + tl.argmax(tl.arange(0, 8), 0))\n"
        "print(k.compile(signature='x:*f32,n:i32').asm['tile'])\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(texts) == 1 and "func @k" in texts.pop()


def test_every_stage_and_the_cache_on_disk(tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc", reason="the compiler wheels are not installed")
    from refcompiler import toolchain

    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))
    signature = "x:*f32:16,y:*f32:16,out:*f32:16,n:i32"

    def compiled(**options):
        add.clear_cache()
        return add.compile(signature=signature, constexprs={"BLOCK": 256}, arch="sm_80", **options)

    try:
        kernel = compiled()
        texts = [kernel.asm[stage] for stage in ("tile", "tile_opt", "laid_out", "simt", "cuda", "ptx", "sass")]
        assert [text.split(" ")[0] for text in texts[:2]] == ["func", "func"]
        assert "laid_out func @add" in texts[2] and "simt func @add" in texts[3] and "__global__" in texts[4]
        assert ".target sm_80" in texts[5] and "EXIT" in texts[6]
        assert kernel.asm["cubin"][:4] == b"\x7fELF"
        assert kernel.resources["threads"] == 128 and kernel.resources["spill_bytes"] == 0
        written = [(p.name, p.written, p.divisible_by) for p in kernel.build.abi.params]
        assert written == [("x", False, 16), ("y", False, 16), ("out", True, 16), ("n", False, 1)]
        with monkeypatch.context() as patch:
            patch.setitem(toolchain.COMPILERS, "cuda", lambda *a: pytest.fail("compiled although it is in the cache"))
            again = compiled()
            assert again is not kernel and again.build == kernel.build
        assert len({kernel.key, compiled(num_warps=8).key, compiled(backend="mlir").key}) == 3
        with pytest.raises(KeyError, match="no stage"):
            kernel.asm["llir"]
    finally:
        add.clear_cache()


def test_what_reaches_the_launcher(tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc", reason="the compiler wheels are not installed")
    from refcompiler import runtime

    monkeypatch.setenv("TILESPEC_BACKEND", "cuda")
    seen = []
    monkeypatch.setattr(runtime, "load_function", lambda cubin, entry, abi: (cubin[:4], entry, abi))
    monkeypatch.setattr(runtime, "launch", lambda *arguments: seen.append(arguments))
    x, y, out = vectors()
    kernel = add[lambda meta: (meta["n"], 2)](x, y, n=20, out=out, num_warps=2, stream=7)
    ((function, grid, threads, arguments, stream, shared),) = seen
    assert function == (b"\x7fELF", "add", kernel.build.abi)
    assert (grid, threads, stream, shared) == ((20, 2, 1), 64, 7, 0)
    assert [a if isinstance(a, int) else a.ptr for a in arguments] == [
        x.ctypes.data,
        y.ctypes.data,
        out.ctypes.data,
        20,
    ]
    assert [p.name for p in kernel.build.abi.visible] == ["x", "y", "out", "n"]
