"""CuPy: its function square."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array


def square(a: Array, out: Array) -> None:
    """Compute out = a * a, both (n,)."""
    cp.square(a, out=out)
