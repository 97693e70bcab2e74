"""Area of the Mandelbrot set on the GPU, in CuPy."""

from __future__ import annotations

from typing import Any

import cupy as cp

from compute.devices.devices import Array
from compute.labs.crossover.workloads.mandelbrot_area import BOX, HEIGHT, ITERATIONS, LEFT, WIDTH
from compute.ways.declaring import way

_stays = cp.ElementwiseKernel(
    "T x, T y",
    "int32 stays",  # CuPy's "int" is a long
    f"""
    T a = 0, b = 0;
    int step = 0;
    while (step < {ITERATIONS} && a * a + b * b <= 4) {{
        const T next = a * a - b * b + x;
        b = 2 * a * b + y;
        a = next;
        step++;
    }}
    stays = a * a + b * b <= 4
    """,
    "mandelbrot_stays",
)


def prepare(n: int, seed: int, out: Array) -> tuple[int, Any, Array, Array]:
    """Replace the seed by a generator, and append a mark per point."""
    return n, cp.random.default_rng(seed), out, cp.empty(n, cp.int32)


@way("gpu_cupy", prepare=prepare)
def area(n: int, rng: Any, out: Array, stays: Array) -> None:
    """CuPy: random points from its generator, and an ElementwiseKernel that follows each until it leaves.

    Write the area of the points c for which z = z² + c stays within |z| <= 2 to out, (1,), from n random points.
    """
    x, y = rng.random((2, n), out.dtype)
    _stays(LEFT + WIDTH * x, HEIGHT * y, stays)
    out[0] = BOX * stays.sum() / n
