"""Attention forward in one pass over the keys: scores and probabilities never leave the registers."""

from __future__ import annotations

import math
from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import LaunchError
from refcompiler.ir.types import DTYPES
from refcompiler.kernels.arrays import check_options, empty
from refcompiler.runtime import ArrayInfo, describe, native_arch
from refcompiler.target import DEFAULT_TARGET, target

LOG2_E = math.log2(math.e)
ATTENTION_DTYPES = ("f16", "bf16", "f32", "f8e4m3", "f8e5m2")


@triton.jit
def head_of(x, batch, head, stride_b, stride_h):
    """The first row of a head."""
    return x + batch.to(tl.int64) * stride_b + head.to(tl.int64) * stride_h


@triton.jit
def boxes_of(
    x, batches, heads, count, stride_b, stride_h, stride_t,
    ROWS: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, BOXES: tl.constexpr,
):  # fmt: skip
    """A descriptor of all heads in boxes of ROWS rows; None unless BOXES."""
    if BOXES:
        boxes = tl.make_tensor_descriptor(
            x, [batches, heads, count, D], [stride_b, stride_h, stride_t, 1], [1, 1, ROWS, BD]
        )
    else:
        boxes = None
    return boxes


@triton.jit
def load_rows(x, box, batch, head, start, count, stride, ROWS: tl.constexpr, D: tl.constexpr, BD: tl.constexpr,
              MASKED: tl.constexpr):  # fmt: skip
    """ROWS rows from `start` on as [ROWS, BD]; where MASKED, zeros past `count` rows. Zeros past D columns."""
    if box is not None:
        block = box.load([batch, head, start, 0]).reshape(ROWS, BD)
    else:
        rows = start + tl.arange(0, ROWS)
        columns = tl.arange(0, BD)
        at = x + rows.to(tl.int64)[:, None] * stride + columns[None, :]
        if MASKED or D < BD:
            block = tl.load(at, mask=(rows < count)[:, None] & (columns < D)[None, :], other=0.0)
        else:
            block = tl.load(at)
    return block


