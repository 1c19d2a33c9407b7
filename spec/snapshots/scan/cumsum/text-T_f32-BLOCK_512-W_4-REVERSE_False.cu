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

template <int N, typename T>
static __device__ __forceinline__ const Vector<T, N>* as_vector(const T* p) {
    return reinterpret_cast<const Vector<T, N>*>(p);
}
template <int N, typename T>
static __device__ __forceinline__ Vector<T, N>* as_vector(T* p) {
    return reinterpret_cast<Vector<T, N>*>(p);
}

template <int N, typename T, typename R>
static __device__ __forceinline__ Vector<T, N> pack(const R* from) {
    Vector<T, N> v;
#pragma unroll
    for (int i = 0; i < N; ++i) v.element[i] = from[i];
    return v;
}

template <typename T>
static __device__ __forceinline__ void store_whole(T* to, T value) {
    if constexpr (sizeof(T) == 1) {
        unsigned short bits[1] = {};
        memcpy(bits, &value, 1);
        asm volatile("st.global.u8 [%1], %0;" : : "h"(bits[0]), "l"(to) : "memory");
    }
    if constexpr (sizeof(T) == 2) {
        unsigned short bits[1] = {};
        memcpy(bits, &value, 2);
        asm volatile("st.global.b16 [%1], %0;" : : "h"(bits[0]), "l"(to) : "memory");
    }
    if constexpr (sizeof(T) == 4) {
        unsigned bits[1] = {};
        memcpy(bits, &value, 4);
        asm volatile("st.global.b32 [%1], %0;" : : "r"(bits[0]), "l"(to) : "memory");
    }
    if constexpr (sizeof(T) == 8) {
        unsigned bits[2] = {};
        memcpy(bits, &value, 8);
        asm volatile("st.global.v2.b32 [%2], {%0, %1};" : : "r"(bits[0]), "r"(bits[1]), "l"(to) : "memory");
    }
    if constexpr (sizeof(T) == 16) {
        unsigned bits[4] = {};
        memcpy(bits, &value, 16);
        asm volatile("st.global.v4.b32 [%4], {%0, %1, %2, %3};" : : "r"(bits[0]), "r"(bits[1]), "r"(bits[2]), "r"(bits[3]), "l"(to) : "memory");
    }
}

extern "C" __global__ void __launch_bounds__(128, 1) block(const float* x, float* out) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int tid = (int)threadIdx.x;
    const int index = tid * 4;
    float x_value[4];
    load<4>(x_value, x + index);
    float packed[6];
    packed[0] = x_value[0];
    packed[1] = x_value[1];
    packed[2] = x_value[2];
    packed[3] = x_value[3];
    packed[4] = x_value[0] + x_value[1];
    packed[5] = x_value[2] + x_value[3];
    float packed2[6];
    packed2[0] = packed[0];
    packed2[1] = packed[4];
    packed2[2] = packed[2];
    packed2[3] = packed[5];
    packed2[4] = packed[4] + packed[2];
    packed2[5] = packed[4] + packed[5];
    const float other = __shfl_xor_sync(0xffffffff, packed2[5], 1);
    const float selected = (tid & 1) != 0 ? other : -0.0f;
    const float sum = packed2[5] + other;
    const float other2 = __shfl_xor_sync(0xffffffff, sum, 2);
    const float selected2 = (tid & 2) != 0 ? other2 : -0.0f;
    const float sum2 = sum + other2;
    const float other3 = __shfl_xor_sync(0xffffffff, sum2, 4);
    const float selected3 = (tid & 4) != 0 ? other3 : -0.0f;
    const float sum3 = sum2 + other3;
    const float other4 = __shfl_xor_sync(0xffffffff, sum3, 8);
    const float selected4 = (tid & 8) != 0 ? other4 : -0.0f;
    const float sum4 = sum3 + other4;
    const float other5 = __shfl_xor_sync(0xffffffff, sum4, 16);
    const float selected5 = (tid & 16) != 0 ? other5 : -0.0f;
    float sum5[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        sum5[r] = selected3 + (selected2 + (selected + packed2[r / 2 * 4 + r % 2]));
    }
    float* const buffer = (float*)shared;
    if ((tid & 31) == 0) buffer[tid >> 5] = sum4 + other5;
    __syncthreads();
    float gathered[4];
    load<4>(gathered, buffer);
    const bool mask = (tid & 64) != 0;
    const float selected6 = (tid & 32) != 0 ? (mask ? gathered[2] : gathered[0]) : -0.0f;
    float packed3[6];
    packed3[0] = gathered[0];
    packed3[1] = gathered[1];
    packed3[2] = gathered[2];
    packed3[3] = gathered[3];
    packed3[4] = gathered[0] + gathered[1];
    packed3[5] = gathered[2] + gathered[3];
    const float selected7 = mask ? packed3[4] : -0.0f;
    float sum6[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        sum6[r] = selected7 + (selected6 + (selected5 + (selected4 + sum5[r])));
    }
    store_whole(as_vector<4>(out + index), pack<4, float>(sum6));
}
