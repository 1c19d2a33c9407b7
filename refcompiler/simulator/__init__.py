"""Runs SIMT IR in NumPy with the meaning PTX gives it, and reports races between the threads of a CTA."""

from refcompiler.simulator.cta import run
from refcompiler.simulator.memory import AccessCounts

__all__ = ["AccessCounts", "run"]
