"""Names in generated CUDA C++: the user's where possible, never a word of C++, CUDA or the prelude."""

from __future__ import annotations

import re

from refcompiler.dialects.scalar import ROWS
from refcompiler.emitters.cuda.prelude import PRELUDE
from refcompiler.ir.core import Func

CPP_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq""".split()
)

# What CUDA C++ has in every translation unit and a local name would hide, or a kernel's name would collide with.
CUDA_NAMES = frozenset(
    """NULL abs acos acosh asin asinh assert atan atan2 atanh atomicAdd blockDim blockIdx calloc cbrt ceil ceilf clock
    clock64 cos cosf cosh dim3 erf erff erfc exp exp10 exp2 exp2f expf expm1 fabs fabsf fdim floor floorf fma fmaf fmax
    fmaxf fmin fminf fmod fmodf free frexp gridDim hypot ilogb int2 int4 float2 float4 double2 isfinite isinf isnan
    ldexp lgamma llabs llmax llmin llrint llround log log10 log1p log2 log2f logb logf lrint lround main malloc max
    memcpy memset min modf nan nearbyint nextafter norm pow powf printf ptrdiff_t rcbrt remainder remquo rint round
    rsqrt rsqrtf scalbn signbit sin sincos sinf sinh size_t sqrt sqrtf std tan tanf tanh tgamma threadIdx trunc umax
    ullmax umin ullmin va_arg va_copy va_end va_start warpSize y0 y1 yn j0 j1 jn wchar_t""".split()
)

# What the spellings of scalar functions call.
SPELLED = frozenset(
    word
    for row in ROWS
    for spelling in ([row.cuda] if isinstance(row.cuda, str) else row.cuda.values())
    for word in re.findall(r"[A-Za-z_]\w*", re.sub(r"\{\w\}", "", spelling))
)

RESERVED = CPP_KEYWORDS | CUDA_NAMES | SPELLED | frozenset(PRELUDE) | frozenset({"shared"})
# Names that C++ reserves, macros of the CUDA headers that NVRTC includes, `_`, which is no PTX symbol, and functions
# around instructions of tensor cores.
_RESERVED_START = re.compile(r"__|_[A-Z]|_\Z|cuda[A-Z]|CUDA|CU_|NV_|(wg)?mma_m\d|(ld|st)matrix_x\d")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def escape(name: str) -> str:
    """``name``, or a C++ identifier like it where it is reserved, begins as reserved names do or is no identifier."""
    text = name
    if not _IDENTIFIER.match(text):  # Python identifiers may hold any letter of Unicode
        text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in text)
        text = text if _IDENTIFIER.match(text) else f"u{text}"
    if _RESERVED_START.match(text):
        text = "u" + text
    return text + "_" if text in RESERVED else text


def entry_name(func: Func) -> str:
    """The symbol of the kernel in the cubin."""
    return escape(func.name)


class Namer:
    """Hands out names that differ from each other."""

    def __init__(self, taken: set[str]):
        self.taken = set(taken)

    def name(self, wanted: str) -> str:
        """``wanted``, or with the least number after it that is not taken."""
        return self.own(escape(wanted))

    def own(self, wanted: str) -> str:
        """The same for a name of the compiler's, as no other name begins."""
        name, number = wanted, 2
        while name in self.taken:
            name, number = f"{wanted}{'_' if wanted[-1].isdigit() else ''}{number}", number + 1
        self.taken.add(name)
        return name
