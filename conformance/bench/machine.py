"""The machine that figures were measured on: GPU, driver, versions, and what its clocks and power were meanwhile."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib import metadata
from typing import Any

PACKAGES = ("tilespec", "torch", "triton", "cupy-cuda12x", "cupy-cuda13x", "cuda-bindings", "nvidia-cudnn-cu12",
            "nvidia-cudnn-cu13", "nvidia-cublas-cu12", "nvidia-cublas", "numpy", "matplotlib")  # fmt: skip
# Fields of nvidia-smi -> ours; whatever a driver does not know stays away.
STATE = {
    "clocks.sm": "sm_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "power.draw": "power_w",
    "power.limit": "power_limit_w",
    "temperature.gpu": "temperature_c",
    "clocks_event_reasons.active": "clocks_event_reasons",
}


class NoGpu(Exception):
    """Nothing can be measured here; the message says why."""


def need_gpu() -> None:
    """Raises NoGpu unless torch can use a GPU."""
    try:
        import torch
    except ImportError as error:
        raise NoGpu(
            f"torch cannot be imported ({error}); it gives the arrays and the peers: pip install tilespec[peers]"
        ) from None
    if not torch.cuda.is_available():
        raise NoGpu("torch sees no GPU that it can use")


def machine() -> dict[str, Any]:
    """GPU, driver and versions, without the machine's name."""
    from conformance.adapters import library

    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        **library.gpu_info(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        **_torch_versions(),
    }


def _torch_versions() -> dict[str, Any]:
    import torch

    return {"torch_cuda": torch.version.cuda or "", "cudnn": str(torch.backends.cudnn.version() or "")}


def current_gpu() -> str:
    """What nvidia-smi calls the GPU that is measured: it does not follow CUDA_VISIBLE_DEVICES."""
    import torch

    uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
    return f"GPU-{uuid}" if uuid else "0"


def state(gpu: str = "0") -> dict[str, Any]:
    """Clocks, power and temperature of a GPU now, by nvidia-smi; empty where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = [program, f"--query-gpu={','.join(STATE)}", "--format=csv,noheader,nounits", f"--id={gpu}"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    cells = [cell.strip() for cell in done.stdout.strip().split(",")]
    if done.returncode or len(cells) != len(STATE):
        return {}
    return {name: value for name, cell in zip(STATE.values(), cells, strict=True) if (value := _number(cell)) != ""}


def _number(cell: str) -> Any:
    """A number where it is one; empty text where the driver has nothing to say."""
    try:
        return float(cell)
    except ValueError:
        return "" if cell.startswith("[") or cell == "N/A" else cell
