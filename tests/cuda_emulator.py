"""Runs generated CUDA C++ on the CPU: g++ compiles the text, one coroutine per thread, deterministic and strict.

Threads of a CTA run one at a time, each up to its next barrier or shuffle, in ascending or descending order: a missing
barrier gives two different results. Shared memory starts as garbage, global arrays end at an unmapped page, and signed
overflow, bad shifts, misaligned vector accesses, division by zero and threads that miss a barrier stop the program.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refcompiler.emitters.cuda.cached import CACHED
from refcompiler.emitters.cuda.prelude import PRELUDE

SANITIZERS = "signed-integer-overflow,shift,integer-divide-by-zero,alignment,bool,float-cast-overflow"

SHIM = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
struct Index3 { unsigned x, y, z; };
static Index3 threadIdx, blockIdx, gridDim;
alignas(16) unsigned char shared[232448];

// --- one coroutine per thread
enum State { RUNNING, AT_BARRIER, AT_SHUFFLE, DONE };
static ucontext_t scheduler, contexts[1024];
static State states[1024];
static char* stacks;
static const int STACK = 1 << 17;
static int threads;
static unsigned long long slots[2][1024];
static unsigned parity[1024];
static int epoch[1024];
static void stop(const char* why) { fprintf(stderr, "emulator: %s\n", why); exit(3); }
static void wait_as(State state) {
    const int t = threadIdx.x;
    states[t] = state;
    swapcontext(&contexts[t], &scheduler);
}
static void __syncthreads() { wait_as(AT_BARRIER); }
static void __syncwarp() { wait_as(AT_BARRIER); }
[[noreturn]] static void __trap() { stop("trap"); abort(); }
template <typename T> static T exchange(T value, unsigned source) {
    const int t = threadIdx.x;
    const unsigned p = parity[t] ^= 1;
    memcpy(&slots[p][t], &value, sizeof value);
    wait_as(AT_SHUFFLE);
    memcpy(&value, &slots[p][(t & ~31) | (source & 31)], sizeof value);
    return value;
}
template <typename T> static T __shfl_xor_sync(unsigned mask, T value, int lanes) {
    return exchange(value, threadIdx.x ^ lanes);
}
static int __any_sync(unsigned mask, int value) {
    for (int lanes = 1; lanes < 32; lanes *= 2) value |= exchange(value, threadIdx.x ^ lanes);
    return value;
}
template <typename T> static T __shfl_sync(unsigned mask, T value, int lane) { return exchange(value, lane); }
// each lane writes its own elements to the rows that others name
template <int count, bool trans> static void store_matrices(unsigned to, const unsigned (&words)[count]) {
    const unsigned lane = threadIdx.x & 31;
    for (unsigned i = 0; i < count; ++i)
        for (unsigned half = 0; half < 2; ++half) {
            const unsigned row = exchange(to, 8 * i + (trans ? lane % 4 * 2 + half : lane / 4));
            const unsigned short element = words[i] >> 16 * half;
            memcpy(shared + row + 2 * (trans ? lane / 4 : lane % 4 * 2 + half), &element, 2);
        }
}

// --- intrinsics
static unsigned __cvta_generic_to_shared(const void* p) { return (unsigned)((const unsigned char*)p - shared); }
template <typename To, typename From> static To same_bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
static float __int_as_float(int x) { return same_bits<float>(x); }
static float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static int __float_as_int(float x) { return same_bits<int>(x); }
static unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static double __longlong_as_double(long long x) { return same_bits<double>(x); }
static long long __double_as_longlong(double x) { return same_bits<long long>(x); }
// low and high: the range, 2**n rounded; NaN as PTX has it, 0 only where neither side has 64 bits
template <typename T> static T saturate(double x, double low, double high, bool wide = sizeof(T) == 8) {
    const T top = T(1ull << (8 * sizeof(T) - 1)), least = T(-1) < T(0) ? top : T(0);
    return x != x ? (wide ? top : T(0)) : x <= low ? least : x >= high ? T(~least) : T(x);
}
static int __float2int_rz(float x) { return saturate<int>(x, -0x1p31, 0x1p31); }
static unsigned __float2uint_rz(float x) { return saturate<unsigned>(x, 0, 0x1p32); }
static long long __float2ll_rz(float x) { return saturate<long long>(x, -0x1p63, 0x1p63); }
static unsigned long long __float2ull_rz(float x) { return saturate<unsigned long long>(x, 0, 0x1p64); }
static int __double2int_rz(double x) { return saturate<int>(x, -0x1p31, 0x1p31, true); }
static unsigned __double2uint_rz(double x) { return saturate<unsigned>(x, 0, 0x1p32, true); }
static long long __double2ll_rz(double x) { return saturate<long long>(x, -0x1p63, 0x1p63); }
static unsigned long long __double2ull_rz(double x) { return saturate<unsigned long long>(x, 0, 0x1p64); }
static float __double2float_rz(double x) {
    const float y = (float)x;
    return x == x && fabs((double)y) > fabs(x) ? nextafterf(y, 0.0f) : y;
}
template <typename T> static float toward_zero(T x) {
    const float y = (float)x;
    const __int128 rounded = (__int128)y, exact = (__int128)x;
    return (exact < 0 ? rounded < exact : rounded > exact) ? nextafterf(y, 0.0f) : y;
}
static float __int2float_rz(int x) { return toward_zero(x); }
static float __uint2float_rz(unsigned x) { return toward_zero(x); }
static float __ll2float_rz(long long x) { return toward_zero(x); }
static float __ull2float_rz(unsigned long long x) { return toward_zero(x); }
static unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
static unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
#define EXTREMA(T) static T max(T x, T y) { return x > y ? x : y; } static T min(T x, T y) { return x < y ? x : y; }
EXTREMA(int) EXTREMA(unsigned) EXTREMA(long long) EXTREMA(unsigned long long)
// PTX: the other operand where one is NaN, quiet or signaling; -0 below +0. The C library promises neither.
template <typename T> static T ptx_max(T x, T y) {
    return x != x ? y : y != y ? x : x > y || (x == y && !signbit(x)) ? x : y;
}
template <typename T> static T ptx_min(T x, T y) {
    return x != x ? y : y != y ? x : x < y || (x == y && signbit(x)) ? x : y;
}
#define fmaxf ptx_max<float>
#define fminf ptx_min<float>
#define fmax ptx_max<double>
#define fmin ptx_min<double>
static float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
static double rsqrt(double x) { return 1.0 / sqrt(x); }
static float bf16_of(unsigned short x) { return same_bits<float>((unsigned)x << 16); }
static unsigned short to_bf16(float x) {
    const unsigned bits = same_bits<unsigned>(x);
    return x != x ? 0x7fff : (unsigned short)(bits + 0x7fff + (bits >> 16 & 1) >> 16);
}
template <int mantissa, int bias, int last> static float float8(int code) {  // of its magnitude
    const int e = code >> mantissa, m = code & ((1 << mantissa) - 1);
    if (code > last) return mantissa == 2 && m == 0 ? INFINITY : NAN;
    return e ? ldexpf(1.0f + ldexpf(m, -mantissa), e - bias) : ldexpf(m, 1 - bias - mantissa);
}
template <int mantissa, int bias, int last> static unsigned char to_float8(float x) {  // the nearest by search
    const double largest = float8<mantissa, bias, last>(last), size = fmin(fabs((double)x), largest);
    int best = 0;
    for (int code = 1; code <= last; ++code) {
        const double near = fabs(float8<mantissa, bias, last>(best) - size);
        const double here = fabs(float8<mantissa, bias, last>(code) - size);
        if (here < near || (here == near && code % 2 == 0)) best = code;
    }
    if (x != x) best = 127;
    return best | (signbit(x) ? 128 : 0);
}
static float odd_f32(double x, double error) {  // x + error to f32, rounded to odd
    float y = __double2float_rz(x);
    if (y == y && !isinf(y) && ((double)y != x || error != 0)) {
        if ((double)y == x && error != 0 && (error > 0) != (x > 0)) y = nextafterf(y, 0.0f);
        y = same_bits<float>(same_bits<unsigned>(y) | 1u);
    }
    return y;
}
"""

