"""Integer oracles against Python's integers, exhaustively for 8 bits, and the promotion table against C's rule."""

import itertools
import operator

import numpy as np
import pytest

from oracles import OracleError, lookup
from oracles.formats import FORMATS, format_of
from oracles.promotion import INTEGER_TABLE, literal_format, promote

EIGHT = ["i8", "u8"]
INTEGERS = [n for n, f in FORMATS.items() if not f.is_float]


def call(name, **operands):
    inputs = {k: v for k, v in operands.items() if isinstance(v, np.ndarray)}
    return lookup(f"oracles.{name}")(inputs, {k: v for k, v in operands.items() if k not in inputs})


def every_pair(a, b):
    """All pairs of 8-bit values of two formats, as arrays and as Python integers."""
    x, y = (np.arange(256, dtype=np.uint8).view(FORMATS[n].dtype) for n in (a, b))
    x, y = np.repeat(x, 256), np.tile(y, 256)
    return x, y, list(zip(x.tolist(), y.tolist(), strict=True))


def wrapped(value, fmt):
    """A Python integer at a format's width, by repeated addition of the modulus' multiple."""
    value -= (value // 2**fmt.bits) * 2**fmt.bits
    return value - 2**fmt.bits if value > fmt.max else value


def reinterpreted(value, fmt):
    return wrapped(value, fmt)


@pytest.mark.parametrize("name,function", [("add", operator.add), ("sub", operator.sub), ("mul", operator.mul)])
@pytest.mark.parametrize("a,b", [("i8", "i8"), ("u8", "u8"), ("i8", "u8")])
def test_arithmetic_wraps(name, function, a, b):
    x, y, pairs = every_pair(a, b)
    out = call(f"elementwise:{name}", x=x, y=y)["out"]
    fmt = FORMATS["i8" if (a, b) == ("i8", "i8") else "u8"]
    assert format_of(out) is fmt
    assert out.tolist() == [wrapped(function(p, q), fmt) for p, q in pairs]


@pytest.mark.parametrize("name", ["i16", "u16", "i32", "u32", "i64", "u64"])
def test_arithmetic_wraps_at_every_width(name):
    fmt = FORMATS[name]
    values = [fmt.min, fmt.min + 1, fmt.max, fmt.max - 1, 0, 1, 2, 3, 2 ** (fmt.bits // 2), 12345]
    values += [-1, -7] if fmt.kind == "signed" else []
    pairs = list(itertools.product(values, values))
    x, y = (np.array(side, dtype=fmt.dtype) for side in zip(*pairs, strict=True))
    for op, function in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul)):
        assert call(f"elementwise:{op}", x=x, y=y)["out"].tolist() == [wrapped(function(*p), fmt) for p in pairs]
    high = call("integers:umulhi", x=x, y=y)["out"].tolist()
    assert high == [wrapped(((p % 2**fmt.bits) * (q % 2**fmt.bits)) >> fmt.bits, fmt) for p, q in pairs]
    assert call("elementwise:neg", x=x)["out"].tolist() == [wrapped(-p, fmt) for p, _ in pairs]
    assert call("elementwise:abs", x=x)["out"].tolist() == [wrapped(abs(p), fmt) for p, _ in pairs]


@pytest.mark.parametrize("name", EIGHT)
def test_division_truncates_and_the_remainder_follows_the_dividend(name):
    x, y, pairs = every_pair(name, name)
    quotient, remainder = call("integers:floordiv", x=x, y=y), call("integers:mod", x=x, y=y)
    for i, (p, q) in enumerate(pairs):
        assert quotient["out.unspecified"][i] == remainder["out.unspecified"][i] == (q == 0)
        if q:
            toward_zero = int(p / q)  # exact: 8-bit operands
            assert quotient["out"][i] == wrapped(toward_zero, FORMATS[name])
            assert remainder["out"][i] == p - q * toward_zero
    lowest = np.array([-128], np.int8)
    assert call("integers:floordiv", x=lowest, y=-1)["out"].tolist() == [-128]
    assert call("integers:mod", x=lowest, y=-1)["out"].tolist() == [0]


def test_known_divisions():
    x, y = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    assert call("integers:floordiv", x=x, y=y)["out"].tolist() == [3, -3, -3, 3]
    assert call("integers:mod", x=x, y=y)["out"].tolist() == [1, -1, 1, -1]
    pairs = [(7, 2), (-7, 2), (7, -2), (-7, -2)]
    assert [int(call("integers:constexpr_floordiv", x=p, y=q)["out"]) for p, q in pairs] == [3, -4, -4, 3]
    assert [int(call("integers:constexpr_mod", x=p, y=q)["out"]) for p, q in pairs] == [1, 1, -1, -1]
    assert call("integers:cdiv", x=np.array([0, 1, 7, 8, 9], np.int32), y=4)["out"].tolist() == [0, 1, 2, 2, 3]


@pytest.mark.parametrize("name", EIGHT)
def test_shifts_of_every_amount(name):
    fmt = FORMATS[name]
    x, n, pairs = every_pair(name, name)
    left, right = call("integers:shl", x=x, y=n)["out"], call("integers:shr", x=x, y=n)["out"]
    for i, (p, q) in enumerate(pairs):
        amount = q % 256  # a negative amount is a large one
        assert left[i] == (0 if amount >= 8 else wrapped(p * 2**amount, fmt))
        assert right[i] == ((-1 if p < 0 else 0) if amount >= 8 else p // 2**amount)


def test_shifts_of_scalars_keep_python_integers():
    """NumPy makes integers of its own of an object array without axes, and of two sizes where one needs 64 bits."""
    big = np.array(2**63 + 5, np.uint64)
    assert int(call("integers:shr", x=big, y=big)["out"]) == 0
    assert int(call("integers:shr", x=big, y=np.array(62, np.uint64))["out"]) == 2
    assert int(call("integers:shl", x=big, y=np.array(62, np.uint64))["out"]) == 2**62


def test_right_shift_is_arithmetic_by_its_left_operand():
    x = np.array([-8], np.int32)
    assert call("integers:shr", x=x, y=np.array([1], np.uint32))["out"].tolist() == [2**32 - 4]
    assert call("integers:shr", x=x.view(np.uint32), y=np.array([1], np.int32))["out"].tolist() == [2**31 - 4]


@pytest.mark.parametrize("name,function", [("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)])
def test_bitwise(name, function):
    for a, b in (("i8", "i8"), ("u8", "u8"), ("i8", "u8")):
        x, y, pairs = every_pair(a, b)
        out = call(f"integers:{name}", x=x, y=y)["out"]
        assert out.tolist() == [wrapped(function(p, q), format_of(out)) for p, q in pairs]
    both = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert call(f"integers:{name}", x=both[0], y=both[1])["out"].tolist() == [
        bool(function(p, q)) for p, q in zip(*both, strict=True)
    ]


def test_bool_is_one_bit():
    x = np.array([False, True])
    assert call("elementwise:add", x=x, y=np.array([True, True]))["out"].tolist() == [True, False]
    assert call("elementwise:mul", x=x, y=x)["out"].tolist() == [False, True]
    assert call("integers:invert", x=x)["out"].tolist() == [True, False]
    assert call("integers:logical_not", x=x)["out"].tolist() == [True, False]
    assert call("elementwise:add", x=x, y=1)["out"].dtype == np.int32


def test_integer_promotion_is_the_rule_of_c():
    """Same signedness: the wider; else unsigned if its width is at least the signed one's, else signed."""
    for a, b in itertools.product(INTEGERS, INTEGERS):
        x, y = FORMATS[a], FORMATS[b]
        if (x.kind == "signed") == (y.kind == "signed"):
            expected = x if x.bits >= y.bits else y
        else:
            signed, unsigned = (x, y) if x.kind == "signed" else (y, x)
            expected = unsigned if unsigned.bits >= signed.bits else signed
        assert INTEGER_TABLE[a, b] == INTEGER_TABLE[b, a] == promote(a, b).name == expected.name


@pytest.mark.parametrize(
    "a,b,plus,slash",
    [
        ("f16", "i64", "f16", "f32"),
        ("f16", "f16", "f16", "f32"),
        ("f16", "bf16", "f16", "f32"),
        ("bf16", "bf16", "bf16", "f32"),
        ("bf16", "i8", "f32", "f32"),
        ("f32", "bf16", "f32", "f32"),
        ("f32", "u64", "f32", "f32"),
        ("f64", "f16", "f64", "f64"),
        ("f64", "i8", "f64", "f64"),
    ],
)
def test_float_promotion(a, b, plus, slash):
    for x, y in ((a, b), (b, a)):
        assert promote(x, y).name == plus
        assert promote(x, y, "/").name == promote(x, y, "%").name == slash


def test_rejected_pairs():
    assert promote("i64", "i8", "/").name == "f32"
    for operator_ in ("/", "//", "%"):
        with pytest.raises(OracleError, match="signedness"):
            promote("i8", "u8", operator_)
    for operator_ in ("//", "&", "<<"):
        with pytest.raises(OracleError, match="must be integers"):
            promote("f32", "i8", operator_)


@pytest.mark.parametrize(
    "value,beside,expected",
    [
        (1, "f16", "f16"),
        (1.5, "f16", "f16"),
        (True, "i8", "i8"),
        (100, "i8", "i8"),
        (1, "bool", "i32"),
        (2**31, "bool", "u32"),
        (2**32, "bool", "i64"),
        (2**63, "bool", "u64"),
        (0.5, "i64", "f32"),
        (0.0, "bool", "f32"),
        (float("inf"), "i32", "f32"),
        (1e-40, "i32", "f64"),
        (1e39, "i32", "f64"),
        (2.0**-126, "i32", "f32"),
    ],
)
def test_literals(value, beside, expected):
    assert literal_format(value, beside).name == expected


def test_literals_out_of_range():
    for value, beside in ((300, "i8"), (-1, "u32"), (2**64, "bool")):
        with pytest.raises(OracleError, match="literal"):
            literal_format(value, beside)


def test_comparisons_convert_first():
    x, y = np.array([-1], np.int32), np.array([1], np.uint32)
    assert call("elementwise:lt", x=x, y=y)["out"].tolist() == [False], "-1 is 0xFFFFFFFF as u32"
    assert call("elementwise:lt", x=x, y=y.astype(np.uint16))["out"].tolist() == [True], "promoted to i32"
    big = np.array([2**53 + 1], np.int64)
    assert call("elementwise:eq", x=big, y=big - 1)["out"].tolist() == [False]
