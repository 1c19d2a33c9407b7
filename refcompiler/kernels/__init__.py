"""The kernel library: kernels in the language itself, each with a function that launches it well."""
