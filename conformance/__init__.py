"""The harness: judges any implementation of the tile language against the specification in spec/."""
