"""Kernels over integers mean what Python means: the same text runs in both, and the results are equal."""

import ast
import textwrap

import numpy as np
import pytest

from refcompiler.jit import from_source

# Each leaves its answer in `r`, a tree of tuples of integers; n = 5 and m = -3 are run-time values in the kernel.
BODIES = """
a, b = n, m
a, b = b, a + b
r = a, b
---
a = b = c = n + 1
b += 1
r = a, b, c
---
(a, [b, *c]), d = (n, (m, 3, 4, 5)), 6
r = a, b, c, d
---
*a, b = n, m, 3
*c, d = (b,)
e, *f, g = a + [d] if isinstance(a, list) else (*a, d)
r = len(a), b, len(c), d, e, g
---
def f(v, w=n, *rest, k=m, **named):
    return v + 2 * w + sum(rest) + 3 * k + sum(named.values())
r = f(1), f(1, 2), f(1, 2, 3, 4), f(1, k=5), f(1, w=2, z=7, k=n)
---
def f(v, /, w, *, k=2):
    return v * w - k
t, d = (n, m), {'k': 9}
r = f(*t), f(*t, **d), f(1, w=m), f(1, **{'w': 4, **d})
---
def outer(v):
    def inner(w):
        return v + w + late
    return inner
late = 10
f = outer(n)
late = 20
r = f(m), outer(m)(1)
---
def fold(f, items, start):
    total = start
    for item in items:
        total = f(total, item)
    return total
r = fold(lambda x, y: x * 2 + y, (n, m, 1, 2), 0), fold(max, (n, m, 7), m)
---
fs = [lambda v, k=k: v * k for k in range(4)]
r = tuple(f(n) for f in fs)
---
fs = []
for k in (1, 2, 3):
    fs = [*fs, lambda v: v + k]
r = tuple(f(n) for f in fs), k
---
def count(k):
    return (k,) + count(k - 1) if k > 0 else ()
r = count(4)
---
def power(v, k):
    if k == 0:
        return 1
    half = power(v, k // 2)
    if k % 2:
        return half * half * v
    return half * half
r = power(n, 5), power(m, 6)
---
r = [x * y for x in (n, m) for y in (1, x, 3) if True]
---
r = [[x + y for y in range(x)] for x in range(4)]
---
x = 100
r = [x for x in (n, 2)], x, [x + y for y in (x, 1)]
---
r = [(y := x + n) for x in (1, 2)], y
---
d = {k: v for k, v in zip('abc', (n, m, 3))}
d = {**d, 'b': 50, 'z': n}
r = [(len(k), v) for k, v in d.items()], d['z'], d.get('q', m), len(d), 'a' in d, list(d)[1] == 'b'
---
d = dict(x=n, y=(1, m))
r = d['x'], d['y'][1], sum(d['y']), tuple(d.values())[0]
---
s = {1, 2, 3} | {5} - {1}
r = len(s), 5 in s, 4 in s, sum(sorted(s)), {1, 2} <= s
---
t = (1, n, 3, m)
r = t[1], t[-1], t[1:], t[::-1], t[-3:-1], len(t * 2), (t + t)[5], t[:0]
---
r = tuple(enumerate((n, m), 3)), list(zip((1, 2, 3), (n, m))), list(reversed((n, 1)))
---
r = sum((n, m, 4)), sum((n,), m), sum(()), min(n, m, 3), max((n, m)), min([n]), abs(m), abs(-7)
---
r = [map(lambda x, y: x * y, (n, 2), (m, 3))]
r = tuple(r[0])
---
total = 0
for i in tl.static_range(6):
    if i == 1:
        continue
    if i == 4:
        break
    total += i * n
else:
    total = -1
r = total
---
total = 0
for i in tl.static_range(3):
    for j in tl.static_range(i, 5, 2):
        total = total * 2 + i * n + j
    else:
        total += 1
r = total, i, j
---
for i in tl.static_range(3, 0, -1):
    last = i * n
else:
    last += 1
for i in tl.static_range(0):
    last = 0
r = last, i
---
total, seen = 0, 0
for i in range(n):
    for j in range(i, n + 1, 2):
        total += i * j
        seen += 1
r = total, seen
---
a, b, c = 1, 2, 3
for _ in range(n):
    a, b, c = b, c, a + b
r = a, b, c
---
a, t = n, (1, m)
for i in range(4):
    t = (t[1], t[0] + a)
    a = t[0]
r = a, t
---
d = {'x': n, 'y': 1}
for i in range(3):
    d = {'x': d['y'] + i, 'y': d['x']}
r = d['x'], d['y']
---
total = 0
for i in range(n - 5):
    total = 7
r = total
---
a = n
a += 1; a -= 3; a *= 4; a <<= 2; a |= 1; a ^= 6; a &= 1023; a >>= 1
r = a
---
r = n > 1 and m < 0, n < 1 or m < 0, not n < 1, 0 < n < 9, 0 < n < 3 < 9, 1 if 2 > 1 else n
---
r = (n > 3) + (m > 3), (n == 5) * 10, -n + -m, +n, ~n, n - -m
---
r = 7 // 2, -7 // 2, -7 % 3, 2 ** 10, 7 / 2 == 3.5, divmod(-7, 2), round(2.5), int('12'), int(3.9), bool(0)
r = r, 5 & 3 | 8 ^ 1
---
text = f'{3:>4}|{n.__class__.__name__ if False else "x"!r}|{2.5:.2f}'
r = len(text), text == "   3|'x'|2.50", 'b' in 'abc', 'abc'.upper() == 'ABC', len('ab' 'cd'), 'a-b'.split('-')[1] == 'b'
---
x = n
y: int = x + 1
z: "text" = y
del x, y
x = z
r = x, z
---
if 3 > 2:
    a = n
elif missing:
    a = 1
else:
    a = 2
b = a if None else m
c = None or a
d = 0 and a
r = a, b, c, d
---
assert n is not None and 3 in (1, 3) and 'x' not in {'y': n}
r = (n is None), (None is None), (m is not None)
---
pass
...
"text"
r = (n)  # an end
---
def f():
    return
def g():
    if 1:
        return n, m
    return missing
def h():
    pass
r = f() is None, g(), h() is None
---
(a := n)
b = (c := a + 1) + c
r = a, b, c
---
r = (lambda *a, **k: (a, tuple(k.items())[0][1]))(1, n, z=m)
---
r = [x for x in (1, 2, 3, 4) if x % 2 if x > 1], [x for x in range(10) if x in (3, n.bit_length() if False else 7)]
---
a = (n, (m, (1, 2)))
b, (c, (d, e)) = a
((f,),) = ((n,),)
r = b, c, d, e, f
---
def make(k):
    total = k
    def add(v):
        return total + v
    total = total * 2
    return add, total
add, total = make(n)
r = add(1), total, make(2)[0](m)
"""


