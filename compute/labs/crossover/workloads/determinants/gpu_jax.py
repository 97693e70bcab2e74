"""Determinants on the GPU, in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from compute.devices.devices import Array
from compute.ways.declaring import way

_all = jax.jit(jax.vmap(jnp.linalg.det))


@way("gpu_jax")
def determinants(A: Array, det: Array) -> Array:
    """JAX: the determinant of one matrix, mapped over all by vmap and compiled.

    Return the determinants (n,) of the matrices A, (n, side, side).
    """
    return _all(A)
