"""A formula whose Numba version starts all cores: for small n, starting them costs more than it saves."""

import numpy as np
from numba import njit, prange

from compute.own import way, workload


@workload(sizes=(100, 1_000_000), dtypes=("float64",), moved=lambda n: 16 * n)
def numbers(n, dtype, rng):
    return rng.random(n)


@way("cpu_numpy", reference=True)
def formula(x):
    return np.sqrt(x)


@njit(parallel=True)
def loop(x, out):
    for i in prange(x.size):
        out[i] = np.sqrt(x[i])


@way("cpu_numba")
def formula_numba(x, out):
    loop(x, out)


@way("gpu_cupy")
def formula_cupy(x, out):
    import cupy as cp

    cp.ElementwiseKernel("float64 x", "float64 y", "y = sqrt(x)", "formula")(x, out)
