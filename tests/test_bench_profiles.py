"""Profiles of launches: reading what Nsight Compute prints, and saying what limits a line. No GPU, no `ncu`."""

from __future__ import annotations

from functools import cache

import pytest

from conformance import benchmarks
from conformance.bench import profiles
from conformance.errors import SpecError
from conformance.loader import load_suite

# Written by hand after the documentation of `--csv --page raw`: names, units, a row for each kernel, values in quotes,
# digits in groups; what the program prints of itself begins with ==.
HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC"]  # fmt: skip
METRICS = {
    "dram__bytes_read.sum": ("byte", "536,870,912"),
    "dram__bytes_write.sum": ("Mbyte", "268.435456"),
    "gpu__time_duration.sum": ("us", "210.5"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "78.25"),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "40"),
    "lts__t_sector_hit_rate.pct": ("%", "33.30"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "21.5"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "24.6"),
    "sm__maximum_warps_per_active_cycle_pct": ("%", "25"),
    "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active": ("%", "0"),
    "launch__registers_per_thread": ("register/thread", "80"),
    "launch__block_size": ("", "512"),
    "launch__waves_per_multiprocessor": ("", "7.76"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "6.0"),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": ("inst", "3.0"),
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": ("inst", "1.0"),
    "smsp__average_warps_issue_stalled_barrier_not_issued_per_issue_active.ratio": ("inst", "2.0"),
    "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio": ("inst", "nan"),
}


def printed(*kernels, **changed):
    """What ncu prints for kernels of these names; `changed` are other values, by the name of the metric."""
    rows = [[*HEAD, *METRICS], ["" for _ in HEAD] + [unit for unit, _ in METRICS.values()]]
    for number, name in enumerate(kernels):
        values = [changed.get(n.partition(".")[0], value) for n, (_, value) in METRICS.items()]
        rows.append(
            [str(number), "4711", "python3.12", "127.0.0.1", name, "1", "7", "(512, 1, 1)", "(1024, 1, 1)", "0", "9.0"]
            + values
        )
    table = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    return f"==PROF== Connected to process 4711\n==PROF== Profiling: 0%....100%\n{table}\n==PROF== Disconnected\n"


@cache
def line(id="kernels.softmax/rows:T=f32;M=1024;N=65536"):
    return benchmarks.collect(load_suite(), [id])[0]


def test_the_table_of_one_kernel():
    (kernel,) = profiles.read_csv(printed("void f(int, float)"))
    assert kernel["kernel"] == "void f(int, float)"
    assert kernel["dram_read"] == 536870912 and kernel["dram_written"] == 268435456
    assert kernel["nanoseconds"] == 210500 and kernel["registers"] == 80 and kernel["threads"] == 512
    assert kernel["tensor_percent"] == 0 and "programs" not in kernel
    assert kernel["stalls"] == {"long_scoreboard": 0.6, "barrier": 0.3, "selected": 0.1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n",
        "\n".join(printed("f").splitlines()[:4]),
        "==WARNING== No kernels were profiled.\n",
    ],
)
def test_what_is_no_table_is_shown(text):
    with pytest.raises(ValueError, match="no table of Nsight Compute") as error:
        profiles.read_csv(text)
    assert text.strip()[-60:] in str(error.value)


@pytest.mark.parametrize(
    "changed, limit",
    [
        ({}, "latency (long_scoreboard) and what it moves: "),
        ({"dram__bytes_read": "268,435,456"}, "latency (long_scoreboard): "),
        ({"gpu__dram_throughput": "91"}, "what it moves: "),
        ({"gpu__dram_throughput": "91", "dram__bytes_read": "268,435,456"}, "memory: "),
        ({"lts__throughput": "86"}, "L2: "),
        ({"sm__throughput": "88"}, "multiprocessors: "),
        ({"sm__inst_executed_pipe_tensor_op_hmma": "93"}, "tensor cores: "),
    ],
)
def test_what_limits_a_launch(changed, limit):
    found = profiles.profile(line(), "ours", profiles.read_csv(printed("softmax_kernel", **changed)))
    assert found["must_read"] == found["must_write"] == 1 << 28
    assert profiles.sentence(found).startswith(limit)


def test_bytes_of_several_kernels_are_added_and_the_longest_speaks():
    kernels = profiles.read_csv(printed("first", "second"))
    kernels[1] |= {"nanoseconds": 1.0, "stalls": {"math": 1.0}}
    text = profiles.sentence(profiles.profile(line(), "triton", kernels))
    assert "moves 1611 MB, 3.00 of what it must (reads 4.00, writes 2.00)" in text and "long_scoreboard 60%" in text


def test_what_must_be_moved_is_by_role():
    found = profiles.profile(line("kernels.matmul/odd:T=bf16;M=16;N=8192;K=8192"), "ours", [])
    assert found["must_read"] == 2 * 8192 * (16 + 8192) and found["must_write"] == 2 * 16 * 8192


def test_files_of_profiles(tmp_path):
    found = [profiles.profile(line(), "ours", profiles.read_csv(printed("f")))]
    profiles.write(found, tmp_path / "p.json")
    assert profiles.read(tmp_path / "p.json") == found
    for text in ("{", "[{}]", '["x"]', "3"):
        (tmp_path / "p.json").write_text(text)
        with pytest.raises(SpecError, match="not a file of profiles"):
            profiles.read(tmp_path / "p.json")


def test_words_for_the_program():
    words = profiles.options()
    assert words[:3] == ["--csv", "--page", "raw"] and words.count("--section") == len(profiles.SECTIONS)
    assert "dram__bytes_read.sum" in words[-1].split(",")
