"""`python -m conformance` is the command `tilespec`."""

from conformance.cli import main

if __name__ == "__main__":
    main(prog_name="tilespec")
