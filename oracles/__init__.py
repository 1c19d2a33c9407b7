"""The judge: independent NumPy and fp64 reference functions; imports nothing of what it judges."""
