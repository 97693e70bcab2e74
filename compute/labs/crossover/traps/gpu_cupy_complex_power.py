"""# z ** 2 of complex numbers

**What you see.** A Mandelbrot program that is slower than necessary, and less accurate. Run both to see by how much.

**Why.** In CuPy `z ** 2` is the general complex power, exp(2 log z): a logarithm, an exponential, an arctangent, a
sine and a cosine instead of four products and two sums. NumPy, and Numba on a CPU, recognise the exponent 2 and
multiply; so the trap shows on the GPU only. `abs(z)` is the next one: a hypotenuse with a root where x² + y² > 4
would do.

**Instead.** Write z * z, and compare |z|² with 4. The Mandelbrot tab has the slow kernel next to the fast one.
"""

from __future__ import annotations

from time import perf_counter

import cupy as cp
import numpy as np

from compute.ways.declaring import way


def _by_hand(c: np.ndarray) -> np.ndarray:
    x, y = c.real.astype(np.float64), c.imag.astype(np.float64)
    for _ in range(50):
        x, y = x * x - y * y + c.real, 2 * x * y + c.imag
    return x + 1j * y


@way("gpu_cupy_wrong")
def wrong(n: int = 1_000_000) -> dict[str, float]:
    """z ** 2: computes the general power, with logarithm and exponential, for every element.

    Iterate z = z² + c 50 times for n numbers in the Mandelbrot set.
    """
    c = cp.asarray(np.linspace(-0.7, 0.2, n) + 0.05j, cp.complex64)
    z = c.copy()
    cp.cuda.get_current_stream().synchronize()
    start = perf_counter()
    for _ in range(50):
        z = z**2 + c
    cp.cuda.get_current_stream().synchronize()
    seconds = perf_counter() - start
    return {"microseconds": 1e6 * seconds, "error": float(abs(cp.asnumpy(z) - _by_hand(cp.asnumpy(c))).max())}


@way("gpu_cupy_right")
def right(n: int = 1_000_000) -> dict[str, float]:
    """z * z: four products and two sums.

    Iterate z = z² + c 50 times for n numbers in the Mandelbrot set.
    """
    c = cp.asarray(np.linspace(-0.7, 0.2, n) + 0.05j, cp.complex64)
    z = c.copy()
    cp.cuda.get_current_stream().synchronize()
    start = perf_counter()
    for _ in range(50):
        z = z * z + c
    cp.cuda.get_current_stream().synchronize()
    seconds = perf_counter() - start
    return {"microseconds": 1e6 * seconds, "error": float(abs(cp.asnumpy(z) - _by_hand(cp.asnumpy(c))).max())}
