"""Ops on blocks: programs and creation, memory, reductions, shape."""

BLOCKS = ("tile", "laid_out")  # the levels at which there are blocks
