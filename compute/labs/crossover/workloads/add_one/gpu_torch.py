"""PyTorch: the same line as NumPy, on a tensor on the GPU."""

from __future__ import annotations

from compute.devices.devices import Array


def add_one(a: Array) -> None:
    """Add 1 to every element of a, (n,), in place."""
    a += 1
