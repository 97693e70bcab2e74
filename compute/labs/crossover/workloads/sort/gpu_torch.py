"""PyTorch: radix sort; it returns the permutation too, whether one wants it or not."""

from __future__ import annotations

from compute.devices import Array


def sort(a: Array, out: Array) -> Array:
    """a in ascending order, (n,)."""
    return a.sort().values
