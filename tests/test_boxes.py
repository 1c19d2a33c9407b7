"""Boxes in pointer arithmetic: what is recognised means what the kernel means, and what is not has a reason."""

from __future__ import annotations

import numpy as np
import pytest
from box_kernels import BoxKernel

from refcompiler.analysis.boxes import Boxes, NoBox
from refcompiler.frontend.compile import compile_source
from refcompiler.frontend.signature import parse_signature
from refcompiler.interpreter import run as interpret
from refcompiler.ir import Func, verify
from refcompiler.jit import from_source
from refcompiler.passes.form_boxes import form, form_boxes
from refcompiler.passes.unwrap_indices import unwrap_indices
from refcompiler.pipeline import Context, lay_out, lower, optimize
from refcompiler.simulator import run as simulate
from refcompiler.target import TARGETS

HEAD = "import triton\nimport triton.language as tl\n"


def optimised(text: str, signature: str, **constexprs: object) -> Func:
    types, hints = parse_signature(signature)
    source = from_source(text, "kernel").source
    return optimize(compile_source(source, types, constexprs, hints, "core").func)


def counted(func: Func, *names: str) -> int:
    return sum(op.name in names for op in func.walk())


def formed_of(func: Func) -> Func:
    formed = func.clone()
    form(formed, lambda op: True)
    verify(formed)
    return formed


@pytest.mark.parametrize("seed", range(80))
def test_boxes_of_random_kernels(seed: int):
    """Each access is recognised, and through a descriptor it does what it did."""
    kernel = BoxKernel(seed)
    text = kernel.text()
    func = optimised(text, kernel.signature())
    formed = formed_of(func)
    assert counted(formed, "load", "store") == 0, f"{text}\n{reasons(func)}"
    args, others = kernel.arguments(), kernel.arguments()
    interpret(func, kernel.grid, args)
    interpret(formed, kernel.grid, others)
    np.testing.assert_array_equal(args["out"], others["out"], err_msg=text)
    if seed % 10 == 0:
        context = Context(target=TARGETS["sm_80"])
        simulated = kernel.arguments()
        simulate(lower(lay_out(formed, context), context), kernel.grid, simulated)
        np.testing.assert_array_equal(args["out"], simulated["out"], err_msg=text)


MATMUL = """
@triton.jit
def kernel(a, b, c, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (2 * columns)
    height = min(rows - group * 2, 2)
    i = group * 2 + pid % (2 * columns) % height
    j = pid % (2 * columns) // height
    offs_m = i * BM + tl.arange(0, BM)
    offs_n = j * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    p = a + (offs_m[:, None] * am + offs_k[None, :] * ak)
    q = b + (offs_k[:, None] * bk + offs_n[None, :] * bn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(p, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K - k * BK), other=0.0)
        y = tl.load(q, mask=(offs_k[:, None] < K - k * BK) & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
        p += BK * ak
        q += BK * bk
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c + cm * offs_m[:, None] + cn * offs_n[None, :], acc, mask=mask)
"""
BLOCKS = {"BM": 16, "BN": 32, "BK": 16}
STRIDES = {
    "rows": ("am:i32:16, ak:i32:1, bk:i32:16, bn:i32:1", (64, 1, 48, 1)),
    "columns": ("am:i32:1, ak:i32:16, bk:i32:1, bn:i32:16", (1, 48, 1, 64)),
}


def matmul(strides: str) -> Func:
    signature = f"a:*f32:16, b:*f32:16, c:*f32:16, M:i32, N:i32, K:i32, {STRIDES[strides][0]}, cm:i32:16, cn:i32:1"
    return optimised(HEAD + MATMUL, signature, **BLOCKS)


def product(func: Func, values: tuple[int, ...]) -> np.ndarray:
    M, N, K = 37, 43, 41
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-9, 9, 64 * 48).astype(np.float32) for _ in "ab")
    c = np.full(M * 48, -1, np.float32)
    names = dict(zip(("am", "ak", "bk", "bn"), values, strict=True))
    interpret(func, (6,), {"a": a, "b": b, "c": c, "M": M, "N": N, "K": K, **names, "cm": 48, "cn": 1})
    return c


@pytest.mark.parametrize("strides", STRIDES)
def test_a_product_of_matrices(strides: str):
    """Pointers that a loop carries, masks relative to the loop, programs in groups, and both orders of the operands."""
    func = matmul(strides)
    boxes = Boxes(func)
    by_name = {}
    for op in func.walk():
        if op.name in ("load", "store"):
            box = boxes.of(op)
            by_name[box.pointer.name] = [
                (dim.extent, boxes.forms.interval(dim.offset)[0], boxes.forms.parameters_only(dim.bound))
                for dim in box.dims
            ]
    assert by_name == {n: [(e, 0, True) for e in s] for n, s in {"a": (16, 16), "b": (16, 32), "c": (16, 32)}.items()}
    formed = func.clone()
    form_boxes(formed, Context(target=TARGETS["sm_90a"]))
    verify(formed)
    assert counted(formed, "descriptor_load") == 2 and counted(formed, "descriptor_store") == 1
    assert counted(formed, "trans") == (2 if strides == "columns" else 0)
    values = STRIDES[strides][1]
    np.testing.assert_array_equal(product(func, values), product(formed, values))


