"""The GPU finder, against a driver made of Python functions: present, absent, hidden, broken, too old."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance import gpu

NAMES = {100: b"CUDA_ERROR_NO_DEVICE", 999: b"CUDA_ERROR_UNKNOWN"}


class Driver:
    """Answers the driver calls that gpu.py makes; `init` is the status of cuInit."""

    def __init__(self, init: int = 0, version: int = 13000, count: int = 1):
        self.init, self.version, self.count = init, version, count

    def cuInit(self, flags):
        return self.init

    def _answer(self, pointer, value):
        pointer._obj.value = value
        return 0

    def cuDriverGetVersion(self, version):
        return self._answer(version, self.version)

    def cuDeviceGetCount(self, count):
        return self._answer(count, self.count)

    def cuDeviceGet(self, device, ordinal):
        return self._answer(device, ordinal)

    def cuDeviceGetAttribute(self, value, attribute, device):
        return self._answer(value, {75: 9, 76: 0}[attribute])

    def cuDeviceGetName(self, name, length, device):
        name.value = b"Test GPU"
        return 0

    def cuGetErrorName(self, status, text):
        return self._answer(text, NAMES.get(status))


@pytest.fixture
def machine(monkeypatch):
    """Call it with a driver (or None for no driver library) and the device files that exist."""

    def make(driver: Driver | None, nodes: tuple[str, ...] = ()):
        def load(name):
            if driver is None:
                raise OSError(f"{name}: cannot open shared object file")
            return driver

        monkeypatch.setattr(ctypes, "CDLL", load)
        monkeypatch.setattr(gpu.glob, "glob", lambda pattern: list(nodes))

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("TILESPEC_REQUIRE_GPU", raising=False)
    return make


def test_a_gpu_is_described(machine):
    machine(Driver(count=2), ("/dev/nvidia0",))
    found = gpu.visible_gpu()
    assert found == gpu.Gpu("Test GPU", "sm_90", (13, 0), 2)
    assert str(found) == "Test GPU (sm_90) and 1 more, driver for CUDA 13.0"


@pytest.mark.parametrize(
    "version, extra",
    [
        (12020, "cuda12"),
        (12090, "cuda12"),
        (13000, "cuda13"),
        (14010, "cuda13"),
    ],
)
def test_the_driver_chooses_the_extra(machine, version, extra):
    machine(Driver(version=version))
    assert gpu.visible_gpu().extra == extra


def test_an_old_driver_is_refused(machine):
    machine(Driver(version=11080))
    with pytest.raises(gpu.GpuUnusable, match=r"driver for CUDA 11\.8 is too old, CUDA 12 is needed"):
        print(gpu.visible_gpu().extra)


@pytest.mark.parametrize("driver", [None, Driver(init=100), Driver(init=34)])
def test_a_machine_without_a_gpu(machine, driver):
    machine(driver)
    assert gpu.visible_gpu() is None


@pytest.mark.parametrize("value", ["", "-1", " "])
def test_hidden_gpus_are_not_touched(machine, monkeypatch, value):
    machine(Driver(init=999), ("/dev/nvidia0",))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert gpu.visible_gpu() is None


@pytest.mark.parametrize(
    "driver, nodes, message",
    [
        (None, ("/dev/nvidia0",), "/dev/nvidia0 exists but the driver library does not load"),
        (Driver(init=100), ("/dev/nvidia0",), r"cuInit .* CUDA_ERROR_NO_DEVICE \(100\)"),
        (Driver(init=999), (), r"cuInit .* CUDA_ERROR_UNKNOWN \(999\)"),
        (Driver(init=12345), (), r"an unknown error \(12345\)"),
    ],
)
def test_a_gpu_that_cannot_be_used_is_an_error(machine, driver, nodes, message):
    machine(driver, nodes)
    with pytest.raises(gpu.GpuUnusable, match=message):
        gpu.visible_gpu()


@pytest.mark.parametrize("value, fails", [("1", True), ("yes", True), ("0", False), ("", False)])
def test_a_required_gpu(machine, monkeypatch, value, fails):
    machine(None)
    monkeypatch.setenv("TILESPEC_REQUIRE_GPU", value)
    result = CliRunner().invoke(gpu.main, [])
    assert result.exit_code == (1 if fails else 0)
    assert ("TILESPEC_REQUIRE_GPU is set and no GPU is visible" in result.output) is fails


@pytest.mark.parametrize(
    "version, pins, extra",
    [
        (None, "constraints.txt", "toolchain"),
        (12090, "constraints.txt", "cuda12"),
        (13010, "constraints-cuda13.txt", "cuda13"),
    ],
)
def test_what_is_installed(machine, version, pins, extra):
    machine(Driver(version=version) if version else None)
    root = Path(__file__).parents[1]
    for command, wanted in zip(gpu.install_commands(gpu.visible_gpu(), root), (extra, "mlir"), strict=True):
        assert command[:4] == [sys.executable, "-m", "pip", "install"]
        assert command[-2:] == [str(root / pins), f"tilespec[{wanted}]"]
    assert (root / pins).is_file()


def test_a_gpu_that_cupy_cannot_use_fails_the_check(machine, monkeypatch):
    machine(Driver())
    monkeypatch.setattr(gpu, "PROBE", "raise SystemExit('no kernel image')")
    result = CliRunner().invoke(gpu.main, ["--check"])
    assert result.exit_code == 1
    assert "Test GPU is visible but CuPy cannot use it:\nno kernel image" in result.output


def test_a_failed_installation_is_reported(machine, monkeypatch):
    machine(None)
    fails, works = ([sys.executable, "-c", f"raise SystemExit({status})"] for status in (7, 0))
    monkeypatch.setattr(gpu, "install_commands", lambda found, root: (fails, works))
    result = CliRunner().invoke(gpu.main, ["--install"])
    assert result.exit_code == 1 and "exit status 7" in result.output


def test_a_machine_without_wheels_of_mlir_keeps_the_other_targets(machine, monkeypatch):
    machine(None)
    fails, works = ([sys.executable, "-c", f"raise SystemExit({status})"] for status in (7, 0))
    monkeypatch.setattr(gpu, "install_commands", lambda found, root: (works, fails))
    result = CliRunner().invoke(gpu.main, ["--install"])
    assert result.exit_code == 0 and "the target mlir is left out" in result.output
