extern "C" __global__ void __launch_bounds__(128, 1) umulhi(const int* x, const int* y, int* out) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const int x_value = x[index];
    const int y_value = y[index];
    out[index] = (int)__umulhi(x_value, y_value);
}
