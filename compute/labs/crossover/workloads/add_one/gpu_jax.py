"""Add one on the GPU, in JAX."""

from __future__ import annotations

import jax

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_jax")
@jax.jit
def add_one(a: Array) -> Array:
    """JAX: its arrays are immutable, so the result is a new array.

    Return a + 1, (n,).
    """
    return a + 1
