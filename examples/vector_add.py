"""The first kernel: vector add on NumPy arrays and, where a GPU is, on CuPy and torch arrays.

python examples/vector_add.py
"""

import importlib

import numpy as np

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.runtime import gpu_available


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)


def add(x, y, output):
    """output = x + y for three arrays of one size, of any library that the launcher knows."""
    n_elements = int(np.prod(output.shape))
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)  # noqa: E731  as in the tutorial
    add_kernel[grid](x, y, output, n_elements, BLOCK_SIZE=1024)
    return output


def main() -> None:
    generator = np.random.default_rng(0)
    x, y = (generator.random(98432, dtype=np.float32) for _ in range(2))
    expected = x + y
    print("numpy:", "equal" if np.array_equal(add(x, y, np.empty_like(x)), expected) else "DIFFERENT")
    if not gpu_available():
        print("no GPU is visible: kernels ran in the interpreter")
        return
    for name in ("cupy", "torch"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            print(f"{name}: not installed")
            continue
        arrays = [library.asarray(a) if name == "cupy" else library.from_numpy(a).cuda() for a in (x, y)]
        output = add(*arrays, library.empty_like(arrays[0]))
        host = library.asnumpy(output) if name == "cupy" else output.cpu().numpy()
        equal = np.array_equal(host, expected)
        print(f"{name}:", "equal" if equal else "DIFFERENT")
        if not equal:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
