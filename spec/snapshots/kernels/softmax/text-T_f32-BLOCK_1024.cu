template <typename T, int N>
struct alignas(N * sizeof(T)) Vector {
    T element[N];
};

template <int N, typename R, typename T>
static __device__ __forceinline__ void load(R* to, const T* from) {
    const Vector<T, N> v = *reinterpret_cast<const Vector<T, N>*>(from);
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = v.element[i];
}

template <typename T>
static __device__ __forceinline__ T load_evict_last_if(bool mask, const T* from, T value) {
    if constexpr (sizeof(T) == 1) {
        unsigned short bits[1] = {};
        memcpy(bits, &value, 1);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.L1::evict_last.L2::cache_hint.u8 %0, [%1], 0x14F0000000000000; }" : "+h"(bits[0]) : "l"(from), "r"((int)mask) : "memory");
        memcpy(&value, bits, 1);
    }
    if constexpr (sizeof(T) == 2) {
        unsigned short bits[1] = {};
        memcpy(bits, &value, 2);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.L1::evict_last.L2::cache_hint.b16 %0, [%1], 0x14F0000000000000; }" : "+h"(bits[0]) : "l"(from), "r"((int)mask) : "memory");
        memcpy(&value, bits, 2);
    }
    if constexpr (sizeof(T) == 4) {
        unsigned bits[1] = {};
        memcpy(bits, &value, 4);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.L1::evict_last.L2::cache_hint.b32 %0, [%1], 0x14F0000000000000; }" : "+r"(bits[0]) : "l"(from), "r"((int)mask) : "memory");
        memcpy(&value, bits, 4);
    }
    if constexpr (sizeof(T) == 8) {
        unsigned bits[2] = {};
        memcpy(bits, &value, 8);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.L1::evict_last.L2::cache_hint.v2.b32 {%0, %1}, [%2], 0x14F0000000000000; }" : "+r"(bits[0]), "+r"(bits[1]) : "l"(from), "r"((int)mask) : "memory");
        memcpy(&value, bits, 8);
    }
    if constexpr (sizeof(T) == 16) {
        unsigned bits[4] = {};
        memcpy(bits, &value, 16);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.L1::evict_last.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], 0x14F0000000000000; }" : "+r"(bits[0]), "+r"(bits[1]), "+r"(bits[2]), "+r"(bits[3]) : "l"(from), "r"((int)mask) : "memory");
        memcpy(&value, bits, 16);
    }
    return value;
}

template <typename T>
static __device__ __forceinline__ void store_evict_first_if(bool mask, T* to, T value) {
    if constexpr (sizeof(T) == 1) {
        unsigned short bits[1] = {};
        memcpy(bits, &value, 1);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p st.global.L1::evict_first.L2::cache_hint.u8 [%1], %0, 0x12F0000000000000; }" : : "h"(bits[0]), "l"(to), "r"((int)mask) : "memory");
    }
    if constexpr (sizeof(T) == 2) {
        unsigned short bits[1] = {};
        memcpy(bits, &value, 2);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p st.global.L1::evict_first.L2::cache_hint.b16 [%1], %0, 0x12F0000000000000; }" : : "h"(bits[0]), "l"(to), "r"((int)mask) : "memory");
    }
    if constexpr (sizeof(T) == 4) {
        unsigned bits[1] = {};
        memcpy(bits, &value, 4);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p st.global.L1::evict_first.L2::cache_hint.b32 [%1], %0, 0x12F0000000000000; }" : : "r"(bits[0]), "l"(to), "r"((int)mask) : "memory");
    }
    if constexpr (sizeof(T) == 8) {
        unsigned bits[2] = {};
        memcpy(bits, &value, 8);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p st.global.L1::evict_first.L2::cache_hint.v2.b32 [%2], {%0, %1}, 0x12F0000000000000; }" : : "r"(bits[0]), "r"(bits[1]), "l"(to), "r"((int)mask) : "memory");
    }
    if constexpr (sizeof(T) == 16) {
        unsigned bits[4] = {};
        memcpy(bits, &value, 16);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p st.global.L1::evict_first.L2::cache_hint.v4.b32 [%4], {%0, %1, %2, %3}, 0x12F0000000000000; }" : : "r"(bits[0]), "r"(bits[1]), "r"(bits[2]), "r"(bits[3]), "l"(to), "r"((int)mask) : "memory");
    }
}