# Bits of the mantissa, bias of the exponent, the code of the largest number.
FLOAT8 = {"f8e4m3": "3, 7, 126", "f8e5m2": "2, 15, 123"}

# Prelude functions in inline PTX, with the same meaning in C++.
ON_CPU = {
    "exp2_ftz": "static float exp2_ftz(float x) { const float y = exp2f(x); return y < 0x1p-126f ? 0.0f : y; }",
    "moved": "static float moved(float x) { return x; }",
    "round_tf32": "static float round_tf32(float x) { const unsigned bits = same_bits<unsigned>(x);"
    " return (bits & 0x7f800000u) == 0x7f800000u ? x : same_bits<float>((bits + 0x1000u) & ~0x1fffu); }",
    "f16_to_f32": "static float f16_to_f32(unsigned short x) { return (float)same_bits<_Float16>(x); }",
    "f32_to_f16": "static unsigned short f32_to_f16(float x) { return same_bits<unsigned short>((_Float16)x); }",
    "bf16_to_f32": "static float bf16_to_f32(unsigned short x) { return bf16_of(x); }",
    "f32_to_bf16": "static unsigned short f32_to_bf16(float x) { return to_bf16(x); }",
    **{
        f"f32_to_{name}_pairs": f"template <int N> static void f32_to_{name}_pairs(unsigned short* to, const float* x) "
        f"{{ for (int i = 0; i < N; ++i) to[i] = {rounded}; }}"
        for name, rounded in (("f16", "same_bits<unsigned short>((_Float16)x[i])"), ("bf16", "to_bf16(x[i])"))
    },
    **{
        f"{name}_to_f16": f"static unsigned short {name}_to_f16(unsigned char x) {{ return same_bits<unsigned short>"
        f"((_Float16)(x & 128 ? -1.0f : 1.0f) * (_Float16)float8<{form}>(x & 127)); }}"
        for name, form in FLOAT8.items()
    },
    **{
        f"f32_to_{name}": f"static unsigned char f32_to_{name}(float x) {{ return to_float8<{form}>(x); }}"
        for name, form in FLOAT8.items()
    },
    "fma_f16": """static unsigned short fma_f16(unsigned short x, unsigned short y, unsigned short z) {
    const double p = (double)f16_of(x) * f16_of(y), c = f16_of(z), s = p + c, v = s - p;
    return same_bits<unsigned short>((_Float16)odd_f32(s, (p - (s - v)) + (c - v)));
}""",
    "fma_bf16": """static unsigned short fma_bf16(unsigned short x, unsigned short y, unsigned short z) {
    const double p = (double)bf16_of(x) * bf16_of(y), c = bf16_of(z), s = p + c, v = s - p;
    return to_bf16(odd_f32(s, (p - (s - v)) + (c - v)));
}""",
}

