"""Tests of this folder run kernels: without a GPU they are skipped, or fail where one is required."""

from __future__ import annotations

import pytest

from refcompiler import config, runtime


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    if runtime.gpu_available():
        return
    if config.REQUIRE_GPU():
        pytest.fail(f"{config.REQUIRE_GPU.name} is set and there is no GPU")
    pytest.skip("no GPU")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")
