"""`tilespec bench` without a GPU: statistics, judgement, tables, pictures and exit codes, from recorded timings."""

from __future__ import annotations

import copy
import json

import bench_samples
import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from conformance import benchmarks
from conformance.adapters import library
from conformance.bench import ceilings, document, machine, roofline, sampling, tables, verifying
from conformance.bench.statistics import geometric_mean, ratio
from conformance.cli import main
from conformance.dtypes import DTYPES
from conformance.errors import SpecError
from conformance.loader import load_suite


def made(lines=None):
    return document.document(copy.deepcopy(lines or bench_samples.lines()), bench_samples.MACHINE, bench_samples.RUN)


def tilespec(*words):
    return CliRunner(env={"CUDA_VISIBLE_DEVICES": "-1"}).invoke(main, ["bench", *map(str, words)])


# --- statistics
def test_a_ratio_is_that_of_the_medians_and_lies_in_its_interval():
    found = ratio([2.0, 2.0, 2.1, 9.0], [4.0, 4.2, 4.1, 30.0])
    assert found.value == pytest.approx(4.15 / 2.05)
    assert found.low <= found.value <= found.high
    constant = ratio([2.0] * 10, [3.0] * 10)
    assert constant.low == pytest.approx(constant.high) == pytest.approx(1.5)


def test_what_slows_a_round_down_for_all_widens_no_interval():
    generator = np.random.default_rng(1)
    drift = 1 + generator.random(60)
    ours, peer = 10 * drift * (1 + 0.001 * generator.standard_normal(60)), 11 * drift
    paired, apart = ratio(ours, peer), ratio(ours, generator.permutation(peer))
    assert paired.high - paired.low < 0.01 < 0.05 < apart.high - apart.low


def test_the_interval_holds_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        ours, peer = (generator.lognormal(mean, 0.05, 25) for mean in (0.0, 0.1))
        found = ratio(ours, peer)
        held += found.low <= np.exp(0.1) <= found.high
    assert 180 <= held <= 199  # 95 % of 200, give or take


def test_a_geometric_mean_of_ratios():
    found = geometric_mean([([1.0] * 5, [2.0] * 5), ([1.0] * 5, [0.5] * 5)])
    assert found.value == pytest.approx(1.0) and found.low == pytest.approx(found.high)


@pytest.mark.parametrize(
    "ours, peer", [([1, 2], [1, 2]), ([1, 2, 3], [1, 2]), ([1, 2, 0], [1, 2, 3]), ([1, 2, np.nan], [1, 2, 3])]
)
def test_no_ratio_of_too_little(ours, peer):
    with pytest.raises(ValueError, match=r"ratio needs|positive"):
        ratio(ours, peer)


# --- judgement
def line_with(us, **more):
    return bench_samples.line("kernels.softmax/rows:T=f32;N=8", us, bytes=5e8, dtype="f32", **more)


def test_the_lower_end_of_the_interval_decides():
    entry = made([line_with({"ours": 100.0, "copy": 100.0}, floors={"copy": 0.99})])["lines"][0]["ratios"]["copy"]
    assert entry["value"] > 0.99 and entry["low"] < 0.99 and entry["met"] is False
    good = made([line_with({"ours": 100.0, "copy": 105.0}, floors={"copy": 0.99}, aims={"copy": 1.2})])
    assert good["lines"][0]["ratios"]["copy"]["met"] and not good["lines"][0]["ratios"]["copy"]["reached"]
    assert good["verdict"] == {"floors": 1, "met": 1, "wrong": [], "slow": [], "absent": []}


@pytest.mark.parametrize("us, met", [(100.0, True), (108.0, False), (93.0, False)])
def test_neither_of_our_backends_may_be_slower(us, met):
    line = line_with({"ours": 100.0, "mlir": us}, floors={"mlir": 0.95})
    found = made([line])
    assert found["lines"][0]["ratios"]["mlir"]["met"] is met
    assert ("is what mlir has of ours" in "".join(found["verdict"]["slow"])) is (us == 108.0)


def test_lines_that_miss_a_floor_can_be_asked_for():
    slow = line_with({"ours": 200.0, "copy": 128.0, "mlir": 200.0}, floors={"copy": 0.9, "mlir": 0.95})
    uneven = line_with({"ours": 128.0, "copy": 128.0, "mlir": 200.0}, floors={"copy": 0.9, "mlir": 0.95})
    assert document.missed(made([slow | {"id": "a/b:N=1"}, uneven | {"id": "a/b:N=2"}])) == ["a/b:N=1"]


