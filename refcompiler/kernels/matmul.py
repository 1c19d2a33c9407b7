"""Matrix products of any size, strides and batch, with a bias and an activation where they leave the registers."""

from __future__ import annotations

from math import prod
from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.dialects.tile.dot import PRECISIONS
from refcompiler.errors import LaunchError
from refcompiler.ir.types import DTYPES, FLOATS8
from refcompiler.kernels.arrays import empty, multiprocessors
from refcompiler.kernels.operands import Operand, Product, copied, operand, prepared
from refcompiler.kernels.tiles import configuration, narrow
from refcompiler.runtime import ArrayInfo, describe, native_arch
from refcompiler.target import DEFAULT_TARGET, target


@triton.jit
def accumulator(a, BM: tl.constexpr, BN: tl.constexpr):
    """Zeros in the dtype of a sum of products of what `a` points to."""
    if a.dtype.element_ty == tl.int8:
        zeros = tl.zeros((BM, BN), tl.int32)
    else:
        zeros = tl.zeros((BM, BN), tl.float32)
    return zeros


@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    """x after an activation, in float32; NaN stays NaN."""
    if ACTIVATION == "relu":
        x = tl.where(x < 0.0, 0.0, x)
    if ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    if ACTIVATION == "silu":
        x = x / (1.0 + tl.exp(-x))
    return x


