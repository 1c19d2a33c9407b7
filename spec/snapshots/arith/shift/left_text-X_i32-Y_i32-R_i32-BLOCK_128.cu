// 0 where y, read as unsigned, is not below the width
template <typename T>
static __device__ __forceinline__ T shift_left(T x, T y) {
    return (unsigned long long)y < 8 * sizeof(T) ? T((unsigned long long)x << y) : T(0);
}

extern "C" __global__ void __launch_bounds__(128, 1) left(const int* x, const int* y, int* out) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const int x_value = x[index];
    const int y_value = y[index];
    out[index] = shift_left(x_value, y_value);
}