def test_a_wrong_result_has_no_speed():
    line = line_with({"ours": 100.0, "copy": 100.0}, floors={"copy": 0.5})
    line["contestants"][0] |= {"status": "wrong", "why": "element 3"}
    verdict = made([line])["verdict"]
    assert verdict["met"] == 0 and verdict["wrong"] == ["kernels.softmax/rows:T=f32;N=8: wrong: element 3"]
    line = line_with({"ours": 100.0, "torch": 100.0}, floors={"torch": 0.5})
    line["contestants"][1] |= {"status": "wrong", "why": "theirs"}
    assert "torch" not in made([line])["lines"][0]["ratios"]


def test_faster_than_the_hardware_is_a_mistake():
    found = made([line_with({"ours": 50.0, "copy": 125.0})])
    assert found["lines"][0]["contestants"][0]["status"] == "implausible"
    assert "the hardware can do" in found["verdict"]["wrong"][0]
    found["lines"][0]["bytes"] /= 4  # the file's statement of its work is corrected: judged again from the timings
    again = document.judge(found)
    assert again["lines"][0]["contestants"][0]["status"] == "right" and not again["verdict"]["wrong"]
    product = bench_samples.line("kernels.matmul/x:N=1", {"ours": 100.0}, bytes=1e6, flops=1.2e11)
    assert made([product])["verdict"]["wrong"]


def test_peers_that_are_absent_fail_nothing():
    line = line_with({"ours": 100.0}, floors={"compile": 0.97})
    line["contestants"].append({"name": "compile", "status": "absent", "why": "torch is not installed", "times_us": []})
    found = made([line])
    assert found["verdict"]["absent"] == ["compile: torch is not installed"] and not found["verdict"]["slow"]


def test_means_over_lines_have_floors_of_their_own():
    lines = [line_with({"ours": 100.0, "compile": t}, means={"compile": 1.0}) for t in (95.0, 120.0)]
    assert made(lines)["means"][0]["met"] is True and made(lines)["means"][0]["lines"] == 2
    lines = [line_with({"ours": 100.0, "compile": t}, means={"compile": 1.0}) for t in (95.0, 99.0)]
    assert made(lines)["verdict"]["slow"][0].startswith("kernels.softmax/rows: mean 0.9")


def test_ceilings_come_from_the_driver():
    assert ceilings.bytes_per_second(bench_samples.MACHINE) == pytest.approx(4.917e12, rel=1e-3)
    assert ceilings.flops_per_second(bench_samples.MACHINE, "bf16") == pytest.approx(1070.5e12, rel=1e-3)
    tf32, parts = (ceilings.flops_per_second(bench_samples.MACHINE, name) for name in ("tf32", "tf32x3"))
    assert parts == pytest.approx(tf32 / 3) and tf32 == pytest.approx(535.2e12, rel=1e-3)
    assert ceilings.flops_per_second({"arch": "sm_70"}, "bf16") is None and ceilings.bytes_per_second({}) is None


# --- documents
def test_a_document_is_judged_again_when_read(tmp_path):
    path = tmp_path / "bench.json"
    document.write(made(), path)
    again = document.read(path)
    assert [line["ratios"].keys() for line in again["lines"]] == [line["ratios"].keys() for line in made()["lines"]]
    changed = json.loads(path.read_text())
    changed["lines"][0]["floors"]["copy"] = 2.0
    path.write_text(json.dumps(changed))
    assert document.read(path)["verdict"]["slow"][0].startswith(changed["lines"][0]["id"])
    assert len(path.read_text().splitlines()) == 1 and path.stat().st_size > 1000


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d: d.update(bench=2), "1 was expected"),
        (lambda d: d["lines"][0].update(times=[1]), "times"),
        (lambda d: d["lines"][0]["contestants"][0].update(name="theirs"), "bench.invalid"),
        (lambda d: d["lines"][0]["contestants"][0].update(times_us=[1.0, -1.0, 2.0]), "minimum"),
        (lambda d: d["lines"][0]["contestants"][0].update(times_us=[135.0]), "as many rounds"),
    ],
)
def test_files_that_are_no_document(tmp_path, change, message):
    path = tmp_path / "bench.json"
    document.write(made(), path)
    changed = json.loads(path.read_text())
    change(changed)
    path.write_text(json.dumps(changed))
    with pytest.raises(SpecError, match=message):
        document.read(path)
    assert tilespec("--from", path).exit_code == 2


# --- tables
def test_the_table_on_a_terminal():
    console = Console(
        width=150, record=True, color_system="truecolor", force_terminal=True, file=open("/dev/null", "w")
    )
    tables.show(made(), console)
    text = console.export_text()
    assert "kernels.softmax/rows" in text and "/ compile" in text and "geometric mean" in text
    row = next(line for line in text.splitlines() if line.startswith("T=f32 M=1024 N=65536"))
    assert "< 0.9" in row and "TB/s" in row
    assert "TFLOP/s" in next(line for line in text.splitlines() if line.startswith("T=bf16 M=4096"))
    assert "7 lines on NVIDIA H200, driver 580.1: 8 of 9 floors met, 0 results wrong" in text