@triton.jit
def tile_position(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of a tile: GROUP rows of tiles are walked column by column, so that L2 keeps their operands.

    GROUP 0 says that there is one column of tiles.
    """
    columns = tl.cdiv(N, BN)
    if GROUP == 0:
        row = tile
        column = 0
    elif GROUP == 1:
        row = tile // columns
        column = tile % columns
    else:
        first = tile // (GROUP * columns) * GROUP
        inside = tile % (GROUP * columns)
        height = tl.minimum(tl.cdiv(M, BM) - first, GROUP)
        row = first + inside % height
        column = inside // height
    return row, column


@triton.jit
def matmul_pointers(
    a, b, c, bias, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, stride_ab,
    stride_bb, stride_cb, stride_cs, chunk, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr, EVEN_K: tl.constexpr, HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    """One tile of one batch; of K only the `chunk` that program_id(2) says."""
    row, column = tile_position(tl.program_id(0), M, N, BM, BN, GROUP)
    batch = tl.program_id(1).to(tl.int64)
    begin = tl.program_id(2) * chunk
    length = tl.minimum(chunk, K - begin)
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    depths = tl.arange(0, BK)
    row_ok = (rows < M)[:, None]
    column_ok = (columns < N)[None, :]
    at_k = (begin + depths).to(tl.int64)
    left = a + batch * stride_ab + rows.to(tl.int64)[:, None] * stride_am + at_k[None, :] * stride_ak
    right = b + batch * stride_bb + at_k[:, None] * stride_bk + columns.to(tl.int64)[None, :] * stride_bn
    step = tl.full((), BK, tl.int64)
    acc = accumulator(a, BM, BN)
    for k in range(0, length, BK):
        if EVEN_K:
            x = tl.load(left, mask=row_ok, other=0.0)
            y = tl.load(right, mask=column_ok, other=0.0)
        else:
            x = tl.load(left, mask=row_ok & (k + depths < length)[None, :], other=0.0)
            y = tl.load(right, mask=column_ok & (k + depths < length)[:, None], other=0.0)
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
        left += step * stride_ak
        right += step * stride_bk
    if HAS_BIAS:
        acc += tl.load(bias + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
    acc = activate(acc, ACTIVATION)
    out = c + batch * stride_cb + tl.program_id(2).to(tl.int64) * stride_cs
    out += rows.to(tl.int64)[:, None] * stride_cm + columns.to(tl.int64)[None, :] * stride_cn
    tl.store(out, acc.to(c.dtype.element_ty), mask=row_ok & column_ok)


@triton.jit
def matrix(x, batches, rows, columns, stride_batch, stride, BR: tl.constexpr, BC: tl.constexpr, BATCHED: tl.constexpr):
    """A descriptor of matrices whose rows are contiguous, in boxes of [BR, BC]."""
    if BATCHED:
        boxes = tl.make_tensor_descriptor(x, [batches, rows, columns], [stride_batch, stride, 1], [1, BR, BC])
    else:
        boxes = tl.make_tensor_descriptor(x, [rows, columns], [stride, 1], [BR, BC])
    return boxes


@triton.jit
def load_box(x, batch, row, column, BR: tl.constexpr, BC: tl.constexpr, BATCHED: tl.constexpr):
    """The box [BR, BC] of a matrix at (row, column)."""
    if BATCHED:
        box = x.load([batch, row, column]).reshape(BR, BC)
    else:
        box = x.load([row, column])
    return box


@triton.jit
def store_box(x, batch, row, column, block, BR: tl.constexpr, BC: tl.constexpr, BATCHED: tl.constexpr):
    """The block [BR, BC] to the box of a matrix at (row, column)."""
    if BATCHED:
        x.store([batch, row, column], block.reshape(1, BR, BC))
    else:
        x.store([row, column], block)


@triton.jit
def matmul_descriptors(
    a, b, c, bias, batches, M, N, K, stride_a, stride_b, stride_c, stride_ab, stride_bb, stride_cb,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, TURN_A: tl.constexpr,
    TURN_B: tl.constexpr, TURN_C: tl.constexpr, BATCHED: tl.constexpr, HAS_BIAS: tl.constexpr,
    BIAS_OF_ROWS: tl.constexpr, PRECISION: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """Tiles of one batch from program_id(0) on, in steps of the number of programs; TURN_A: `a` lies as [K, M]."""
    if TURN_A:
        left = matrix(a, batches, K, M, stride_ab, stride_a, BK, BM, BATCHED)
    else:
        left = matrix(a, batches, M, K, stride_ab, stride_a, BM, BK, BATCHED)
    if TURN_B:
        right = matrix(b, batches, N, K, stride_bb, stride_b, BN, BK, BATCHED)
    else:
        right = matrix(b, batches, K, N, stride_bb, stride_b, BK, BN, BATCHED)
    if TURN_C:
        out = matrix(c, batches, N, M, stride_cb, stride_c, BN, BM, BATCHED)
    else:
        out = matrix(c, batches, M, N, stride_cb, stride_c, BM, BN, BATCHED)
    batch = tl.program_id(1)
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        row, column = tile_position(tile, M, N, BM, BN, GROUP)
        row *= BM
        column *= BN
        acc = accumulator(a, BM, BN)
        for k in range(0, K, BK):
            if TURN_A:
                x = load_box(left, batch, k, row, BK, BM, BATCHED).T
            else:
                x = load_box(left, batch, row, k, BM, BK, BATCHED)
            if TURN_B:
                y = load_box(right, batch, column, k, BN, BK, BATCHED).T
            else:
                y = load_box(right, batch, k, column, BK, BN, BATCHED)
            acc = tl.dot(x, y, acc, input_precision=PRECISION)
        if HAS_BIAS and BIAS_OF_ROWS:
            rows = row + tl.arange(0, BM)
            acc += tl.load(bias + rows, mask=rows < M, other=0.0).to(tl.float32)[:, None]
        elif HAS_BIAS:
            columns = column + tl.arange(0, BN)
            acc += tl.load(bias + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
        z = activate(acc, ACTIVATION).to(c.dtype.element_ty)
        if TURN_C:
            store_box(out, batch, column, row, z.T, BN, BM, BATCHED)
        else:
            store_box(out, batch, row, column, z, BM, BN, BATCHED)


@triton.jit
def add_splits(
    parts, c, bias, M, N, stride_part, stride_cb, stride_cm, stride_cn, SPLITS: tl.constexpr,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Partial products [SPLITS, batches, M, N] in float32, added in their order: [ROWS, COLUMNS] of one batch."""
    across = tl.cdiv(N, COLUMNS)
    batch = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    parts += (batch * M + rows)[:, None] * N + columns[None, :]
    acc = tl.load(parts, mask=mask)
    for _ in tl.static_range(1, SPLITS):
        parts += stride_part
        acc += tl.load(parts, mask=mask)
    if HAS_BIAS:
        acc += tl.load(bias + columns, mask=columns < N).to(tl.float32)[None, :]
    acc = activate(acc, ACTIVATION)
    c += batch * stride_cb
    c += rows.to(tl.int64)[:, None] * stride_cm + columns.to(tl.int64)[None, :] * stride_cn
    tl.store(c, acc.to(c.dtype.element_ty), mask=mask)


ACTIVATIONS = ("none", "relu", "gelu", "silu")
MULTIPLIED = ("f16", "bf16", "f32", "i8", *(dtype.name for dtype in FLOATS8))  # dtypes of operands
WARPGROUP_ROWS = 64  # of a tile, which its instructions take at a time
ADDED_AT_A_TIME = 1024  # elements of partial products, by one program


def _by_boxes(p: Product, programs: int) -> None:
    strides = (p.x.stride, p.y.stride, p.z.stride, p.x.stride_batch, p.y.stride_batch, p.z.stride_batch)
    turned = {"TURN_A": p.x.turned, "TURN_B": p.y.turned, "TURN_C": p.z.turned, "BATCHED": p.z.batches > 1}
    turned["BIAS_OF_ROWS"] = p.bias_of_rows
    grid = (min(p.tiles, programs), p.z.batches)
    matmul_descriptors[grid](p.a, p.b, p.c, p.bias, p.z.batches, *p.sizes, *strides, **turned, **p.given)


def _by_pointers(p: Product, splits: int = 1, stride_split: int = 0) -> None:
    K, BK = p.x.columns, p.given["BK"]
    strides = (p.x.stride_row, p.x.stride_column, p.y.stride_row, p.y.stride_column, p.z.stride_row, p.z.stride_column)
    batch = (p.x.stride_batch, p.y.stride_batch, p.z.stride_batch)
    chunk = triton.cdiv(triton.cdiv(K, splits), BK) * BK
    grid = (p.tiles, p.z.batches, splits)
    even = {"EVEN_K": K % BK == 0}
    matmul_pointers[grid](p.a, p.b, p.c, p.bias, *p.sizes, *strides, *batch, stride_split, chunk, **even, **p.given)


def _in_splits(p: Product, splits: int, boxes: bool, programs: int) -> None:
    """Partial products in a workspace of float32, then their sum, row by row as the caller sees them."""
    seen = p.transpose if p.bias_of_rows else p
    M, N, batches = seen.z.rows, seen.z.columns, seen.z.batches
    parts = empty(p.a, (splits, batches, M, N), "float32")
    z = seen.z._replace(stride_batch=M * N, stride_row=N, stride_column=1, item_bytes=4, aligned=True)
    given = p.given | {"HAS_BIAS": False, "ACTIVATION": "none"}
    partial = p._replace(c=parts, z=z.transpose if p.bias_of_rows else z, given=given)
    equal = batches == 1 and p.x.columns % splits == 0 and p.given["BM"] % WARPGROUP_ROWS == 0
    if boxes and equal and (as_batch := _in_batch(partial, splits)).are_boxes:
        _by_boxes(as_batch, programs)
    else:
        _by_pointers(partial, splits, batches * M * N)
    epilogue = {name: p.given[name] for name in ("HAS_BIAS", "ACTIVATION", "backend") if name in p.given}
    strides = (batches * M * N, seen.z.stride_batch, seen.z.stride_row, seen.z.stride_column)
    columns = min(triton.next_power_of_2(N), ADDED_AT_A_TIME)
    block = {"ROWS": ADDED_AT_A_TIME // columns, "COLUMNS": columns}
    grid = (triton.cdiv(M, block["ROWS"]) * triton.cdiv(N, columns), batches)
    add_splits[grid](parts, p.c, p.bias, M, N, *strides, SPLITS=splits, **epilogue, **block)


def _in_batch(p: Product, splits: int) -> Product:
    """A product as a batch of partial ones, which are equally deep."""
    depth = p.x.columns // splits
    x = p.x._replace(batches=splits, columns=depth, stride_batch=depth * p.x.stride_column)
    y = p.y._replace(batches=splits, rows=depth, stride_batch=depth * p.y.stride_row)
    return p._replace(x=x, y=y, z=p.z._replace(batches=splits))


def _check_operands(a: ArrayInfo, b: ArrayInfo, x: Operand, y: Operand) -> None:
    """Raise LaunchError for operands that cannot be multiplied with each other."""
    if x.columns != y.rows or not {x.batches, y.batches} <= {1, max(x.batches, y.batches)}:
        raise LaunchError("kernels.operands", f"a and b have shapes {a.shape} and {b.shape}; K or batches differ")
    for name, info in (("a", a), ("b", b)):
        if info.dtype not in MULTIPLIED:
            expected = f"expected one of {', '.join(MULTIPLIED)}"
            raise LaunchError("kernels.operands", f"{name} has dtype {info.dtype}; {expected}")
    if a.dtype != b.dtype and not {DTYPES[a.dtype], DTYPES[b.dtype]} <= set(FLOATS8):
        raise LaunchError(
            "kernels.operands",
            f"a and b have dtypes {a.dtype} and {b.dtype}; expected one dtype",
            notes=["cast one of them to the dtype of the other before the product"],
        )


def _check_results(c: ArrayInfo, bias: Any, shape: tuple[int, ...]) -> None:
    """Raise LaunchError unless the output and the bias fit a result of that shape."""
    if c.shape != shape:
        raise LaunchError("kernels.operands", f"out has shape {c.shape}, expected {shape}")
    if bias is None:
        return
    info = describe(bias)
    if info.shape != shape[-1:]:
        raise LaunchError("kernels.operands", f"the bias has shape {info.shape}, expected {shape[-1:]}")
    if info.strides != (1,) and info.shape[0] > 1:
        raise LaunchError(
            "kernels.operands", f"the bias has a stride of {info.strides[0]}, expected contiguous elements"
        )


def matmul(
    a: Any, b: Any, out: Any = None, bias: Any = None, activation: str = "none", precision: str = "tf32", **options: Any
) -> Any:
    """activation(a b + bias), [M, N], into `out` or a new array of a's dtype (int32 for int8).

    a is [M, K] or [batch, M, K], b [K, N] or [batch, K, N], with any strides; one without a batch axis is shared.
    bias is [N] and contiguous; activation none, relu, gelu or silu; precision that of tl.dot for float32. `options` are
    constexprs and options of the launch that replace the default ones, and SPLITS, into how many parts K is split.
    Raises LaunchError for shapes or dtypes that do not fit.
    """
    left, right = describe(a), describe(b)
    x, y = operand(left, "a"), operand(right, "b")
    batches = max(x.batches, y.batches)
    _check_operands(left, right, x, y)
    for what, value, known in (("activation", activation, ACTIVATIONS), ("precision", precision, PRECISIONS)):
        if value not in known:
            raise LaunchError(f"kernels.{what}", f"{what} {value!r}; expected one of {', '.join(known)}")
    shape = (x.rows, y.columns) if len(left.shape) == len(right.shape) == 2 else (batches, x.rows, y.columns)
    if out is None:
        out = empty(a, shape, "int32" if left.dtype == "i8" else None)
    c = describe(out)
    _check_results(c, bias, shape)
    if not prod(shape):
        return out
    z = operand(c, "out")
    arch = DEFAULT_TARGET.name if left.device is None else native_arch(left.device)
    programs = multiprocessors(left.device)
    product = Product(a, b, out, a if bias is None else bias, x, y, z, {})
    product, precision = prepared(product, left.dtype, precision, arch, options)
    made, place = product.c, product.z
    boxes = target(arch).has_tma and product.are_boxes
    long = max(x.rows, y.columns), min(x.rows, y.columns)
    whole = options.get("SPLITS", 1) == 1
    chosen = narrow(*long, x.columns, batches, x.item_bytes, arch, programs) if boxes and whole else None
    if chosen and x.rows < y.columns:
        product = product.transpose  # rows fill the tensor cores of warpgroups, columns need not
    float8 = DTYPES[left.dtype] in FLOATS8
    sizes = (*product.sizes, batches, x.item_bytes)
    given = {**(chosen or configuration(*sizes, arch, programs, precision, float8, boxes)), **options}
    splits = given.pop("SPLITS")
    given |= {"HAS_BIAS": bias is not None, "PRECISION": precision, "ACTIVATION": activation}
    product = product._replace(given=given)
    if splits > 1:
        _in_splits(product, splits, boxes, programs)
    elif boxes:
        _by_boxes(product, programs)
    else:
        _by_pointers(product)
    if made is not out:
        copied(made, place, out, z, options)
    return out
