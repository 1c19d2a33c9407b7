"""Promotion, literals and casts: the result type of every pair of dtypes, and what literals do beside each."""

import itertools

import pytest
from kernels import source_of

from refcompiler.errors import CompileError
from refcompiler.frontend import compile_to_tile
from refcompiler.frontend.promotion import literal_dtype
from refcompiler.ir.types import ARITHMETIC, BOOL, F32, F64, I32, I64, U32, U64, element_of

WIDTH = {"bool": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
DTYPES = [d.name for d in ARITHMETIC]
FLOATS = ("f16", "bf16", "f32", "f64")


def compiled(expression: str, x: str, y: str = "i32"):
    source = source_of(f"r = {expression}\nreturn r", header="x, y")
    return compile_to_tile(source, f"x:{x},y:{y}", {})


def result(expression: str, x: str, y: str = "i32") -> str:
    return str(element_of(compiled(expression, x, y).body.ops[-1].results[0].type))


def usual_conversions(x: str, y: str) -> str:
    """C's rule by width, bool counting as an unsigned integer of width 1."""
    signed = {d: d.startswith("i") for d in (x, y)}
    if signed[x] == signed[y]:
        return max(x, y, key=WIDTH.get)
    unsigned, other = (y, x) if signed[x] else (x, y)
    return unsigned if WIDTH[unsigned] >= WIDTH[other] else other


def meeting(x: str, y: str) -> str:
    """The type of x + y as Triton 3.9 has it."""
    if x in WIDTH and y in WIDTH:
        return usual_conversions(x, y)
    if "f64" in (x, y):
        return "f64"
    if "f32" in (x, y):
        return "f32"
    if "f16" in (x, y):
        return "f16"
    return "bf16" if x == y else "f32"  # bf16 with any integer is f32


@pytest.mark.parametrize(("x", "y"), list(itertools.product(DTYPES, DTYPES)))
def test_add_of_every_pair(x, y):
    func = compiled("x + y", x, y)
    op = func.body.ops[-1]
    assert str(op.results[0].type) == meeting(x, y)
    assert op.name == ("xor" if x == y == "bool" else "add")
    casts = [o for o in func.body.ops if o.name == "cast"]
    assert len(casts) == (x != meeting(x, y)) + (y != meeting(x, y))
    assert [o.operands[0].name for o in casts] == [n for n, d in (("x", x), ("y", y)) if d != meeting(x, y)]


@pytest.mark.parametrize(("x", "y"), list(itertools.product(DTYPES, DTYPES)))
def test_division_of_every_pair(x, y):
    both_integers = x in WIDTH and y in WIDTH
    if both_integers and x.startswith("i") != y.startswith("i"):
        for operator in ("/", "//", "%"):
            with pytest.raises(CompileError, match="signedness") as caught:
                compiled(f"x {operator} y", x, y)
            assert caught.value.id == "arith.promotion#E3"
        return
    assert result("x / y", x, y) == ("f64" if "f64" in (x, y) else "f32")
    if both_integers and (x, y) != ("bool", "bool"):
        assert result("x // y", x, y) == result("x % y", x, y) == meeting(x, y)
    elif not both_integers:
        assert result("x % y", x, y) == ("f64" if "f64" in (x, y) else "f32")
        with pytest.raises(CompileError) as caught:
            compiled("x // y", x, y)
        assert caught.value.id == "arith.promotion#E5"


@pytest.mark.parametrize(("x", "y"), list(itertools.product(DTYPES, FLOATS)))
def test_bitwise_refuses_floats(x, y):
    for operator in ("&", "|", "^", "<<", ">>"):
        with pytest.raises(CompileError) as caught:
            compiled(f"x {operator} y", x, y)
        assert caught.value.id == "arith.promotion#E5"


@pytest.mark.parametrize(("x", "y"), list(itertools.product(WIDTH, WIDTH)))
def test_bitwise_comparisons_and_selection_meet_like_addition(x, y):
    assert result("x & y", x, y) == meeting(x, y)
    assert result("tl.where(x == y, x, y)", x, y) == meeting(x, y)
    assert result("tl.maximum(x, y)", x, y) == meeting(x, y)
    assert result("x < y", x, y) == "bool"


@pytest.mark.parametrize("x", DTYPES)
def test_literals_beside_each_type(x):
    assert result("x + True", x) == x
    assert result("x * 1", x) == ("i32" if x == "bool" else x)
    assert result("1.5 + x", x) == (x if x in FLOATS else "f32")
    assert result("x - 1e300", x) == (x if x in FLOATS else "f64")
    assert result("x / 2", x) == ("f64" if x == "f64" else "f32")
    assert result("x < 1", x) == "bool"
    assert result("tl.maximum(x, 1)", x) == ("i32" if x == "bool" else x)


@pytest.mark.parametrize(
    ("x", "literal", "id"),
    [
        ("i8", "128", "arith.promotion#E1"),
        ("i8", "-129", "arith.promotion#E1"),
        ("u8", "256", "arith.promotion#E1"),
        ("u8", "-1", "arith.promotion#E2"),
        ("u64", "-1", "arith.promotion#E2"),
        ("i64", "2**63", "arith.promotion#E1"),
        ("i32", "2**40", "arith.promotion#E1"),
        ("bool", "2**64", "arith.promotion#E1"),
    ],
)
@pytest.mark.parametrize("expression", ["x + {}", "{} * x", "x < {}", "tl.where(x > 0, x, {})", "x & {}"])
def test_literals_out_of_range(x, literal, id, expression):
    if x == "bool" and "x > 0" in expression:
        expression = "tl.where(x, x, {})"
    with pytest.raises(CompileError) as caught:
        compiled(expression.format(f"({literal})"), x)
    assert caught.value.id == id
    assert str(eval(literal)) in str(caught.value)


def test_the_widest_literals_fit():
    assert result("x + 127", "i8") == result("x + -128", "i8") == "i8"
    assert result("x + 255", "u8") == "u8"
    assert result("x + (2**64 - 1)", "u64") == "u64"


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, BOOL),
        (0, I32),
        (-(2**31), I32),
        (2**31 - 1, I32),
        (2**31, U32),
        (2**32, I64),
        (-(2**31) - 1, I64),
        (2**63, U64),
        (2**64, None),
        (-(2**63) - 1, None),
        (0.0, F32),
        (2.0**-126, F32),
        (2.0**-127, F64),
        (3.4028234663852886e38, F32),
        (3.5e38, F64),
        (float("inf"), F32),
        (float("nan"), F32),
    ],
)
def test_the_type_of_a_literal(value, dtype):
    assert literal_dtype(value) is dtype


