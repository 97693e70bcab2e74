"""NumPy: quicksort on one core, vectorised where the processor can."""

from __future__ import annotations

from compute.devices import Array


def sort(a: Array, out: Array) -> None:
    """out = a in ascending order, both (n,)."""
    out[:] = a
    out.sort()
