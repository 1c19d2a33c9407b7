"""What is installed: pins within their bounds, complete extras, a wheel that carries spec/ and type marks."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINNED_EXTRAS = {"constraints.txt": ("cuda12", "mlir"), "constraints-cuda13.txt": ("cuda13", "mlir")}


def pins(name: str) -> dict[str, str]:
    lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in (line.split("==") for line in lines)}


def requirements(extra: str) -> list[Requirement]:
    """The requirements of an extra, with those of the extras of tilespec that it names."""
    found = []
    for text in EXTRAS[extra]:
        requirement = Requirement(text)
        if requirement.name == "tilespec":
            found += [inner for name in requirement.extras for inner in requirements(name)]
        else:
            found.append(requirement)
    return found


@pytest.mark.parametrize("file", PINNED_EXTRAS)
def test_every_compiler_wheel_is_pinned_within_its_bounds(file):
    wanted = {canonicalize_name(r.name): r for extra in PINNED_EXTRAS[file] for r in requirements(extra)}
    assert set(pins(file)) == set(wanted)
    for name, version in pins(file).items():
        assert wanted[name].specifier.contains(version), f"{name}=={version} is outside {wanted[name]}"


def test_lower_bounds_are_given():
    groups = [PROJECT["dependencies"], *EXTRAS.values()]
    for requirement in [Requirement(text) for group in groups for text in group]:
        assert requirement.name == "tilespec" or ">=" in str(requirement.specifier), requirement


def test_dev_holds_all_that_needs_no_gpu():
    dev = {r.name for r in requirements("dev")}
    for extra in ("toolchain", "mlir", "test", "lint"):
        assert dev >= {r.name for r in requirements(extra)}


def test_the_wheel_carries_the_specification(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("tilespec-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("refcompiler", "conformance", "oracles"):
        assert f"{package}/py.typed" in names
    listed = subprocess.run(["git", "ls-files", "spec"], cwd=ROOT, check=True, capture_output=True, text=True)
    carried = {f"conformance/spec/{name.removeprefix('spec/')}" for name in listed.stdout.splitlines()}
    assert carried and carried <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "examples/"))]
