"""Backends and devices: memory, clocks, CUDA sources, Numba's threads and the kernel cache."""
