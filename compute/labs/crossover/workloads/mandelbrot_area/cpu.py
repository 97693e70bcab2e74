"""Area of the Mandelbrot set on the CPU, in NumPy and Numba."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from compute.devices.devices import Array
from compute.labs.crossover.workloads.mandelbrot_area import BOX, HEIGHT, ITERATIONS, LEFT, WIDTH
from compute.labs.crossover.workloads.monte_carlo_pi.cpu import LOW, random_bits, stream
from compute.ways.declaring import way


def prepare_numpy(n: int, seed: int, out: Array) -> tuple[int, np.random.Generator, Array]:
    """Replace the seed by a generator."""
    return n, np.random.default_rng(seed), out


@way("cpu_numpy", prepare=prepare_numpy)
def area_numpy(n: int, rng: np.random.Generator, out: Array) -> None:
    """NumPy: all points take a step together; points that leave are dropped.

    Write the area of the points c for which z = z² + c stays within |z| <= 2 to out, (1,), from n random points.
    """
    x, y = rng.random((2, n), out.dtype)
    x, y = LEFT + WIDTH * x, HEIGHT * y
    a, b = np.zeros_like(x), np.zeros_like(y)
    for _ in range(ITERATIONS):
        a, b = a * a - b * b + x, 2 * a * b + y
        stays = a * a + b * b <= 4
        x, y, a, b = x[stays], y[stays], a[stays], b[stays]
    out[0] = BOX * x.size / n


TOGETHER, STEPS = 256, 8  # points per block; steps between checks for points that left, which never return
UNIT = 2.0**-31


@njit(nogil=True, cache=True)
def _staying(x: Array, y: Array, a: Array, b: Array, count: int) -> int:
    for _ in range(ITERATIONS // STEPS):
        for k in range(count):
            p, q = a[k], b[k]
            for _ in range(STEPS):
                p, q = p * p - q * q + x[k], 2 * p * q + y[k]
            a[k], b[k] = p, q
        kept = 0
        for k in range(count):
            if a[k] * a[k] + b[k] * b[k] <= 4:
                x[kept], y[kept], a[kept], b[kept] = x[k], y[k], a[k], b[k]
                kept += 1
        count = kept
    return count


@njit(parallel=True, nogil=True, cache=True)
def _hits(n: int, seed: np.uint64) -> int:
    hits = 0
    for block in prange(-(-n // TOGETHER)):
        x, y, a, b = np.empty(TOGETHER), np.empty(TOGETHER), np.zeros(TOGETHER), np.zeros(TOGETHER)
        first = block * TOGETHER
        count = min(TOGETHER, n - first)
        for k in range(count):
            bits = random_bits(seed, np.uint64(first + k))
            x[k], y[k] = LEFT + WIDTH * UNIT * (bits >> np.uint64(33)), HEIGHT * UNIT * (bits & LOW)
        hits += _staying(x, y, a, b, count)
    return hits


@way("cpu_numba", revision=2)
def area_numba(n: int, seed: int, out: Array) -> None:
    """Numba: each core steps a few hundred points together and drops those that leave.

    Write the area of the points c for which z = z² + c stays within |z| <= 2 to out, (1,), from n random points.
    """
    out[0] = BOX * _hits(n, stream(seed)) / n
