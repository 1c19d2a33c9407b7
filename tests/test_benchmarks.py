"""The section `bench:`: what it expands to, and its mistakes, each with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance import benchmarks
from conformance.cli import main
from conformance.errors import SpecError
from conformance.loader import load_suite, parse_feature

SPEC = Path(__file__).parent / "bench_spec"
TEXT = (SPEC / "features/kernels/scale.yaml").read_text()


def tilespec(*words: str):
    return CliRunner(env={"CUDA_VISIBLE_DEVICES": "-1"}).invoke(main, ["bench", *words, "--spec", str(SPEC)])


def test_lines_bind_shapes_and_work():
    (feature,) = load_suite(SPEC)
    lines = benchmarks.collect([feature])
    assert [line.label for line in lines][:2] == ["T=f32;N=1024", "T=f32;N=268435456"]
    last = lines[-1]
    assert last.dtypes == {"x": "bf16", "out": "bf16"} and last.shapes["x"] == (1 << 28,)
    assert last.bytes == last.array_bytes == 4 << 28
    assert last.outputs == ("out",) and last.flops == 0
    assert [line.label for line in benchmarks.collect([feature], quick=True)] == ["T=f32;N=4096"]
    assert [line.label for line in benchmarks.collect([feature], ["*T=bf16*"])] == [
        "T=bf16;N=1024",
        "T=bf16;N=268435456",
    ]


def test_a_pattern_that_selects_nothing_is_an_error():
    with pytest.raises(SpecError, match="no benchmark matches"):
        benchmarks.collect(load_suite(SPEC), ["kernels.shift"])


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('bytes: "2 * N', 'bytes: "2 * M', "unknown name 'M'"),
        ("itemsize(T)", "itemsize(N)", "has no value"),
        ("sample: {N: 100}", "sample: {M: 100}", "no array has the extent 'M'"),
        ("aims: {copy: 0.95}", "aims: {copy: 0.5}", "below the floor"),
        ("peers: [torch]", "peers: [jax]", "'jax' is not one of"),
        ("quick: {T: [f32], N: [4096]}", "quick: {T: [f32]}", "quick has other parameters"),
        ("peers: [torch]", "inputs: {y: normal}", "'y' is not an array"),
        ("peers: [torch]", "inputs: {x: 'normal(1, 2)'}", "write normal"),
        ("peers: [torch]", "transposed: {x: Q}", "unknown name 'Q'"),
        (
            '"out: *{T}[N] out"]\n    params: {T: [f32, bf16]',
            '"out: *{T}[N]"]\n    params: {T: [f32, bf16]',
            "no out array",
        ),
        ('oracle: {out: "x * 2"}\nnumerics', "numerics", "key 'oracle' is missing"),
        ("tests.bench_kernels:scale", "scale", "does not have the form"),
    ],
)
def test_mistakes_are_found_where_they_stand(old, new, message):
    text = TEXT.replace(old, new, 1)
    assert text != TEXT
    with pytest.raises(SpecError, match=message) as caught:
        parse_feature(text, "scale.yaml")
    assert caught.value.mark.line > 1


def test_a_dry_run_lists_the_lines():
    done = tilespec("--dry-run", "--peers", "copy")
    assert done.exit_code == 0
    assert "kernels.scale/plain:T=f32;N=268435456  2147 MB  against copy\n" in done.output


def test_without_a_gpu_nothing_is_measured_and_the_command_says_so():
    done = tilespec()
    assert done.exit_code == 5
    assert "no GPU can be used" in done.output