WRAPPED = (
    MATMUL.replace("offs_m = i * BM + tl.arange(0, BM)", "wrapped_m = (i * BM + tl.arange(0, BM)) % M")
    .replace("offs_n = j * BN + tl.arange(0, BN)", "wrapped_n = (j * BN + tl.arange(0, BN)) % N")
    .replace("(offs_m[:, None] * am", "(wrapped_m[:, None] * am")
    .replace("offs_n[None, :] * bn", "wrapped_n[None, :] * bn")
    .replace("mask=(offs_m[:, None] < M) & (offs_k[None, :] < K - k * BK)", "mask=offs_k[None, :] < K - k * BK")
    .replace("mask=(offs_k[:, None] < K - k * BK) & (offs_n[None, :] < N)", "mask=offs_k[:, None] < K - k * BK")
    .replace(
        "    mask = (offs_m",
        "    acc = acc * 2.0 + tl.max(acc, axis=1)[:, None]\n"
        "    offs_m = i * BM + tl.arange(0, BM)\n    offs_n = j * BN + tl.arange(0, BN)\n    mask = (offs_m",
    )
)
ROW_MAXIMUM = " + tl.max(acc, axis=1)[:, None]"
IN_THE_LOOP = "        tl.store(c + N * 48 + tl.arange(0, BM), tl.max(x, axis=1))\n        p += BK"
SEEN = [  # changes of the text, and how many of the two wraps go
    ({"& (offs_n[None, :] < N)": "& (offs_n[None, :] < N - 1)"}, 1),
    ({"mask = (offs_m[:, None] < M) & ": "mask = "}, 0),
    ({ROW_MAXIMUM: " + tl.max(acc, axis=0)[None, :]"}, 1),
    ({ROW_MAXIMUM: " + tl.max(tl.max(acc, axis=1), axis=0)"}, 0),
    ({ROW_MAXIMUM: "", "        p += BK": IN_THE_LOOP}, 1),
    ({ROW_MAXIMUM: ""}, 2),
]


def wrapped(text: str) -> Func:
    signature = f"a:*f32:16, b:*f32:16, c:*f32:16, M:i32, N:i32, K:i32, {STRIDES['rows'][0]}, cm:i32:16, cn:i32:1"
    return optimised(HEAD + text, signature, **BLOCKS)


def test_indices_that_wrap_around_the_end():
    """The rows of a tile beyond the array, which upstream's tutorial wraps around, are not stored: zeros will do."""
    text = WRAPPED.replace(ROW_MAXIMUM, "")
    func = wrapped(text)
    formed = func.clone()
    context = Context(target=TARGETS["sm_90a"])
    unwrap_indices(formed, context)
    verify(formed)
    form_boxes(formed, context)
    verify(formed)
    assert counted(formed, "descriptor_load") == 2 and counted(formed, "descriptor_store") == 1
    values = STRIDES["rows"][1]
    np.testing.assert_array_equal(product(func, values), product(formed, values))
    kept = func.clone()
    unwrap_indices(kept, Context(target=TARGETS["sm_80"]))
    assert counted(kept, "load") == counted(func, "load") and str(kept) == str(func)


@pytest.mark.parametrize("changes, unwrapped", SEEN)
def test_indices_stay_wrapped_where_what_is_beyond_may_be_seen(changes: dict[str, str], unwrapped: int):
    """One of the two wraps stays, or both, where a mask lets more through or a reduction mixes rows."""
    text = WRAPPED
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    func = wrapped(text)
    before = counted(func, "rem")
    unwrap_indices(func, Context(target=TARGETS["sm_90a"]))
    verify(func)
    assert before - counted(func, "rem") == unwrapped


BLOCK_POINTERS = """
@triton.jit
def kernel(a, b, c, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    columns = tl.cdiv(N, BN)
    i, j = tl.program_id(0) // columns * BM, tl.program_id(0) % columns * BN
    p = tl.make_block_ptr(a, (M, K), (am, ak), (i, 0), (BM, BK), (1, 0))
    q = tl.make_block_ptr(b, (K, N), (bk, bn), (0, j), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(p, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(q, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, y, acc)
        p = tl.advance(p, (0, BK))
        q = tl.advance(q, (BK, 0))
    out = tl.make_block_ptr(c, (M, N), (cm, cn), (i, j), (BM, BN), (1, 0))
    tl.store(out, acc, boundary_check=(0, 1))
"""


