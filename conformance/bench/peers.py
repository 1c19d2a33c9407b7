"""What a kernel is measured against: each peer as a function of one set of arguments, for each operation that it knows.

Arguments go by the names of the benchmark's signature. An operation's row says which these are:
copy(x), add(x, y), softmax(x), layer_norm(x, weight, bias, epsilon), rms_norm(x, weight, epsilon), row_sum(x),
column_sum(x), total_sum(x), transpose(x), matmul(a, b, bias?, precision?), attention(q, k, v, causal?).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from conformance.adapters import TargetUnavailable, library
from conformance.bench import arrays
from conformance.benchmarks import Line
from conformance.dtypes import DTYPES

Arguments = Mapping[str, Any]
# Does the work once; gives the result where it is not written into ``out``.
Call = Callable[[Arguments], Any]


class Absent(Exception):
    """A peer that this machine lacks, or that cannot do an operation; the message says which."""


class Inapplicable(Absent):
    """A peer that is for other work."""


def call_of(peer: str, line: Line) -> Call:
    """The peer's way to do the work of a line. Raises Absent."""
    return _PEERS[peer](line)


def ours(line: Line, **options: Any) -> Call:
    """The function of the kernel library that the benchmark names, with the arguments by name."""
    try:
        function = library.function(line.benchmark.entry, **options)
    except TargetUnavailable as error:
        raise Absent(str(error)) from None
    return lambda arguments: function(**arguments, **options)


def _mlir(line: Line) -> Call:
    return ours(line, backend="mlir")


def _copy(line: Line) -> Call:
    """A device-to-device copy that reads and writes as many bytes as the work."""
    import torch

    size = max(16, int(line.bytes / 2) // 16 * 16)
    count = max(1, -(-(256 << 20) // (2 * size)))
    pairs = [torch.randint(0, 256, (2, size), dtype=torch.uint8, device="cuda") for _ in range(min(count, 64))]
    turn = iter(range(1 << 62))

    def copy(arguments: Arguments) -> None:
        pair = pairs[next(turn) % len(pairs)]
        pair[1].copy_(pair[0])

    return copy


def _torch(line: Line) -> Call:
    return _function(line)


def _compile(line: Line) -> Call:
    return compiled(line, "inductor")


def compiled(line: Line, backend: Any) -> Call:
    """torch's own way to do an operation, by a backend of torch.compile."""
    import torch

    torch._dynamo.reset()  # what was compiled for the sizes before
    function = torch.compile(_function(line), backend=backend, dynamic=False, fullgraph=True)
    arrays = [a.name for a in line.benchmark.arguments if a.name != "out"]
    return lambda arguments: function({name: arguments[name] for name in arrays})


def _function(line: Line) -> Call:
    """torch's own way to do an operation."""
    import torch
    from torch.nn import functional

    set_precision(line)
    table: dict[str, Call] = {
        "copy": lambda a: a["x"].clone(),
        "add": lambda a: a["x"] + a["y"],
        "softmax": lambda a: torch.softmax(a["x"], -1),
        "layer_norm": lambda a: functional.layer_norm(
            a["x"], a["x"].shape[-1:], a["weight"], a.get("bias"), a["epsilon"]
        ),
        "rms_norm": lambda a: functional.rms_norm(a["x"], a["x"].shape[-1:], a["weight"], a["epsilon"]),
        "row_sum": lambda a: a["x"].sum(-1, dtype=torch.float32),
        "column_sum": lambda a: a["x"].sum(0, dtype=torch.float32),
        "total_sum": lambda a: a["x"].sum(dtype=torch.float32),
        "transpose": lambda a: a["x"].t().contiguous(),
        "matmul": _matmul,
        "attention": _attention,
    }
    if line.benchmark.operation not in table:
        raise Inapplicable(f"torch is not told how to do {line.benchmark.operation}")
    return table[line.benchmark.operation]


def set_precision(line: Line) -> None:
    """How torch multiplies f32 matrices: TF32 where the line says so, else in f32."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = line.options.get("precision") == "tf32"


def _matmul(a: Arguments) -> Any:
    import torch

    product = torch.matmul(a["a"], a["b"])
    return product + a["bias"] if a.get("bias") is not None else product


def _attention(a: Arguments) -> Any:
    from torch.nn import functional

    return functional.scaled_dot_product_attention(
        a["q"],
        a["k"],
        a["v"],
        is_causal=bool(a.get("causal", False)),
        enable_gqa=a["q"].shape[1] != a["k"].shape[1],
    )


def _cublas(line: Line) -> Call:
    import torch

    if line.benchmark.operation != "matmul":
        raise Inapplicable("cuBLAS multiplies matrices only")
    if DTYPES[line.dtypes["a"]].bits == 8 and DTYPES[line.dtypes["a"]].is_float:
        return _scaled(line)
    if (line.dtypes["a"], line.dtypes["out"]) == ("i8", "i32"):
        return lambda a: torch._int_mm(a["a"], a["b"])
    if line.dtypes["out"] != line.dtypes["a"] or not DTYPES[line.dtypes["a"]].is_float:
        raise Inapplicable(f"torch.matmul has no product of {line.dtypes['a']} to {line.dtypes['out']}")
    set_precision(line)

    def product(arguments: Arguments) -> None:
        torch.matmul(arguments["a"], arguments["b"], out=arguments["out"])

    return product


def _scaled(line: Line) -> Call:
    """Float8 by torch's product with scales, which are 1 here; its second operand has K contiguous."""
    import torch

    if line.transposed != {"b"} or line.dtypes["out"] not in ("bf16", "f16", "f32"):
        raise Inapplicable("torch._scaled_mm takes float8 with K contiguous in both operands")
    one, out = torch.ones((), device="cuda"), arrays.torch_dtype(line.dtypes["out"])
    return lambda a: torch._scaled_mm(a["a"], a["b"], scale_a=one, scale_b=one, out_dtype=out)


def _cudnn(line: Line) -> Call:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if line.benchmark.operation != "attention":
        raise Inapplicable("cuDNN is asked for attention only")

    def attention(arguments: Arguments) -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return _attention(arguments)

    return attention


def _triton(line: Line) -> Call:
    if importlib.util.find_spec("triton") is None:
        raise Absent("Triton is not installed")
    # No part of a package that is imported whole: it can be imported only where Triton is.
    from conformance.bench.upstream import triton_kernels

    if line.benchmark.operation not in triton_kernels.OPERATIONS:
        raise Inapplicable(f"no Triton kernel of {line.benchmark.operation} here")
    return triton_kernels.OPERATIONS[line.benchmark.operation]


_PEERS: dict[str, Callable[[Line], Call]] = {
    "copy": _copy,
    "torch": _torch,
    "compile": _compile,
    "cublas": _cublas,
    "cudnn": _cudnn,
    "triton": _triton,
    "mlir": _mlir,
}
