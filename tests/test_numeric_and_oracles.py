"""The compiler's meaning of scalar functions, casts and promotion against the oracles', bit for bit, on every dtype.

Both are written apart from each other, so a difference is a fault of one of them.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from oracles.promotion import literal_format
from oracles.promotion import promote as oracle_promote
from oracles.registry import OracleError, lookup
from refcompiler.dialects import numeric
from refcompiler.dialects.scalar import BY_NAME
from refcompiler.frontend.promotion import different_signs, literal_dtype, literal_is_weak, promote, promote_division
from refcompiler.ir.types import BF16, BOOL, F16, FLOATS, INTS, DType

EVERY = (BOOL, *INTS, *FLOATS)
ORACLE = {
    **{n: f"elementwise:{n}" for n in ("add", "sub", "mul", "maximum", "minimum", "fma", "neg", "abs")},
    **{f"cmp_{n}": f"elementwise:{n}" for n in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{n: f"integers:{n}" for n in ("and", "or", "xor", "shl", "shr", "umulhi")},
    **{"div_rn": "elementwise:truediv", "rem": "integers:mod", "not": "integers:invert"},
    **{"maximum_nan": "elementwise:maximum", "minimum_nan": "elementwise:minimum"},
}
NUMBERS = [0.0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, 3, 1 / 3, 100, 1e-3, np.nan, np.inf, -np.inf, 1e30, -1e30]
RANGES = [127.5, 128, -128.5, -129, 255.5, 256, 32767.5, 32768, 65535.5, 65536, 2.0**31 - 128, 2.0**31, -(2.0**31)]
RANGES += [2.0**32, 2.0**63 - 1024, 2.0**63, -(2.0**63), 2.0**64]
LITERALS = [
    True,
    False,
    0,
    -1,
    0.0,
    -0.0,
    0.5,
    1e-40,
    2.0**-126,
    2.0**-126 * (1 - 2.0**-53),
    5e-324,
    1e39,
    np.inf,
    np.nan,
]
LITERALS += [sign * 2**n + d for sign in (1, -1) for n in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, 0, 1)]
LITERALS += [3.4028234663852886e38, 3.4028234663852889e38]


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def random_bits(dtype: DType, count: int, rng: np.random.Generator) -> np.ndarray:
    if dtype is BOOL:
        return rng.integers(0, 2, count).astype(bool)
    return rng.integers(0, 256, (count, dtype.itemsize), dtype=np.uint8).view(dtype.numpy).reshape(-1)


def edges(dtype: DType) -> np.ndarray:
    if dtype is BOOL:
        return np.array([False, True])
    if dtype.is_int:
        near = [dtype.min_int, dtype.max_int, dtype.max_int // 2, 0, dtype.bits]
        return np.array([dtype.wrap(n + d) for n in near for d in (-2, -1, 0, 1, 2, 7)], dtype.numpy)
    info = ml_dtypes.finfo(dtype.numpy)
    limits = [info.max, info.smallest_normal, info.smallest_subnormal, 1 + info.eps, 1 - info.eps / 2]
    limits = [float(v) for v in limits]
    return np.array([*NUMBERS, *RANGES, *limits, *(-v for v in limits)], np.float64).astype(dtype.numpy)


def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of an 8-bit dtype; else all pairs of edges, and random bits."""
    rng = np.random.default_rng(7)
    if dtype.itemsize == 1 and dtype is not BOOL:
        every = np.arange(256, dtype=np.uint8).view(dtype.numpy)
        return np.repeat(every, 256), np.tile(every, 256)
    e = edges(dtype)
    x, y = np.repeat(e, e.size), np.tile(e, e.size)
    return tuple(np.concatenate([v, random_bits(dtype, 2000, rng)]) for v in (x, y))


