"""The generated parts of README.md: commands with their real output, and the error of a kernel with a mistake."""

from __future__ import annotations

import importlib.util
import re
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import click
from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
EXAMPLE = "examples/vector_add.py"
SIGNATURE = "x_ptr:*f32:16,y_ptr:*f32:16,output_ptr:*f32:16,n_elements:i32:16"
TABLE = ("run", "memory.load", "opt.licm", "shape.expand_dims", "shape.reshape")
PINNED = ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvdisasm", "xtc-mlir-python-bindings")
MISTAKE = ("offsets < n_elements", "offsets <= n_elements")


class Unavailable(Exception):
    """This machine cannot produce the part; the message says what it lacks."""


def need_pinned_toolchain() -> None:
    """Raises Unavailable unless the compiler is the one of constraints.txt: another one writes other machine code."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    for package in PINNED:
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            found = "absent"
        if found != pins[package]:
            raise Unavailable(f"{package} is {found}, constraints.txt has {pins[package]}")


def output(*words: str) -> str:
    """What `tilespec WORDS` prints on a machine without a GPU; elapsed times are left out."""
    from conformance.cli import main

    done = CliRunner(env={"CUDA_VISIBLE_DEVICES": "-1"}).invoke(main, list(words))
    if done.exit_code:
        raise click.ClickException(f"tilespec {' '.join(words)} ends with {done.exit_code}:\n{done.output}")
    lines = (line.rstrip() for line in done.output.splitlines())
    return re.sub(r" in \d[\d.]* s:", " in ... s:", "\n".join(lines)) + "\n"


def fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text}```\n"


def table() -> str:
    """The table per feature, of few features."""
    need_pinned_toolchain()
    return fenced(f"$ tilespec {' '.join(TABLE)}\n" + output(*TABLE))


def stages() -> dict[str, str]:
    """The text of every stage of the example, by one command."""
    wanted = ("tile", "tile_opt", "simt", "cuda", "sass", "resources")
    text = output("compile", f"{EXAMPLE}::add_kernel", "--set", "BLOCK_SIZE=512", "--signature", SIGNATURE,
                  "--emit", ",".join(wanted))  # fmt: skip
    parts = re.split(r"^// ---- (\w+)\n", text, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def kernel() -> str:
    """The kernel as it stands in the example."""
    text = (ROOT / EXAMPLE).read_text(encoding="utf-8")
    found = re.search(r"@triton\.jit\n(?:.+\n)+", text)
    assert found is not None, f"{EXAMPLE} has no kernel"
    return fenced(found[0], "python")


def walk() -> str:
    """The kernel's tile SSA, SIMT IR, CUDA C++, a few instructions and its resources."""
    need_pinned_toolchain()
    made = stages()
    optimised = "The optimiser finds nothing to improve here: `tile_opt` is the same text.\n"
    if made["tile_opt"] != made["tile"]:
        optimised = "Optimised:\n" + fenced(made["tile_opt"])
    instructions = re.findall(r"^ +/\*[0-9a-f]+\*/ +(.+?) ;$", made["sass"], flags=re.M)
    chosen = [line for line in instructions if re.search(r"\b(LDG|FADD|STG)\b", line)]
    assert chosen, "the disassembly has no load, sum or store"
    assert "threads=128" in made["simt"] and "width=4" in made["simt"], "the text beside the SIMT IR is out of date"
    return "\n".join(
        (
            "Tile SSA, what the frontend makes: blocks, no threads yet.\n" + fenced(made["tile"]),
            optimised,
            "SIMT IR, what one of 128 threads does: four elements, 16 bytes an access.\n" + fenced(made["simt"]),
            "CUDA C++; the templates that move 16 bytes at once stand before this and are left out.\n"
            + fenced(made["cuda"][made["cuda"].index('extern "C"') :], "cuda"),
            f"SASS for sm_90a, the loads, sums and stores of {len(instructions)} lines.\n"
            + fenced("".join(line + "\n" for line in chosen)),
            "Resources of the cubin.\n" + fenced(re.sub(r"\n ?(?=[^\n])", " ", made["resources"]), "json"),
        )
    )


def out_of_bounds() -> str:
    """What the interpreter says of the example with a comparison that lets one element too many through."""
    from refcompiler.errors import RunError

    text = (ROOT / EXAMPLE).read_text(encoding="utf-8")
    assert text.count(MISTAKE[0]) == 1, f"{EXAMPLE} must contain {MISTAKE[0]!r} once"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(EXAMPLE).name
        path.write_text(text.replace(*MISTAKE), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("mistaken", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        try:
            module.main()
        except RunError as error:
            return fenced(str(error).replace(folder, "examples").rstrip("\n") + "\n")
    raise click.ClickException("the mistake in the example was not found")


PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("README.md", "table", table),
    ("README.md", "kernel", kernel),
    ("README.md", "walk", walk),
    ("README.md", "error", out_of_bounds),
)
