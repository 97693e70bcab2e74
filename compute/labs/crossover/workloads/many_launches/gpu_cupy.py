"""CuPy: a loop of n launches, each with the full overhead of CuPy."""

from __future__ import annotations

from compute.devices.devices import Array


def add_many(a: Array, n: int) -> None:
    """Add 1 to every element of a, (4096,), n times."""
    for _ in range(n):
        a += 1
