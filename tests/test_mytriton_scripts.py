"""Whole scripts written for mytriton run after a change of their imports, and of nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "tests" / "mytriton_scripts").glob("*.py"))
MARKS = {"cuda": "__global__", "mlir": "gpu.module"}


def with_the_import_changed(text: str) -> str:
    """`import mytriton...` and `from mytriton...` name this package; a bare import keeps the name that is used."""
    text, imports = re.subn(r"^import mytriton$", "import refcompiler.mytriton as mytriton", text, flags=re.M)
    text, named = re.subn(r"^(import|from) mytriton\b", r"\1 refcompiler.mytriton", text, flags=re.M)
    assert imports + named
    return text


@pytest.mark.parametrize("backend", MARKS)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_with_its_import_changed(script, backend, tmp_path):
    changed = with_the_import_changed(script.read_text(encoding="utf-8"))
    assert len(set(changed.splitlines()) - set(script.read_text(encoding="utf-8").splitlines())) <= 2
    path = tmp_path / script.name
    path.write_text(changed, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TILESPEC_")}
    environment |= {"PYTHONPATH": str(ROOT), "MYTRITON_BACKEND": backend, "TILESPEC_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert MARKS[backend] in done.stdout
