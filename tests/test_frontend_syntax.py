"""What Python the frontend takes and what it refuses: each refusal with its id and what the caret marks."""
# ruff: noqa: E501  a row of a table stays on its line

import pytest
from kernels import compile_body

from refcompiler.errors import CompileError
from refcompiler.source import source_line

ACCEPTED = {
    "constexpr if": "if C > 3:\n    a = 1\nelse:\n    a = 2\ntl.store(I, a)",
    "the types of branches may differ": "if C > 3:\n    a = tl.arange(0, 8)\nelse:\n    a = 1.5\ntl.store(I, 1)",
    "the dead branch is not read": "if C > 100:\n    raise ValueError('x')\ntl.store(I, 1)",
    "elif": "if C == 0:\n    a = 1\nelif C == 8:\n    a = 2\nelse:\n    a = 3\ntl.store(I, a)",
    "if at run time": "a = 0\nif n > 3:\n    a = 1\nelif n:\n    pass\nelse:\n    a = 2\ntl.store(I, a)",
    "ternary at run time": "a = 1 if n > 3 else 2\ntl.store(I, a)",
    "return at run time": "if n > 3:\n    if n > 5:\n        return\ntl.store(I, 1)",
    "while": "i = n\nwhile i:\n    i -= 1\ntl.store(I, i)",
    "while with a hint": "i = 0\nwhile tl.condition(i < n, disable_licm=True):\n    i += 1\ntl.store(I, i)",
    "while on two conditions": "i = 0\nj = 0\nwhile i < n and j < 4:\n    i += 1\n    j += 1\ntl.store(I, i)",
    "while False": "while False:\n    tl.store(I, undefined)\ntl.store(I, 1)",
    "walrus in while": "i = 0\nwhile (j := i * 2) < n:\n    i += j + 1\ntl.store(I, j)",
    "if None": "if None:\n    tl.store(I, 1)",
    "if int": "if C:\n    tl.store(I, 1)",
    "ternary": "a = 1 if C > 3 else undefined\ntl.store(I, a)",
    "ternary of None": "a = None if C > 100 else 1\ntl.store(I, a)",
    "and is lazy": "if C > 100 and undefined:\n    tl.store(I, 1)",
    "or is lazy": "if C < 100 or undefined:\n    tl.store(I, 1)",
    "not constexpr": "if not (C > 100):\n    tl.store(I, 1)",
    "None or": "a = None or 5\ntl.store(I, a)",
    "chained comparison of constexprs": "if 0 < C < 9:\n    tl.store(I, 1)",
    "in": "if C in (1, 2, 8):\n    tl.store(I, 1)",
    "is None": "if X is not None:\n    tl.store(I, 1)",
    "dtype is": "if X.dtype.element_ty is tl.float32:\n    tl.store(I, 1)",
    "dtype ==": "tl.static_assert(n.dtype == tl.int32)",
    "== None": "if C == None:\n    pass\ntl.store(I, 1)",
    "range constant": "a = 0\nfor i in range(10):\n    a += i\ntl.store(I, a)",
    "range of a parameter": "a = 0\nfor i in range(n):\n    a += i\ntl.store(I, a)",
    "range with step": "a = 0\nfor i in range(1, n, 2):\n    a += i\ntl.store(I, a)",
    "range down": "a = 0\nfor i in range(10, 0, -1):\n    a += i\ntl.store(I, a)",
    "hints of tl.range": "for i in tl.range(0, n, 1, num_stages=3, loop_unroll_factor=2, flatten=True):\n    tl.store(I, i)",
    "static_range": "for i in tl.static_range(2, 5):\n    tl.store(I + tl.arange(0, 2**i), i)",
    "static_range down": "a = 0\nfor i in tl.static_range(4, 0, -1):\n    a += i\ntl.store(I, a)",
    "static_range keywords": "a = 0\nfor i in tl.static_range(0, 8, step=2):\n    a += i\ntl.store(I, a)",
    "static_range zero rounds": "a = 0\nfor i in tl.static_range(0):\n    a += i\ntl.store(I, a)",
    "static else": "a = 0\nfor i in tl.static_range(3):\n    a += i\nelse:\n    a = 7\ntl.store(I, a)",
    "static types change": "a = tl.arange(0, 1)\nfor i in tl.static_range(3):\n    a = tl.arange(0, 2 ** (i + 1))\ntl.store(I, 1)",
    "break and continue in static loops": "a = 0\nfor i in tl.static_range(9):\n    if i == 2:\n        continue\n"
    "    if i == 4:\n        break\n    a += i\ntl.store(I, a)",
    "return in a static loop": "for i in tl.static_range(9):\n    tl.store(I, i)\n    if i == 2:\n        return",
    "nested loops": "a = 0\nfor i in range(n):\n    for j in tl.static_range(2):\n        for k in range(i):\n"
    "            a += j + k\ntl.store(I, a)",
    "loop index shadows nothing used": "for i in range(3):\n    tl.store(X, i)\nfor i in range(4):\n    tl.store(X, i)",
    "pointer carried": "p = X\nfor i in range(n):\n    tl.store(p, 1)\n    p += 4",
    "dead code after return": "return\ntl.store(I, undefined)",
    "return value of a kernel": "tl.store(I, 1)\nreturn n",
    "tuple assignment": "a, b = 1, 2\na, b = b, a\ntl.store(I, a + b)",
    "nested tuple target": "a, (c, d) = 1, (2, 3)\ntl.store(I, a + c + d)",
    "chained assignment": "a = c = n\ntl.store(I, a + c)",
    "tuple index": "t = (1, 2, 3)\ntl.store(I, t[1] + t[-1])",
    "tuple slice": "t = (1, 2, 3)\nv = t[1:]\ntl.store(I, v[0])",
    "tuple sum": "t = (1, 2) + (3,)\ntl.store(I, t[2])",
    "tuple product": "t = (1, 2) * 2\ntl.store(I, t[3])",
    "len": "t = (1, 2, 3)\ntl.store(I, len(t))",
    "constexpr tuple": "t: tl.constexpr = (1, 2)\ntl.static_assert(t == (1, 2))",
    "list": "t = [1, 2, 3]\ntl.store(I, t[1])",
    "comprehension": "t = [v + 1 for v in (1, 2)]\ntl.store(I, t[1])",
    "comprehension with filter": "t = [v for v in (1, 2) if v > 1]\ntl.store(I, t[0])",
    "comprehension over range": "t = [v for v in range(3)]\ntl.store(I, t[0])",
    "comprehension of pairs": "t = [p + q for p, q in ((1, 2), (3, 4))]\ntl.store(I, t[0])",
    "every augmented operator": "a = n\na += 1\na -= 1\na *= 2\na //= 2\na %= 7\na <<= 1\na >>= 1\na &= 3\na |= 4\na ^= 1\n"
    "tl.store(I, a)\nc = f\nc /= 2\ntl.store(X, c)",
    "constexpr power": "a: tl.constexpr = C**2\ntl.store(I + tl.arange(0, a), 1)",
    "unary plus": "a = +n\ntl.store(I, +1 + a)",
    "annotations": "a: int = 1\nc: tl.float16 = 1\ntl.static_assert(c.dtype == tl.int32)\ntl.store(I, a)",
    "announced constexpr": "a: tl.constexpr\na = 8\ntl.store(I + tl.arange(0, a), 5)",
    "constexpr call": "a = tl.constexpr(8)\ntl.store(I + tl.arange(0, a), a)",
    "constexpr replaced by a plain value": "a: tl.constexpr = 1\na = 2\ntl.store(I, a)",
    "walrus": "tl.store(I, (a := n))\ntl.store(I, a)",
    "semicolons": "a = 1; c = 2\ntl.store(I, a + c)",
    "pass": "pass",
    "docstring and stray constants": "'''doc'''\n1\n'x'\n...\ntl.store(I, 1)",
    "assert": "assert n > 0\nassert n > 0, 'msg'\nassert n > 0, f'msg {C}'\nassert C == 8",
    "f-string": "tl.static_assert(f'{C:04d}|{C!r}|{f\"{C}\"}' == '0008|8|8')",
    "static_print": "tl.static_print('n', n, tl.arange(0, 8), f'{C}')",
    "string": "m: tl.constexpr = 'abc'\nif m == 'abc':\n    tl.store(I, 1)",
    "min and max": "a = min(n, 3)\nc = max(n, 3, 5)\nd: tl.constexpr = min(C, 3)\ntl.store(I, a + c + d)",
    "abs": "tl.store(I, abs(n) + abs(-3))",
    "int and float": "a = int(1.5)\nc = float('inf')\ntl.store(X, a + c)",
    "isinstance": "if isinstance(n, tl.tensor) and isinstance(C, tl.constexpr):\n    tl.store(I, 1)\nelse:\n    tl.store(I, undefined)",
    "getattr and hasattr": "tl.static_assert(getattr(n, 'dtype') == tl.int32)\ntl.static_assert(hasattr(n, 'dtype'))\n"
    "tl.static_assert(not hasattr(n, 'nope'))",
    "math on constexpr": "tl.store(X, math.log2(8.0) + math.pi)",
    "host functions on constexpr": "a: tl.constexpr = triton.next_power_of_2(5)\nc: tl.constexpr = triton.cdiv(C, 3)\n"
    "tl.store(I + tl.arange(0, a), c)",
    "bit_length": "a: tl.constexpr = C.bit_length()\ntl.store(I, a)",
    "constexpr function": "tl.store(I + tl.arange(0, ce_double(C)), 1)",
    "captured constexpr": "tl.store(I + tl.arange(0, GLOBAL_CONSTEXPR), 1)",
    "captured dtype and None": "a = tl.zeros((8,), GLOBAL_DTYPE)\nc = GLOBAL_NONE\nif c is None:\n    tl.store(I, 1)",
    "jit calls": "tl.store(I, jit_add1(n) + jit_add(b=n, a=2) + jit_default(n) + jit_kwonly(n, b=2))",
    "jit star": "t = (n, 2)\ntl.store(I, jit_add(*t) + jit_varargs(n, 1, 2) + jit_varargs(n))",
    "jit tuple": "a, c = jit_two(n)\ntl.store(I, a + c)",
    "jit recursion on constexpr": "tl.store(I, jit_factorial(5))",
    "jit early return": "tl.store(I, jit_early(n, C > 3) + jit_early(n, False))",
    "jit as a value": "g = jit_add1\ntl.store(I, g(n))",
    "nested function": "def add2(v):\n    return v + n + 2\ntl.store(I, add2(n))",
    "method forms": "x = tl.load(X + tl.arange(0, 8))\ntl.store(X, x.to(tl.float64).sum(0) + x.max(axis=0) + x.exp().reshape(2, 4).T.sum())",
    "shape": "x = tl.load(X + tl.arange(0, 8))\ntl.static_assert(x.shape[0] == 8)\ntl.store(I + tl.arange(0, x.shape[0]), x.numel)",
    "for over a tuple": "a = 0\nfor v in (1, n, 3):\n    a += v\ntl.store(I, a)",
    "for over enumerate and zip": "a = 0\nfor i, (v, u) in enumerate(zip((n, 2), (3, 4))):\n    a += i * v + u\ntl.store(I, a)",
    "for over a dict": "a = 0\nfor k, v in {'x': n, 'y': 2}.items():\n    a += v * len(k)\ntl.store(I, a)",
    "starred target": "a, *c = 1, 2, 3\ntl.store(I, a + c[1] + len(c))",
    "dict": "t = {'a': n, **{'b': 2}}\ntl.store(I, t['a'] + t.get('c', 7))",
    "set": "tl.static_assert(C in {1, 8} and len({1, 1, 2}) == 2)",
    "nested comprehension": "t: tl.constexpr = [p + q for p in (1, 2) for q in (3, p)]\ntl.static_assert(t == (4, 2, 5, 4))",
    "dict comprehension": "t = {k: n + k for k in range(3)}\ntl.store(I, t[2])",
    "generator": "tl.store(I, sum(v * v for v in (n, 2, 3)))",
    "lambda": "g = lambda v, k=n: v + k + C\ntl.store(I, g(n) + g(1, k=2))",
    "lambda by name": "tl.store(I, (lambda *v, **k: v[0] + k['a'])(n, a=2))",
    "del": "a = 1\nc = 2\ndel a, (c)\na = n\ntl.store(I, a)",
    "star star": "t = {'b': n}\ntl.store(I, jit_add(1, **t))",
    "min and max of a tuple": "tl.store(I, min((n, 3)) + max([n, 3, 4]))",
    "map": "tl.store(I, sum(map(jit_add, (n, 2), (3, 4))))",
    "sequence functions": "t = tuple(reversed([n, 2]))\ntl.store(I, t[1] + len(list(zip(t, t))) + dict(a=n)['a'])",
    "nested jit": "@triton.jit\ndef g(v, k=n):\n    return v + k\ntl.store(I, g(n))",
    "long chain": "tl.store(I, n" + " + n" * 2000 + ")",
    "while in text only": "# while True: pass\ntl.store(I, 1)",
}

