"""The wave equation in NumPy slices: the reference."""

import numpy as np


def step(u, before, s, damping, free, steps):
    """Advance `steps` >= 1 leapfrog steps with s = C²; returns (u, before) as they are then, both overwritten.

    u, before: (ny, nx) float32 or float64 of one dtype; free: whether the edges are, else they are held at 0.
    """
    for _ in range(steps):
        new = (2 * u - (1 - damping / 2) * before + s * laplacian(u, free)) / (1 + damping / 2)
        u, before = before, u
        u[...] = new
    return u, before


def laplacian(u, free):
    """Return ∇²u with unit spacing; beside the edge is the edge itself, or 0."""
    wide = np.pad(u, 1, mode="edge" if free else "constant")
    return (wide[2:, 1:-1] + wide[:-2, 1:-1]) + (wide[1:-1, 2:] + wide[1:-1, :-2]) - 4 * u
