"""Remarks: each thing that passes leave has its reason at its place, and a twin without that reason is served."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import refcompiler as triton
import refcompiler.language as tl
from conformance.cli import main
from refcompiler.pipeline import Context
from refcompiler.remarks import Refusal, Remark, in_order, recording, remark
from refcompiler.source import Span

SIZES = {"BM": 64, "BN": 64, "BK": 64}
ARRAYS = "a:*bf16:16,b:*bf16:16,c:*bf16:16,M:i32:16,N:i32:16,K:i32:16"


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BEND: tl.constexpr = ""):
    """A product by pointers; BEND is what one of the refused twins does in another way."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depths = tl.arange(0, BK)
    step = N
    if BEND == "promised":
        step = tl.multiple_of(N, 8)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        mask = (rows < M)[:, None] & (depths < K - k)[None, :]
        if BEND == "volatile":
            x = tl.load(a + rows[:, None] * K + (depths + k)[None, :], mask=mask, other=0.0, volatile=True)
        elif BEND == "other":
            x = tl.load(a + rows[:, None] * K + (depths + k)[None, :], mask=mask, other=1.0)
        elif BEND == "wrapped":
            x = tl.load(a + (rows % M)[:, None] * K + (depths + k)[None, :], mask=(depths < K - k)[None, :], other=0.0)
        elif BEND == "before":
            early = (rows - 16)[:, None]
            x = tl.load(a + early * K + (depths + k)[None, :], mask=(early < M) & (depths < K - k)[None, :], other=0.0)
        else:
            x = tl.load(a + rows[:, None] * K + (depths + k)[None, :], mask=mask, other=0.0)
        y = tl.load(
            b + (depths + k)[:, None] * step + columns[None, :],
            mask=((depths + k) < K)[:, None] & (columns < N)[None, :],
            other=0.0,
        )
        if BEND == "summed":
            y = y + y
        acc = tl.dot(x, y, acc)
        if BEND == "stored":
            tl.store(c + tl.arange(0, 16), tl.arange(0, 16).to(tl.bfloat16))
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    if BEND == "wrapped":
        tl.store(c + (rows % M)[:, None] * step + columns[None, :], acc.to(tl.bfloat16), mask=(columns < N)[None, :])
    else:
        tl.store(c + rows[:, None] * step + columns[None, :], acc.to(tl.bfloat16), mask=mask)


@triton.jit
def boxes(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BEND: tl.constexpr = ""):
    """A product by descriptors."""
    if BEND == "padding":
        left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK], padding_option="nan")
    elif BEND == "moved":
        left = tl.make_tensor_descriptor(a + M * K, [M, K], [K, 1], [BM, BK])
    elif BEND == "loaded":
        left = tl.make_tensor_descriptor(a, [tl.load(a).to(tl.int32), K], [K, 1], [BM, BK])
    else:
        left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    acc = tl.zeros((BM, BN), tl.float32)
    first = 0
    if BEND == "address":
        first = tl.load(c).to(tl.int32)
    for k in range(first, K, BK):
        column = k
        if BEND == "crooked":
            column = k + M
        x = left.load([0, column])
        if BEND == "used twice":
            acc += tl.sum(x.to(tl.float32))
        if BEND == "branch":
            if M > 64:
                acc = tl.dot(x, right.load([k, 0]), acc)
        else:
            acc = tl.dot(x, right.load([k, 0]), acc)
        if BEND == "overlapping":
            left.store([0, k], acc.to(tl.bfloat16))
    out.store([0, 0], acc.to(tl.bfloat16))


@triton.jit
def scores(q, k, v, out, S, B: tl.constexpr, D: tl.constexpr, BEND: tl.constexpr = ""):
    queries = tl.make_tensor_descriptor(q, [S, D], [D, 1], [B, D])
    keys = tl.make_tensor_descriptor(k, [S, D], [D, 1], [B, D])
    values = tl.make_tensor_descriptor(v, [S, D], [D, 1], [B, D])
    x = queries.load([tl.program_id(0) * B, 0])
    acc = tl.zeros((B, D), tl.float32)
    turn = tl.program_id(0) * 0
    for start in range(0, S, B):
        if BEND == "carried":
            s = tl.dot(x, keys.load([turn * B, 0]).T)
        elif BEND == "added":
            s = tl.dot(x, keys.load([start, 0]).T, tl.full((B, B), 1.0, tl.float32))
        else:
            s = tl.dot(x, keys.load([start, 0]).T)
        turn += 1
        acc = acc * 0.5 + tl.dot(tl.maximum(s, 0.0).to(tl.bfloat16), values.load([start, 0]))
    result = tl.make_tensor_descriptor(out, [S, D], [D, 1], [B, D])
    result.store([tl.program_id(0) * B, 0], acc.to(tl.bfloat16))


def said(kernel, types, constexprs, arch="sm_90a", **options):
    return kernel.compile(types, constexprs, arch=arch, **options).remarks


def left(remarks, step):
    return [r for r in remarks if r.step == step and not r.applied]


