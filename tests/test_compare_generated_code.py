"""The comparison of generated code for reviewers: what differs, what is new or gone, and the size limit."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci/compare_generated_code.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("compare_generated_code", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def folders(tmp_path):
    def write(side: str, texts: dict[str, str]) -> Path:
        for name, text in texts.items():
            path = tmp_path / side / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / side

    return write


def test_what_differs_is_listed_with_its_lines(script, folders):
    base = folders(
        "base",
        {
            "a.add/f32/tile.txt": "%1 = add x, y\n%2 = mul %1, 2\n",
            "a.add/f32/cuda.cu": "same\n",
            "a.old/f32/tile.txt": "gone\n",
        },
    )
    head = folders(
        "head",
        {
            "a.add/f32/tile.txt": "%1 = add x, y\n%2 = shl %1, 1\n",
            "a.add/f32/cuda.cu": "same\n",
            "a.new/f32/error.txt": "k.py:1:1: error[a.new#E1]: no\n",
        },
    )
    differences = script.compare(base, head)
    assert [(d.name, d.added, d.removed) for d in differences] == [
        ("a.add/f32/tile.txt", 1, 1),
        ("a.new/f32/error.txt", 1, 0),
        ("a.old/f32/tile.txt", 0, 1),
    ]
    text = script.markdown(differences)
    assert "| `a.add/f32/tile.txt` | 1 | 1 |" in text
    assert "-%2 = mul %1, 2\n+%2 = shl %1, 1\n" in text


def test_no_difference_is_said(script, folders):
    same = {"a.add/f32/tile.txt": "x\n"}
    assert script.compare(folders("base", same), folders("head", same)) == []
    assert "No case" in script.markdown([])


def test_a_large_difference_is_cut_and_says_so(script):
    differences = [script.Difference(f"case{i}", "--- a\n+++ b\n" + "+x\n" * 1000) for i in range(10)]
    text = script.markdown(differences, limit=7_000)
    assert len(text.encode()) < 7_100
    assert "8 diffs are left out" in text
    assert "| `case9` | 1000 | 0 |" in text


def test_cases_are_read_from_the_features(script, folders):
    tree = folders(
        "tree",
        {
            "spec/features/math/exp.yaml": "id: math.exp\ncases:\n  - id: f32\n  - id: f16\n",
            "spec/features/core/load.yaml": "id: core.load\ncases: [{id: masked}]\n",
        },
    )
    assert script.case_ids(tree) == ["core.load/masked", "math.exp/f32", "math.exp/f16"]
