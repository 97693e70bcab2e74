"""CuPy, unfused: a kernel and a temporary array for every operation."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array


def root(a: Array, b: Array, c: Array, x: Array) -> None:
    """Write the root of a x² + b x + c next to 0 to x; all (n,)."""
    cp.divide(-b + cp.sqrt(b**2 - 4 * a * c), 2 * a, out=x)
