extern "C" __global__ void __launch_bounds__(128, 1) divide(
    const long long* x,
    const long long* y,
    float* out) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const long long x_value = x[index];
    const long long y_value = y[index];
    out[index] = (float)x_value / (float)y_value;
}
