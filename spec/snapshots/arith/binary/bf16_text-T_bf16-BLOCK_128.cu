// one instruction for either half of a register; a shift takes two for the upper one
static __device__ __forceinline__ float bf16_to_f32(unsigned short x) {
    float y;
    asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"((unsigned short)0), "h"(x));
    return y;
}

static __device__ __forceinline__ unsigned short f32_to_bf16(float x) {
    unsigned short y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

extern "C" __global__ void __launch_bounds__(128, 1) mul(
    const unsigned short* x,
    const unsigned short* y,
    unsigned short* out,
    int n) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const bool mask = index < n;
    const unsigned short x_value = mask ? x[index] : (unsigned short)0x0000;
    const unsigned short y_value = mask ? y[index] : (unsigned short)0x0000;
    if (mask) out[index] = f32_to_bf16(bf16_to_f32(x_value) * bf16_to_f32(y_value));
}
