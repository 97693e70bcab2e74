"""JAX: its arrays cannot change, so the result is a new one."""

from __future__ import annotations

import jax

from compute.devices import Array


@jax.jit
def add_one(a: Array) -> Array:
    """a + 1, (n,)."""
    return a + 1
