extern "C" __global__ void __launch_bounds__(128, 1) fma_(
    const float* x,
    const float* y,
    const float* z,
    float* out) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const float x_value = x[index];
    const float y_value = y[index];
    const float z_value = z[index];
    out[index] = fmaf(x_value, y_value, z_value);
}
