"""Printers of SIMT IR in the languages that external compilers read."""
