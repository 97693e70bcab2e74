"""Numba: each core follows points of its own to their end. It draws in float64."""

from __future__ import annotations

from random import random

from numba import njit, prange

from compute.devices import Array
from compute.labs.crossover.workloads.mandelbrot_area import BOX, HEIGHT, ITERATIONS, LEFT, WIDTH


@njit(nogil=True, cache=True)
def _stays(x: float, y: float) -> bool:
    a = b = 0.0
    for _ in range(ITERATIONS):
        a, b = a * a - b * b + x, 2 * a * b + y
        if a * a + b * b > 4:
            return False
    return True


@njit(parallel=True, nogil=True, cache=True)
def _hits(n: int) -> int:
    hits = 0
    for _ in prange(n):
        if _stays(LEFT + WIDTH * random(), HEIGHT * random()):
            hits += 1
    return hits


def area(n: int, seed: int, out: Array) -> None:
    """out (1,): of the points c for which z = z² + c stays within |z| <= 2. Every thread has a generator of its own."""
    out[0] = BOX * _hits(n) / n