for _name in CACHED:
    if _name.startswith("load") and _name.endswith("_if"):
        ON_CPU[_name] = (
            f"template <typename T> static T {_name}(bool mask, const T* from, T other) "
            "{ return mask ? *from : other; }"
        )
    elif _name.endswith("_if"):
        ON_CPU[_name] = (
            f"template <typename T> static void {_name}(bool mask, T* to, T value) {{ if (mask) *to = value; }}"
        )
    elif _name.startswith("load"):
        ON_CPU[_name] = f"template <typename T> static T {_name}(const T* from) {{ return *from; }}"
    else:
        ON_CPU[_name] = f"template <typename T> static void {_name}(T* to, T value) {{ *to = value; }}"

RUNNER = r"""
// --- the launch
struct Argument { long long size; char* data; };
static Argument arguments[64];
static void body() {
    const int t = threadIdx.x;
    CALL;
    states[t] = DONE;
    swapcontext(&contexts[t], &scheduler);
}
static bool release(State state, int first, int last) {
    int waiting = 0, done = 0;
    for (int t = first; t < last; ++t) waiting += states[t] == state, done += states[t] == DONE;
    if (waiting == 0 || waiting + done < last - first) return false;
    if (done) stop(state == AT_BARRIER ? "some threads left before a barrier" : "some lanes left before a shuffle");
    for (int t = first; t < last; ++t) states[t] = RUNNING;
    return true;
}
static void run_block(bool descending) {
    memset(shared, 0xcd, sizeof shared);
    for (int t = 0; t < threads; ++t) {
        getcontext(&contexts[t]);
        contexts[t].uc_stack.ss_sp = stacks + (size_t)t * STACK;
        contexts[t].uc_stack.ss_size = STACK;
        contexts[t].uc_link = &scheduler;
        makecontext(&contexts[t], body, 0);
        states[t] = RUNNING;
        parity[t] = 0;
    }
    for (;;) {
        bool ran = false;
        for (int i = 0; i < threads; ++i) {
            const int t = descending ? threads - 1 - i : i;
            if (states[t] != RUNNING) continue;
            threadIdx.x = t;
            swapcontext(&scheduler, &contexts[t]);
            ran = true;
        }
        bool released = false;
        for (int w = 0; w < threads; w += 32) released |= release(AT_SHUFFLE, w, w + 32);
        if (!released) released = release(AT_BARRIER, 0, threads);
        if (!ran && !released) {
            for (int t = 0; t < threads; ++t) if (states[t] != DONE) stop("threads wait for each other");
            return;
        }
    }
}
int main(int argc, char** argv) {
    FILE* in = fopen(argv[1], "rb");
    long long head[6];
    if (fread(head, 8, 6, in) != 6) stop("bad input");
    gridDim = {(unsigned)head[0], (unsigned)head[1], (unsigned)head[2]};
    threads = (int)head[3];
    stacks = (char*)mmap(0, (size_t)threads * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < head[5]; ++i) {
        long long size;
        if (fread(&size, 8, 1, in) != 1) stop("bad input");
        const long long pages = (size + 15 + 4096) / 4096;  // the end, rounded to 16 bytes, meets an unmapped page
        char* base = (char*)mmap(0, (pages + 2) * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(base + 4096, pages * 4096, PROT_READ | PROT_WRITE);
        char* data = base + 4096 + pages * 4096 - (size + 15) / 16 * 16;
        if (size && fread(data, size, 1, in) != 1) stop("bad input");
        arguments[i] = {size, data};
    }
    fclose(in);
    for (unsigned z = 0; z < gridDim.z; ++z)
        for (unsigned y = 0; y < gridDim.y; ++y)
            for (unsigned x = 0; x < gridDim.x; ++x) {
                blockIdx = {x, y, z};
                run_block(head[4] != 0);
            }
    FILE* out = fopen(argv[2], "wb");
    for (int i = 0; i < head[5]; ++i) fwrite(arguments[i].data, arguments[i].size, 1, out);
    fclose(out);
    return 0;
}
"""
_STMATRIX = re.compile(
    r'asm volatile\(\s*"stmatrix\.\S+\.x(\d)(\.trans)?\.shared\.b16 [^"]*"\s*:\s*: "r"\(to\),(.*?): "memory"\);',
    re.DOTALL,
)
_SIGNATURE = re.compile(r'extern "C" __global__ void __launch_bounds__\((\d+), 1\) (\w+)\((.*?)\) \{', re.DOTALL)


