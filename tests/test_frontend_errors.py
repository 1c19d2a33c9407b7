"""Errors of language functions: the id of the clause, and the caret on the argument that is wrong."""

import pytest
from kernels import compile_body

from refcompiler.errors import CompileError
from refcompiler.source import source_line

PRELUDE = "k = tl.arange(0, 8)\nx = tl.load(X + k)\nm = tl.zeros((4, 8), tl.float32)\nC16: tl.constexpr = 16\n"

# expression -> (id, the marked source)
WRONG = {
    "tl.program_id(3)": ("program.program_id#E1", "3"),
    "tl.program_id(axis=-1)": ("program.program_id#E1", "-1"),
    "tl.program_id(n)": ("control.constexpr#E2", "n"),
    "tl.program_id()": ("control.calls#E3", "tl.program_id()"),
    "tl.num_programs(4)": ("program.num_programs#E1", "4"),
    "tl.arange(8, 8)": ("creation.arange#E1", "8"),
    "tl.arange(0, 6)": ("creation.arange#E2", "6"),
    "tl.arange(2**31, 2**31 + 1)": ("creation.arange#E3", "2**31 + 1"),
    "tl.arange(0, n)": ("creation.arange#E4", "n"),
    "tl.arange(0.0, 8)": ("creation.arange#E4", "0.0"),
    "tl.arange(0, 2**21)": ("shape.broadcast#E4", "tl.arange(0, 2**21)"),
    "tl.zeros((6,), tl.float32)": ("creation.full#E1", "(6,)"),
    "tl.zeros((0,), tl.float32)": ("creation.full#E1", "(0,)"),
    "tl.zeros((n,), tl.float32)": ("creation.full#E2", "(n,)"),
    "tl.zeros((2**11, 2**11), tl.float32)": ("shape.broadcast#E4", "(2**11, 2**11)"),
    "tl.full((8,), x, tl.float32)": ("creation.full#E3", "x"),
    "tl.full((8,), 'a', tl.float32)": ("creation.full#E3", "'a'"),
    "tl.full((8,), 1)": ("creation.full#E4", "1"),
    "tl.full((8,), 1, 'float32')": ("creation.full#E4", "'float32'"),
    "tl.zeros((8,), np.float32)": ("creation.full#E4", "np.float32"),
    "tl.full((8,), 1.5, tl.int32)": ("creation.full#E5", "1.5"),
    "tl.full((8,), 300, tl.int8)": ("creation.full#E5", "300"),
    "tl.full((8,), -1, tl.uint8)": ("creation.full#E5", "-1"),
    "tl.zeros((8,))": ("control.calls#E3", "tl.zeros((8,))"),
    "tl.load(n)": ("memory.load#E1", "n"),
    "tl.load(3)": ("memory.load#E1", "3"),
    "tl.load(X + k, mask=k)": ("memory.load#E2", "k"),
    "tl.load(X + k, mask=1)": ("memory.load#E2", "1"),
    "tl.load(X + k, other=0.0)": ("memory.load#E3", "0.0"),
    "tl.load(X, k < 4)": ("memory.load#E4", "k < 4"),
    "tl.load(X, b, x)": ("memory.load#E4", "x"),
    "tl.load(X + k, cache_modifier='.wb')": ("memory.load#E5", "'.wb'"),
    "tl.load(X + k, cache_modifier=n)": ("control.constexpr#E2", "n"),
    "tl.load(X + k, eviction_policy='foo')": ("memory.load#E6", "'foo'"),
    "tl.load(X + k, tl.arange(0, 4) < 2)": ("shape.broadcast#E1", "tl.arange(0, 4) < 2"),
    "tl.load(X + k, b, 0.0, '.ca')": ("control.calls#E3", "tl.load(X + k, b, 0.0, '.ca')"),
    "tl.store(n, 1)": ("memory.store#E1", "n"),
    "tl.store(X + k, 1, mask=n)": ("memory.store#E3", "n"),
    "tl.store(X, x)": ("memory.store#E4", "x"),
    "tl.store(X + k, 1.0, m > 0)": ("memory.store#E4", "m > 0"),
    "tl.store(X + k, tl.arange(0, 4))": ("memory.store#E4", "tl.arange(0, 4)"),
    "tl.store(X + k, x, cache_modifier='.ca')": ("memory.store#E5", "'.ca'"),
    "tl.store(X + k, x, eviction_policy='no')": ("memory.store#E6", "'no'"),
    "tl.store(X, None)": ("arith.promotion#E5", "None"),
    "tl.store(X, X)": ("cast.numeric#E1", "X"),
    "x + tl.arange(0, 4)": ("shape.broadcast#E1", "x + tl.arange(0, 4)"),
    "(X + k) + tl.arange(0, 4)": ("shape.broadcast#E1", "(X + k) + tl.arange(0, 4)"),
    "tl.where(n, x, 0.0)": ("select.where#E1", "n"),
    "tl.where(k > 1, x, X)": ("arith.promotion#E4", "X"),
    "tl.where(m > 0, tl.arange(0, 4), 1)": ("shape.broadcast#E1", "tl.where(m > 0, tl.arange(0, 4), 1)"),
    "tl.maximum(x, 1, propagate_nan=1)": ("select.extrema#E2", "1"),
    "tl.exp(n)": ("math.exp#E1", "n"),
    "tl.exp(h)": ("math.exp#E1", "h"),
    "h.sqrt()": ("math.sqrt#E1", "h"),
    "tl.math.sin(k)": ("math.sin#E1", "k"),
    "tl.fma(n, n, n)": ("arith.fma#E1", "n"),
    "tl.umulhi(f, f)": ("arith.umulhi#E1", "f"),
    "tl.umulhi(s, s)": ("arith.umulhi#E1", "s"),
    "tl.div_rn(h, h)": ("arith.division#E1", "h"),
    "tl.fdiv(n, f)": ("arith.division#E1", "n"),
    "x.to('float16')": ("cast.numeric#E2", "'float16'"),
    "x.to(n)": ("control.constexpr#E2", "n"),
    "x.to(tl.int8, bitcast=True)": ("cast.bitcast#E1", "tl.int8"),
    "X.to(tl.int64, bitcast=True)": ("cast.bitcast#E1", "tl.int64"),
    "n.to(tl.float32, fp_downcast_rounding='rtne')": ("cast.numeric#E3", "'rtne'"),
    "x.to(tl.float16, fp_downcast_rounding='rtz')": ("cast.numeric#E4", "'rtz'"),
    "tl.expand_dims(x, 2)": ("shape.expand_dims#E1", "2"),
    "tl.expand_dims(x, (0, 0))": ("shape.expand_dims#E3", "(0, 0)"),
    "x[n]": ("shape.expand_dims#E2", "x[n]"),
    "tl.broadcast_to(x, 4, 8)": ("shape.broadcast#E2", "4"),
    "tl.broadcast_to(x, (16,))": ("shape.broadcast#E3", "(16,)"),
    "tl.broadcast_to(x, (6,))": ("creation.full#E1", "(6,)"),
    "tl.broadcast(x, tl.arange(0, 4))": ("shape.broadcast#E1", "tl.arange(0, 4)"),
    "x.reshape(16)": ("shape.reshape#E1", "16"),
    "x.reshape(4, -2)": ("creation.full#E1", "4"),
    "n.reshape(1)": ("shape.reshape#E1", "n"),
    "tl.trans(x)": ("shape.trans#E1", "x"),
    "tl.permute(m, 0, 0)": ("shape.trans#E1", "0"),
    "tl.permute(m, (0,))": ("shape.trans#E1", "(0,)"),
    "tl.sum(n)": ("reduce.reduce#E1", "n"),
    "tl.sum(x, axis=1)": ("reduce.reduce#E3", "1"),
    "tl.sum(x, axis=-2)": ("reduce.reduce#E3", "-2"),
    "tl.sum(x, axis=n)": ("control.constexpr#E2", "n"),
    "tl.sum(x, 0, dtype='f32')": ("cast.numeric#E2", "'f32'"),
    "tl.xor_sum(x, 0)": ("reduce.xor_sum#E1", "x"),
    "tl.sum(X + k, 0)": ("arith.promotion#E4", "X + k"),
    "tl.reduce((x, m), 0, jit_add)": ("reduce.reduce#E2", "(x, m)"),
    "tl.reduce(x, 0, plain)": ("control.calls#E2", "plain"),
    "tl.reduce(x, 0, jit_add1)": ("control.calls#E3", "jit_add1"),
    "tl.reduce(x, 0, jit_two_results)": ("reduce.reduce#E5", "jit_two_results"),
    "tl.reduce(k, 0, jit_to_float)": ("reduce.reduce#E5", "jit_to_float"),
    "tl.reduce(k, 0, jit_with_store)": ("reduce.reduce#E5", "jit_with_store"),
    "tl.argmax(x)": ("control.calls#E3", "tl.argmax(x)"),
    "tl.argmax(x, 1)": ("reduce.reduce#E3", "tl.argmax(x, 1)"),
    "tl.max(x, return_indices=True)": ("reduce.reduce#E3", "tl.max(x, return_indices=True)"),
    "tl.device_assert(n)": ("control.assert#E1", "n"),
    "tl.assume(n)": ("control.assert#E1", "n"),
    "tl.multiple_of(n, n)": ("control.constexpr#E2", "n"),
    "tl.multiple_of(x, (8, 8))": ("control.hints#E1", "(8, 8)"),
}


