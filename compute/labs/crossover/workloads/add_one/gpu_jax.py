"""JAX: its arrays are immutable, so the result is a new array."""

from __future__ import annotations

import jax

from compute.devices.devices import Array


@jax.jit
def add_one(a: Array) -> Array:
    """Return a + 1, (n,)."""
    return a + 1
