static __device__ __forceinline__ signed char f32_to_i8(float x) {
    return max(min(__float2int_rz(x), 127), -128);
}

extern "C" __global__ void __launch_bounds__(128, 1) to(const float* x, signed char* out) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const float x_value = x[index];
    out[index] = f32_to_i8(x_value);
}