extern "C" __global__ void __launch_bounds__(128, 1) softmax_kernel(
    const float* x,
    float* out,
    int stride,
    int n) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int tid = (int)threadIdx.x;
    const long long index = (long long)(int)blockIdx.x * (long long)stride;
    const float* x_ptr = x + index + tid;
    bool mask[8];
    float x_value[8];
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        mask[r] = tid + 128 * r < n;
        x_value[r] = load_evict_last_if(mask[r], x_ptr + 128 * r, (float)__int_as_float(0xff800000));
    }
    float largest[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        largest[r] = fmaxf(x_value[2 * r], x_value[2 * r + 1]);
    }
    float largest2[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        largest2[r] = fmaxf(largest[2 * r], largest[2 * r + 1]);
    }
    const float largest3 = fmaxf(largest2[0], largest2[1]);
    const float other = __shfl_xor_sync(0xffffffff, largest3, 1);
    const float largest4 = fmaxf(largest3, other);
    const float other2 = __shfl_xor_sync(0xffffffff, largest4, 2);
    const float largest5 = fmaxf(largest4, other2);
    const float other3 = __shfl_xor_sync(0xffffffff, largest5, 4);
    const float largest6 = fmaxf(largest5, other3);
    const float other4 = __shfl_xor_sync(0xffffffff, largest6, 8);
    const float largest7 = fmaxf(largest6, other4);
    const float other5 = __shfl_xor_sync(0xffffffff, largest7, 16);
    float* const buffer = (float*)shared;
    const int index2 = tid >> 5;
    const bool mask2 = (tid & 31) == 0;
    if (mask2) buffer[index2] = fmaxf(largest7, other5);
    __syncthreads();
    float gathered[4];
    load<4>(gathered, buffer);
    float largest8[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        largest8[r] = fmaxf(gathered[2 * r], gathered[2 * r + 1]);
    }
    const float largest9 = fmaxf(largest8[0], largest8[1]);
    float exp2_value[8];
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        exp2_value[r] = exp2f((x_value[r] - largest9) * 1.442695f);
    }
    float sum[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        sum[r] = exp2_value[2 * r] + exp2_value[2 * r + 1];
    }
    float sum2[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum2[r] = sum[2 * r] + sum[2 * r + 1];
    }
    const float sum3 = sum2[0] + sum2[1];
    const float other6 = __shfl_xor_sync(0xffffffff, sum3, 1);
    const float sum4 = sum3 + other6;
    const float other7 = __shfl_xor_sync(0xffffffff, sum4, 2);
    const float sum5 = sum4 + other7;
    const float other8 = __shfl_xor_sync(0xffffffff, sum5, 4);
    const float sum6 = sum5 + other8;
    const float other9 = __shfl_xor_sync(0xffffffff, sum6, 8);
    const float sum7 = sum6 + other9;
    const float other10 = __shfl_xor_sync(0xffffffff, sum7, 16);
    float* const buffer2 = (float*)(shared + 16);
    if (mask2) buffer2[index2] = sum7 + other10;
    __syncthreads();
    float gathered2[4];
    load<4>(gathered2, buffer2);
    float sum8[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum8[r] = gathered2[2 * r] + gathered2[2 * r + 1];
    }
    const float quotient = 1.0f / (sum8[0] + sum8[1]);
    float* out_ptr = out + index + tid;
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        store_evict_first_if(mask[r], out_ptr + 128 * r, (float)(exp2_value[r] * quotient));
    }
}
