"""Ops on blocks: programs and creation, memory, reductions, shape."""
