"""Facts about values that passes and emitters ask for: ranges of integers, contiguity and alignment per axis."""
