"""The library's kernels are those that the specification judges: the same functions, statement by statement."""

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import refcompiler.kernels

ROOT = Path(__file__).parents[1]


def functions(source):
    """The kernels and kernel functions of a source by name, without docstrings and line numbers."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:]
            found[node.name] = ast.dump(node)
    return found


def library():
    modules = (m.name for m in pkgutil.iter_modules(refcompiler.kernels.__path__, "refcompiler.kernels."))
    return {name: functions(Path(importlib.import_module(name).__file__).read_text()) for name in modules}


def judged():
    """Feature, program and functions of every program of spec/features/kernels."""
    for path in sorted((ROOT / "spec/features/kernels").glob("*.yaml")):
        feature = YAML(typ="safe").load(path.read_text())
        programs = feature.get("programs") or {"program": feature["program"]}
        for name, program in programs.items():
            yield path.stem, name, functions(re.sub(r"\{([A-Z]\w*)\}", r"\1", program["source"]))


@pytest.mark.parametrize(
    "feature, modules", [("matmul", ["matmul", "operands", "tf32_parts"]), ("attention", ["attention"])]
)
def test_the_specification_judges_the_library(feature, modules):
    own = {name: text for module in modules for name, text in library()[f"refcompiler.kernels.{module}"].items()}
    seen = {}
    for stem, _, found in judged():
        if stem == feature:
            seen |= {name: text for name, text in found.items() if name in own}
    assert seen == own
