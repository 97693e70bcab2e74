"""Kernels as students write them, each with one fault; _rows and _vectorize are right, the latter unwatched."""

import numpy as np
from numba import get_num_threads, get_thread_id, njit, prange, vectorize
from numpy import zeros

from compute.own import way, workload

BINS = 16


@workload(sizes=(10, 300_000), dtypes=("float64",), denormals=False)
def numbers(n, dtype, rng):
    return (rng.random(n, dtype=dtype),)


@way("cpu_numpy", reference=True)
def counts(x):
    return np.bincount((x * BINS).astype(np.int64), minlength=BINS)


@njit(parallel=True)
def plain_adds(x, out):
    out[:] = 0
    for i in prange(x.size):
        out[int(x[i] * BINS)] += 1


@way("cpu_numba_adds")
def racing(x, out):
    plain_adds(x, out)


@njit(parallel=True)
def own_array(x):
    found = zeros(BINS, np.int64)
    for i in prange(x.size):
        b = int(x[i] * BINS)
        found[b] = found[b] + 1
    return found


@way("cpu_numba_own_array")
def racing_in_its_own_array(x):
    return own_array(x)


@njit(parallel=True)
def per_thread(x, out):
    rows = np.zeros((get_num_threads(), BINS), np.int64)
    for i in prange(x.size):
        rows[get_thread_id(), int(x[i] * BINS)] += 1
    for b in prange(BINS):
        total = 0
        for t in range(rows.shape[0]):
            total += rows[t, b]
        out[b] = total


@way("cpu_numba_rows")
def a_row_a_thread(x, out):
    per_thread(x, out)


@njit
def in_blocks(x, out):
    out[:] = 0
    last = x.size if x.size % 32 != 1 else x.size - 1
    for i in range(last):
        out[int(x[i] * BINS)] += 1


@way("cpu_numba_tail")
def without_the_last_of_33(x, out):
    in_blocks(x, out)


@way("cpu_numpy_large")
def wrong_at_the_largest_n(x):
    return counts(x) - (x.size > 250_000)


@way("cpu_numpy_complex")
def complex_counts(x):
    return counts(x) + 7j


@way("cpu_numpy_masked")
def masked_counts(x):
    found = counts(x)
    return np.ma.masked_array(found, found == found.max())


@way("cpu_numpy_wide")
def floating_counts(x):
    return counts(x).astype(np.float64)


@vectorize(["int64(float64)"], target="parallel")
def bin_of(value):
    return int(value * BINS)


@way("cpu_numba_vectorize")
def out_of_sight(x):
    return np.bincount(bin_of(x), minlength=BINS)
