extern "C" __global__ void __launch_bounds__(128, 1) negate(const float* x, float* out) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const float x_value = x[index];
    out[index] = -x_value;
}