def source(body):
    return "def kernel(out, n, m):\n" + textwrap.indent(body.strip("\n"), "    ") + "\n"


def flat(value):
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in flat(v)]
    return [int(value)]


def in_python(body):
    class Static:
        static_range = staticmethod(range)

    scope = {"tl": Static, "__builtins__": __builtins__}
    exec(source(body + "\nreturn r"), scope)
    return flat(scope["kernel"](None, 5, -3))


def in_a_kernel(body, count):
    text = source(body)
    text += "    values = flat(r)\n    tl.static_assert(len(values) == COUNT)\n"
    text += "    for at, value in enumerate(values):\n        tl.store(out + at, value)\n"
    helper = (
        "COUNT = tl.constexpr(%d)\n@triton.jit\ndef flat(v):\n    if isinstance(v, tuple):\n"
        "        t: tl.constexpr = ()\n        return [leaf for e in v for leaf in flat(e)]\n    return (v,)\n"
    )
    kernel = from_source(helper % count + text.replace("def kernel", "@triton.jit\ndef kernel"), "kernel")
    out = np.full(count, 99, np.int32)
    kernel[1](out, 5, -3)
    return out.tolist()


@pytest.mark.parametrize("body", BODIES.split("---\n"), ids=lambda body: body.strip().splitlines()[0][:40])
def test_as_in_python(body):
    ast.parse(source(body))
    wanted = in_python(body)
    assert in_a_kernel(body, len(wanted)) == wanted


def test_the_comparison_sees_differences():
    assert in_python("r = n // 2 * m, (1, n)") == [-6, 1, 5]
    with pytest.raises(AssertionError):
        test_as_in_python("r = m // 2")  # truncates at run time
