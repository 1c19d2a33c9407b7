"""Times softmax of rows by hand-written CUDA C++ that divides each row over the CTAs of a cluster, against a copy.

Run ``python benchmarks/cluster_rows.py`` on a machine with CuPy and a GPU of compute capability 9.0. One program has
one row; threads hold 16, 32 or 64 values each, and CTAs exchange sums by stores to shared memory of others and two
barriers of the cluster. It shows what clusters of short life cost, whatever a compiler does: compare lines with equal
columns for each CTA. Every line has the ratio to a copy of 512 MiB in the same process and the largest error beside
float64.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

ROWS = ((4, 65536), (2, 65536), (4, 32768), (2, 32768), (2, 16384), (4, 131072))  # bytes of an element, columns
BYTES = 1 << 29
SOURCE = r"""
#include <cuda_bf16.h>
typedef unsigned word;
__device__ word rank() { word r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ void arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ void wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ void put(float* place, word cta, float value) {
    word here = (word)__cvta_generic_to_shared(place), there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(cta));
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(there), "f"(value) : "memory");
}
template <bool MAX> __device__ float both(float a, float b) { return MAX ? fmaxf(a, b) : a + b; }
template <bool MAX, int T, int C> __device__ float reduce(float v, float* warps, float* ctas, word me, bool first) {
    #pragma unroll
    for (int m = 16; m; m >>= 1) v = both<MAX>(v, __shfl_xor_sync(~0u, v, m));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = warps[0];
    #pragma unroll
    for (int i = 1; i < T / 32; ++i) v = both<MAX>(v, warps[i]);
    if (C == 1) return v;
    if (first) wait();
    if (threadIdx.x < C) put(ctas + me, threadIdx.x, v);
    arrive();
    wait();
    v = ctas[0];
    #pragma unroll
    for (int i = 1; i < C; ++i) v = both<MAX>(v, ctas[i]);
    return v;
}
template <typename E, int T, int C, int R> __device__ void softmax(const E* x, E* y, long columns) {
    __shared__ float warps[2][32], ctas[2][16];
    constexpr int V = 16 / sizeof(E);
    const word me = C > 1 ? rank() : 0;
    if (C > 1) arrive();
    const long start = (long)(blockIdx.x / C) * columns + (long)me * (columns / C) + threadIdx.x * V;
    uint4 raw[R / V];
    float v[R], most = -__int_as_float(0x7f800000), sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < R / V; ++i) raw[i] = __ldcs((const uint4*)(x + start + i * T * V));
    #pragma unroll
    for (int i = 0; i < R; ++i) most = fmaxf(most, v[i] = (float)((E*)raw)[i]);
    most = reduce<true, T, C>(most, warps[0], ctas[0], me, true);
    #pragma unroll
    for (int i = 0; i < R; ++i) sum += v[i] = exp2f((v[i] - most) * 1.4426950408889634f);
    const float scale = 1.0f / reduce<false, T, C>(sum, warps[1], ctas[1], me, false);
    #pragma unroll
    for (int i = 0; i < R; ++i) ((E*)raw)[i] = (E)(v[i] * scale);
    #pragma unroll
    for (int i = 0; i < R / V; ++i) *(uint4*)(y + start + i * T * V) = raw[i];
}
"""
KERNEL = """extern "C" __global__ void __launch_bounds__({T}) __cluster_dims__({C}, 1, 1)
k{S}_{N}_{C}_{T}(const {E}* x, {E}* y, long n) {{ softmax<{E}, {T}, {C}, {R}>(x, y, n); }}
"""


def configurations() -> Iterator[dict[str, int | str]]:
    """Bytes of an element S and its type E, columns N, CTAs C, threads T and values of each R."""
    for size, columns in ROWS:
        for ctas in (1, 2, 4, 8):
            for threads in (256, 512, 1024):
                values = columns // ctas // threads
                if values in (16, 32, 64) and values * threads <= 32768:
                    type_ = "float" if size == 4 else "__nv_bfloat16"
                    yield {"S": size, "E": type_, "N": columns, "C": ctas, "T": threads, "R": values}


def milliseconds(launch: Callable[[], object]) -> float:
    """The median of twelve, after two."""
    import cupy

    times = []
    for _ in range(14):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        launch()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end))
    return statistics.median(times[2:])


def main() -> None:
    import cupy
    import numpy as np

    found = list(configurations())
    text = SOURCE + "".join(KERNEL.format(**c) for c in found)
    module = cupy.RawModule(code=text, options=("-std=c++17", "-default-device", "-use_fast_math"))
    for c in found:
        size, columns, ctas = int(c["S"]), int(c["N"]), int(c["C"])
        kernel = module.get_function("k{S}_{N}_{C}_{T}".format(**c))
        rows = BYTES // size // columns
        x = cupy.random.standard_normal((rows, columns), dtype=cupy.float32)
        x = x if size == 4 else (x.view(cupy.uint32) >> 16).astype(cupy.uint16)
        y = cupy.empty_like(x)

        def launch(kernel=kernel, x=x, y=y, grid=rows * ctas, threads=int(c["T"]), columns=columns):
            kernel((grid,), (threads,), (x, y, np.int64(columns)))

        def copy(x=x, y=y):
            cupy.copyto(y, x)

        ratio = milliseconds(copy) / milliseconds(launch)
        shown, given = (
            (a[:4] if size == 4 else (a[:4].astype(cupy.uint32) << 16).view(cupy.float32)).astype(cupy.float64)
            for a in (y, x)
        )
        exact = cupy.exp(given - given.max(1, keepdims=True))
        exact /= exact.sum(1, keepdims=True)
        error = float(cupy.abs(shown - exact).max() / exact.max())
        registers = kernel.num_regs
        print(f"{c}: {registers} registers, {ratio:.3f} of the copy, error {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
