"""Parallel loops of Numba: races that their accesses reveal, whatever their results."""

import numpy as np
from numba import njit, prange

from compute.own import way, workload


@workload(sizes=(10, 300), dtypes=("float64",), denormals=False)
def numbers(n, dtype, rng):
    return (rng.random((n, 4), dtype=dtype),)


@way("cpu_numpy", reference=True)
def doubled(x):
    return 2 * x


@njit(parallel=True)
def rows(x, out):
    for i in prange(x.shape[0]):
        out[i] = 2 * x[i]


@njit(parallel=True)
def reductions(x, out):
    total, sums = 0.0, np.zeros(x.shape[1])
    for i in prange(x.shape[0]):
        total += x[i, 0]
        sums += x[i]
    out[:] = 2 * x + 0 * (total + sums.sum())


@njit(parallel=True)
def nested(x, out):
    for i in prange(x.shape[0]):
        part = np.zeros(x.shape[1])
        for j in prange(x.shape[1]):
            part[j] += 2 * x[i, j]
        out[i, :] = part


@njit(parallel=True)
def two_loops(x, out):
    for i in prange(x.shape[0]):
        out[i, :] = x[i, :]
    for j in prange(x.shape[1]):
        out[:, j] *= 2


@njit(parallel=True)
def same_value(x, out):
    done = np.zeros(1, np.int64)
    for i in prange(x.shape[0]):
        out[i] = 2 * x[i]
        done[0] = 1


@njit(parallel=True)
def in_place(x, out):
    out[:] = x
    for i in prange(x.shape[0]):
        out[i, 0] = 2 * x[i, 0] + 0 * out[max(i - 1, 0), 0]
        out[i, 1:] *= 2


@njit(parallel=True)
def through_a_view(x, out):
    last = out.reshape(out.size)[-1:]
    for i in prange(x.shape[0]):
        out[i] = 2 * x[i]
        last[0] = 2 * x[i, 3]


@njit(parallel=True)
def row_sums(x, out):
    sums = np.zeros((2, x.shape[1]))
    for i in prange(x.shape[0]):
        sums[i % 2] += x[i]
        out[i] = 2 * x[i]


for function in (rows, reductions, nested, two_loops, same_value, in_place, through_a_view, row_sums):
    way(f"cpu_numba_{function.__name__}")(function)