def test_block_pointers_are_boxes():
    func = wrapped(BLOCK_POINTERS)
    formed = func.clone()
    form_boxes(formed, Context(target=TARGETS["sm_90a"]))
    verify(formed)
    assert counted(formed, "descriptor_load") == 2 and counted(formed, "descriptor_store") == 1
    values = STRIDES["rows"][1]
    np.testing.assert_array_equal(product(func, values), product(formed, values))


def test_other_targets_keep_their_pointers():
    for name in ("sm_80", "sm_89", "sm_100a"):
        func = matmul("rows")
        form_boxes(func, Context(target=TARGETS[name]))
        assert counted(func, "load", "store") == 3, name


def test_only_what_dots_multiply_and_what_is_stored_beside_them_is_formed():
    text = """
@triton.jit
def kernel(x, y, out, S: tl.constexpr):
    i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    a = tl.load(x + i)
    tl.store(out + i, tl.dot(tl.trans(a), a) + tl.load(y + i) if S else a + tl.load(y + i))
"""
    for dot, (loads, stores) in ((True, (1, 1)), (False, (0, 0))):
        func = optimised(HEAD + text, "x:*f32:16, y:*f32:16, out:*f32:16", S=dot)
        form_boxes(func, Context(target=TARGETS["sm_90a"]))
        assert (counted(func, "descriptor_load"), counted(func, "descriptor_store")) == (loads, stores)


# pointers, mask, and a part of the reason why that is no box; i and j are indices along two axes
REFUSED = [
    ("x + (i % n) * 64 + j", "None", "wrapped by `%`"),
    ("x + tl.load(at + tl.arange(0, 16))[:, None] * 64 + j", "None", "loaded from memory"),
    ("x + i * 64 + i * 0 + j * (j + 1)", "None", "two indices are multiplied"),
    ("x + i * 64 + 0 * j", "None", "repeats one element along dimension 1"),
    ("x + i * 64 + j - 1", "None", "before the array along dimension 1"),
    ("x + i * 64 + j + n", "j + n < m", "before the array along dimension 1"),
    ("x + (i + s) * 64 + j", "i + s < n", "before the array along dimension 0"),
    ("x + i * 64 + j", "j <= i", "compares two indices"),
    ("x + i * 64 + j", "(j < n) | (i < n)", "`or`, no comparison"),
    ("x + i * 64 + j", "(j < n) & (j < m)", "two upper bounds"),
    ("x + i * 64 + j", "j * 2 < n", "compares a multiple"),
    ("x + i * 64 + j", "j < tl.load(at)", "is not that of the array"),
    ("x + i * 64 + j", "(j < n) & (m > 3)", "one for the whole program"),
    ("x + i * 64 + j", "j >= 2", "a lower bound other than 0"),
    ("x + i * (n + m) + j", "None", "neither constant nor a product of parameters"),
    ("tl.where(i < 3, x, at) + j", "None", "chosen by a condition"),
    ("x + (i * 64 + j).to(tl.uint32) * n.to(tl.uint32)", "None", "in u32 may wrap"),
    ("x + (i * 64 + j).to(tl.int8)", "None", "the cast from i32 to i8 may change it"),
]


@pytest.mark.parametrize("pointers, mask, reason", REFUSED)
def test_what_is_no_box_has_a_reason(pointers: str, mask: str, reason: str):
    text = f"""
@triton.jit
def kernel(x, at, out, n, m):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    s = tl.load(at)
    box = tl.load({pointers}, mask={mask})
    tl.store(out + i * 16 + j, box)
"""
    found = reasons(optimised(HEAD + text, "x:*i32:16, at:*i32:16, out:*i32:16, n:i32, m:i32"))
    assert found[-1] == "store: a box" and reason in found[-2], found


LOOPS = [
    ("p += i * 2", "does not advance it by one distance for all elements"),
    ("p += k * 2", "the distance by which the loop advances it changes"),
    ("p = tl.where(k > 2, p + 64, p)", "chosen by a condition"),
    ("p = x + k + i * 64 + j", ""),
    ("p += 16 * 64", ""),
]


@pytest.mark.parametrize("step, reason", LOOPS)
def test_pointers_that_loops_carry(step: str, reason: str):
    text = f"""
@triton.jit
def kernel(x, out):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    p = x + i * 64 + j
    for k in range(4):
        tl.store(out + i * 16 + j, tl.load(p))
        {step}
"""
    func = optimised(HEAD + text, "x:*i32:16, out:*i32:16")
    found = reasons(func)[0]
    if step.startswith("p = x"):
        assert "carried" in found or "distance" in found, found  # the value of the iteration before
    else:
        assert reason in found if reason else found == "load: a box", found


def reasons(func: Func) -> list[str]:
    boxes, found = Boxes(func), []
    for op in func.walk():
        if op.name in ("load", "store"):
            try:
                boxes.of(op)
                found.append(f"{op.name}: a box")
            except NoBox as error:
                found.append(f"{op.name}: {error}")
    return found