class EmulationError(AssertionError):
    """The kernel did something undefined, deadlocked, or its result depends on the order of threads."""


def available() -> bool:
    return shutil.which("g++") is not None


@dataclass
class Program:
    """A compiled kernel and how to call it."""

    executable: Path
    threads: int
    pointers: list[bool]


def build(source: str, folder: Path) -> Program:
    """Compile generated CUDA C++ into a program in ``folder``; equal text is compiled once."""
    threads, name, parameters = _SIGNATURE.search(source).groups()
    types = [p.strip().rsplit(" ", 1)[0] for p in parameters.split(",")] if parameters.strip() else []
    for function, text in ON_CPU.items():
        source = source.replace(PRELUDE[function], text + "\n")
    source = _STMATRIX.sub(_store_matrices, source)
    calls = [
        f"({t})arguments[{i}].data" if t.endswith("*") else f"*({t}*)arguments[{i}].data" for i, t in enumerate(types)
    ]
    half = (
        "static float f16_of(unsigned short x) { return (float)same_bits<_Float16>(x); }\n" if "_f16" in source else ""
    )
    full = SHIM + half + source + RUNNER.replace("CALL", f"{name}({', '.join(calls)})")
    digest = hashlib.sha256(full.encode()).hexdigest()[:20]
    executable = folder / digest
    if not executable.exists():
        (folder / f"{digest}.cpp").write_text(full)
        flags = [
            "-std=c++20",
            "-O0",
            "-w",
            "-ffp-contract=off",
            f"-fsanitize={SANITIZERS}",
            "-fno-sanitize-recover=all",
        ]
        command = ["g++", *flags, str(folder / f"{digest}.cpp"), "-o", str(executable)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EmulationError(f"g++ rejects the kernel:\n{done.stderr[:4000]}\n{source}")
    return Program(executable, int(threads), [t.endswith("*") for t in types])


def _store_matrices(found: re.Match) -> str:
    count, trans, words = found.groups()
    words = words.replace('"r"', "")
    return f"const unsigned words[] = {{{words}}};\n    store_matrices<{count}, {str(bool(trans)).lower()}>(to, words);"


def launch(program: Program, grid: tuple[int, ...], arguments: list, descending: bool = False) -> list:
    """Run once; arrays are returned as the kernel left them, scalars as they are."""
    arrays = [np.ascontiguousarray(a) if p else np.asarray(a) for a, p in zip(arguments, program.pointers, strict=True)]
    head = np.array([*grid, *(1,) * (3 - len(grid)), program.threads, descending, len(arrays)], np.int64)
    source, target = program.executable.with_suffix(".in"), program.executable.with_suffix(".out")
    source.write_bytes(head.tobytes() + b"".join(np.int64(a.nbytes).tobytes() + a.tobytes() for a in arrays))
    command = [str(program.executable), str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EmulationError(f"the kernel stopped with {done.returncode}: {done.stderr[:2000]}")
    data, position, results = target.read_bytes(), 0, []
    for array, is_pointer in zip(arrays, program.pointers, strict=True):
        piece = data[position : position + array.nbytes]
        position += array.nbytes
        results.append(np.frombuffer(piece, array.dtype).reshape(array.shape) if is_pointer else array[()])
    return results


def emulate(source: str, folder: Path, grid: tuple[int, ...], arguments: list) -> list:
    """Run a kernel with its threads in both orders; the results must have equal bits."""
    program = build(source, folder)
    ascending = launch(program, grid, arguments)
    descending = launch(program, grid, arguments, descending=True)
    for number, (a, b) in enumerate(zip(ascending, descending, strict=True)):
        if np.asarray(a).tobytes() != np.asarray(b).tobytes():
            raise EmulationError(f"argument {number} depends on the order in which threads run: a barrier is missing")
    return ascending
