"""The key of machine code on disk: each ingredient changes it alone, and what matters to no code leaves it."""

from __future__ import annotations

import textwrap
import types

import pytest

import refcompiler.cache
from refcompiler import toolchain
from refcompiler.jit import from_source

SOURCE = """
SCALE = tl.constexpr(3)

@triton.jit
def leaf(v):
    return v * 2.0

@triton.jit
def middle(v):
    return leaf(v) + tools.offset

@triton.jit
def unused(v):
    return v

@triton.jit
def kernel(x, n, BLOCK: tl.constexpr = 8, FLAG: tl.constexpr = 1):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, middle(tl.load(x + i, mask=i < n, other=0.0)) * SCALE, mask=i < n)
"""
OFFSET = 1.5


def key(
    source: str = SOURCE,
    signature: str = "x:*f32:16,n:i32",
    constexprs: dict | None = None,
    *,
    offset: float = OFFSET,
    file: str = "<kernel>",
    line: int = 1,
    **options,
) -> str:
    tools = types.ModuleType("tools")
    tools.offset = offset
    kernel = from_source(source, "kernel", file, line, globals={"tools": tools})
    return kernel.compile(signature, constexprs or {}, **{"arch": "sm_90a", **options}).key


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    monkeypatch.setattr(toolchain, "fingerprint", lambda: "tools 1")


def edited(old: str, new: str) -> str:
    assert SOURCE.count(old) == 1, old
    return SOURCE.replace(old, new)


@pytest.mark.parametrize(
    "change",
    [
        {"source": edited("* SCALE,", "- SCALE,")},
        {"source": edited("leaf(v) +", "leaf(v) -")},
        {"source": edited("v * 2.0", "v * 2.5")},
        {"source": edited("constexpr(3)", "constexpr(4)")},
        {"source": edited("constexpr(3)", "constexpr(3.0)").replace("* SCALE", "* (SCALE + 0.5)")},
        {"offset": 2.5},
        {"offset": -0.0},
        {"signature": "x:*f64:16,n:i32"},
        {"signature": "x:*f32:16,n:i64"},
        {"signature": "x:*f32,n:i32"},
        {"signature": "x:*f32:16,n:i32:16"},
        {"constexprs": {"BLOCK": 16}},
        {"constexprs": {"FLAG": True}},
        {"constexprs": {"FLAG": 1.0}},
        {"constexprs": {"FLAG": 0.0}},
        {"constexprs": {"FLAG": -0.0}},
        {"constexprs": {"FLAG": float("nan")}},
        {"constexprs": {"FLAG": "1"}},
        {"constexprs": {"FLAG": None}},
        {"constexprs": {"FLAG": (1, 2)}},
        {"constexprs": {"FLAG": (1, 2.0)}},
        {"num_warps": 8},
        {"num_stages": 2},
        {"enable_fp_fusion": False},
        {"enable_reflect_ftz": True},
        {"debug": True},
        {"arch": "sm_80"},
        {"backend": "mlir"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_the_key(change):
    assert key(**change) != key()


def test_no_two_of_these_have_one_key():
    values = [1, True, 1.0, 0.0, -0.0, False, 0, float("nan"), "1", None, (1, 2), (1, 2.0), "nan", float("inf"), 2**40]
    keys = [key(constexprs={"FLAG": value}) for value in values]
    # As IR text these two are one; a kernel that looks at the value has other ops.
    assert keys[values.index("nan")] == keys[7]
    assert len(set(keys)) == len(values) - 1
    looking = edited("* SCALE,", "* (1.0 if FLAG == FLAG else 2.0),")
    assert key(looking, constexprs={"FLAG": "nan"}) != key(looking, constexprs={"FLAG": float("nan")})


@pytest.mark.parametrize(
    "change",
    [
        {"source": edited("    i = tl.arange", "    # a comment\n\n    i  =  tl.arange")},
        {"source": edited("    return v\n", "    return v + 1\n")},
        {"source": SOURCE + "\nUNUSED = tl.constexpr(7)\n"},
        {"source": edited("leaf(v) + tools.offset", "tools.offset * 1.0 + 0.0 if False else leaf(v) + tools.offset")},
        {"file": "<elsewhere>", "line": 40},
        {"constexprs": {"BLOCK": 8, "FLAG": 1}},
        {"signature": "x: *fp32:16, n: i32"},
        {"num_warps": 4},
        {},
    ],
    ids=lambda change: next(iter(change), "nothing"),
)
def test_what_leaves_the_key(change):
    assert key(**change) == key()


def test_the_tools_and_the_compiler_change_the_key(monkeypatch):
    before = key()
    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "fingerprint", lambda: "tools 2")
        assert key() != before
    with monkeypatch.context() as patch:
        patch.setattr(refcompiler.cache, "compiler_fingerprint", lambda: "another source")
        assert key() != before
    assert key() == before


def test_the_fingerprint_of_the_tools_names_their_versions():
    from refcompiler.toolchain import installed

    text = installed.fingerprint()
    assert all(f"{name}={version}" in text for name, version in installed.versions().items())


def test_closures_change_the_key(tmp_path, monkeypatch):
    module = tmp_path / "closing.py"
    module.write_text(
        textwrap.dedent("""
        import refcompiler as triton
        import refcompiler.language as tl

        def made(scale):
            @triton.jit
            def helper(v):
                return v * scale

            @triton.jit
            def kernel(x):
                tl.store(x, helper(tl.load(x)))

            return kernel
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import closing

    import refcompiler.language as tl

    keys = [closing.made(tl.constexpr(v)).compile("x:*f32", arch="sm_90a").key for v in (2.0, 3.0, 2.0, 2)]
    assert keys[0] == keys[2] and len(set(keys)) >= 2 and keys[1] != keys[0]
