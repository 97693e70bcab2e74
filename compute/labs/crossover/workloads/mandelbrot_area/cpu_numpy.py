"""NumPy: all points take a step together; points that leave are dropped."""

from __future__ import annotations

import numpy as np

from compute.devices.devices import Array
from compute.labs.crossover.workloads.mandelbrot_area import BOX, HEIGHT, ITERATIONS, LEFT, WIDTH


def prepare(n: int, seed: int, out: Array) -> tuple[int, np.random.Generator, Array]:
    """Replace the seed by a generator."""
    return n, np.random.default_rng(seed), out


def area(n: int, rng: np.random.Generator, out: Array) -> None:
    """Write the area of the points c for which z = z² + c stays within |z| <= 2 to out, (1,), from n random points."""
    x, y = rng.random((2, n), out.dtype)
    x, y = LEFT + WIDTH * x, HEIGHT * y
    a, b = np.zeros_like(x), np.zeros_like(y)
    for _ in range(ITERATIONS):
        a, b = a * a - b * b + x, 2 * a * b + y
        stays = a * a + b * b <= 4
        x, y, a, b = x[stays], y[stays], a[stays], b[stays]
    out[0] = BOX * x.size / n
