"""Area of the Mandelbrot set on the GPU, in Numba-CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.random import (
    create_xoroshiro128p_states,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)

from compute.devices.devices import Array
from compute.labs.crossover.workloads.mandelbrot_area import BOX, HEIGHT, ITERATIONS, LEFT, WIDTH
from compute.ways.declaring import way

THREADS = 65536  # in total; each draws its share of the points
BLOCK = 64


def _throwing(uniform: Any, real: Any) -> Any:
    left, width, height, two, four = (real(number) for number in (LEFT, WIDTH, HEIGHT, 2, 4))

    @cuda.jit
    def throw(n: int, states: Array, hits: Array) -> None:
        """Add the number of the n points that fall inside to hits[0]."""
        t = cuda.grid(1)
        mine = 0
        for _ in range(t, n, cuda.gridsize(1)):
            x, y = left + width * uniform(states, t), height * uniform(states, t)
            a, b, step = x, y, 1
            while step < ITERATIONS and a * a + b * b <= four:
                a, b = a * a - b * b + x, two * a * b + y
                step += 1
            if a * a + b * b <= four:
                mine += 1
        cuda.atomic.add(hits, 0, mine)

    return throw


THROW = {
    "float32": _throwing(xoroshiro128p_uniform_float32, np.float32),
    "float64": _throwing(xoroshiro128p_uniform_float64, np.float64),
}


@cuda.jit
def _finish(n: int, hits: Array, out: Array) -> None:
    out[0] = BOX * hits[0] / n
    hits[0] = 0


def prepare(n: int, seed: int, out: Array) -> tuple[int, Array, Array, Array]:
    """Replace the seed by the states of the threads' generators, and append a counter."""
    threads = min(THREADS, BLOCK * -(-n // BLOCK))
    return n, create_xoroshiro128p_states(threads, seed), out, cuda.to_device(np.zeros(1, np.int64))


@way("gpu_numba", prepare=prepare)
def area(n: int, states: Array, out: Array, hits: Array) -> None:
    """Numba-CUDA: a generator per thread; a warp waits for the point that stays longest.

    Write the area of the points c for which z = z² + c stays within |z| <= 2 to out, (1,), from n random points.
    """
    THROW[out.dtype.name][states.size // BLOCK, BLOCK](n, states, hits)
    _finish[1, 1](n, hits, out)
