extern "C" __global__ void __launch_bounds__(128, 1) all_six(
    const float* x,
    const float* y,
    unsigned char* lt,
    unsigned char* le,
    unsigned char* gt,
    unsigned char* ge,
    unsigned char* eq,
    unsigned char* ne) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const float x_value = x[index];
    const float y_value = y[index];
    lt[index] = x_value < y_value;
    le[index] = x_value <= y_value;
    gt[index] = x_value > y_value;
    ge[index] = x_value >= y_value;
    eq[index] = x_value == y_value;
    ne[index] = x_value != y_value;
}