@pytest.mark.parametrize("expression", WRONG)
def test_wrong_argument(expression):
    id, marked = WRONG[expression]
    body = PRELUDE + "wanted = " + expression
    with pytest.raises(CompileError) as caught:
        compile_body(body)
    error = caught.value
    assert error.id == id, str(error)
    assert error.phase == "type"
    assert error.span.line == 6
    assert source_line(error.span.file, 6)[error.span.col : error.span.end_col] == marked, str(error)


# beside each wrong argument, a right one
RIGHT = [
    "tl.program_id(2)",
    "tl.num_programs(axis=0)",
    "tl.arange(3, 7)",
    "tl.arange(0, 2**20)",
    "tl.zeros((2**10, 2**10), tl.int8)",
    "tl.full((C16,), n)",
    "tl.full([8], -128, tl.int8)",
    "tl.load(X + k, mask=k < n, other=1)",
    "tl.load(X + k, m > 0)",
    "tl.load(X, b)",
    "tl.load(X + k, cache_modifier='.cv', eviction_policy='evict_first')",
    "tl.store(X + k, 1, mask=b)",
    "tl.store(X + k, n, k > 3, cache_modifier='.wt')",
    "tl.where(b, x, 0)",
    "tl.where(m > 0, x, 1)",
    "tl.maximum(x, 1, propagate_nan=tl.PropagateNan.ALL)",
    "tl.exp(h.to(tl.float32))",
    "tl.fma(h, h, 1)",
    "tl.umulhi(w, 3)",
    "x.to(tl.int32, bitcast=True)",
    "x.to(tl.float16, fp_downcast_rounding='rtne')",
    "tl.expand_dims(m, (0, -1))",
    "m[None, :, :, None]",
    "x[None]",
    "n[None]",
    "tl.broadcast_to(x[None, :], (4, 8))",
    "x.reshape((2, 4))",
    "tl.permute(m, (1, 0))",
    "tl.sum(m, axis=-2)",
    "tl.xor_sum(k, 0)",
    "tl.reduce((x, k), 0, jit_pair)",
    "tl.argmax(m, -1, tie_break_left=False, keep_dims=True)",
    "tl.device_assert(k < 8, 'small', mask=k > 0)",
    "tl.multiple_of(m, (8, 8))",
]


