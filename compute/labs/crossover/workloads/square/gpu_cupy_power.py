"""CuPy: a ** 2, by a kernel of its own that knows small whole powers."""

from __future__ import annotations

from compute.devices import Array


def square(a: Array, out: Array) -> Array:
    """a ** 2, (n,)."""
    return a**2