_BLOCK = "x = tl.load(X + tl.arange(0, 8))\n"

# body -> (id, the marked source)
REFUSED = {
    "if tl.arange(0, 4) > n:\n    tl.store(I, 1)": ("control.if#E1", "tl.arange(0, 4) > n"),
    "if X:\n    tl.store(I, 1)": ("control.if#E1", "X"),
    "a = 1 if n > 3 else 2.5": ("control.if#E3", "2.5"),
    "t = [v for v in (1, 2) if n > v]": ("control.constexpr#E2", "n > v"),
    "if 'abc':\n    tl.store(I, 1)": ("control.constexpr#E1", "'abc'"),
    "if 1.5:\n    tl.store(I, 1)": ("control.constexpr#E1", "1.5"),
    "if (1, 2):\n    tl.store(I, 1)": ("control.constexpr#E1", "(1, 2)"),
    "while C > 3:\n    tl.store(I, 1)": ("control.while#E4", "C > 3"),
    "i = 0\nwhile i < n:\n    i += 1\nelse:\n    i = 5": ("control.while#E5", "i = 5"),
    "i = 0\nwhile i < n:\n    i += 1\n    break": ("language.syntax#E1", "break"),
    "for i in range(1.5):\n    tl.store(I, 1)": ("control.for_range#E1", "1.5"),
    "for i in range(tl.arange(0, 4)):\n    tl.store(I, 1)": ("control.for_range#E1", "tl.arange(0, 4)"),
    "for i in range(0, 10, 0):\n    tl.store(I, i)": ("control.for_range#E3", "0"),
    "for i in range(10):\n    i = 3": ("control.for_range#E4", "i"),
    "for i in range(10):\n    pass\nelse:\n    tl.store(I, 1)": ("control.for_range#E5", "tl.store(I, 1)"),
    "for i in range(10):\n    z = i\ntl.store(I, z)": ("control.for_range#E6", "z"),
    "i = 5\nfor i in range(10):\n    tl.store(X, i)\ntl.store(I, i)": ("control.for_range#E6", "i"),
    "for i in tl.static_range(n):\n    tl.store(I, i)": ("control.static_range#E1", "n"),
    "for i in tl.static_range(1.5):\n    tl.store(I, i)": ("control.static_range#E1", "1.5"),
    "for i in tl.static_range(0, 4, 0):\n    tl.store(I, i)": ("control.static_range#E2", "0"),
    "for i in tl.static_range(0, 4, by=2):\n    tl.store(I, i)": ("control.calls#E3", "by=2"),
    "a = 0\nfor i in range(n):\n    a = a + 1.5": ("control.for_range#E2", "a = a + 1.5"),
    "a = tl.arange(0, 4)\nfor i in range(n):\n    a = tl.arange(0, 8)": ("control.for_range#E2", "a = tl.arange(0, 8)"),
    "a = 0\nfor i in range(n):\n    a += w": ("control.for_range#E2", "a += w"),
    "a: tl.constexpr = 1\nfor i in range(n):\n    a = 2": ("control.for_range#E2", "a = 2"),
    "a = None\nfor i in range(n):\n    a = i": ("control.for_range#E2", "a = i"),
    "for i in range(10):\n    break": ("language.syntax#E1", "break"),
    "for i in range(10):\n    continue": ("language.syntax#E1", "continue"),
    "for i in range(10):\n    return": ("control.calls#E4", "return"),
    "a, c, d = 1, 2": ("language.syntax#E1", "a, c, d"),
    "a, c = 1, 2, 3": ("language.syntax#E1", "a, c"),
    "a, c = n": ("language.syntax#E1", "a, c"),
    "t = (1, 2)\na = t[n]": ("control.constexpr#E2", "n"),
    "t = (1, 2)\na = t[5]": ("control.constexpr#E4", "t[5]"),
    "a: tl.constexpr = 1 // 0": ("control.constexpr#E4", "1 // 0"),
    "t = (1, 2)\nt[0] = 3": ("language.syntax#E1", "t[0]"),
    "t = [1]\nt.append(2)": ("language.syntax#E4", "t.append"),
    "class A:\n    pass": ("language.syntax#E1", "class A:"),
    "import math": ("language.syntax#E1", "import math"),
    "global GLOBAL_INT": ("language.syntax#E1", "global GLOBAL_INT"),
    "try:\n    a = 1\nexcept Exception:\n    pass": ("language.syntax#E1", "try:"),
    "raise ValueError('x')": ("language.syntax#E1", "raise ValueError('x')"),
    "with open('x') as g:\n    pass": ("language.syntax#E1", "with open('x') as g:"),
    "yield 1": ("language.syntax#E1", "yield 1"),
    "match C:\n    case 8:\n        pass": ("language.syntax#E1", "match C:"),
    "assert C == 1, 'C must be 1'": ("control.assert#E2", "C == 1"),
    "assert n": ("control.assert#E1", "n"),
    "tl.static_assert(n > 0)": ("control.constexpr#E2", "n > 0"),
    "tl.static_assert(C == 1, 'C must be 1')": ("control.assert#E2", "C == 1"),
    "tl.static_print(f'n={n}')": ("control.constexpr#E2", "n"),
    "print('n', n)": ("language.syntax#E1", "print('n', n)"),
    "a = int(n)": ("control.calls#E2", "n"),
    "a = type(n)": ("language.syntax#E2", "type"),
    "a = math.sqrt(n)": ("control.calls#E2", "n"),
    "a = triton.cdiv(n, 4)": ("control.calls#E2", "n"),
    "a = len(tl.arange(0, 8))": ("control.calls#E2", "tl.arange(0, 8)"),
    "a = plain(C)": ("control.calls#E2", "plain"),
    "a = C(3)": ("control.calls#E2", "C"),
    "tl.store(I, GLOBAL_INT)": ("language.syntax#E5", "GLOBAL_INT"),
    "tl.store(I, zzz)": ("language.syntax#E2", "zzz"),
    "a = jit_add(n)": ("control.calls#E3", "jit_add(n)"),
    "a = jit_add(n, n, n)": ("control.calls#E3", "jit_add(n, n, n)"),
    "a = jit_add(**{'a': 1})": ("control.calls#E3", "jit_add(**{'a': 1})"),
    "a = jit_add(1, **{'b': 1}, **{'b': 2})": ("control.calls#E3", "**{'b': 2}"),
    "a = jit_add(1, **{2: 1})": ("control.calls#E3", "**{2: 1}"),
    "a = jit_add(1, **(1, 2))": ("language.syntax#E1", "(1, 2)"),
    "for v in n:\n    pass": ("control.for_range#E7", "n"),
    "for v in {1, 2}:\n    pass": ("language.structures#E1", "{1, 2}"),
    "a, *c, d = (1,)": ("language.syntax#E1", "a, *c, d"),
    "a = 1\ndel a\ntl.store(I, a)": ("language.syntax#E2", "a"),
    "del GLOBAL_INT": ("language.syntax#E5", "GLOBAL_INT"),
    "del jit_add": ("language.syntax#E1", "jit_add"),
    "t = (1, 2)\ndel t[0]": ("language.syntax#E1", "t[0]"),
    "t = {n: 1}": ("control.constexpr#E2", "n"),
    "t = {[1]: 1}[(1,)] + {{}: 1}": ("control.constexpr#E4", "{}"),
    "t = {'a': n}\na = t['b']": ("control.constexpr#E4", "t['b']"),
    "t = {'a': n}\nt.update(b=n)": ("language.syntax#E4", "t.update"),
    "a = tuple({1, 2})": ("language.structures#E1", "{1, 2}"),
    "a = str({1, 2})": ("language.structures#E1", "str({1, 2})"),
    "a = (n, 1) == (n, 2)": ("language.syntax#E1", "(n, 1) == (n, 2)"),
    "a = 3 in (n, 3)": ("language.syntax#E1", "3 in (n, 3)"),
    "a = (n, 3).index(3)": ("control.constexpr#E2", "(n, 3).index"),
    "a = sorted((n, 1))": ("control.calls#E2", "(n, 1)"),
    "a = (lambda v: v + missing)(n)": ("language.syntax#E2", "missing"),
    "a = (lambda v: v)(n, 2)": ("control.calls#E3", "(lambda v: v)(n, 2)"),
    "a = jit_recursive(n)": ("control.calls#E1", "jit_recursive(a + 1)"),
    "a = jit_factorial(n)": ("control.constexpr#E2", "n"),
    "a = jit_none(n)\ntl.store(I, a)": ("arith.promotion#E5", "a"),
    _BLOCK + "x.foo = 3": ("language.syntax#E1", "x.foo"),
    _BLOCK + "x[0] = 3": ("language.syntax#E1", "x[0]"),
    _BLOCK + "y = x[0]": ("shape.expand_dims#E2", "x[0]"),
    _BLOCK + "y = x[0:4]": ("shape.expand_dims#E2", "x[0:4]"),
    _BLOCK + "y = x[..., None]": ("shape.expand_dims#E2", "x[..., None]"),
    _BLOCK + "y = x[:, :]": ("shape.expand_dims#E2", "x[:, :]"),
    _BLOCK + "y = x.T": ("shape.trans#E1", "x.T"),
    _BLOCK + "y = x.nope": ("language.syntax#E4", "x.nope"),
    _BLOCK + "y = ~x": ("arith.bitwise#E1", "x"),
    _BLOCK + "y = x @ x": ("language.syntax#E1", "x @ x"),
    "a = n**2": ("language.syntax#E1", "n**2"),
    "a = n and n": ("compare.logical#E1", "n"),
    "a = not n": ("compare.logical#E1", "n"),
    "a = n in (1, 2)": ("language.syntax#E1", "n in (1, 2)"),
    "a = 1j": ("language.syntax#E1", "1j"),
    "a = b'x'": ("language.syntax#E1", "b'x'"),
    "a = 2**70": ("arith.promotion#E1", "2**70"),
    "a: tl.constexpr = n + 1": ("control.constexpr#E2", "n + 1"),
    "a: tl.constexpr = 1\na: tl.constexpr = 2": ("control.constexpr#E3", "a: tl.constexpr = 2"),
    "a = 8\nc = tl.arange(0, a)": ("creation.arange#E4", "a"),
    "tl.nope(n)": ("language.syntax#E3", "tl.nope"),
    "tl.randn(n, n)": ("language.syntax#E3", "tl.randn"),
    "a = tl.load(X, foo=1)": ("control.calls#E3", "tl.load(X, foo=1)"),
    "a = tl.range(3)": ("control.for_range#E7", "tl.range(3)"),
    "def g(v):\n    return v + missing\na = g(n)": ("language.syntax#E2", "missing"),
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(body):
    compile_body(body)


@pytest.mark.parametrize("body", REFUSED, ids=range(len(REFUSED)))
def test_refused_at_the_place(body):
    id, marked = REFUSED[body]
    with pytest.raises(CompileError) as caught:
        compile_body(body)
    error = caught.value
    assert error.id == id, str(error)
    line = source_line(error.span.file, error.span.line)
    end = error.span.end_col if error.span.end_line == error.span.line else None
    assert line[error.span.col : end] == marked, str(error)
    assert "^" in str(error)


def test_errors_in_called_functions_show_the_call():
    with pytest.raises(CompileError) as caught:
        compile_body("q = 1\nt = jit_bad(n)")
    error = caught.value
    assert error.id == "math.exp#E1"
    assert error.span.file == __file__.replace("test_frontend_syntax", "kernels")
    assert source_line(error.span.file, error.span.line)[error.span.col : error.span.end_col] == "t"
    assert (error.span.caller.line, error.span.caller.col) == (3, 8)
    assert "in the call at" in str(error)


def test_errors_in_library_functions_are_at_the_call():
    with pytest.raises(CompileError) as caught:
        compile_body("t = tl.sigmoid(n)")
    assert (caught.value.span.line, caught.value.span.col, caught.value.span.caller) == (2, 8, None)