@pytest.mark.parametrize("expression", RIGHT)
def test_right_argument(expression):
    compile_body(PRELUDE + "wanted = " + expression)


def test_outside_of_a_kernel():
    import refcompiler.language as tl

    for call in (lambda: tl.program_id(0), lambda: tl.sum(1), lambda: tl.softmax(1), lambda: tl.cdiv(4, 2)):
        with pytest.raises(RuntimeError, match="inside @jit kernels only"):
            call()


def test_signatures_and_docs_are_shown():
    import inspect

    import refcompiler.language as tl

    assert list(inspect.signature(tl.load).parameters)[:3] == ["pointer", "mask", "other"]
    for name in tl.__all__:
        assert getattr(tl, name).__doc__, name


def test_a_row_of_the_scalar_table_is_a_function_of_the_language():
    from kernels import source_of

    from refcompiler.dialects.scalar import BY_NAME
    from refcompiler.frontend import compile_to_tile
    from refcompiler.frontend.language.math import FROM_TABLE, functions_of

    rows = [BY_NAME[name] for name in ("exp", "umulhi", "fma", "add", "cmp_lt")]
    made = functions_of(rows, ())
    assert list(made) == ["exp", "umulhi", "fma"]
    assert FROM_TABLE == {name: function for name, function in FROM_TABLE.items() if name in BY_NAME}
    source = source_of("a = made_exp(x)\nc = made_umulhi(n, 3)\nd = made_fma(x, 2, n)", header="x, n")
    source.scope.update({f"made_{name}": function for name, function in made.items()})
    names = [op.name for op in compile_to_tile(source, "x:f32,n:i32").walk()]
    assert names == ["exp", "umulhi", "cast", "fma"]


def test_close_matches_are_offered():
    for expression, advice in {
        "tl.arrange(0, 8)": "did you mean tl.arange",
        "x.summ()": "did you mean `.sum`",
        "tl.rand(0, X)": "not in this edition yet",
        "xx + 1": "did you mean `x`",
        "round_(x)": "did you mean `round`",
    }.items():
        with pytest.raises(CompileError, match="error") as caught:
            compile_body(PRELUDE + expression)
        assert advice in caught.value.message, caught.value.message
