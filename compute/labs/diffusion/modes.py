"""Exact solutions of the discrete scheme: each eigenmode of the Laplacian shrinks by one factor a step.

With theta = pi p / N (zero flux, DCT-II), pi p / (N + 1) (zero Dirichlet, DST-I) or 2 pi p / N (periodic) the factor
is g = 1 - 4 r (sin^2(theta_x / 2) + sin^2(theta_y / 2)); after n steps the mode is g^n times itself.
Source: von Neumann analysis of forward Euler with the five-point Laplacian, e.g. Strikwerda, Finite Difference
Schemes and Partial Differential Equations, 2nd ed., chapter 6.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def angle(size: int, number: int, edges: str) -> float:
    """theta in radians of mode `number` on `size` cells."""
    if edges == "periodic":
        return 2 * math.pi * number / size
    return math.pi * number / (size + 1 if edges == "zero-dirichlet" else size)


def profile(size: int, number: int, edges: str) -> NDArray[np.float64]:
    """(size,) values of mode `number` along one axis. `number` may be 0 except for zero-dirichlet, where it gives 0."""
    cells = np.arange(size)
    theta = angle(size, number, edges)
    if edges == "zero-dirichlet":
        return np.sin(theta * (cells + 1))
    return np.cos(theta * (cells + (0.5 if edges == "zero-flux" else 0.0)))


def mode(ny: int, nx: int, p: int, q: int, edges: str) -> NDArray[np.float64]:
    """(ny, nx) mode with number p along x and q along y."""
    return np.outer(profile(ny, q, edges), profile(nx, p, edges))


def factor(ny: int, nx: int, p: int, q: int, edges: str, r: float) -> float:
    """g, by which the mode is multiplied in one step."""
    sines = math.sin(angle(nx, p, edges) / 2) ** 2 + math.sin(angle(ny, q, edges) / 2) ** 2
    return 1 - 4 * r * sines
