"""CuPy wraps an index array around where NumPy raises an IndexError."""

from __future__ import annotations

import cupy as cp


def run(n: int = 10) -> dict[str, float]:
    """Read element n + 1 of n numbers."""
    a = cp.arange(n, dtype=cp.float64)
    return {"element": float(a[cp.array([n + 1])][0])}
