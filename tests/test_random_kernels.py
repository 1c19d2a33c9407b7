"""Random kernels through all levels: the simulator and the emulated CUDA agree with the tile interpreter."""

import cuda_emulator
import numpy as np
import pytest
from compiled import assert_agrees, compile_func
from random_kernels import RandomKernel

from refcompiler import interpreter, simulator
from refcompiler.ir import print_func, verify
from refcompiler.ir.parser import parse_func

WARPS = (1, 2, 4, 8)


def compile_random(seed: int):
    kernel = RandomKernel(seed)
    func = parse_func(kernel.func())
    verify(func)
    return compile_func(func, num_warps=WARPS[seed % len(WARPS)]), kernel.arguments()


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_simulation(first):
    for seed in range(first, first + 10):
        stages, arguments = compile_random(seed)
        names = [p.name for p in stages.tile.params]
        wanted, got = (
            {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in zip(names, arguments, strict=True)}
            for _ in "ab"
        )
        interpreter.run(stages.tile, (1,), wanted)
        simulator.run(stages.simt, (1,), got)
        for name, value in wanted.items():
            if isinstance(value, np.ndarray):
                assert (value == got[name]).all(), f"seed {seed}, {name}\n{stages.tile}\n{stages.simt}"


@pytest.mark.parametrize("seed", range(100, 140))
def test_text_of_every_level_parses_back(seed):
    stages, _ = compile_random(seed)
    for func in (stages.tile, stages.laid_out, stages.simt):
        assert print_func(parse_func(print_func(func))) == print_func(func)


@pytest.mark.skipif(not cuda_emulator.available(), reason="g++ is not installed")
@pytest.mark.parametrize("seed", range(200, 212))
def test_emulation(tmp_path, seed):
    stages, arguments = compile_random(seed)
    assert_agrees(stages, tmp_path, (1,), arguments)
