"""JAX: XLA fuses the whole formula into one kernel."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from compute.devices.devices import Array


@jax.jit
def root(a: Array, b: Array, c: Array, x: Array) -> Array:
    """Return the root of a x² + b x + c next to 0; all (n,)."""
    return (-b + jnp.sqrt(b**2 - 4 * a * c)) / (2 * a)
