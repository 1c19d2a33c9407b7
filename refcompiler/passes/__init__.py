"""The passes, each in its own module; only the pipeline orders them."""
