"""Ops of the SIMT level: one thread's registers, global and shared memory, exchange between threads."""
