"""Monte Carlo π on the CPU, in NumPy and Numba."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from compute.devices.devices import Array
from compute.ways.declaring import way


def prepare_numpy(n: int, seed: int, out: Array) -> tuple[int, np.random.Generator, Array]:
    """Replace the seed by a generator."""
    return n, np.random.default_rng(seed), out


@way("cpu_numpy", prepare=prepare_numpy)
def estimate_numpy(n: int, rng: np.random.Generator, out: Array) -> None:
    """NumPy: draws all points first, then tests them.

    Write 4 x the fraction of n points of the unit square within the quarter circle to out, (1,).
    """
    x, y = rng.random((2, n), out.dtype)
    out[0] = 4 * np.count_nonzero(x * x + y * y < 1) / n


GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, odd
LOW, RADIUS2 = np.uint64(2**31 - 1), np.uint64(2**62)


@njit(nogil=True, cache=True)
def random_bits(seed: np.uint64, i: np.uint64) -> np.uint64:
    """Return 64 random bits, number i of the stream `seed`: SplitMix64 (Steele, Lea and Flood, 2014)."""
    z = seed + i * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(parallel=True, nogil=True, cache=True)
def _hits(n: int, seed: np.uint64) -> int:
    hits = 0
    for i in prange(n):
        bits = random_bits(seed, np.uint64(i))
        x, y = bits >> np.uint64(33), bits & LOW  # 31 bits each
        hits += x * x + y * y < RADIUS2
    return hits


def stream(seed: int) -> np.uint64:
    """Return the start of a seed's stream; the streams of neighbouring seeds share no numbers."""
    return np.uint64(random_bits(np.uint64(seed), np.uint64(0)))


@way("cpu_numba", revision=2)
def estimate_numba(n: int, seed: int, out: Array) -> None:
    """Numba: all cores draw points and store none. Point i is a hash of i, so that points are independent.

    Write 4 x the fraction of n points within the quarter circle to out, (1,).
    """
    out[0] = 4 * _hits(n, stream(seed)) / n
