"""Reference compiler of the tile language: Python kernels to tile SSA, SIMT IR, CUDA C++ and cubin."""
