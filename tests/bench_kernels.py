"""A kernel to be measured in tests of `tilespec bench`, with the function that launches it."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (1024, 2048)], key=["n"])
@triton.jit
def scale_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def scale(x: Any, out: Any, **options: Any) -> Any:
    """2 x into ``out``."""
    n = x.shape[0]
    scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, **options)
    return out
