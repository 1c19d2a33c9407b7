"""What is installed: pins within their bounds, complete extras, a wheel that carries spec/ and type marks."""

from __future__ import annotations

import os
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


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the files of the wheel, as an installation has them."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("tilespec-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_carries_what_it_needs_and_no_more(installed):
    listed = subprocess.run(["git", "ls-files", "spec"], cwd=ROOT, check=True, capture_output=True, text=True)
    carried = ["conformance/" + name for name in listed.stdout.splitlines()]
    marks = [f"{package}/py.typed" for package in ("refcompiler", "conformance", "oracles")]
    assert carried and not [name for name in carried + marks if not (installed / name).is_file()]
    top = {path.name for path in installed.iterdir()}
    assert top == {"refcompiler", "conformance", "oracles", f"tilespec-{PROJECT['version']}.dist-info"}


def test_the_wheel_reads_its_own_specification(installed):
    program = "from conformance.loader import load_suite, spec_root; print(spec_root(), len(load_suite()))"
    environment = os.environ | {"PYTHONPATH": str(installed)}
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=installed.parent,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    root, features = run.stdout.split()
    assert Path(root) == installed / "conformance/spec"
    assert int(features) == len(list((ROOT / "spec/features").rglob("*.yaml"))) > 0


def test_python_without_assertions_and_docstrings_compiles_kernels():
    words = ["compile", "kernels.softmax/bf16", "--emit", "simt"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    commands = [[sys.executable, *flags, "-m", "conformance", *words] for flags in ([], ["-OO"])]
    done = [subprocess.run(c, cwd=ROOT, env=environment, capture_output=True, text=True) for c in commands]
    assert done[1].returncode == 0 and done[0].stdout == done[1].stdout, done[1].stderr
