"""Runs SIMT IR in NumPy with the meaning PTX gives it: finds what threads do wrong, counts what a launch costs."""

from refcompiler.simulator.counts import Counts
from refcompiler.simulator.launch import run

__all__ = ["Counts", "run"]
