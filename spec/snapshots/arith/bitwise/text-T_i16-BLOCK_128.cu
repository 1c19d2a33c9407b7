extern "C" __global__ void __launch_bounds__(128, 1) and_or_xor(
    const short* x,
    const short* y,
    short* both,
    short* any,
    short* one) {
    const int index = (int)(blockIdx.x * 128u + threadIdx.x);
    const short x_value = x[index];
    const short y_value = y[index];
    both[index] = x_value & y_value;
    any[index] = x_value | y_value;
    one[index] = x_value ^ y_value;
}