def test_the_table_as_markdown():
    lines = bench_samples.lines()
    lines[-1]["notes"] = lines[-2]["notes"] = lines[-3]["notes"] = "power limits large products"
    text = tables.markdown(made(lines))
    assert text.count("\n\npower limits large products\n") == 1
    assert text.count("| size | us | rate |") == 3 and "✗" in text and "✓" in text
    for block in text.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1
    assert "## Too slow" in text and "## Wrong" not in text


# --- pictures
def test_pictures_show_every_right_result():
    arithmetic, memory = roofline.points(made())
    assert len(arithmetic) == 9 and len(memory) == 14
    assert {p.contestant for p in memory} == {"ours", "copy", "torch", "compile"}
    line = line_with({"ours": 100.0, "copy": 100.0})
    line["contestants"][0] |= {"status": "wrong", "why": "x"}
    assert [p.contestant for p in roofline.points(made([line]))[1]] == ["copy"]


def test_pictures_are_written_in_every_form_and_alike_each_time(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    written = roofline.draw(made(), tmp_path / "a")
    assert {p.name for p in written} == {f"roofline-{t}.{k}" for t in ("light", "dark") for k in ("png", "svg", "pdf")}
    heads = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for path in written:
        assert path.read_bytes().startswith(heads[path.suffix[1:]])
    monkeypatch.setattr(roofline, "THEMES", roofline.THEMES[:1])
    for path in roofline.draw(made(), tmp_path / "b"):
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()
    svg = (tmp_path / "a/roofline-dark.svg").read_text()
    assert "softmax  T=f32 M=8192 N=8192" in svg and "#0d1117" in svg and "copy: 4." in svg


def test_many_lines_are_two_columns_of_whole_operations():
    def points(**sizes):
        return [roofline.Point(0.0, 1.0, o, f"N={n}", who) for o, count in sizes.items() for n in range(count)
                for who in ("ours", "copy")]  # fmt: skip

    assert roofline._columns([]) == [] and roofline._columns(points(a=30, b=10)) == [points(a=30, b=10)]
    first, second = roofline._columns(points(a=20, b=14, c=10))
    assert {p.operation for p in first} == {"a"} and {p.operation for p in second} == {"b", "c"}
    assert roofline._columns(points(a=50)) == [points(a=50)]


def test_nothing_is_drawn_of_nothing(tmp_path):
    pytest.importorskip("matplotlib")
    line = line_with({"ours": 100.0})
    line["contestants"][0] |= {"status": "wrong", "why": "x"}
    assert roofline.draw(made([line]), tmp_path) == [] and not list(tmp_path.iterdir())


# --- the command
def test_recorded_timings_are_judged_without_a_gpu(tmp_path):
    path = tmp_path / "bench.json"
    document.write(made(), path)
    assert tilespec("--from", path).exit_code == 0
    done = tilespec("--from", path, "--check")
    assert done.exit_code == 10 and "too slow: kernels.softmax/rows:T=f32;M=1024;N=65536" in done.output
    line = bench_samples.lines()[0]
    line["contestants"][0] |= {"status": "wrong", "why": "element 3"}
    document.write(made([line]), path)
    assert tilespec("--from", path, "--check").exit_code == 1
    document.write({**made(), "lines": []}, path)
    assert tilespec("--from", path).exit_code == 5


def test_files_of_several_runs_are_one_table(tmp_path):
    lines = bench_samples.lines()
    first, second = tmp_path / "rows.json", tmp_path / "products.json"
    document.write(document.document(lines[:4], bench_samples.MACHINE, {**bench_samples.RUN, "commit": "aa"}), first)
    again = line_with({"ours": 150.0, "copy": 140.0}) | {"id": lines[0]["id"]}
    run = {**bench_samples.RUN, "commit": "bb", "select": ["kernels.matmul"], "seconds": 2.0}
    document.write(document.document([*lines[4:], again], bench_samples.MACHINE, run), second)
    found = document.read(first, second)
    assert [line["id"] for line in found["lines"]] == [line["id"] for line in [*lines[1:], again]]
    assert [line["commit"] for line in found["lines"]] == ["aa"] * 3 + ["bb"] * 4
    assert found["lines"][-1]["contestants"][0]["median_us"] == pytest.approx(150.0, rel=0.1)
    assert (
        found["run"]["select"] == ["kernels.matmul"] and found["verdict"]["floors"] == made()["verdict"]["floors"] - 2
    )
    assert tilespec("--from", first, "--from", second, "--json", tmp_path / "all.json").exit_code == 0
    assert [line["id"] for line in document.read(tmp_path / "all.json")["lines"]] == [
        line["id"] for line in found["lines"]
    ]
    document.write(document.document(lines, bench_samples.MACHINE | {"driver": "590.2"}, run), second)
    with pytest.raises(SpecError, match=r"590\.2, and .* 580\.1"):
        document.read(first, second)


def test_everything_is_written_to_a_folder(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "bench.json"
    document.write(made(), path)
    done = tilespec("--from", path, "--out", tmp_path / "out", "--json", tmp_path / "again.json")
    assert done.exit_code == 0
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert {"bench.json", "bench.md", "roofline-light.svg", "roofline-dark.png"} <= names
    assert (tmp_path / "out/bench.json").read_bytes() == (tmp_path / "again.json").read_bytes()


def test_sizes_choose_lines():
    done = tilespec("--dry-run", "kernels.softmax", "--sizes", "T=f32;N=1024", "--peers", "copy,torch")
    assert done.exit_code == 0 and done.output.count("kernels.softmax/rows:") == 1
    assert tilespec("--dry-run", "--sizes", "N=3").exit_code == 5
    assert tilespec("--dry-run", "--peers", "jax").exit_code == 2


def test_every_entry_of_the_specification_can_be_called():
    lines = benchmarks.collect(load_suite())
    assert lines
    for line in {(i.feature, i.benchmark.id): i for i in lines}.values():
        library.function(line.benchmark.entry, **{a.name: None for a in line.benchmark.arguments}, **line.options)


# --- verification
def small(feature, benchmark):
    """A line of a benchmark with small sizes, no two alike."""
    axes = [(names, rows[:1]) for names, rows in benchmark.params]
    params = {n: v for names, rows in axes for n, v in zip(names, rows[0], strict=True)}
    large = [n for n, v in params.items() if isinstance(v, int) and not isinstance(v, bool) and v > 64]
    return benchmarks._line(feature, benchmark, params | {n: 24 + 8 * k for k, n in enumerate(large)})


BENCHMARKS = [pytest.param(f, b, id=f"{f.id}/{b.id}") for f in load_suite() for b in f.bench]


@pytest.mark.parametrize("feature, benchmark", BENCHMARKS)
def test_what_the_library_computes_is_right_and_a_changed_element_is_not(feature, benchmark):
    line = small(feature, benchmark)
    generator = np.random.default_rng(3)
    given = {}
    for name, shape in line.shapes.items():
        kind = DTYPES[line.dtypes[name]].numpy
        stored = shape[:-2] + shape[:-3:-1] if name in line.transposed else shape
        whole = kind.kind in "iu"
        array = (
            generator.integers(-100, 100, stored).astype(kind)
            if whole
            else generator.standard_normal(stored).astype(kind)
        )
        given[name] = np.swapaxes(array, -1, -2) if name in line.transposed else array
    library.function(line.benchmark.entry)(**given, **line.scalars, **line.options)
    chosen = sampling.places(line, 5)

    def sampled(name):
        found = given[name]
        for axis, at in sampling.axes(line, name, chosen).items():
            found = np.take(found, at, axis)
        return found

    host = {name: sampled(name) for name in line.shapes}
    expected = verifying.Expected(line, host, chosen)
    status, why, slack = expected.judge(host)
    assert status == "right", why
    assert slack <= 1
    for output in line.outputs:
        host[output] = host[output].copy()
        middle = tuple(n // 2 for n in host[output].shape)
        host[output][middle] += host[output].dtype.type(1)
        assert expected.judge(host)[0] == "wrong"


def test_places_are_drawn_anew_and_hold_both_ends():
    line = benchmarks.collect(load_suite(), ["kernels.softmax/rows:T=f32;M=65536;N=1024"])[0]
    first, second = sampling.places(line, 1)["M"], sampling.places(line, 2)["M"]
    assert first[0] == second[0] == 0 and first[-1] == second[-1] == 65535
    assert 12 < len(first) <= 16 and len(set(first) & set(second)) < 6


def test_clocks_and_power_are_numbers_where_the_driver_knows_them(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '1980, 3201, 612.33, [N/A], 55, 0x0000000000000004'\n")
    program.chmod(0o755)
    monkeypatch.setattr(machine.shutil, "which", lambda name: str(program))
    found = machine.state()
    assert found["sm_clock_mhz"] == 1980 and found["power_w"] == 612.33 and "power_limit_w" not in found
    assert found["clocks_event_reasons"] == "0x0000000000000004"
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    assert machine.state() == {}
