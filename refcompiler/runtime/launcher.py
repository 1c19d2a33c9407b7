"""The launcher: loads cubins and queues kernels on a stream with cuLaunchKernelEx, after checking every argument.

Kernels get bare pointers, as in Triton: the address of the element whose indices are all 0. Shapes and strides do not
travel; a kernel that needs them takes them as arguments.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from refcompiler.errors import LaunchError
from refcompiler.runtime import gpu, streams
from refcompiler.runtime.abi import AS_BITS, KernelABI, LaunchBuffer, Param, convert_scalar
from refcompiler.runtime.arrays import ArrayInfo, describe
from refcompiler.runtime.tensor_maps import TensorMaps

GRID_LIMITS = (2**31 - 1, 65535, 65535)
MAX_THREADS = 1024
# Dynamic shared memory above this must be asked for, once a kernel and device.
_SHARED_WITHOUT_ASKING = 48 * 1024
_INVALID_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: this thread has no current context yet
# Scalars that struct packs as they are, checking the range; anything else is converted first.
_PLAIN_INTEGERS = frozenset({int, np.int32, np.int64})
_PLAIN_FLOATS = frozenset({float, np.float32, np.float64})


class Function:
    """A loaded kernel: its handle, valid in every context, its ABI, and buffers for its arguments."""

    __slots__ = (
        "abi", "buffers", "entry", "handle", "kernel", "library", "pack", "plain", "queue", "shared_granted",
        "tensor_maps",
    )  # fmt: skip

    def __init__(self, entry: str, abi: KernelABI, library: Any, kernel: Any):
        self.entry, self.abi = entry, abi
        self.library, self.kernel = library, kernel
        self.pack, self.queue = abi.launch_packing.pack_into, gpu.launch_function()
        self.handle = ctypes.c_void_p.from_param(int(kernel))
        # Free buffers; list.pop and list.append are atomic, so no two threads ever hold the same one.
        self.buffers: list[LaunchBuffer] = []
        self.plain = tuple(_plain_types(param) for param in abi.visible)
        self.shared_granted: dict[int, int] = {}
        self.tensor_maps = TensorMaps(abi, entry) if abi.tensor_maps else None

    def __repr__(self) -> str:
        return f"Function({self.entry})"


def _plain_types(param: Param) -> frozenset[type] | None:
    """None for pointers; for scalars the types whose values go to struct unchanged."""
    if param.kind == "pointer":
        return None
    if param.dtype in AS_BITS or param.divisible_by > 1:
        return frozenset()
    if param.dtype == "bool":
        return frozenset({bool})
    return _PLAIN_FLOATS if param.dtype.startswith("f") else _PLAIN_INTEGERS


_functions: dict[tuple[bytes, str, KernelABI], Function] = {}
_functions_lock = threading.Lock()


def load_function(cubin: bytes, entry: str, abi: KernelABI) -> Function:
    """Kernel ``entry`` of ``cubin``, loaded once a process for equal arguments, and usable on every device.

    Raises GpuUnavailable without a GPU, LaunchError (launch.driver) for a cubin that the driver refuses.
    """
    key = (hashlib.sha256(cubin).digest(), entry, abi)
    with _functions_lock:
        function = _functions.get(key)
        if function is None:
            library = gpu.ask("cuLibraryLoadData", cubin, [], [], 0, [], [], 0)
            kernel = gpu.ask("cuLibraryGetKernel", library, entry.encode())
            handle = gpu.driver().CUfunction(int(kernel))  # cuLaunchKernel takes a CUkernel under this name
            function = _functions[key] = Function(entry, abi, library, handle)
        return function


def launch(
    function: Function,
    grid: int | Sequence[int],
    num_threads: int,
    args: Sequence[Any],
    stream: Any = None,
    shared_bytes: int = 0,
    hidden: Sequence[Any] = (),
) -> None:
    """Queue ``function`` on ``grid`` blocks of ``num_threads`` threads; returns before it has run. A grid with an
    extent of 0 queues nothing.

    ``args`` holds one value per visible parameter: an array (or its ArrayInfo) for a pointer, a number for a scalar.
    ``stream`` is a stream of CuPy or torch or a handle; by default torch's current one if a torch tensor is among
    the arguments, else CuPy's current one. ``shared_bytes`` is dynamic shared memory. ``hidden`` are the values of
    the hidden parameters.

    Raises LaunchError, with an id ``launch.*``, before anything is queued.
    """
    x, y, z = _checked_grid(grid, function.entry)
    if not 0 < num_threads <= MAX_THREADS:
        expected = f"expected 1 to {MAX_THREADS}"
        raise LaunchError("launch.threads", f"{function.entry}: {num_threads} threads a block, {expected}")
    values, infos = _values(function, args)
    if not x * y * z:
        return
    device = 0 if gpu.device_count() == 1 else _checked_device(function, infos)
    handle = _current_stream(infos, device) if stream is None else streams.handle_of(stream)
    for info in infos:
        if info[-1] is not None:
            _wait_for(info[-1], handle, device)
    if shared_bytes > _SHARED_WITHOUT_ASKING:
        _grant_shared(function, device, shared_bytes)
    submit(function, x, y, z, num_threads, shared_bytes, [*values, *hidden], handle, device)


def submit(
    function: Function,
    x: int,
    y: int,
    z: int,
    num_threads: int,
    shared_bytes: int,
    values: list[Any],
    stream: int,
    device: int = 0,
) -> None:
    """Queue ``function`` with the addresses and numbers ``values``, which were checked."""
    config = (x, y, z, num_threads, 1, 1, shared_bytes, stream)
    if function.tensor_maps is not None:
        values = [*values, *function.tensor_maps.encoded(values)]
    try:
        buffer = function.buffers.pop()
    except IndexError:
        buffer = LaunchBuffer(function.abi)
    try:
        function.pack(buffer.memory, 0, *values, *config)
    except (struct.error, OverflowError):
        function.pack(buffer.memory, 0, *converted(function, values), *config)
    status = function.queue(buffer.config, function.handle, buffer.arguments, None)
    if status:
        queue_again(function, buffer, status, device)
    function.buffers.append(buffer)  # the driver has copied the arguments


def queue_again(function: Function, buffer: LaunchBuffer, status: int, device: int = 0) -> None:
    """Queue what the driver refused with ``status`` once more, if only a context was missing; else raise LaunchError
    (launch.driver)."""
    if status == _INVALID_CONTEXT:
        _make_context_current(device)
        status = function.queue(buffer.config, function.handle, buffer.arguments, None)
    if status:
        raise gpu.driver_error("cuLaunchKernelEx", gpu.driver().CUresult(status))


def _checked_grid(grid: int | Sequence[int], entry: str) -> tuple[int, int, int]:
    if type(grid) is tuple and len(grid) == 1:  # the plainest grid first
        (x,) = grid
        if type(x) is int and 0 < x <= GRID_LIMITS[0]:
            return x, 1, 1
    axes = grid if isinstance(grid, tuple) else tuple(grid) if isinstance(grid, Sequence) else (grid,)
    if not 1 <= len(axes) <= 3 or not all(isinstance(n, (int, np.integer)) and type(n) is not bool for n in axes):
        raise LaunchError("launch.grid", f"{entry}: the grid is {grid!r}, expected an integer or one to three integers")
    for axis, extent in enumerate(axes):
        if not 0 <= extent <= GRID_LIMITS[axis]:
            raise LaunchError(
                "launch.grid",
                f"{entry}: the grid is {grid!r}, expected 0 to {GRID_LIMITS[axis]} blocks on axis {axis}",
            )
    x, y, z = (*axes, 1, 1)[:3]
    return x, y, z


def _values(function: Function, args: Sequence[Any]) -> tuple[list[Any], list[ArrayInfo]]:
    """What goes into the buffer for each visible parameter, and the arrays among the arguments; checked."""
    params = function.abi.visible
    if len(args) != len(params):
        names = ", ".join(param.name for param in params)
        raise LaunchError(
            "launch.arguments", f"{function.entry} takes {len(params)} arguments ({names}), found {len(args)}"
        )
    values: list[Any] = []
    infos: list[ArrayInfo] = []
    for param, plain, value in zip(params, function.plain, args, strict=True):
        if plain is None:
            info = value if type(value) is ArrayInfo else _described(param, value, function.entry)
            ptr, dtype, _, _, _, readonly, device, _, _ = info
            if dtype != param.dtype or device is None or (readonly and param.written) or ptr % param.divisible_by:
                raise _bad_array(param, info, function.entry)
            values.append(ptr)
            infos.append(info)
        else:
            values.append(value if type(value) in plain else convert_scalar(param, value, function.entry))
    return values, infos


def _described(param: Param, value: Any, entry: str) -> ArrayInfo:
    try:
        return describe(value)
    except LaunchError as error:
        raise LaunchError(error.id, f"argument {param.name} of {entry}: {error.message}", notes=error.notes) from None


def _bad_array(param: Param, info: ArrayInfo, entry: str) -> LaunchError:
    """The error for an array that does not fit ``param``."""
    where = f"argument {param.name} of {entry}"
    if info.device is None:
        return LaunchError(
            "launch.host_array",
            f"{where} is in host memory, and the kernel runs on a GPU",
            notes=["move it to the GPU, or pass all arrays as NumPy arrays to run in the interpreter"],
        )
    if info.dtype != param.dtype:
        return LaunchError("launch.dtype", f"{where} is an array of {info.dtype}, expected {param.dtype}")
    if info.readonly and param.written:
        return LaunchError("launch.readonly", f"{where} is read-only, and the kernel writes it")
    only = f"the kernel was compiled for multiples of {param.divisible_by}"
    return LaunchError("launch.alignment", f"{where} starts at address {info.ptr:#x}, {only}")


def _checked_device(function: Function, infos: Sequence[ArrayInfo]) -> int:
    """The GPU of several that the kernel runs on; all arrays must be there, and it must be the current one."""
    devices = sorted({info.device for info in infos if info.device is not None})
    if len(devices) > 1:
        raise LaunchError("launch.device", f"the arrays of {function.entry} are on GPUs {devices}, expected one")
    status, current = gpu.driver().cuCtxGetDevice()
    if status:  # no context in this thread yet: the launch makes that of the arrays' device current
        return devices[0] if devices else 0
    if devices and devices[0] != int(current):
        raise LaunchError(
            "launch.device",
            f"the arrays of {function.entry} are on GPU {devices[0]}, and the current one is GPU {int(current)}",
            notes=["make it current: with cupy.cuda.Device(i), or with torch.cuda.device(i)"],
        )
    return int(current)


def _current_stream(infos: Sequence[ArrayInfo], device: int) -> int:
    libraries = {info[-2] for info in infos}
    if "torch" not in libraries:
        return streams.cupy_stream()
    stream = streams.torch_stream(device)
    if "cupy" in libraries and stream != streams.cupy_stream():
        raise LaunchError(
            "launch.stream",
            "the arguments are arrays of torch and CuPy, whose current streams differ",
            notes=["pass stream=..., or make one the current stream of both"],
        )
    return stream


def _make_context_current(device: int) -> None:
    """Give this thread the context of ``device`` that all libraries share."""
    gpu.ask("cuCtxSetCurrent", gpu.ask("cuDevicePrimaryCtxRetain", gpu.ask("cuDeviceGet", device)))


def _wait_for(producer: int, stream: int, device: int) -> None:
    """Let ``stream`` wait for what is queued on ``producer``."""
    if producer == stream or (producer == streams.LEGACY_DEFAULT and stream == 0):
        return
    if gpu.driver().cuCtxGetDevice()[0] == _INVALID_CONTEXT:
        _make_context_current(device)
    event = gpu.ask("cuEventCreate", int(gpu.driver().CUevent_flags.CU_EVENT_DISABLE_TIMING))
    gpu.ask("cuEventRecord", event, producer)
    gpu.ask("cuStreamWaitEvent", stream, event, 0)
    gpu.ask("cuEventDestroy", event)


def _grant_shared(function: Function, device: int, shared_bytes: int) -> None:
    """Ask, once, for more dynamic shared memory than a kernel gets by default."""
    if function.shared_granted.get(device, 0) >= shared_bytes:
        return
    cuda = gpu.driver()
    handle = gpu.ask("cuDeviceGet", device)
    optin = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    limit = gpu.ask("cuDeviceGetAttribute", optin, handle)
    if shared_bytes > limit:
        raise LaunchError(
            "launch.shared",
            f"{function.entry} needs {shared_bytes} bytes of shared memory a block, GPU {device} has {limit}",
            notes=["use smaller blocks or fewer pipeline stages"],
        )
    wanted = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    gpu.ask("cuKernelSetAttribute", wanted, shared_bytes, cuda.CUkernel(int(function.kernel)), handle)
    function.shared_granted[device] = shared_bytes


def converted(function: Function, values: list[Any]) -> list[Any]:
    """Values of which one does not fit: converting one by one names it, or rounds a float to infinity."""
    converted = list(values)
    for at, param in enumerate(function.abi.visible):
        if param.kind == "scalar" and param.dtype not in AS_BITS:
            converted[at] = convert_scalar(param, values[at], function.entry)
    return converted