def differences(got: np.ndarray, refs: dict, inputs: dict, zeros_free: bool = False) -> list:
    expected = refs["out"]
    assert got.dtype == expected.dtype and got.shape == expected.shape
    word = f"u{got.dtype.itemsize}"
    differ = (np.ascontiguousarray(got).view(word) != np.ascontiguousarray(expected).view(word)) & (
        (got == got) | (expected == expected)
    )
    differ &= ~np.broadcast_to(refs.get("out.unspecified", False), got.shape)
    if zeros_free:
        differ &= ~((got == 0) & (expected == 0))
    return [([v[i] for v in inputs.values()], got[i], expected[i]) for i in np.flatnonzero(differ)[:5]]


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_scalar_functions(dtype):
    x, y = pairs(dtype)
    inputs = {"x": x, "y": y, "z": np.roll(x, 17)}
    compared = 0
    for name, row in BY_NAME.items():
        ref = ORACLE.get(name) or {"div": "integers:floordiv" if dtype.is_int else "elementwise:fdiv"}.get(name)
        if dtype not in row.dtypes or ref is None or (name in ("div", "rem") and dtype in (F16, BF16)):
            continue
        params = {"propagate_nan": "ALL"} if name.endswith("_nan") else {}
        refs = lookup(f"oracles.{ref}")(inputs, params)
        got = row.numpy(*list(inputs.values())[: row.arity])
        assert not differences(got, refs, inputs, name.startswith(("maximum", "minimum"))), name
        compared += 1
    assert compared >= 9


def cast_samples(dtype: DType) -> np.ndarray:
    """Every pattern up to 16 bits; else edges, random bits and integers around the middle of two floats."""
    rng = np.random.default_rng(8)
    if dtype.itemsize <= 2 and dtype is not BOOL:
        return np.arange(1 << dtype.bits).astype(f"u{dtype.itemsize}").view(dtype.numpy)
    samples = [edges(dtype), random_bits(dtype, 20_000, rng)]
    if dtype.is_int:
        ties = [((1 << p) + 1) << s for p in (8, 11, 24, 53) for s in range(max(0, dtype.bits - p - 1))]
        samples.append(np.array([dtype.wrap(t + d) for t in ties for d in (-1, 0, 1)], dtype.numpy))
    return np.concatenate(samples)


@pytest.mark.parametrize("source", EVERY, ids=str)
def test_casts(source):
    x = cast_samples(source)
    for target in EVERY:
        refs = lookup("oracles.casts:cast")({"x": x}, {"dtype": target.name})
        got = np.asarray(numeric.cast(x, source, target))
        assert not differences(got, refs, {"x": x}), f"to {target}"


def rejected(x: DType, operator: str, y: DType) -> bool:
    floating = x.is_float or y.is_float
    if floating:
        return operator in ("//", "&", "|", "^", "<<", ">>")
    return operator in ("/", "//", "%") and different_signs(x, y)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "<"])
def test_promotion_of_every_pair(operator):
    for x in EVERY:
        for y in EVERY:
            divides = operator == "/" or (operator == "%" and (x.is_float or y.is_float))
            found = (promote_division if divides else promote)(x, y).name
            try:
                expected = oracle_promote(x.numpy, y.numpy, operator).name
            except OracleError:
                expected = "rejected"
            assert ("rejected" if rejected(x, operator, y) else found) == expected, f"{x} {operator} {y}"


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_literals_beside_every_dtype(dtype):
    for literal in LITERALS:
        own = literal_dtype(literal)
        if own is None:
            found = "rejected" if not dtype.is_float else None  # the oracle leaves these to the literal's own rule
        elif not literal_is_weak(own, dtype):
            found = own.name
        else:
            fits = not (dtype.is_int and isinstance(literal, int)) or dtype.min_int <= literal <= dtype.max_int
            found = dtype.name if fits else "rejected"
        try:
            expected = literal_format(literal, dtype.numpy).name
        except OracleError:
            expected = "rejected"
        assert found is None or found == expected, f"{literal!r} beside {dtype}"
