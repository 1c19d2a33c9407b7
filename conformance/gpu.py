"""Finds the GPU of this machine through its driver, before anything that needs one is installed.

`python -m conformance.gpu` says what is visible. `--install` also installs the toolchain, MLIR and, where a GPU is,
the CuPy of its driver's CUDA major version; `--check` runs one CuPy operation there. This talks to the driver
library itself, so that it works in an environment that holds no CUDA package yet.
"""

from __future__ import annotations

import ctypes
import glob
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

NO_DEVICE, STUB_LIBRARY = 100, 34  # CUresult: CUDA_ERROR_NO_DEVICE, CUDA_ERROR_STUB_LIBRARY
COMPUTE_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
OLDEST_CUDA, NEWEST_CUDA = 12, 13  # major versions that CuPy and the compiler wheels exist for
PROBE = "import cupy; total = int(cupy.arange(1024).sum()); assert total == 523776, total"
HIDE = "or hide the GPU with CUDA_VISIBLE_DEVICES=-1"


class GpuUnusable(RuntimeError):
    """A GPU or its driver is there but does not work, or a required GPU is not there."""


@dataclass(frozen=True)
class Gpu:
    """The first visible GPU, how many there are, and the CUDA version of the driver as (major, minor)."""

    name: str
    arch: str
    cuda: tuple[int, int]
    count: int

    @property
    def extra(self) -> str:
        """The extra of this distribution that holds CuPy and the toolchain for the driver.

        A driver runs what an older toolchain made, so a driver newer than any extra gets the newest extra.
        """
        if self.cuda[0] < OLDEST_CUDA:
            raise GpuUnusable(f"{self} is too old, CUDA {OLDEST_CUDA} is needed: update the driver, {HIDE}")
        return f"cuda{min(self.cuda[0], NEWEST_CUDA)}"

    def __str__(self) -> str:
        others = f" and {self.count - 1} more" if self.count > 1 else ""
        return f"{self.name} ({self.arch}){others}, driver for CUDA {self.cuda[0]}.{self.cuda[1]}"


def visible_gpu() -> Gpu | None:
    """The first GPU that programs started here can see; None where there is none or all are hidden.

    Raises GpuUnusable if device files or a driver say that there is a GPU and the driver cannot use it.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1", "NoDevFiles"):
        return None
    nodes = sorted(glob.glob("/dev/nvidia[0-9]*"))
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        if nodes:
            raise GpuUnusable(f"{nodes[0]} exists but the driver library does not load: {error}") from None
        return None
    status = driver.cuInit(0)
    if status in (NO_DEVICE, STUB_LIBRARY) and not nodes:
        return None
    _require(driver, status, "cuInit")
    return _describe(driver)


def _describe(driver: ctypes.CDLL) -> Gpu:
    """The first device of an initialised driver."""

    def ask(call: str, *arguments: object) -> int:
        answer = ctypes.c_int()
        _require(driver, getattr(driver, call)(ctypes.byref(answer), *arguments), call)
        return answer.value

    version, count, device = ask("cuDriverGetVersion"), ask("cuDeviceGetCount"), ask("cuDeviceGet", 0)
    major, minor = (ask("cuDeviceGetAttribute", attribute, device) for attribute in COMPUTE_CAPABILITY)
    name = ctypes.create_string_buffer(256)
    _require(driver, driver.cuDeviceGetName(name, len(name), device), "cuDeviceGetName")
    return Gpu(name.value.decode(), f"sm_{major}{minor}", (version // 1000, version % 1000 // 10), count)


def _require(driver: ctypes.CDLL, status: int, call: str) -> None:
    if status == 0:
        return
    text = ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(text))
    reason = text.value.decode() if text.value else "an unknown error"
    raise GpuUnusable(f"{call} of the CUDA driver answers {reason} ({status}): mend the driver, {HIDE}")


def required_gpu() -> Gpu | None:
    """As visible_gpu, but with TILESPEC_REQUIRE_GPU=1 the absence of a GPU raises GpuUnusable as well."""
    gpu = visible_gpu()
    required = os.environ.get("TILESPEC_REQUIRE_GPU", "").strip().lower()
    if gpu is None and required not in ("", "0", "false", "no", "off"):
        raise GpuUnusable("TILESPEC_REQUIRE_GPU is set and no GPU is visible")
    return gpu


def install_commands(gpu: Gpu | None, root: Path) -> tuple[list[str], list[str]]:
    """The pip commands that give this Python the toolchain for `gpu`, and MLIR; the pins lie in the checkout `root`."""
    extra = gpu.extra if gpu else "toolchain"
    pins = root / ("constraints-cuda13.txt" if extra == "cuda13" else "constraints.txt")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--constraint", str(pins)]
    return [*pip, f"tilespec[{extra}]"], [*pip, "tilespec[mlir]"]


def install(gpu: Gpu | None, root: Path) -> None:
    """Run both; MLIR's wheels exist for few machines, and without them only the target `mlir` is left out."""
    toolchain, mlir = install_commands(gpu, root)
    subprocess.run(toolchain, check=True)
    if subprocess.run(mlir, check=False).returncode:
        click.echo("pip could not install MLIR: the target mlir is left out", err=True)


def check_cupy(gpu: Gpu) -> None:
    """Run one CuPy operation in a process of its own; GpuUnusable with CuPy's own words if that fails."""
    probe = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    if probe.returncode:
        raise GpuUnusable(f"{gpu.name} is visible but CuPy cannot use it:\n{probe.stderr.strip()}")


@click.command()
@click.option(
    "--install", "installs", is_flag=True, help="Install the toolchain, MLIR, and CuPy where a GPU is visible."
)
@click.option("--check", is_flag=True, help="Run one CuPy operation on the GPU, where one is visible.")
def main(installs: bool, check: bool) -> None:
    """Say which GPU programs started here can see; fail if it cannot be used."""
    try:
        gpu = required_gpu()
        click.echo(f"gpu: {gpu or 'none visible; kernels are compiled for GPUs but do not run on one'}")
        if installs:
            install(gpu, Path(__file__).parents[1])
        if check and gpu:
            check_cupy(gpu)
    except GpuUnusable as error:
        raise click.ClickException(str(error)) from None
    except subprocess.CalledProcessError as error:
        raise click.ClickException(f"pip could not install it (exit status {error.returncode})") from None


if __name__ == "__main__":
    main()