def done(remarks, step):
    return [r for r in remarks if r.step == step and r.applied]


def test_a_product_that_all_is_done_for_has_no_refusal():
    found = said(product, ARRAYS, SIZES)
    assert not [r for r in found if not r.applied]
    assert len(done(found, "form_boxes")) == 3 and len(done(found, "specialize_warps")) == 1
    found = said(boxes, ARRAYS, SIZES)
    assert not [r for r in found if not r.applied] and len(done(found, "specialize_warps")) == 1


@pytest.mark.parametrize(
    ("bend", "step", "reason", "at"),
    [
        ("volatile", "form_boxes", "load is no box to copy: it is volatile", "tl.load(a"),
        ("other", "form_boxes", "load is no box to copy: its `other` is not zero", "tl.load(a"),
        ("before", "form_boxes", "it may begin before the array along dimension 0", "tl.load(a"),
        ("wrapped", "form_boxes", "load is no box to copy: its indices are wrapped by `%`", "tl.load(a"),
        ("summed", "specialize_warps", "has to be in shared memory as it was loaded, and `add` computes it", "tl.dot("),
    ],
)
def test_a_load_that_is_no_box_says_why(bend, step, reason, at):
    found = said(product, ARRAYS, SIZES | {"BEND": bend})
    (place,) = [r.span for r in left(found, step) if reason in r.message]
    line = Path(place.file).read_text(encoding="utf-8").splitlines()[place.line - 1]
    assert line[place.col :].startswith(at)


def test_indices_of_64_bits_are_no_box():
    found = left(said(product, ARRAYS.replace("M:i32:16", "M:i64:16"), SIZES), "form_boxes")
    assert len(found) == 2 and all("its indices have 64 bits" in r.message for r in found)


def test_a_stride_is_named_with_what_is_known_of_it():
    types = ARRAYS.replace("N:i32:16", "N:i32")
    found = [r for r in left(said(product, types, SIZES), "form_boxes") if "stride" in r.message]
    assert [r.message for r in found if "load" in r.message] == [
        "the load is no box to copy: the stride along dimension 0, N elements of 2 bytes, is not known to be a "
        "multiple of 16 bytes; known is a multiple of 2"
    ]
    assert all("tl.multiple_of(..., 8)" in r.advice for r in found) and len(found) == 2
    assert not left(said(product, types, SIZES | {"BEND": "promised"}), "form_boxes")  # the advice helps


def test_an_array_that_may_begin_anywhere_is_named():
    found = left(said(product, ARRAYS.replace("b:*bf16:16", "b:*bf16"), SIZES), "form_boxes")
    assert ["its array `b` is not known to begin at a multiple of 16 bytes" in r.message for r in found] == [True]


@pytest.mark.parametrize(
    ("bend", "reason"),
    [
        ("padding", "its padding is nan"),
        ("moved", "its array begins at an address that is computed"),
        ("loaded", "an extent or a stride of its array is not known when the kernel is launched"),
        ("crooked", "its box may begin at any multiple of 2 bytes in a row"),
        ("used twice", "uses it besides products"),
        ("branch", "it stands in a branch or in a `while`"),
        ("address", "addresses of boxes depend on `load`"),
        ("overlapping", "may have been stored by this program before"),
    ],
)
def test_a_box_that_is_not_fetched_says_why(bend, reason):
    types = ARRAYS.replace("M:i32:16", "M:i32")
    assert not left(said(boxes, types, SIZES), "specialize_warps")
    found = left(said(boxes, types, SIZES | {"BEND": bend}), "specialize_warps")
    assert [reason in r.message for r in found if r.span].count(True) == 1, found


@pytest.mark.parametrize(
    ("constexprs", "options", "reason"),
    [
        ({}, {"num_warps": 8}, "it has 64 rows, no multiple of 128: 64 for each of 2 warpgroups"),
        ({}, {"num_warps": 2}, "num_warps=2 is no multiple of 4"),
        ({}, {"num_warps": 32}, "num_warps=32 leaves no room for the 4 warps that fetch"),
        ({}, {"num_stages": 1}, "num_stages=1 asks for nothing to be ahead"),
        ({}, {"arch": "sm_80"}, "sm_80 has no products of warpgroups"),
        ({"BM": 64, "BN": 512}, {}, "it has 512 columns, and instructions of warpgroups 8 to 256"),
        ({"BM": 256, "BN": 256, "BK": 256}, {"num_warps": 16}, "bytes of shared memory, and"),
    ],
)
def test_products_that_warpgroups_do_not_compute_say_why(constexprs, options, reason):
    found = said(boxes, ARRAYS, SIZES | constexprs, **options)
    assert [reason in r.message for r in left(found, "specialize_warps")] == [True], found
    assert not done(found, "specialize_warps")


def test_products_of_other_types_say_why():
    types = ARRAYS.replace("bf16", "f32").replace("c:*f32", "c:*bf16")
    found = said(boxes, types, SIZES)
    assert any("next to each other in memory" in r.message for r in left(found, "specialize_warps"))
    assert done(found, "assign_layouts") and not left(found, "assign_layouts")  # mma.sync has no such wish


