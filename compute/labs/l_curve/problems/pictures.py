"""Two-dimensional problems: blurred pictures and tomography. Unknowns are the pixels, row by row, row 0 the lowest.

Each function returns (A, b, x): A sparse, float64; x (n * n,) the picture; b = A x.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import toeplitz

from compute.labs.l_curve.problems.phantom import as_picture
from compute.labs.l_curve.problems.rays import matrix

Vector = NDArray[np.float64]
Made = tuple[sp.csr_matrix, Vector, Vector]


def blur(n: int, band: int, sigma: float, image: object) -> Made:
    """A picture of n x n pixels, blurred by a Gaussian of `sigma` pixels that is cut off at `band` pixels."""
    x = as_picture(image, n)
    column = np.zeros(n)
    reach = np.arange(min(band, n))
    column[: reach.size] = np.exp(-(reach**2) / (2 * sigma**2))
    line = sp.csr_matrix(toeplitz(column))
    A = sp.csr_matrix(sp.kron(line, line) / (2 * np.pi * sigma**2))
    return A, A @ x, x


def paralleltomo(n: int, angles: int | Sequence[float], rays: int, image: object) -> Made:
    """Parallel-beam tomography of n x n pixels of unit size: for each angle `rays` rays, one unit apart at most.

    angles: how many, evenly spread over half a turn, or the angles in degrees; rays: 0 for as many as the diagonal is
    long, round(sqrt(2) n). As in paralleltomo of AIR Tools II (Hansen and Jorgensen 2018).
    """
    x = as_picture(image, n)
    degrees = 180 / angles * np.arange(angles) if isinstance(angles, int) else np.asarray(angles, np.float64)
    count = rays or round(np.sqrt(2) * n)
    offset = np.linspace(-(count - 1) / 2, (count - 1) / 2, count)
    theta = np.deg2rad(np.repeat(degrees, count))
    offset = np.tile(offset, degrees.size)
    along = np.column_stack([-np.sin(theta), np.cos(theta)])
    through = offset[:, None] * np.column_stack([np.cos(theta), np.sin(theta)])
    A = matrix(n, through, along)
    return A, A @ x, x


def tomo(n: int, rays: float, seed: int, image: object) -> Made:
    """Tomography along round(rays n^2) rays through random pairs of points on the border of n x n pixels."""
    x = as_picture(image, n)
    rng = np.random.default_rng(seed)
    ends = _border(rng.integers(4, size=(2, round(rays * n * n))), rng.random((2, round(rays * n * n))), n / 2)
    A = matrix(n, ends[0], ends[1] - ends[0])
    return A, A @ x, x


def _border(side: NDArray[np.int64], place: Vector, half: float) -> Vector:
    """Points on the border of the square [-half, half]^2, (..., 2): place 0 to 1 on side 0 to 3."""
    run, edge = half * (2 * place - 1), half * np.where(side % 2, 1.0, -1.0)
    flat = side < 2
    return np.stack([np.where(flat, run, edge), np.where(flat, edge, run)], axis=-1)


def blur_entries(n: int, band: int, **_others: object) -> int:
    """Non-zeros of `blur`, at most."""
    return (n * min(2 * band - 1, n)) ** 2


def paralleltomo_entries(n: int, angles: int | Sequence[float], rays: int, **_others: object) -> int:
    """Non-zeros of `paralleltomo`, about: a ray crosses at most 2 n - 1 pixels, on the average fewer."""
    count = angles if isinstance(angles, int) else len(angles)
    return 2 * n * (rays or round(np.sqrt(2) * n)) * count


def tomo_entries(n: int, rays: float, **_others: object) -> int:
    """Non-zeros of `tomo`, at most."""
    return 2 * n * round(rays * n * n)
