"""Differential fuzzing: random typed kernels on several targets, which must agree bit for bit."""
