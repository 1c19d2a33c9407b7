"""Device functions that generated kernels call; a kernel's source holds only those that it uses."""

from __future__ import annotations

import re

from refcompiler.emitters.cuda.atomics import ATOMICS
from refcompiler.emitters.cuda.c_types import C_TYPES
from refcompiler.emitters.cuda.cached import CACHED
from refcompiler.emitters.cuda.instructions import ASYNCHRONOUS
from refcompiler.ir.types import INTS, DType

_INLINE = "static __device__ __forceinline__"


def _float_to_int(source: str, target: DType) -> str:
    """PTX cvt.rzi: toward zero, saturating. It takes NaN to 0 only where neither side has 64 bits."""
    wide = target.bits == 64
    word = {("int", False): "int", ("int", True): "ll", ("uint", False): "uint", ("uint", True): "ull"}
    converted = f"__{'float' if source == 'f32' else 'double'}2{word[target.kind, wide]}_rz(x)"
    if target.bits < 32:
        suffix = "" if target.kind == "int" else "u"
        converted = f"min({converted}, {target.max_int}{suffix})"
        if target.kind == "int":
            converted = f"max({converted}, {target.min_int})"
    if wide or source == "f64":
        converted = f"x != x ? 0 : {converted}"
    return (
        f"{_INLINE} {C_TYPES[target.name]} {source}_to_{target}({C_TYPES[source]} x) {{\n    return {converted};\n}}\n"
    )


def _int_to_f32_odd(source: DType) -> str:
    """The f32 of a wide integer on the way to a 16-bit float."""
    word = {"i32": "int", "u32": "uint", "i64": "ll", "u64": "ull"}[source.name]
    return f"""// toward zero, last bit set where inexact: rounding once more to 16 bits is then exact
{_INLINE} float {source}_to_f32_odd({C_TYPES[source.name]} x) {{
    const float y = __{word}2float_rz(x);
    return __float2{word}_rz(y) == x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}}
"""


def _pairs(name: str) -> str:
    """Roundings to 16 bits by the instruction that does two."""
    return f"""template <int N>
{_INLINE} void f32_to_{name}_pairs(unsigned short* to, const float* x) {{
#pragma unroll
    for (int i = 0; i < N; i += 2) {{
        unsigned word;
        asm("cvt.rn.{name}x2.f32 %0, %1, %2;" : "=r"(word) : "f"(x[i + 1]), "f"(x[i]));
        from_word(to + i, word);
    }}
}}
"""


_FLOAT8 = {"f8e4m3": "e4m3", "f8e5m2": "e5m2"}  # PTX's names


def _float8_to_f16(name: str, word: str) -> str:
    return f"""{_INLINE} unsigned short {name}_to_f16(unsigned char x) {{
    unsigned y;
    asm("cvt.rn.f16x2.{word}x2 %0, %1;" : "=r"(y) : "h"((unsigned short)x));
    return (unsigned short)y;
}}
"""


def _f32_to_float8(name: str, word: str) -> str:
    return f"""{_INLINE} unsigned char f32_to_{name}(float x) {{
    unsigned short y;
    asm("cvt.rn.satfinite.{word}x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));
    return (unsigned char)y;
}}
"""


_ACCESS = """template <typename T, int N>
struct alignas(N * sizeof(T)) Vector {
    T element[N];
};
"""

