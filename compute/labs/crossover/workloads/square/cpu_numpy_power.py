"""NumPy: a ** 2, which NumPy turns into a square."""

from __future__ import annotations

from compute.devices.devices import Array


def square(a: Array, out: Array) -> Array:
    """Return a ** 2, (n,)."""
    return a**2
