extern "C" __global__ void __launch_bounds__(128, 1) limits(
    const int* x,
    unsigned char* above,
    unsigned char* below,
    int* halves) {
    const int tid = (int)threadIdx.x;
    const int x_value = x[tid];
    above[tid] = (int)(x_value + 1u) > x_value;
    below[tid] = (int)(x_value - 1u) < x_value;
    halves[tid] = (int)(x_value * 2u) / 2;
}
