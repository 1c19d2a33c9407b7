extern "C" __global__ void __launch_bounds__(128, 1) add_2d(
    const float* x,
    const float* y,
    float* out,
    int M,
    int N) {
    const int tid = (int)threadIdx.x;
    const int index = (int)(blockIdx.x * 16u);
    const int index2 = tid >> 5;
    const int index3 = (int)blockIdx.y * 32 + (tid & 31);
    const bool mask = index3 < N;
    int index5[4];
    bool mask2[4];
    float x_value[4];
    float y_value[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        const int index4 = (int)(index + (unsigned)(index2 + 4 * r));
        index5[r] = (int)(index4 * (unsigned)N + index3);
        mask2[r] = index4 < M && mask;
        x_value[r] = mask2[r] ? x[index5[r]] : 0.0f;
        y_value[r] = mask2[r] ? y[index5[r]] : 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        if (mask2[r]) out[index5[r]] = x_value[r] + y_value[r];
    }
}
