// 0 where y, read as unsigned, is not below the width
template <typename T>
static __device__ __forceinline__ T shift_left(T x, T y) {
    return (unsigned long long)y < 8 * sizeof(T) ? T((unsigned long long)x << y) : T(0);
}

// 0, or all sign bits, where y, read as unsigned, is not below the width
template <typename T>
static __device__ __forceinline__ T shift_right(T x, T y) {
    return (unsigned long long)y < 8 * sizeof(T) ? T(x >> y) : T(-1) < T(0) ? T(x >> (8 * sizeof(T) - 1)) : T(0);
}

extern "C" __global__ void __launch_bounds__(128, 1) literals(
    const int* x,
    int* a,
    int* b,
    int* c,
    int* d,
    int* e) {
    const int tid = (int)threadIdx.x;
    const int index = tid & 63;
    const int x_value = x[index];
    const bool mask = (tid & 64) == 0;
    __syncthreads();
    if (mask) a[index] = (int)((unsigned)x_value << 3);
    __syncthreads();
    if (mask) b[index] = x_value >> 2;
    __syncthreads();
    if (mask) c[index] = shift_left(x_value, 64);
    __syncthreads();
    if (mask) d[index] = shift_right(x_value, 100);
    __syncthreads();
    if (mask) e[index] = x_value >> 1;
}
