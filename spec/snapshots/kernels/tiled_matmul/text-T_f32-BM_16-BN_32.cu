extern "C" __global__ void __launch_bounds__(128, 1) outer(
    const float* a,
    const float* b,
    float* c,
    int M,
    int N,
    int K) {
    const int tid = (int)threadIdx.x;
    const int index = (int)(blockIdx.x * 16u);
    const int index2 = (int)(index + (unsigned)(tid & 15));
    const float* a_ptr = a + (int)(index2 * (unsigned)K);
    const bool mask = index2 < M;
    const int index3 = (int)blockIdx.y * 32 + (tid & 31);
    const bool mask2 = index3 < N;
    const int index4 = ((tid >> 4) & 1) * 16 + (tid >> 5);
    const int index5 = index4 ^ 4;
    const int index6 = index4 ^ 8;
    const int index7 = index4 ^ 12;
    float acc[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        acc[r] = 0.0f;
    }
    for (int i = 0; i < K; ++i) {
        const float a_value = mask ? a_ptr[i] : 0.0f;
        const float b_value = mask2 ? (b + (int)(i * (unsigned)N))[index3] : 0.0f;
        const float other = __shfl_sync(0xffffffff, a_value, index4);
        const float other2 = __shfl_sync(0xffffffff, a_value, index5);
        const float other3 = __shfl_sync(0xffffffff, a_value, index6);
        const float other4 = __shfl_sync(0xffffffff, a_value, index7);
        float packed[4];
        packed[0] = other;
        packed[1] = other2;
        packed[2] = other3;
        packed[3] = other4;
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            acc[r] = fmaf(packed[r], b_value, acc[r]);
        }
    }
    const int index8 = (int)((tid >> 5) + (unsigned)index);
    int index9[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        index9[r] = (int)(index8 + (unsigned)(4 * r));
    }
    __syncthreads();
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        if (index9[r] < M && mask2) c[(int)(index9[r] * (unsigned)N + index3)] = acc[r];
    }
}
