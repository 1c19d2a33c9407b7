"""Measuring kernels against their peers: `tilespec bench`, its statistics, tables and pictures."""
