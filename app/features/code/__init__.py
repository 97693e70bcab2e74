"""The code of kernels, with their machine code."""
