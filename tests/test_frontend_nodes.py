"""Every class of Python's syntax tree is either accepted in kernels or refused with an id, a caret and what to do."""

import ast

import pytest
from kernels import compile_body

import refcompiler as triton
from refcompiler.errors import CompileError
from refcompiler.jit import from_source
from refcompiler.source import source_line

# Kept by Python for old programs; its parser makes none of them.
OLD = {"AugLoad", "AugStore", "Bytes", "Ellipsis", "ExtSlice", "Index", "NameConstant", "Num", "Param", "Str", "Suite"}
# Roots of whole texts other than a module; a type comment that is kept only on request.
NOT_IN_FUNCTIONS = {"Expression", "FunctionType", "Interactive", "TypeIgnore"}

ACCEPTED = {
    "Add": "tl.store(I, n + 1)",
    "And": "a = n > 1 and b",
    "AnnAssign": "a: tl.constexpr = 4",
    "Assert": "assert n > 0, 'positive'",
    "Assign": "a = c = n",
    "Attribute": "a = tl.load(X).dtype",
    "AugAssign": "a = n\na += 1",
    "BinOp": "a = n * 2",
    "BitAnd": "a = n & 1",
    "BitOr": "a = n | 1",
    "BitXor": "a = n ^ 1",
    "BoolOp": "a = b or n > 1",
    "Break": "for i in tl.static_range(3):\n    break",
    "Call": "a = jit_add(n, b=2)",
    "Compare": "a = 0 < n <= 3",
    "Constant": "a = 3\n'text'\n...",
    "Continue": "for i in tl.static_range(3):\n    continue",
    "Del": "a = n\ndel a",
    "Delete": "a = n\ndel a",
    "Dict": "a = {'k': n}",
    "DictComp": "a = {k: n for k in (1, 2)}",
    "Div": "a = n / 2",
    "Eq": "a = n == 2",
    "Expr": "tl.store(I, n)",
    "FloorDiv": "a = n // 2",
    "For": "for i in range(n):\n    tl.store(I, i)",
    "FormattedValue": "tl.static_assert(f'{C!r:>3}' == '  8')",
    "FunctionDef": "def g(v):\n    return v\na = g(n)",
    "GeneratorExp": "a = sum(v * n for v in (1, 2))",
    "Gt": "a = n > 1",
    "GtE": "a = n >= 1",
    "If": "if C > 3:\n    a = n",
    "While": "while n > 0:\n    n -= 1",
    "IfExp": "a = n if C > 3 else 1",
    "In": "a: tl.constexpr = C in (1, 8)",
    "Invert": "a = ~n",
    "Is": "a: tl.constexpr = C is None",
    "IsNot": "a: tl.constexpr = n is not None",
    "JoinedStr": "tl.static_assert(f'{C}' == '8')",
    "LShift": "a = n << 1",
    "Lambda": "a = (lambda v: v + 1)(n)",
    "List": "a = [n, 1]",
    "ListComp": "a = [v + n for v in (1, 2) if v > 1]",
    "Load": "a = n",
    "Lt": "a = n < 1",
    "LtE": "a = n <= 1",
    "Mod": "a = n % 2",
    "Module": "a = n",
    "Mult": "a = n * 2",
    "Name": "a = n",
    "NamedExpr": "tl.store(I, (a := n))",
    "Not": "a = not b",
    "NotEq": "a = n != 2",
    "NotIn": "a: tl.constexpr = C not in (1, 8)",
    "Or": "a = b or n > 1",
    "Pass": "pass",
    "Pow": "a: tl.constexpr = C**2",
    "RShift": "a = n >> 1",
    "Return": "return",
    "Set": "tl.static_assert(C in {1, 8})",
    "SetComp": "tl.static_assert(C in {4 * k for k in (1, 2)})",
    "Slice": "a = (1, n, 2)[1:]\nc = tl.arange(0, 8)[:, None]",
    "Starred": "a, *c = (n, 1, 2)\ne = jit_add(*c)",
    "Store": "a = n",
    "Sub": "a = n - 1",
    "Subscript": "a = (n, 1)[0]",
    "Tuple": "a = (n, 1)",
    "UAdd": "a = +n",
    "USub": "a = -n",
    "UnaryOp": "a = -n",
    "arg": "a = (lambda v: v)(n)",
    "arguments": "a = (lambda v, /, w=1, *x, y=2, **z: v)(n)",
    "comprehension": "a = [v for v in (n, 1)]",
    "keyword": "a = jit_add(a=n, b=2)",
}

_MATCH = "match C:\n    case {}:\n        pass"

