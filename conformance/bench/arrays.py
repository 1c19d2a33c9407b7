"""Arguments of a benchmark on the GPU, by torch: fresh random inputs, outputs that hold a poison, samples as NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.bench.sampling import Places, axes
from conformance.benchmarks import Line, contents
from conformance.dtypes import DTYPES

# Our names of dtypes -> torch's.
TORCH_NAMES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "f16": "float16",
    "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip


def torch_dtype(name: str) -> Any:
    """torch's dtype of our name."""
    import torch

    return getattr(torch, TORCH_NAMES[name])


def arguments(line: Line, seed: int) -> dict[str, Any]:
    """One set of arguments: inputs are random and differ by ``seed``, outputs are poisoned, scalars
    and options are themselves."""
    import torch

    generator = torch.Generator("cuda")
    made: dict[str, Any] = {**line.scalars, **line.options}
    for index, a in enumerate(line.benchmark.arguments):
        if not a.is_array:
            continue
        shape, dtype = line.shapes[a.name], torch_dtype(line.dtypes[a.name])
        stored = (*shape[:-2], shape[-1], shape[-2]) if a.name in line.transposed else shape
        array = torch.empty(stored, dtype=dtype, device="cuda")
        if a.role == "out":
            poison(array)
        else:
            generator.manual_seed(1_000_003 * seed + index)
            _fill(array, line.benchmark.inputs.get(a.name, ""), generator)
        made[a.name] = array.transpose(-1, -2) if a.name in line.transposed else array
    return made


def _fill(array: Any, text: str, generator: Any) -> None:
    """Random contents, in blocks so that the numbers in f32 take little memory beside a large array."""
    import torch

    floating = array.dtype.is_floating_point
    kind, numbers = contents(text or ("normal" if floating else "bits")) or ("normal", ())
    flat = array.view(-1)
    for start in range(0, flat.numel(), 1 << 26):
        part = flat[start : start + (1 << 26)]
        if kind == "bits":
            raw = part.view(torch.uint8)
            raw.random_(0, 256, generator=generator)
        elif kind == "uniform":
            drawn = torch.rand(part.shape, device="cuda", generator=generator)
            part.copy_(drawn * (numbers[1] - numbers[0]) + numbers[0])
        else:
            part.copy_(torch.randn(part.shape, device="cuda", generator=generator) * (numbers[0] if numbers else 1.0))


def poison(array: Any) -> None:
    """Contents that no result has: NaN, for integers a pattern."""
    if array.dtype.is_floating_point:
        array.view(-1).fill_(float("nan"))
    else:
        import torch

        array.view(-1).view(torch.uint8).fill_(0x5A)


def sampled(line: Line, name: str, array: Any, chosen: Places) -> np.ndarray:
    """The array at the chosen places of the extents that it has, in host memory."""
    import torch

    if line.dtypes[name].startswith("f8"):  # torch copies float8 and does little else with it
        array = array.view(torch.uint8)
    for axis, at in axes(line, name, chosen).items():
        array = array.index_select(axis, torch.as_tensor(at, device=array.device))
    return to_numpy(array, line.dtypes[name])


def to_numpy(array: Any, dtype: str) -> np.ndarray:
    """A tensor as a NumPy array of our dtype, formats that NumPy lacks by their bits."""
    import torch

    array = array.detach().contiguous()
    kind = DTYPES[dtype].numpy
    if dtype == "bf16" or dtype.startswith("f8"):
        whole = torch.int16 if kind.itemsize == 2 else torch.uint8
        return array.view(whole).cpu().numpy().view(kind)
    return array.cpu().numpy().astype(kind, copy=False)
