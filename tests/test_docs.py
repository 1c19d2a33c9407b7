"""The documentation is true: recipes are followed, examples run, commands exist, links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from conformance import benchmarks
from conformance.adapters import TARGETS
from conformance.cli import STAGES, main
from conformance.instances import Selection, collect
from conformance.loader import load_suite

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "docs" / "adding-a-feature.md"
BLOCK = re.compile(r"(?:^<!-- recipe: (?P<step>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
MADE_UP = re.compile(r"elementwise\b|math\.tanh")  # features that a page adds
TOOLCHAIN = bool(find_spec("cuda")) and bool(find_spec("cuda.bindings"))


def listed(*patterns: str) -> list[str]:
    """Files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({name for name in names if (ROOT / name).is_file()})


PAGES = listed("*.md")


@dataclass
class Fence:
    """A fenced block of a page: its language, its text, and the step of the recipe that it is."""

    page: str
    line: int
    language: str
    text: str
    step: str | None


def fences(page: str) -> list[Fence]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Fence(page, text[: m.start("text")].count("\n") + 1, m["language"], m["text"], m["step"])
        for m in BLOCK.finditer(text)
    ]


def python(*words: str, cwd: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python on the packages under `root`, with no GPU and a cache of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TILESPEC_")}
    environment |= {"PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": "-1", "TILESPEC_CACHE_DIR": str(cwd / ".cache")}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


# --------------------------------------------------------------------------- the recipe, in a copy of the tree
@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the packages and the specification."""
    folder = tmp_path_factory.mktemp("tree")
    for name in listed("refcompiler", "conformance", "oracles", "spec", "pyproject.toml"):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    return folder


def insert(tree: Path, file: str, before: str, text: str) -> None:
    path = tree / file
    old = path.read_text(encoding="utf-8")
    assert old.count("\n" + before) == 1, f"{file} must have one line that begins with {before!r}"
    assert text not in old, f"{file} has this line already: take another function for the recipe"
    path.write_text(old.replace("\n" + before, "\n" + text + before), encoding="utf-8")


def agrees(shown: str, found: str) -> bool:
    """Whether the lines shown are lines of what was found, in this order; `...` stands for anything."""
    lines = iter([line.rstrip() for line in found.splitlines()])
    for line in shown.splitlines():
        pattern = re.compile(re.escape(line.rstrip()).replace(re.escape("..."), ".*"))
        if line != "..." and not any(pattern.fullmatch(candidate) for candidate in lines):
            return False
    return True


def follow(tree: Path, fence: Fence) -> bool:
    """One step: write a file, insert lines, or run a command and compare what it prints. False if left out."""
    step = fence.step or ""
    if step.startswith("write "):
        (tree / step.removeprefix("write ")).write_text(fence.text, encoding="utf-8")
    elif step.startswith("insert in "):
        file, before = step.removeprefix("insert in ").split(" before: ", 1)
        insert(tree, file, before, fence.text)
    else:
        options = re.fullmatch(r"run(?P<toolchain> with the toolchain)?(?:, exit (?P<code>\d+))?", step)
        assert options, f"{fence.page}:{fence.line}: unknown step {step!r}"
        if options["toolchain"] and not TOOLCHAIN:
            return False
        command, shown = fence.text.split("\n", 1)
        words = shlex.split(command.removeprefix("$ tilespec "))
        done = python("-m", "conformance", *words, cwd=tree, root=tree)
        found = (done.stdout + done.stderr).replace(f"{tree}/", "")
        assert done.returncode == int(options["code"] or 0), f"{command}\n{found}"
        assert agrees(shown, found), f"{fence.page}:{fence.line}: expected\n{shown}\nfound\n{found}"
    return True


def test_the_recipe_works_as_written(tree):
    steps = [fence for fence in fences("docs/adding-a-feature.md") if fence.step]
    kinds = [fence.step.split()[0] for fence in steps if fence.step]
    assert kinds.count("insert") == 2 and kinds.count("write") == 1, "one YAML, one row, one line of oracle"
    followed = [follow(tree, fence) for fence in steps]
    if not all(followed):
        pytest.skip(f"{followed.count(False)} of {len(steps)} steps need the compiler wheels; the others work")


@pytest.mark.parametrize(
    "shown, found, expected",
    [("a\nb", "a\nx\nb", True), ("b\na", "a\nb", False), ("a ... c", "a b c", True), ("...\nc", "a\nb", False)],
)
def test_the_comparison_itself(shown, found, expected):
    assert agrees(shown, found) is expected


# --------------------------------------------------------------------------- examples and Python in the pages
@pytest.mark.parametrize("example", listed("examples/*.py"))
def test_examples_run(example, tmp_path):
    done = python(str(ROOT / example), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("numpy: ")


PROGRAMS = [f for page in PAGES for f in fences(page) if f.language == "python" and "import" in f.text]


@pytest.mark.parametrize("fence", PROGRAMS, ids=lambda f: f"{f.page}:{f.line}")
def test_programs_in_the_pages_run(fence, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(fence.text, encoding="utf-8")
    done = python(str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(("func @", "simt func @"))


# --------------------------------------------------------------------------- commands
def commands() -> list[tuple[str, list[str]]]:
    """Each `tilespec` command of a fenced block, with where it stands; what follows two blanks describes it. And each
    example of a command's help."""
    found = [
        (f"{name} --help", shlex.split(line.strip().removeprefix("tilespec ").partition(" | ")[0]))
        for name, command in main.commands.items()
        for line in (command.epilog or "").splitlines()
        if line.strip().startswith("tilespec ")
    ]
    for page in PAGES:
        for fence in fences(page):
            if fence.language in ("", "sh"):
                text = fence.text.replace("\\\n", " ")
                for line in text.splitlines():
                    if match := re.match(r"(?:\$ )?tilespec (.*)", line):
                        words = re.split(r"\s{2,}(?=[^\s-])|\s+#", match[1])[0]
                        found.append((f"{page}:{fence.line}", shlex.split(words)))
    return found


@pytest.mark.parametrize("place, words", commands(), ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_commands_parse(place, words):
    command = main.commands.get(words[0])
    assert command is not None or words[0].startswith("-"), f"{place}: there is no command {words[0]}"
    if command is not None:
        parser = command.make_parser(click.Context(command))
        try:
            options, _, _ = parser.parse_args(list(words[1:]))
        except click.UsageError as error:
            pytest.fail(f"{place}: {error.format_message()}")
        for stage in str(options.get("emit") or "").split(","):
            assert not stage or stage in STAGES, f"{place}: there is no stage {stage}"


def test_what_commands_select_exists():
    ids = [instance.id for instance in collect(load_suite(ROOT / "spec"))]
    for place, words in commands():
        command = main.commands.get(words[0])
        if command is None or words[0] not in ("bless", "list", "mutate", "run") or "--spec" in words:
            continue
        select = command.make_parser(click.Context(command)).parse_args(list(words[1:]))[0].get("select")
        patterns = select if isinstance(select, list | tuple) else ()
        chosen = [pattern for pattern in patterns if not MADE_UP.match(pattern) and not set("()") & set(pattern)]
        assert not Selection(chosen).unmatched(ids), place


def test_instances_and_clauses_named_exist():
    features = load_suite(ROOT / "spec")
    known = {instance.id for instance in collect(features)} | {f"{f.id}#{c.id}" for f in features for c in f.clauses}
    known |= {line.id + end for line in benchmarks.collect(features) for end in ("", ":")}  # as reports list them
    example = re.compile(r"[\s`'](\w+\.\w+(?:/\w+:[^\s`']+|#[CEN]\d+))[\s`']")
    found = [(page, id) for page in PAGES for id in example.findall((ROOT / page).read_text(encoding="utf-8"))]
    assert not [(page, id) for page, id in found if id not in known and not MADE_UP.match(id) and "*" not in id]
    assert [id for _, id in found if id in known]


def test_tox_environments_exist():
    text = (ROOT / "tox.ini").read_text(encoding="utf-8")
    named = {name for page in PAGES for name in re.findall(r"tox (?:run )?-e (\w+)", (ROOT / page).read_text())}
    assert named and not [name for name in named if f"[testenv:{name}]" not in text]


def test_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in PAGES:
        for group in re.findall(r'-e "\.\[([\w,]+)\]"', (ROOT / page).read_text()):
            assert set(group.split(",")) <= set(extras), page


# --------------------------------------------------------------------------- what the README says is and is not here
def test_the_readme_has_a_row_for_every_target():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "README.md").read_text().split("## Start")[0], flags=re.M)
    assert rows == list(TARGETS)


ABSENT = {
    "random numbers": "tl.rand(0, tl.arange(0, 8))",
    "device_print": "tl.device_print('x', n)",
}


@pytest.mark.parametrize("what", ABSENT)
def test_what_is_not_here_is_an_error_that_says_so(what, tmp_path):
    source = f"import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef f(x, n):\n    {ABSENT[what]}\n"
    (tmp_path / "kernel.py").write_text(source)
    words = ["compile", f"{tmp_path / 'kernel.py'}::f", "--signature", "x:*f32,n:i32"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1 and "not in this edition" in done.output, done.output


# --------------------------------------------------------------------------- links and paths
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (ROOT / page).parent / file if file else ROOT / page
        assert path.exists(), f"{page}: {target} does not exist"
        assert not anchor or anchor in anchors(path), f"{page}: {target} has no such heading"


@pytest.mark.parametrize("page", [page for page in PAGES if "decisions" not in page])
def test_paths_named_in_text_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    roots = r"(?:refcompiler|conformance|oracles|spec|docs|examples|tests|benchmarks|\.ci)"
    for path in re.findall(rf"`({roots}/[\w./-]+)`", text):
        assert "NNNN" in path or (ROOT / path).exists(), f"{page}: {path} does not exist"
