"""PyTorch: radix sort; it always computes the permutation too."""

from __future__ import annotations

from compute.devices.devices import Array


def sort(a: Array, out: Array) -> Array:
    """Return a in ascending order, (n,)."""
    return a.sort().values
