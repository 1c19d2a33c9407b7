"""Profiles one launch of lines of `tilespec bench` by Nsight Compute: what it moves, and what its warps wait for.

    python benchmarks/profile_lines.py 'kernels.softmax/rows:T=f32;M=1024;N=65536' [LINE...] [--json FILE]
    python benchmarks/profile_lines.py --missed out/bench.json --json out/profiles.json

needs a GPU, torch, and `ncu` with the right to read performance counters. Lines are named as `tilespec bench --dry-run`
does, or by a pattern. The profiled launch finds cold caches and everything compiled; `--contestant triton` profiles a
peer. `tilespec bench --from ... --profiles FILE` sets what FILE says beside the floors that were missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from conformance import benchmarks
from conformance.bench import arrays, document, peers, profiles
from conformance.benchmarks import Line
from conformance.loader import load_suite


def launch(line: Line, contestant: str) -> None:
    """Do the work twice; Nsight Compute sees the second time only."""
    import torch

    call = peers.ours(line) if contestant == "ours" else peers.call_of(contestant, line)
    arguments: Any = arrays.arguments(line, 1)
    call(arguments)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    call(arguments)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def profiled(line: Line, contestant: str, ncu: str, csv_file: Path | None) -> dict[str, Any]:
    """The profile of a line. Raises SystemExit with what ncu said."""
    command = [ncu, *profiles.options(), sys.executable, __file__, line.id, "--contestant", contestant, "--launch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if csv_file is not None:
        csv_file.parent.mkdir(parents=True, exist_ok=True)
        csv_file.write_text(done.stdout, encoding="utf-8")
    try:
        kernels = profiles.read_csv(done.stdout)
    except ValueError as error:
        raise SystemExit(f"{line.id}: {error}\n{done.stderr[-2000:]}") from None
    return profiles.profile(line, contestant, kernels)


def main() -> int:
    """A sentence for each line; 1 where one could not be profiled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("select", nargs="*", help="lines, or patterns of them")
    parser.add_argument("--missed", type=Path, help="the lines that miss a floor in a file of `tilespec bench --json`")
    parser.add_argument("--contestant", default="ours", help="ours (the default), mlir, triton, compile, torch, cublas")
    parser.add_argument("--json", type=Path, help="write the profiles; those of other lines in it are kept")
    parser.add_argument("--raw", type=Path, help="a folder for what ncu prints")
    parser.add_argument("--ncu", default="ncu", help="the program")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    select = [*options.select, *(document.missed(document.read(options.missed)) if options.missed else ())]
    if not select:
        print("no line is to be profiled")
        return 0
    lines = benchmarks.collect(load_suite(), select)
    if options.launch:
        launch(lines[0], options.contestant)
        return 0
    kept = profiles.read(options.json) if options.json and options.json.exists() else []
    failed = 0
    for number, line in enumerate(lines):
        raw = options.raw / f"{number}.csv" if options.raw else None
        try:
            found = profiled(line, options.contestant, options.ncu, raw)
        except SystemExit as error:
            print(error, file=sys.stderr)
            failed += 1
            continue
        print(f"{line.id} ({options.contestant}): {profiles.sentence(found)}", flush=True)
        place = (found["line"], found["contestant"])
        kept = [p for p in kept if (p["line"], p["contestant"]) != place] + [found]
        if options.json:
            profiles.write(kept, options.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
