"""The steps of the lab in NumPy: the reference, as simple as possible. Other backends export the same functions."""

import numpy as np


def step(u, v, spare, s, damping, steps):
    """Advance u and v by `steps` >= 1 steps with s = C²; return u and the other of the two arrays u and spare.

    u, v, spare: (ny, nx) float32 or float64 of one dtype; each step writes u' to the spare array.
    """
    for _ in range(steps):
        v *= 1 - damping
        v += s * laplacian(u)
        spare[...] = u + v
        u, spare = spare, u
    return u, spare


def laplacian(u):
    """Return ∇²u with unit spacing, periodic."""
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u