@pytest.mark.parametrize(
    ("bend", "reason"), [("carried", "it depends on what the loop carries"), ("added", "accumulator")]
)
def test_products_that_stay_in_their_iteration_say_why(bend, reason):
    types, sizes = "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*bf16:16,S:i32:16", {"B": 64, "D": 64}
    assert done(said(scores, types, sizes), "rotate_products") and not left(
        said(scores, types, sizes), "rotate_products"
    )
    found = said(scores, types, sizes | {"BEND": bend})
    assert [reason in r.message for r in left(found, "rotate_products")] == [True], found
    assert not done(found, "rotate_products") and done(found, "specialize_warps")


@pytest.mark.parametrize(
    ("bend", "options", "reason"),
    [
        ("", {"num_stages": 1}, "num_stages is 1"),
        ("stored", {}, "its loop has a `store`"),
        ("other", {}, "its `other` is not zero"),
        ("summed", {}, "`add` reads it before a product does"),
    ],
)
def test_loads_that_are_not_copied_ahead_say_why(bend, options, reason):
    twin = said(product, ARRAYS, SIZES, arch="sm_80")
    assert len(done(twin, "copy_ahead")) == 2 and not left(twin, "copy_ahead")
    found = said(product, ARRAYS, SIZES | {"BEND": bend}, arch="sm_80", **options)
    assert any(reason in r.message for r in left(found, "copy_ahead")), found


def test_products_by_multiply_add_say_why():
    @triton.jit
    def square(x, out, N: tl.constexpr, PRECISION: tl.constexpr):
        i = tl.arange(0, N)
        block = tl.load(x + i[:, None] * N + i[None, :])
        tl.store(out + i[:, None] * N + i[None, :], tl.dot(block, block, input_precision=PRECISION))

    (found,) = said(square, "x:*f32:16,out:*f32:16", {"N": 16, "PRECISION": "ieee"}, arch="sm_80")[1:]
    assert "multiply-add instructions" in found.message and "'tf32'" in found.advice
    (found,) = said(square, "x:*f32:16,out:*f32:16", {"N": 16, "PRECISION": "tf32"}, arch="sm_80")[1:]
    assert found.applied and "mma.sync" in found.message


def test_kernels_without_products_have_no_remarks():
    @triton.jit
    def copy(x, out, N: tl.constexpr):
        tl.store(out + tl.arange(0, N), tl.load(x + tl.arange(0, N)))

    kernel = copy.compile("x:*f32:16,out:*f32:16", {"N": 64}, arch="sm_90a")
    assert kernel.remarks == () and kernel.asm["remarks"] == "no remarks\n"


def test_nobody_collects_remarks_unasked():
    context = Context()
    remark(context, "step", None, Refusal("never made"))
    assert context.remarks is None and recording(context, []) is context
    listening = Context(remarks=[])
    remark(listening, "step", None, Refusal("why", "what helps"))
    remark(recording(listening, None), "step", None, "silent")
    assert listening.remarks == [Remark("step", "why", None, "what helps")]


def test_remarks_come_once_in_the_order_of_the_source():
    places = [Span("b.py", 2, 0, 2, 1), Span("a.py", 9, 4, 9, 5), Span("a.py", 9, 4, 9, 5), None]
    found = in_order(Remark("step", "message", place) for place in places)
    assert [str(r.span) for r in found] == ["None", "a.py:9:5", "b.py:2:1"]


KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, N, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, N, B):
        x = tl.load(a + i[:, None] * N + (k + i)[None, :])
        y = tl.load(b + (k + i)[:, None] * B + i[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * B + i[None, :], acc)
"""


def test_the_command_prints_remarks_and_writes_json(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(KERNEL, encoding="utf-8")
    types = "a:*bf16:16,b:*bf16:16,c:*f32:16,N:i32"
    command = ["compile", f"{file}::product", "--signature", types, "--set", "B=64", "--emit", "remarks"]
    shown = CliRunner().invoke(main, command)
    assert shown.exit_code == 0, shown.output
    place = re.escape(f"{file}:10:13: remark[form_boxes]: the load is no box to copy: the stride along dimension 0, N")
    assert re.search(
        place + r".*\n   10 \|         x = tl.load\(.*\n      \|             \^+\n   note: pass a", shown.output
    )
    assert f"{file}:11:13: remark[form_boxes]: the load is a box of 64 x 64 elements\n" in shown.output
    written = CliRunner().invoke(main, [*command, "--out", str(tmp_path / "out")])
    assert written.exit_code == 0, written.output
    rows = json.loads((tmp_path / "out" / "remarks.json").read_text(encoding="utf-8"))
    (stride,) = [row for row in rows if row["line"] == 10 and row["pass"] == "form_boxes"]
    assert (stride["file"], stride["column"], stride["applied"]) == (str(file), 13, False)
    assert "multiple of 16 bytes" in stride["message"] and "tl.multiple_of" in stride["advice"]