PRELUDE: dict[str, str] = {
    "Vector": _ACCESS,
    "load": f"""template <int N, typename R, typename T>
{_INLINE} void load(R* to, const T* from) {{
    const Vector<T, N> v = *reinterpret_cast<const Vector<T, N>*>(from);
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = v.element[i];
}}
""",
    "store": f"""template <int N, typename R, typename T>
{_INLINE} void store(T* to, const R* from) {{
    Vector<T, N> v;
#pragma unroll
    for (int i = 0; i < N; ++i) v.element[i] = from[i];
    *reinterpret_cast<Vector<T, N>*>(to) = v;
}}
""",
    "as_vector": f"""template <int N, typename T>
{_INLINE} const Vector<T, N>* as_vector(const T* p) {{
    return reinterpret_cast<const Vector<T, N>*>(p);
}}
template <int N, typename T>
{_INLINE} Vector<T, N>* as_vector(T* p) {{
    return reinterpret_cast<Vector<T, N>*>(p);
}}
""",
    "unpack": f"""template <int N, typename R, typename T>
{_INLINE} void unpack(R* to, Vector<T, N> v) {{
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = v.element[i];
}}
""",
    "pack": f"""template <int N, typename T, typename R>
{_INLINE} Vector<T, N> pack(const R* from) {{
    Vector<T, N> v;
#pragma unroll
    for (int i = 0; i < N; ++i) v.element[i] = from[i];
    return v;
}}
""",
    **CACHED,
    "load_or": f"""template <int N, typename R, typename T>
{_INLINE} void load_or(R* to, bool mask, const T* from, R other) {{
    Vector<T, N> v;
#pragma unroll
    for (int i = 0; i < N; ++i) v.element[i] = other;
    v = load_whole_if(mask, as_vector<N>(from), v);
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = v.element[i];
}}
""",
    **ATOMICS,
    **ASYNCHRONOUS,
    "int_div": f"""// x / 0 is unpredictable and traps nowhere; the least integer / -1 wraps
template <typename T>
{_INLINE} T int_div(T x, T y) {{
    const bool negates = T(-1) < T(0) && y == T(-1);
    const T quotient = x / (y == 0 || negates ? T(1) : y);
    return y == 0 ? T(0) : negates ? T(0ull - x) : quotient;
}}
""",
    "int_rem": f"""template <typename T>
{_INLINE} T int_rem(T x, T y) {{
    const bool special = y == 0 || (T(-1) < T(0) && y == T(-1));
    const T remainder = x % (special ? T(1) : y);
    return special ? T(0) : remainder;
}}
""",
    "int_abs": f"""template <typename T>
{_INLINE} T int_abs(T x) {{
    return x < 0 ? T(0ull - x) : x;
}}
""",
    "shift_left": f"""// 0 where y, read as unsigned, is not below the width
template <typename T>
{_INLINE} T shift_left(T x, T y) {{
    return (unsigned long long)y < 8 * sizeof(T) ? T((unsigned long long)x << y) : T(0);
}}
""",
    "shift_right": f"""// 0, or all sign bits, where y, read as unsigned, is not below the width
template <typename T>
{_INLINE} T shift_right(T x, T y) {{
    return (unsigned long long)y < 8 * sizeof(T) ? T(x >> y) : T(-1) < T(0) ? T(x >> (8 * sizeof(T) - 1)) : T(0);
}}
""",
    "maximum_nan": f"""template <typename T>
{_INLINE} T maximum_nan(T x, T y) {{
    return x != x ? x : y != y ? y : fmax(x, y);
}}
""",
    "minimum_nan": f"""template <typename T>
{_INLINE} T minimum_nan(T x, T y) {{
    return x != x ? x : y != y ? y : fmin(x, y);
}}
""",
    "two_over_pi": """// 2 / pi, after 32 zero bits
static __device__ const unsigned two_over_pi[8] = {
    0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
""",
    "quarter_turns": f"""// x in quarter turns: the nearest whole number, modulo 4 if large, and the angle that is left
{_INLINE} int quarter_turns(float x, float& rest) {{
    if (fabsf(x) < 100000.0f) {{  // the first difference is exact; pi / 2 to 72 bits
        const float turns = rintf(x * 0.63661977f);
        const float angle = fmaf(turns, 1.7151245e-15f, fmaf(turns, 4.371139e-8f, fmaf(turns, -1.5707964f, x)));
        rest = turns == 0.0f ? x : angle;  // keeps the sign of zero
        return (int)turns;
    }}
    const unsigned bits = __float_as_uint(x), exponent = bits >> 23 & 255;
    if (exponent == 255) {{
        rest = x - x;
        return 0;
    }}
    // 24 bits of x times the 96 bits of 2 / pi from weight 2 on, modulo 4; upper bits give multiples of four turns
    const unsigned start = exponent - 120, shift = start & 31;
    const unsigned long long high = two_over_pi[start >> 5], second = two_over_pi[(start >> 5) + 1],
                             third = two_over_pi[(start >> 5) + 2], low = two_over_pi[(start >> 5) + 3];
    const unsigned mantissa = (bits & 0x7fffff) | 0x800000;
    const unsigned long long product = (((high << 32 | second) << shift >> 32) * mantissa << 32) +
                                       ((second << 32 | third) << shift >> 32) * mantissa +
                                       (((third << 32 | low) << shift >> 32) * mantissa >> 32);
    const int turns = (int)((product + (1ull << 61)) >> 62);
    const long long fraction = (long long)(product - ((unsigned long long)turns << 62));
    const float head = (float)fraction, tail = (float)(fraction - (long long)head);
    const float angle = fmaf(head, 1.5707964f, fmaf(head, -4.371139e-8f, tail * 1.5707964f)) * 2.16840434e-19f;
    rest = x < 0.0f ? -angle : angle;
    return x < 0.0f ? -turns : turns;
}}
""",
    "sin_of_turns": f"""// sine of turns * pi / 2 + rest; the polynomials are minimax on [-pi/4, pi/4]
{_INLINE} float sin_of_turns(int turns, float rest) {{
    const float s = rest * rest;
    const float odd = fmaf(s, fmaf(s, -1.9515218e-4f, 8.33216e-3f), -0.16666655f);
    const float even = fmaf(s, fmaf(s, 2.4433082e-5f, -1.3887315e-3f), 0.041666646f);
    const float sine = copysignf(fmaf(rest * s, odd, rest), rest);
    const float cosine = fmaf(s * s, even, fmaf(s, -0.5f, 1.0f));
    const float y = turns & 1 ? cosine : sine;
    return turns & 2 ? -y : y;
}}
""",
    "exp2_ftz": f"""{_INLINE} float exp2_ftz(float x) {{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}}
""",
    "round_tf32": f"""{_INLINE} float round_tf32(float x) {{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}}
""",
    "moved": f"""{_INLINE} float moved(float x) {{
    float y;
    asm("mul.rn.f32 %0, %1, 0f3F800000;" : "=f"(y) : "f"(x));
    return y;
}}
""",
    "sin_f32": f"""// within 2 ULP for every x; sinf would put an array into local memory
{_INLINE} float sin_f32(float x) {{
    float rest;
    const int turns = quarter_turns(x, rest);
    return sin_of_turns(turns, rest);
}}
""",
    "cos_f32": f"""{_INLINE} float cos_f32(float x) {{
    float rest;
    const int turns = quarter_turns(x, rest);
    return sin_of_turns(turns + 1, rest);
}}
""",
    "trip_count": f"""// how often a loop from start to stop runs; counting up or down, without overflow
template <typename T, typename U>
{_INLINE} U trip_count(T start, T stop, T step) {{
    if (step > 0) return start < stop ? ((U)stop - (U)start - 1) / (U)step + 1 : 0;
    return step < 0 && stop < start ? ((U)start - (U)stop - 1) / (0 - (U)step) + 1 : 0;
}}
""",
    "f16_to_f32": f"""{_INLINE} float f16_to_f32(unsigned short x) {{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}}
""",
    "f32_to_f16": f"""{_INLINE} unsigned short f32_to_f16(float x) {{
    unsigned short y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}}
""",
    "bf16_to_f32": f"""// one instruction for either half of a register; a shift takes two for the upper one
{_INLINE} float bf16_to_f32(unsigned short x) {{
    float y;
    asm("mov.b32 %0, {{%1, %2}};" : "=f"(y) : "h"((unsigned short)0), "h"(x));
    return y;
}}
""",
    "f32_to_bf16": f"""{_INLINE} unsigned short f32_to_bf16(float x) {{
    unsigned short y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}}
""",
    **{f"{name}_to_f16": _float8_to_f16(name, word) for name, word in _FLOAT8.items()},
    **{f"f32_to_{name}": _f32_to_float8(name, word) for name, word in _FLOAT8.items()},
    "f64_to_f32_odd": f"""// toward zero, last bit set where inexact: rounding once more to 16 bits is then exact
{_INLINE} float f64_to_f32_odd(double x) {{
    const float y = __double2float_rz(x);
    return (double)y == x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}}
""",
    "fma_f16": f"""{_INLINE} unsigned short fma_f16(unsigned short x, unsigned short y, unsigned short z) {{
    unsigned short w;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(w) : "h"(x), "h"(y), "h"(z));
    return w;
}}
""",
    "fma_bf16": f"""{_INLINE} unsigned short fma_bf16(unsigned short x, unsigned short y, unsigned short z) {{
    unsigned short w;
    asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(w) : "h"(x), "h"(y), "h"(z));
    return w;
}}
""",
    "as_word": f"""// the registers of one 32-bit operand of tensor cores, the first in the lowest bits
template <typename T>
{_INLINE} unsigned as_word(const T* x) {{
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 4 / (int)sizeof(T); ++i) {{
        word |= ((unsigned)x[i] & ((1u << 8 * sizeof(T)) - 1)) << 8 * sizeof(T) * i;
    }}
    return word;
}}
{_INLINE} unsigned as_word(const float* x) {{
    return __float_as_uint(*x);
}}
""",
    "from_word": f"""// the inverse of as_word
template <typename T>
{_INLINE} void from_word(T* x, unsigned word) {{
#pragma unroll
    for (int i = 0; i < 4 / (int)sizeof(T); ++i) x[i] = (T)(word >> 8 * sizeof(T) * i);
}}
{_INLINE} void from_word(float* x, unsigned word) {{
    *x = __uint_as_float(word);
}}
""",
    **{f"f32_to_{name}_pairs": _pairs(name) for name in ("f16", "bf16")},
    "shared_address": f"""{_INLINE} unsigned shared_address(const void* p) {{
    return (unsigned)__cvta_generic_to_shared(p);
}}
""",
    "matrix_descriptor": f"""// where a matrix lies in shared memory, as wgmma takes it
{_INLINE} unsigned long long matrix_descriptor(unsigned high, unsigned low) {{
    return (unsigned long long)high << 32 | low;
}}
""",
    "settle": f"""// registers that a wgmma has written: nothing may read them before this
template <int N>
{_INLINE} void settle(float* x) {{
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i]) :: "memory");
}}
template <int N>
{_INLINE} void settle(int* x) {{
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+r"(x[i]) :: "memory");
}}
""",
    "hold": f"""// registers that a wgmma is going to read: they have their values from here on
template <int N, typename T>
{_INLINE} void hold(T* x) {{
#pragma unroll
    for (int i = 0; i < N; i += 4 / (int)sizeof(T)) {{
        unsigned word = as_word(x + i);
        asm volatile("" : "+r"(word) :: "memory");
        from_word(x + i, word);
    }}
}}
""",
    **{f"{source}_to_f32_odd": _int_to_f32_odd(source) for source in INTS if source.bits >= 32},
    **{f"{source}_to_{t}": _float_to_int(source, t) for source in ("f32", "f64") for t in INTS},
}

_WORD = re.compile(r"[A-Za-z_]\w*")


def prelude_for(text: str) -> str:
    """The prelude functions that ``text`` uses, and those that they use, in the order of the table."""
    needed: set[str] = set()
    open_ = [text]
    while open_:
        for word in set(_WORD.findall(open_.pop())) & PRELUDE.keys():
            if word not in needed:
                needed.add(word)
                open_.append(PRELUDE[word])
    return "\n".join(PRELUDE[name] for name in PRELUDE if name in needed)