# class: body, what the caret marks, words of the message
REFUSED = {
    "AsyncFor": ("async def g():\n    async for v in t:\n        pass", "async def g():", "`async` is not supported"),
    "AsyncFunctionDef": ("async def g():\n    pass", "async def g():", "`async` is not supported"),
    "AsyncWith": ("async def g():\n    async with t:\n        pass", "async def g():", "`async` is not supported"),
    "Await": ("async def g():\n    await t", "async def g():", "`async` is not supported"),
    "ClassDef": ("class A:\n    pass", "class A:", "outside of the kernel"),
    "ExceptHandler": ("try:\n    a = n\nexcept OSError:\n    pass", "try:", "no exceptions"),
    "Global": ("global GLOBAL_INT", "global GLOBAL_INT", "cannot change names outside"),
    "Import": ("import math", "import math", "top of the file"),
    "ImportFrom": ("from math import pi", "from math import pi", "top of the file"),
    "MatMult": ("a = tl.arange(0, 8)\nc = a @ a", "a @ a", "tl.dot"),
    "Match": (_MATCH.format("8"), "match C:", "if/elif"),
    "MatchAs": (_MATCH.format("8 as k"), "match C:", "if/elif"),
    "MatchClass": (_MATCH.format("int()"), "match C:", "if/elif"),
    "MatchMapping": (_MATCH.format("{'a': k}"), "match C:", "if/elif"),
    "MatchOr": (_MATCH.format("8 | 9"), "match C:", "if/elif"),
    "MatchSequence": (_MATCH.format("[k]"), "match C:", "if/elif"),
    "MatchSingleton": (_MATCH.format("None"), "match C:", "if/elif"),
    "MatchStar": (_MATCH.format("[*k]"), "match C:", "if/elif"),
    "MatchValue": (_MATCH.format("8"), "match C:", "if/elif"),
    "Nonlocal": ("def g():\n    nonlocal n\ng()", "nonlocal n", "cannot change names outside"),
    "Raise": ("raise ValueError('x')", "raise ValueError('x')", "static_assert"),
    "Try": ("try:\n    a = n\nfinally:\n    pass", "try:", "no exceptions"),
    "TryStar": ("try:\n    a = n\nexcept* OSError:\n    pass", "try:", "no exceptions"),
    "With": ("with n:\n    pass", "with n:", "no contexts"),
    "Yield": ("a = yield n", "yield n", "return a tuple"),
    "YieldFrom": ("a = yield from (n, 1)", "yield from (n, 1)", "return a tuple"),
    "alias": ("import math as m", "import math as m", "top of the file"),
    "match_case": (_MATCH.format("8"), "match C:", "if/elif"),
    "withitem": ("with n as m:\n    pass", "with n as m:", "no contexts"),
}


def parser_classes():
    """The classes of `ast` that the parser makes, abstract ones left out."""
    classes = {name: c for name, c in vars(ast).items() if isinstance(c, type) and issubclass(c, ast.AST)}
    bases = {base for c in classes.values() for base in c.__mro__[1:]} - {ast.Constant, ast.Tuple}
    return {name for name, c in classes.items() if c not in bases and name not in OLD | {"slice"}} - NOT_IN_FUNCTIONS


def test_every_class_is_decided_once():
    assert not set(ACCEPTED) & set(REFUSED)
    assert set(ACCEPTED) | set(REFUSED) == parser_classes()


def contains(body, name):
    return any(type(node).__name__ == name for node in ast.walk(ast.parse(body)))


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    assert contains(ACCEPTED[name], name)
    compile_body(ACCEPTED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_caret_and_advice(name):
    body, marked, words = REFUSED[name]
    assert contains(body, name)
    with pytest.raises(CompileError) as caught:
        compile_body(body)
    error = caught.value
    assert error.id == "language.syntax#E1" and error.phase == "parse"
    line = source_line(error.span.file, error.span.line)
    end = error.span.end_col if error.span.end_line == error.span.line else None
    assert line[error.span.col : end] == marked, str(error)
    assert "^" in str(error) and words in error.message, str(error)


# --- depth and length
@pytest.mark.parametrize(
    "body",
    [
        "tl.store(I, n" + " + n" * 2000 + ")",
        "a = n" + " - 1 + n" * 1000,
        "a = n" + " & 3" * 2000 + "\nc = b" + " or n > 1" * 2000,
        "a = 0 < n" + " <= n" * 2000,
        "a = [" + "n, " * 4000 + "]\ntl.store(I, sum(a))",
        "a = n\n" + "a += 1\n" * 4096,
        "a = n\nfor k in tl.static_range(4096):\n    a = a * k + 1\ntl.store(I, a)",
        "a = (n, 0)\nfor k in tl.static_range(4096):\n    a = (a[0] + 1, a)\n    a = a[:1]\ntl.store(I, a[0])",
        "a = n\nfor i in tl.static_range(8):\n    for j in tl.static_range(8):\n        for k in tl.static_range(8):\n"
        "            for m in tl.static_range(8):\n                a += i * j * k * m\ntl.store(I, a)",
        "a = 0\n" + "".join("    " * d + f"for i{d} in range(n):\n" for d in range(15)) + "    " * 15 + "a += 1",
        "a: tl.constexpr = " + "(" * 80 + "1" + ")" * 80,
        "a = " + "-" * 300 + "n",
    ],
    ids=lambda body: body[:24],
)
def test_long_and_deep_kernels_compile(body):
    compile_body(body)


@pytest.mark.parametrize("body", ["a = " + "-" * 900 + "n", "a = n" + ".to(tl.int32)" * 450])
def test_what_is_too_deep_says_so(body):
    with pytest.raises(CompileError) as caught:
        compile_body(body)
    assert "too deep" in caught.value.message, str(caught.value)


def test_what_is_too_deep_for_pythons_parser_says_so(tmp_path):
    text = "def kernel(x):\n    a = " + "-" * 3000 + "1\n"
    with pytest.raises(CompileError, match="too deep"):
        from_source("import triton\n" + text, "kernel")
    code = compile("def kernel(x):\n    a = 1\n", str(tmp_path / "deep.py"), "exec")
    (tmp_path / "deep.py").write_text(text)
    scope = {}
    exec(code, scope)
    with pytest.raises(CompileError, match="too deep"):
        triton.jit(scope["kernel"])


def test_an_unrolled_kernel_compiles_to_every_stage():
    def kernel(out, n, K: triton.language.constexpr):
        total = n
        for k in triton.language.static_range(K):
            total = total * 3 + k
        triton.language.store(out, total)

    asm = triton.jit(kernel).compile("out:*i32,n:i32", {"K": 4096}).asm
    assert asm["tile"].count(" = mul ") == 4096
    assert asm["cuda"].count("* 3") in (0, 4096) and len(asm["cuda"]) > 4096
