"""CuPy: radix sort, by CUB."""

from __future__ import annotations

from compute.devices.devices import Array


def sort(a: Array, out: Array) -> None:
    """Write a in ascending order to out, both (n,)."""
    out[:] = a
    out.sort()
