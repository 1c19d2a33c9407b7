extern "C" __global__ void __launch_bounds__(128, 1) add(const float* x, const float* y, float* out, int n) {
    const int index = (int)(threadIdx.x + blockIdx.x * 256u);
    int index2[2];
    bool mask[2];
    float x_value[2];
    float y_value[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        index2[r] = (int)(index + (unsigned)(128 * r));
        mask[r] = index2[r] < n;
        x_value[r] = mask[r] ? x[index2[r]] : 0.0f;
        y_value[r] = mask[r] ? y[index2[r]] : 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (mask[r]) out[index2[r]] = x_value[r] + y_value[r];
    }
}
