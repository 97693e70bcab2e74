"""The wave equation in NumPy slices: the reference."""

import numpy as np


def step(u, before, s, damping, free, steps):
    """Advance `steps` >= 1 leapfrog steps with s = C²; return the final (u, before), whose memory is reused.

    u, before: (ny, nx) float32 or float64 of one dtype; free: if false, the field is 0 beyond the edges.
    """
    for _ in range(steps):
        new = (2 * u - (1 - damping / 2) * before + s * laplacian(u, free)) / (1 + damping / 2)
        u, before = before, u
        u[...] = new
    return u, before


def laplacian(u, free):
    """Return ∇²u with unit spacing; cells beyond the edge have the edge's value, or 0."""
    wide = np.pad(u, 1, mode="edge" if free else "constant")
    return (wide[2:, 1:-1] + wide[:-2, 1:-1]) + (wide[1:-1, 2:] + wide[1:-1, :-2]) - 4 * u
