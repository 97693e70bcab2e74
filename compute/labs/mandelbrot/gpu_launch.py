"""How the GPU kernels of the Mandelbrot lab are launched: a thread a pixel, a warp 8 x 4 pixels."""

from __future__ import annotations

import numpy as np

from compute.labs.mandelbrot.state import Part, State

BLOCK = (8, 16)  # threads in x and y: four warps, one below the other; THREADS in pixels.cuh


def grid(state: State, part: Part) -> tuple[int, int]:
    """Blocks in x and y that cover the pixels of `part`."""
    columns = -(-state.count.shape[1] // part.stride)
    return -(-columns // BLOCK[0]), -(-(part.last - part.first) // BLOCK[1])


def numbers(state: State, part: Part) -> tuple[np.int32, ...]:
    """The last arguments of every kernel: ny, nx, and the part."""
    ny, nx = state.count.shape
    span = part.first, part.last, part.stride
    return tuple(map(np.int32, (ny, nx, *span, part.iterations, part.limit, part.max_iterations, part.shortcuts)))
