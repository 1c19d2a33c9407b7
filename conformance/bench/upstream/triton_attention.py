"""Flash attention for upstream Triton as its tutorial has it: boxes by descriptors, whole blocks without a mask.

What the tutorial's kernel cannot do (lengths that no block divides, groups of queries, GPUs before Hopper) is done by
one with pointers and masks. Imported only where Triton is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

Arguments = Mapping[str, Any]

# --- pointers
POINTERS = [
    triton.Config({"M": m, "N": n}, num_stages=s, num_warps=w)
    for m, n, s, w in (
        (64, 32, 3, 4), (64, 64, 3, 4), (64, 128, 3, 4), (64, 64, 4, 4), (128, 32, 3, 4), (128, 32, 3, 8),
        (128, 64, 3, 4), (128, 64, 3, 8), (128, 64, 4, 8), (128, 64, 2, 8), (128, 128, 2, 8), (128, 128, 3, 8),
    )
]  # fmt: skip


@triton.autotune(configs=POINTERS, key=["tq", "tk", "D", "CAUSAL"])
@triton.jit
def pointers_kernel(
    q, k, v, out, scale, heads, group, tq, tk,
    D: tl.constexpr, CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    kv = (head // heads) * (heads // group) + (head % heads) // group
    i = block * M + tl.arange(0, M)
    d = tl.arange(0, D)
    x = tl.load(q + head * tq * D + i[:, None] * D + d[None, :], mask=i[:, None] < tq, other=0.0)
    k += kv * tk * D
    v += kv * tk * D
    largest = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    shift = tk - tq
    end = min(tk, (block + 1) * M + shift) if CAUSAL else tk
    for start in range(0, end, N):
        j = start + tl.arange(0, N)
        y = tl.load(k + j[None, :] * D + d[:, None], mask=j[None, :] < tk, other=0.0)
        s = tl.dot(x, y) * scale
        seen = j[None, :] < tk
        if CAUSAL:
            seen = seen & (j[None, :] <= i[:, None] + shift)
        s = tl.where(seen, s, -1.0e30)
        now = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        factor = tl.exp2(largest - now)
        total = total * factor + tl.sum(p, 1)
        acc = acc * factor[:, None]
        z = tl.load(v + j[:, None] * D + d[None, :], mask=j[:, None] < tk, other=0.0)
        acc = tl.dot(p.to(z.dtype), z, acc)
        largest = now
    acc = acc / total[:, None]
    tl.store(out + head * tq * D + i[:, None] * D + d[None, :], acc.to(out.dtype.element_ty), mask=i[:, None] < tq)


def _pointers(a: Arguments) -> None:
    """q [B, H, T, D], k and v [B, H / group, S, D], contiguous."""
    q, k = a["q"], a["k"]
    batch, heads, tq, d = q.shape
    scale = d**-0.5 * 1.4426950408889634
    grid = lambda meta: (triton.cdiv(tq, meta["M"]), batch * heads)  # noqa: E731
    causal = _causal(a)
    pointers_kernel[grid](q, k, a["v"], a["out"], scale, heads, heads // k.shape[1], tq, k.shape[2], D=d, CAUSAL=causal)


# --- boxes
def _boxes(arguments: dict[str, Any]) -> None:
    """Before a launch: the boxes of the descriptors are the blocks of the configuration."""
    for name, rows in (("q", "M"), ("out", "M"), ("k", "N"), ("v", "N")):
        arguments[name].block_shape = [arguments[rows], arguments["D"]]


def _possible(configs: list[triton.Config], arguments: Mapping[str, Any], **options: Any) -> list[triton.Config]:
    """As the tutorial has it: no more keys at once than a head is wide; under a causal mask, no more than queries.

    Triton 3.6 specializes warps of Hopper for 64 queries; for 128 its pass fails, which a tuner does not survive.
    """
    sizes = [(c, c.kwargs["M"], c.kwargs["N"]) for c in configs]
    sizes = [(c, m, n) for c, m, n in sizes if n <= options["D"] and (m == 64 or not options["WARPS"])]
    return [c for c, m, n in sizes if m >= n or not options["CAUSAL"]]


BOXES = [
    triton.Config({"M": m, "N": n}, num_stages=s, num_warps=w, pre_hook=_boxes)
    for m in (64, 128) for n in (32, 64, 128) for s in (2, 3, 4) for w in (4, 8)
    if w == 4 or m * n == 128 * 128
]  # fmt: skip


@triton.jit
def attend(
    acc, total, largest, x, k, v, place, begin, end, i, scale, N: tl.constexpr, MASK: tl.constexpr, WARPS: tl.constexpr
):
    """One pass over the keys from `begin` to `end`."""
    for start in tl.range(begin, end, N, warp_specialize=WARPS):
        start = tl.multiple_of(start, N)
        s = tl.dot(x, k.load([place + start, 0]).T)
        if MASK:
            j = start + tl.arange(0, N)
            s = s * scale + tl.where(i[:, None] >= j[None, :], 0, -1.0e6)
            now = tl.maximum(largest, tl.max(s, 1))
            s -= now[:, None]
        else:
            now = tl.maximum(largest, tl.max(s, 1) * scale)
            s = s * scale - now[:, None]
        p = tl.exp2(s)
        factor = tl.exp2(largest - now)
        step = tl.sum(p, 1)
        acc = acc * factor[:, None]
        z = v.load([place + start, 0])
        acc = tl.dot(p.to(z.dtype), z, acc)
        total = total * factor + step
        largest = now
    return acc, total, largest


@triton.jit
def boxes_kernel(
    q, k, v, out, scale, t,
    D: tl.constexpr, CAUSAL: tl.constexpr, WARPS: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    place = tl.program_id(1) * t
    i = block * M + tl.arange(0, M)
    largest = tl.full((M,), -float("inf"), tl.float32)
    total = tl.full((M,), 1.0, tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    x = q.load([place + block * M, 0])
    if CAUSAL:
        edge = tl.multiple_of(block * M, M)
        acc, total, largest = attend(acc, total, largest, x, k, v, place, 0, edge, i, scale, N, False, WARPS)
        acc, total, largest = attend(acc, total, largest, x, k, v, place, edge, edge + M, i, scale, N, True, WARPS)
    else:
        acc, total, largest = attend(acc, total, largest, x, k, v, place, 0, t, i, scale, N, False, WARPS)
    out.store([place + block * M, 0], (acc / total[:, None]).to(x.dtype))


def _tuned() -> Any:
    tuner = triton.autotune(BOXES, key=["t", "D", "CAUSAL"], prune_configs_by={"early_config_prune": _possible})
    return tuner(boxes_kernel)


PLAIN, SPECIALIZED = _tuned(), _tuned()


def _boxed(a: Arguments, tuner: Any) -> None:
    batch, heads, t, d = a["q"].shape
    flat = [a[n].view(batch * heads * t, d) for n in ("q", "k", "v", "out")]
    described = [TensorDescriptor(x, list(x.shape), list(x.stride()), [1, 1]) for x in flat]
    tuner[lambda meta: (triton.cdiv(t, meta["M"]), batch * heads)](
        *described, d**-0.5 * 1.4426950408889634, t, D=d, CAUSAL=_causal(a), WARPS=tuner is SPECIALIZED
    )


def _causal(a: Arguments) -> bool:
    return bool(a.get("causal", False))


def _plain(a: Arguments) -> None:
    _boxed(a, PLAIN)


def _specialized(a: Arguments) -> None:
    _boxed(a, SPECIALIZED)


# --- which of them
_chosen: dict[Any, Callable[[Arguments], None]] = {}


def attention(a: Arguments) -> None:
    """q [B, H, T, D], k and v [B, H / group, S, D], contiguous."""
    kind = (a["q"].shape, a["k"].shape, a["q"].dtype, _causal(a))
    if kind not in _chosen:
        _chosen[kind] = _fastest(a)
    _chosen[kind](a)


def _fastest(a: Arguments) -> Callable[[Arguments], None]:
    """The tutorial measures warp specialization where no mask is causal; a version that fails here is none."""
    if a["q"].shape != a["k"].shape or a["q"].shape[2] % 128 or torch.cuda.get_device_capability()[0] < 9:
        return _pointers
    times = {}
    for call in (_plain,) if _causal(a) else (_plain, _specialized):
        try:
            times[call] = triton.testing.do_bench(lambda call=call: call(a))
        except Exception:
            continue
    return min(times, key=times.__getitem__, default=_pointers)
