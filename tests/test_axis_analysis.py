"""Ranges and axis analysis: hand-made cases, and random expressions whose claims are checked by evaluating them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refcompiler import dialects  # noqa: F401  fills the registry
from refcompiler.analysis.axis import AxisAnalysis, power_of_two_in
from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.scalar import BY_NAME
from refcompiler.ir import verify
from refcompiler.ir.parser import parse_func
from refcompiler.ir.types import BOOL

HEADER = "func @k(x: ptr<f32> {divisible=16}, n: i32, m: i32 {divisible=16}, one: i32 {divisible=1}) {\n  "
RULES = [
    # lines, then (contiguity, divisibility, constancy) of the last value
    (["arange {start=0, end=64} : vector<64 x i32>"], (64, 1 << 30, 1)),
    (["arange {start=8, end=72} : vector<64 x i32>"], (64, 8, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "add %0, n : vector<64 x i32>"], (64, 1, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "add m, %0 : vector<64 x i32>"], (64, 16, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "sub m, %0 : vector<64 x i32>"], (1, 1, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "mul %0, m : vector<64 x i32>"], (1, 16, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "mul %0, one : vector<64 x i32>"], (64, 1 << 30, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "cmp_lt %0, n : vector<64 x bool>"], (1, 1, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "cmp_lt %0, m : vector<64 x bool>"], (1, 1, 16)),
    (["arange {start=0, end=64} : vector<64 x i32>", "cmp_le %0, m : vector<64 x bool>"], (1, 1, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "cmp_gt m, %0 : vector<64 x bool>"], (1, 1, 16)),
    (["arange {start=0, end=64} : vector<64 x i32>", "div %0, 16 : vector<64 x i32>"], (1, 1, 16)),
    (["arange {start=0, end=64} : vector<64 x i32>", "rem %0, 24 : vector<64 x i32>"], (8, 8, 1)),
    (["minimum m, 48 : i32"], (1, 16, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "maximum %0, m : vector<64 x i32>"], (1, 1, 1)),
    (["arange {start=0, end=64} : vector<64 x i32>", "addptr x, %0 : vector<64 x ptr<f32>>"], (64, 16, 1)),
]


@pytest.mark.parametrize(("lines", "expected"), RULES)
def test_rules(lines, expected):
    text = HEADER + "\n  ".join(f"%{i} = {line}" for i, line in enumerate(lines)) + "\n}\n"
    func = parse_func(text)
    info = AxisAnalysis(func).of(func.body.ops[-1].result)
    assert (info.contiguity, info.divisibility, info.constancy) == tuple((e,) for e in expected)


def test_a_pointer_of_a_row_of_a_strided_matrix_is_a_vector():
    func = parse_func(
        HEADER
        + "\n  ".join(
            [
                "%0 = arange {start=0, end=8} : vector<8 x i32>",
                "%1 = expand_dims %0 {axis=1} : block<8x1 x i32>",
                "%2 = mul %1, m : block<8x1 x i32>",
                "%3 = arange {start=0, end=32} : vector<32 x i32>",
                "%4 = expand_dims %3 {axis=0} : block<1x32 x i32>",
                "%5 = add %2, %4 : block<8x32 x i32>",
                "%6 = addptr x, %5 : block<8x32 x ptr<f32>>",
                "%7 = cmp_lt %4, m : block<1x32 x bool>",
                "%8 = load %6, %7, none : block<8x32 x f32>",
            ]
        )
        + "\n}\n"
    )
    axis, load = AxisAnalysis(func), func.body.ops[-1]
    assert axis.order(load.pointer) == (1, 0)
    assert axis.vector_width(1, load.pointer, load.mask) == 4
    assert axis.vector_width(0, load.pointer, load.mask) == 1


def test_carried_values_lose_what_an_iteration_changes():
    func = parse_func(
        HEADER
        + "\n  ".join(
            [
                "%0 = arange {start=0, end=64} : vector<64 x i32>",
                "%6 = for %1 in range(0, n, 4) iter_args(%2 = %0) : vector<64 x i32> {",
                "  %3 = add %2, 8 : vector<64 x i32>",
                "  %4 = add %2, %1 : vector<64 x i32>",
                "  yield %3",
                "}",
            ]
        )
        + "\n}\n"
    )
    loop = func.body.ops[-1]
    axis = AxisAnalysis(func)
    assert axis.of(loop.results[0]).divisibility == (8,)
    assert axis.of(loop.body.ops[1].result).divisibility == (4,)
    assert axis.of(loop.results[0]).contiguity == (64,)


@pytest.mark.parametrize(
    ("start", "count", "limit", "end", "found"),
    [
        (0, 1, 4, "%4", (0, 3)),  # counted on, then compared
        (3, 1, 4, "%4", (0, 3)),
        (0, 1, 4, "%6", (0, 4)),  # compared, then counted on
        (0, 2, 4, "%4", None),  # steps over its limit
        (5, 1, 4, "%4", None),  # begins beyond it
        (-1, 1, 4, "%4", None),
    ],
)
def test_counters_stay_in_their_rings(start, count, limit, end, found):
    body = f"""
      %3 = add %2, {count} : i32
      %5 = cmp_eq {"%3" if end == "%4" else "%2"}, {limit} : bool
      %4 = select %5, 0, %3 : i32
      %6 = select %5, 0, %3 : i32
      yield {end}"""
    inner = f"%7 = for %8 in range(0, n, 4) iter_args(%2 = %9) : i32 {{{body}\n    }}"
    outer = f"%0 = for %1 in range(0, n, 4) iter_args(%9 = {start}) : i32 {{\n    {inner}\n    yield %7\n  }}"
    func = parse_func(HEADER + outer + "\n}\n")
    ranges, loop = Ranges(func), func.body.ops[-1]
    everything = (-(2**31), 2**31 - 1)
    for value in (loop.results[0], loop.body.args[1], loop.body.ops[0].body.args[1]):
        assert ranges.of(value) == (found or everything)
    added = loop.body.ops[0].body.ops[0]
    assert (added in ranges.exact) == (found is not None)


@pytest.mark.parametrize(
    ("start", "stop", "step", "found"),
    [
        (0, 16, 4, (0, 12)),  # the last index lies whole steps from the first
        (2, 16, 4, (2, 14)),
        (2, 15, 4, (2, 14)),
        (2, 14, 4, (2, 10)),
        (8, 8, 4, (8, 8)),
        ("n", 16, 4, (-(2**31), 15)),
        (0, "n", 4, (0, 2**31 - 4)),
        (0, 16, "n", (-(2**31), 2**31 - 1)),
    ],
)
def test_the_last_index_of_a_loop(start, stop, step, found):
    func = parse_func(HEADER + f"for %0 in range({start}, {stop}, {step}) {{\n    yield\n  }}\n}}\n")
    assert Ranges(func).of(func.body.ops[0].body.args[0]) == found


# --- random expressions over integers: every claim must hold in every element
_LEAVES = ("%r", "%c", "n", "m", "one", "3", "8", "-5", "16")
_OPS = ("add", "sub", "mul", "div", "rem", "shl", "shr", "and", "or", "xor", "maximum", "minimum", "select")


@st.composite
def expressions(draw):
    """Lines over a 16x32 block: %r is the row index, %c the column index."""
    lines, names = [], list(_LEAVES)
    for _ in range(draw(st.integers(1, 6))):
        op = draw(st.sampled_from(_OPS))
        x, y = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        if op == "select":
            compare = draw(st.sampled_from(["cmp_lt", "cmp_le", "cmp_gt", "cmp_ge", "cmp_eq"]))
            a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
            lines.append((compare, (a, b)))
            lines.append(("select", (f"%v{len(lines) - 1}", x, y)))
        else:
            lines.append((op, (x, y)))
        names.append(f"%v{len(lines) - 1}")
    return lines


def build(lines, start) -> str:
    shapes = {"%r": "16x1", "%c": "1x32"}
    text = [
        "%i = arange {start=0, end=16} : vector<16 x i32>",
        "%r = expand_dims %i {axis=1} : block<16x1 x i32>",
        f"%j = arange {{start={start}, end={start + 32}}} : vector<32 x i32>",
        "%c = expand_dims %j {axis=0} : block<1x32 x i32>",
    ]
    for number, (op, operands) in enumerate(lines):
        used = {shapes[o] for o in operands if o in shapes}
        shape = "16x32" if len(used) > 1 or "16x32" in used else next(iter(used), "")
        element = "bool" if op.startswith("cmp") else "i32"
        if shape:
            shapes[f"%v{number}"] = shape
        typed = [f"{o}:i32" if o.lstrip("-").isdigit() else o for o in operands]
        result = f"block<{shape} x {element}>" if shape else element
        text.append(f"%v{number} = {op} {', '.join(typed)} : {result}")
    return HEADER + "\n  ".join(text) + "\n}\n"


def evaluate(func, scalars) -> dict:
    values = {p: np.array(scalars.get(p.name, 0), np.int32) for p in func.params}

    def of(operand):
        return np.array(operand.value, np.int32) if operand not in values else values[operand]

    with np.errstate(all="ignore"):
        for op in func.body.ops:
            if op.name == "arange":
                value = np.arange(op.start, op.end, dtype=np.int32)
            elif op.name == "expand_dims":
                value = np.expand_dims(of(op.x), op.axis)
            elif op.name == "select":
                value = np.where(of(op.condition), of(op.x), of(op.y))
            else:
                value = BY_NAME[op.name].numpy(*(of(o) for o in op.operands))
            values[op.result] = np.asarray(value)
    return values


def check_axis(info, value) -> None:
    for dim in range(value.ndim):
        moved = np.moveaxis(value.astype(np.int64), dim, 0)
        extent = moved.shape[0]
        contiguity, constancy = min(info.contiguity[dim], extent), min(info.constancy[dim], extent)
        groups = moved.reshape(extent // contiguity, contiguity, -1)
        steps = np.arange(contiguity).reshape(1, -1, 1)
        assert ((groups - groups[:, :1] - steps) % 2**32 == 0).all(), f"contiguity along {dim}"
        if info.contiguity[dim] <= extent:
            assert (groups[:, 0] % info.divisibility[dim] == 0).all(), f"divisibility along {dim}"
        groups = moved.reshape(extent // constancy, constancy, -1)
        assert (groups == groups[:, :1]).all(), f"constancy along {dim}"


@example([("rem", ("%c", "16"))], 0, 0, -32)
@example([("div", ("%c", "16"))], 0, 0, -32)
@settings(max_examples=300, deadline=None)
@given(
    expressions(),
    st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-100, 100)),
    st.one_of(st.integers(-(2**27), 2**27 - 1), st.integers(-4, 4)),
    st.sampled_from([-64, -32, -16, 0, 4, 32]),
)
def test_claims_hold(lines, n, m, start):
    func = parse_func(build(lines, start))
    verify(func)
    values = evaluate(func, {"n": n, "m": 16 * m, "one": 1})
    axis, ranges = AxisAnalysis(func), Ranges(func)
    assert power_of_two_in(16 * m) % 16 == 0
    for op in func.body.ops:
        value = values[op.result]
        if op.result.type is BOOL or value.ndim == 0:
            value = value.reshape(1)
        check_axis(axis.of(op.result), value)
        low, high = ranges.of(op.result)
        assert low <= value.min() and value.max() <= high
        if op in ranges.exact and op.name in ("add", "sub", "mul"):
            exact = BY_NAME[op.name].numpy(
                *(values[o].astype(np.int64) if o in values else np.int64(o.value) for o in op.operands)
            )
            assert (exact == value).all()