@pytest.mark.parametrize(
    ("expression", "id"),
    [
        ("x + y", "memory.pointers#E3"),
        ("x - y", "memory.pointers#E3"),
        ("1 - x", "memory.pointers#E3"),
        ("x + 1.5", "memory.pointers#E2"),
        ("x + True", "memory.pointers#E2"),
        ("x * 2", "arith.promotion#E4"),
        ("x & 1", "arith.promotion#E4"),
        ("x == y", "arith.promotion#E4"),
        ("-x", "arith.promotion#E4"),
        ("~x", "arith.promotion#E4"),
        ("tl.exp(x)", "arith.promotion#E4"),
        ("tl.maximum(x, 1)", "arith.promotion#E4"),
        ("x.to(tl.float32)", "cast.numeric#E1"),
        ("x + 'a'", "memory.pointers#E2"),
        ("x + None", "memory.pointers#E2"),
    ],
)
def test_pointers_do_not_calculate(expression, id):
    with pytest.raises(CompileError) as caught:
        compiled(expression, "*f32", "*f32")
    assert caught.value.id == id


@pytest.mark.parametrize("other", ["'a'", "None", "(1, 2)", "tl.float32", "tl"])
def test_what_is_no_number_is_refused(other):
    for expression in (f"x + {other}", f"x < {other}", f"tl.where(x > 0, x, {other})"):
        with pytest.raises(CompileError) as caught:
            compiled(expression, "f32")
        assert caught.value.id == "arith.promotion#E5", expression


def test_what_kernels_can_ask_of_types():
    import refcompiler.language as tl

    asked = source_of(
        """
        tl.static_assert(x.dtype.is_ptr() and x.dtype.element_ty == tl.float16 and not x.dtype.is_const())
        tl.static_assert(x.dtype.element_ty.primitive_bitwidth == 16 and x.dtype.element_ty.is_fp16())
        b = tl.load(x + tl.arange(0, 8))
        tl.static_assert(b.type.is_block() and b.type.get_block_shapes() == (8,) and b.type.scalar is tl.float16)
        tl.static_assert(y.dtype.is_int_signed() and not y.dtype.is_int_unsigned() and y.dtype.int_bitwidth == 32)
        tl.static_assert(y.dtype.get_int_max_value() == 2**31 - 1 and y.dtype.get_int_min_value() == -(2**31))
        tl.static_assert(f"{y.dtype} {x.dtype} {b.type}" == "int32 pointer<fp16> <[8], fp16>")
        """,
        header="x, y",
    )
    compile_to_tile(asked, "x:*f16,y:i32")
    assert [tl.bfloat16.fp_mantissa_width, tl.float16.exponent_bias, tl.float64.itemsize] == [7, 15, 8]
    assert tl.int1.is_bool() and tl.int1.is_int() and tl.int1.is_int_unsigned() and repr(tl.int1) == "tl.int1"
    assert tl.pointer_type(tl.int8, const=True) != tl.pointer_type(tl.int8)
    with pytest.raises(TypeError):
        tl.pointer_type("int8")
