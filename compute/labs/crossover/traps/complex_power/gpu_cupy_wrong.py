"""z ** 2: computes the general power, with logarithm and exponential, for every element."""

from __future__ import annotations

from time import perf_counter

import cupy as cp
import numpy as np


def run(n: int = 1_000_000) -> dict[str, float]:
    """Iterate z = z² + c 50 times for n numbers in the Mandelbrot set."""
    c = cp.asarray(np.linspace(-0.7, 0.2, n) + 0.05j, cp.complex64)
    z = c.copy()
    cp.cuda.get_current_stream().synchronize()
    start = perf_counter()
    for _ in range(50):
        z = z**2 + c
    cp.cuda.get_current_stream().synchronize()
    seconds = perf_counter() - start
    return {"microseconds": 1e6 * seconds, "error": float(abs(cp.asnumpy(z) - _by_hand(cp.asnumpy(c))).max())}


def _by_hand(c: np.ndarray) -> np.ndarray:
    x, y = c.real.astype(np.float64), c.imag.astype(np.float64)
    for _ in range(50):
        x, y = x * x - y * y + c.real, 2 * x * y + c.imag
    return x + 1j * y
