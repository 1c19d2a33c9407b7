template <typename T, int N>
struct alignas(N * sizeof(T)) Vector {
    T element[N];
};

template <int N, typename R, typename T>
static __device__ __forceinline__ void load(R* to, const T* from) {
    const Vector<T, N> v = *reinterpret_cast<const Vector<T, N>*>(from);
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = v.element[i];
}

// how often a loop from start to stop runs; counting up or down, without overflow
template <typename T, typename U>
static __device__ __forceinline__ U trip_count(T start, T stop, T step) {
    if (step > 0) return start < stop ? ((U)stop - (U)start - 1) / (U)step + 1 : 0;
    return step < 0 && stop < start ? ((U)start - (U)stop - 1) / (0 - (U)step) + 1 : 0;
}

extern "C" __global__ void __launch_bounds__(128, 1) runtime(const float* x, float* out, int n) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int tid = (int)threadIdx.x;
    const int pid = (int)blockIdx.x;
    const float* x_ptr = x + (int)(pid * (unsigned)n);
    float acc = 0.0f;
    int i = 0;
    for (unsigned trips = trip_count<int, unsigned>(0, n, 128); trips > 0; --trips) {
        const int index = i + tid;
        const float x_value = index < n ? x_ptr[index] : 0.0f;
        acc = acc + x_value;
        i = (int)(i + (unsigned)128);
    }
    const float other = __shfl_xor_sync(0xffffffff, acc, 1);
    const float sum = acc + other;
    const float other2 = __shfl_xor_sync(0xffffffff, sum, 2);
    const float sum2 = sum + other2;
    const float other3 = __shfl_xor_sync(0xffffffff, sum2, 4);
    const float sum3 = sum2 + other3;
    const float other4 = __shfl_xor_sync(0xffffffff, sum3, 8);
    const float sum4 = sum3 + other4;
    const float other5 = __shfl_xor_sync(0xffffffff, sum4, 16);
    float* const buffer = (float*)shared;
    if ((tid & 31) == 0) buffer[tid >> 5] = sum4 + other5;
    __syncthreads();
    float gathered[4];
    load<4>(gathered, buffer);
    float sum5[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum5[r] = gathered[2 * r] + gathered[2 * r + 1];
    }
    if (tid == 0) out[pid] = sum5[0] + sum5[1];
}
