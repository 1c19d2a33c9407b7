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

extern "C" __global__ void __launch_bounds__(128, 1) block(const float* x, float* out) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int tid = (int)threadIdx.x;
    const float* x_ptr = x + tid * 4;
    float x_value[8];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        load<4>(x_value + 4 * r, x_ptr + 512 * r);
    }
    float sum[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        sum[r] = x_value[2 * r] + x_value[2 * r + 1];
    }
    float sum2[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum2[r] = sum[2 * r] + sum[2 * r + 1];
    }
    const float sum3 = sum2[0] + sum2[1];
    const float other = __shfl_xor_sync(0xffffffff, sum3, 1);
    const float sum4 = sum3 + other;
    const float other2 = __shfl_xor_sync(0xffffffff, sum4, 2);
    const float sum5 = sum4 + other2;
    const float other3 = __shfl_xor_sync(0xffffffff, sum5, 4);
    const float sum6 = sum5 + other3;
    const float other4 = __shfl_xor_sync(0xffffffff, sum6, 8);
    const float sum7 = sum6 + other4;
    const float other5 = __shfl_xor_sync(0xffffffff, sum7, 16);
    float* const buffer = (float*)shared;
    if ((tid & 31) == 0) buffer[tid >> 5] = sum7 + other5;
    __syncthreads();
    float gathered[4];
    load<4>(gathered, buffer);
    float sum8[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum8[r] = gathered[2 * r] + gathered[2 * r + 1];
    }
    if (tid == 0) *out = sum8[0] + sum8[1];
}
