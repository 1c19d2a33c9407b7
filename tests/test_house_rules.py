"""House rules that no linter knows: purposes, sizes, names, ids, and what may not stand in a file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("refcompiler", "conformance", "oracles")
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
BANNED_MODULE_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
# Paths of one machine only, and words that are not about the project; split, so that this file passes itself.
BANNED_PATH = r"(?<![\w.])/(?:work|farm)/\w|/home/\w+/"
BANNED_WORD = r"(?i:\b(?:cla" r"ude|anthr" r"opic|chat" r"gpt)\b)"
BANNED_TEXT = re.compile(f"{BANNED_PATH}|{BANNED_WORD}")
DECISION_PARTS = ("## Context", "## Decision", "## Consequence")


@cache
def tracked(*patterns: str) -> list[Path]:
    """Files that git tracks or would track, so that the rules see a new file before its first commit."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in sorted(set(names)) if (ROOT / name).is_file()]


def modules() -> list[Path]:
    return [path for path in tracked("*.py") if path.relative_to(ROOT).parts[0] in PACKAGES]


def report(broken: list[str], rule: str) -> None:
    assert not broken, rule + "\n" + "\n".join(broken)


def at(path: Path, line: int | None = None) -> str:
    return str(path.relative_to(ROOT)) + (f":{line}" if line else "")


def test_the_rules_see_the_code():
    assert {path.relative_to(ROOT).parts[0] for path in modules()} == set(PACKAGES)


def test_every_module_states_its_purpose():
    broken = []
    for path in tracked("*.py"):
        purpose = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
        if len(purpose) < 20 or not purpose.endswith((".", ":", ";")):
            broken.append(f"{at(path, 1)}: found {purpose!r}")
    report(broken, "A module opens with a docstring whose first line is a sentence that states its purpose.")


def test_files_and_functions_fit_a_reader():
    broken = []
    for path in tracked("*.py"):
        text = path.read_text()
        if (lines := len(text.splitlines())) > MAX_FILE_LINES:
            broken.append(f"{at(path)}: {lines} lines, at most {MAX_FILE_LINES}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = node.end_lineno - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    where = at(path, node.lineno)
                    broken.append(f"{where}: {node.name}: {length} lines, at most {MAX_FUNCTION_LINES}")
    report(broken, "Files and functions stay short; split by family, or by step.")


def imported_modules(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and top-level name of each import, those of importlib.import_module with a literal included."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append((node.lineno, node.module))
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("import_module"):
            if isinstance(node.args[0], ast.Constant):
                found.append((node.lineno, node.args[0].value))
    return [(line, name.split(".")[0]) for line, name in found]


def test_only_the_runtime_and_the_adapters_touch_the_gpu():
    broken = []
    for path in modules():
        if not path.relative_to(ROOT).as_posix().startswith(("refcompiler/runtime", "conformance/adapters")):
            imports = imported_modules(ast.parse(path.read_text()))
            broken += [f"{at(path, line)}: import {name}" for line, name in imports if name == "cupy"]
    report(broken, "Only refcompiler.runtime and conformance.adapters import CuPy; all else runs without a GPU.")


@pytest.mark.parametrize(
    "text", ["import cupy as cp", "from cupy.cuda import Stream", "importlib.import_module('cupy')"]
)
def test_every_form_of_import_is_seen(text):
    assert imported_modules(ast.parse(text)) == [(1, "cupy")]


def test_modules_are_named_for_what_they_hold():
    broken = [at(path) for path in tracked("*.py") if BANNED_MODULE_NAMES & {path.stem, path.parent.name}]
    report(broken, "A module is named for what it holds; these names say nothing.")


def test_files_speak_of_the_project_only():
    broken = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if found := BANNED_TEXT.search(line):
                broken.append(f"{at(path, number)}: {found.group()!r}")
    report(broken, "No path of one machine and no word about anything but the project.")


@pytest.mark.parametrize(
    "text, banned",
    [
        ("/".join(["see ", "work", "main"]), True),
        ("/".join(["", "home", "someone", "x"]), True),
        ("framework/main", False),
        ("a/work/b", False),
    ],
)
def test_the_text_rule_itself(text, banned):
    assert bool(BANNED_TEXT.search(text)) is banned


def test_feature_ids_are_their_paths():
    broken = []
    for path in tracked("spec/features/*.yaml"):
        expected = ".".join(path.relative_to(ROOT / "spec/features").with_suffix("").parts)
        ids = re.findall(r"^id:\s*[\"']?([^\s\"'#]+)", path.read_text(), flags=re.MULTILINE)
        if ids != [expected]:
            broken.append(f"{at(path)}: id {ids}, expected {expected}")
    report(broken, "spec/features/<area>/<name>.yaml holds the feature <area>.<name>.")


def test_decisions_have_their_parts():
    broken = []
    for path in tracked("docs/decisions/*.md"):
        text = path.read_text()
        if missing := [part for part in DECISION_PARTS if not re.search(rf"^{part}", text, flags=re.M)]:
            broken.append(f"{at(path)}: without {missing}")
        if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name):
            broken.append(f"{at(path)}: name it NNNN-title.md")
    report(broken, "A decision says its context, the decision and the consequence.")


def test_decision_numbers_are_unique():
    numbers = [path.name[:4] for path in tracked("docs/decisions/*.md")]
    assert len(numbers) == len(set(numbers)), sorted(numbers)


def test_generated_pages_are_fresh():
    command = [sys.executable, "docs/generate.py", "--check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
