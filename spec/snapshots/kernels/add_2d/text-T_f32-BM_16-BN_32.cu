extern "C" __global__ void __launch_bounds__(128, 1) add_2d(
    const float* x,
    const float* y,
    float* out,
    int M,
    int N) {
    const int tid = (int)threadIdx.x;
    const int index = (int)((tid >> 5) + blockIdx.x * 16u);
    const int index2 = (int)blockIdx.y * 32 + (tid & 31);
    const bool mask = index2 < N;
    int index4[4];
    bool mask2[4];
    float x_value[4];
    float y_value[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        const int index3 = (int)(index + (unsigned)(4 * r));
        index4[r] = (int)(index3 * (unsigned)N + index2);
        mask2[r] = index3 < M && mask;
        x_value[r] = mask2[r] ? x[index4[r]] : 0.0f;
        y_value[r] = mask2[r] ? y[index4[r]] : 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        if (mask2[r]) out[index4[r]] = x_value[r] + y_value[r];
    }
}
