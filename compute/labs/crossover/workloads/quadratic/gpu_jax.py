"""Quadratic formula on the GPU, in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_jax")
@jax.jit
def root(a: Array, b: Array, c: Array, x: Array) -> Array:
    """JAX: XLA fuses the whole formula into one kernel.

    Return the root of a x² + b x + c next to 0; all (n,).
    """
    return (-b + jnp.sqrt(b**2 - 4 * a * c)) / (2 * a)
