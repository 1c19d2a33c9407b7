extern "C" __global__ void __launch_bounds__(128, 1) bits(const float* x, int* out) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const float x_value = x[index];
    out[index] = __float_as_int(x_value);
}
