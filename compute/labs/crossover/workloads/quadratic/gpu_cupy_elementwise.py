"""CuPy's ElementwiseKernel: the formula in C; CuPy writes the loop around it, for every dtype."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array

_root = cp.ElementwiseKernel(
    "T a, T b, T c",
    "T x",
    "x = (-b + sqrt(b * b - 4 * a * c)) / (2 * a)",
    "quadratic_root",
)


def root(a: Array, b: Array, c: Array, x: Array) -> None:
    """Write the root of a x² + b x + c next to 0 to x; all (n,)."""
    _root(a, b, c, x)
