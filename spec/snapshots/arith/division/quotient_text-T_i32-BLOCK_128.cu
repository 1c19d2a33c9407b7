// x / 0 is unpredictable and traps nowhere; the least integer / -1 wraps
template <typename T>
static __device__ __forceinline__ T int_div(T x, T y) {
    const bool negates = T(-1) < T(0) && y == T(-1);
    const T quotient = x / (y == 0 || negates ? T(1) : y);
    return y == 0 ? T(0) : negates ? T(0ull - x) : quotient;
}

extern "C" __global__ void __launch_bounds__(128, 1) quotient(const int* x, const int* y, int* out) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const int x_value = x[index];
    const int y_value = y[index];
    out[index] = int_div(x_value, y_value);
}