@triton.jit
def attend(q, k, v, largest, total, acc, scale, slack, visible, PRECISION: tl.constexpr):
    """One block of keys joins the online softmax. `scale` is positive and in base 2; None: all keys are `visible`.

    The power of two folds the scale into one multiply-add; a row that has seen no key keeps -inf as its largest. Others
    keep theirs while no score is greater by more than `slack`, as few are after some blocks. The columns of `total` sum
    two neighbours out of eight each, which tensor cores leave to one thread.
    """
    scores = tl.dot(q, k.T, input_precision=PRECISION)
    if visible is not None:
        scores = tl.where(visible, scores, -float("inf"))
    block = tl.max(scores, axis=1)
    grows = block > largest + slack
    new = tl.where(grows, block, largest)
    keep = tl.exp2((largest - new) * scale)
    total = tl.where(grows[:, None], total * keep[:, None], total)
    shift = tl.where(new == -float("inf"), 0.0, new) * scale
    p = tl.exp2(scores * scale - shift[:, None])
    acc = tl.where(grows[:, None], acc * keep[:, None], acc)
    acc = tl.dot(p.to(v.dtype), v, acc, input_precision=PRECISION)
    total += tl.sum(tl.sum(p.reshape(p.shape[0], p.shape[1] // 8, 4, 2), axis=3), axis=1)
    return new, total, acc


@triton.jit
def attention_forward(
    q, k, v, out, lse, stride_qb, stride_qh, stride_qt, stride_kb, stride_kh, stride_kt, stride_vb,
    stride_vh, stride_vt, stride_ob, stride_oh, stride_ot, batches, heads, kv_heads, queries, keys, scale,
    CAUSAL: tl.constexpr, HAS_LSE: tl.constexpr, BOXES: tl.constexpr, PRECISION: tl.constexpr,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """BM queries of one head; query i stands at key i + keys - queries. `lse` [batches, heads, queries] if HAS_LSE."""
    tile = tl.program_id(0)
    if CAUSAL:  # the longest rows first: the last programs to start end soon
        tile = tl.num_programs(0) - 1 - tile
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    kv_head = head // (heads // kv_heads)
    start = tile * BM
    q_box = boxes_of(q, batches, heads, queries, stride_qb, stride_qh, stride_qt, BM, D, BD, BOXES)
    k_box = boxes_of(k, batches, kv_heads, keys, stride_kb, stride_kh, stride_kt, BN, D, BD, BOXES)
    v_box = boxes_of(v, batches, kv_heads, keys, stride_vb, stride_vh, stride_vt, BN, D, BD, BOXES)
    q = head_of(q, batch, head, stride_qb, stride_qh)
    k = head_of(k, batch, kv_head, stride_kb, stride_kh)
    v = head_of(v, batch, kv_head, stride_vb, stride_vh)
    x = load_rows(q, q_box, batch, head, start, queries, stride_qt, BM, D, BD, True)
    rows = start + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    end = keys
    whole = keys  # of these every row of the tile sees every one
    if CAUSAL:
        end = tl.minimum(keys, start + BM + keys - queries)
        whole = tl.maximum(tl.minimum(keys, start + 1 + keys - queries), 0)
    whole = whole // BN * BN
    slack = 8.0 / scale
    largest = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM, 4), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    for j in range(0, whole, BN):
        y = load_rows(k, k_box, batch, kv_head, j, keys, stride_kt, BN, D, BD, False)
        z = load_rows(v, v_box, batch, kv_head, j, keys, stride_vt, BN, D, BD, False)
        largest, total, acc = attend(x, y, z, largest, total, acc, scale, slack, None, PRECISION)
    for j in range(whole, end, BN):
        y = load_rows(k, k_box, batch, kv_head, j, keys, stride_kt, BN, D, BD, True)
        z = load_rows(v, v_box, batch, kv_head, j, keys, stride_vt, BN, D, BD, True)
        visible = (j + columns < keys)[None, :]
        if CAUSAL:
            visible = visible & (j + columns[None, :] <= rows[:, None] + (keys - queries))
        largest, total, acc = attend(x, y, z, largest, total, acc, scale, slack, visible, PRECISION)
    total = tl.sum(total, axis=1)
    acc = acc * (1.0 / tl.where(total == 0.0, 1.0, total))[:, None]
    if HAS_LSE:
        base = tl.where(largest == -float("inf"), 0.0, largest) * scale
        at = (batch.to(tl.int64) * heads + head) * queries + rows
        tl.store(lse + at, (base + tl.log2(total)) * 0.6931471805599453, mask=rows < queries)
    width = tl.arange(0, BD)
    at = head_of(out, batch, head, stride_ob, stride_oh) + rows.to(tl.int64)[:, None] * stride_ot + width[None, :]
    tl.store(at, acc.to(out.dtype.element_ty), mask=(rows < queries)[:, None] & (width < D)[None, :])


def configuration(depth: int, item_bytes: int, arch: str, boxes: bool) -> dict[str, int]:
    """BM, BN and options of the launch for heads of ``depth`` columns of elements of so many bytes, in boxes or not.

    Up to 64 columns, an exponential takes as long as the products of its score: two programs a multiprocessor have four
    warpgroups, of which some compute exponentials while others have products.
    """
    if item_bytes == 4:
        return {"BM": 32, "BN": 32, "num_warps": 4, "num_stages": 2}
    if arch == "sm_90a" and boxes and depth <= 64:
        return {"BM": 128, "BN": 64, "num_warps": 8, "num_stages": 2, "maxnreg": 80}
    if arch == "sm_90a":
        return {"BM": 128, "BN": 128 if depth <= 128 else 64, "num_warps": 8, "num_stages": 3}
    return {"BM": 128 if depth <= 128 else 64, "BN": 64 if depth <= 128 else 32, "num_warps": 8, "num_stages": 2}


def _check_operands(infos: dict[str, ArrayInfo]) -> None:
    """Raise LaunchError (kernels.operands) where shapes or dtypes do not belong together or rows are not contiguous."""
    q, k, v, out = infos.values()
    if len(q.shape) != 4 or len(k.shape) != 4 or k.shape != v.shape or q.shape != out.shape or not _fit(q, k):
        shapes = ", ".join(str(info.shape) for info in infos.values())
        expected = (
            "q and out [batch, heads, queries, D], k and v [batch, kv_heads, keys, D], heads a multiple of kv_heads"
        )
        raise LaunchError("kernels.operands", f"q, k, v and out have shapes {shapes}; expected {expected}")
    for name, info in infos.items():
        if info.strides[3] != 1 and info.shape[3] > 1 and 0 not in info.shape:
            raise LaunchError(
                "kernels.operands", f"elements of a row of {name} are {info.strides[3]} apart; expected contiguous rows"
            )
    if q.dtype not in ATTENTION_DTYPES or not q.dtype == k.dtype == v.dtype:
        found = f"{q.dtype}, {k.dtype} and {v.dtype}"
        raise LaunchError(
            "kernels.operands", f"q, k and v have dtypes {found}; expected one of {', '.join(ATTENTION_DTYPES)} for all"
        )


def _fit(q: ArrayInfo, k: ArrayInfo) -> bool:
    """Whether queries and keys belong together."""
    return q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3] and k.shape[1] > 0 and q.shape[1] % k.shape[1] == 0


def attention(
    q: Any,
    k: Any,
    v: Any,
    out: Any = None,
    lse: Any = None,
    causal: bool = False,
    softmax_scale: float | None = None,
    precision: str = "ieee",
    **options: Any,
) -> Any:
    """softmax(softmax_scale q k^T) v into `out` or a new array like q; the logarithms of the sums into `lse`, if given.

    q is [batch, heads, queries, D], k and v [batch, kv_heads, keys, D], with contiguous rows: head h attends to head
    h // (heads / kv_heads). The scale is positive, 1 / sqrt D if left out. Scaled scores are below 2^30: a
    difference of larger ones is lost in float32, and may overflow. causal: the last query stands at the last
    key. lse is a contiguous float32 [batch, heads, queries]. `options` are constexprs and options of the launch that
    replace the default ones.  Raises LaunchError for shapes that do not fit.
    """
    out = empty(q, tuple(q.shape)) if out is None else out
    infos = [describe(x) for x in (q, k, v, out)]
    shapes = [i.shape for i in infos]
    _check_operands(dict(zip(("q", "k", "v", "out"), infos, strict=True)))
    check_options("attention", attention_forward, options)
    if lse is not None and (tuple(lse.shape) != shapes[0][:3] or not describe(lse).contiguous):
        raise LaunchError("kernels.operands", f"lse is a contiguous array of shape {shapes[0][:3]}")
    batches, heads, queries, depth = shapes[0]
    kv_heads, keys = shapes[1][1:3]
    scale = depth**-0.5 if softmax_scale is None else float(softmax_scale)
    if not scale > 0:
        raise LaunchError("kernels.scale", f"the scale must be positive, found {scale}")
    if not batches * heads * queries:
        return out
    device, width = infos[0].device, DTYPES[infos[0].dtype].itemsize
    arch = DEFAULT_TARGET.name if device is None else native_arch(device)
    # probabilities below 2^-126 vanish beside the largest, which is 1
    boxes = target(arch).has_tma and keys > 0 and all(_is_box(i, width) for i in infos[:3])
    given = {"enable_reflect_ftz": True} | configuration(depth, width, arch, boxes) | options
    strides = [s for i in infos for s in i.strides[:3]]
    grid = (triton.cdiv(queries, given["BM"]), batches * heads)
    attention_forward[grid](
        *(q, k, v, out, out if lse is None else lse, *strides, batches, heads, kv_heads, queries, keys, scale * LOG2_E),
        **{"CAUSAL": bool(causal), "HAS_LSE": lse is not None, "BOXES": boxes, "PRECISION": precision},
        **{"D": depth, "BD": max(16, triton.next_power_of_2(depth))},
        **given,
    )
    return out


def _is_box(info: ArrayInfo, width: int) -> bool:
    """Whether a descriptor can describe heads: rows at multiples of 16 bytes."""
    return info.divisible_by_16 and all(s >= 0 and s * width % 16 == 0 for s in info.strides[:3])
