"""How long rays run in the pixels of a square picture."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Vector = NDArray[np.float64]
SLICE = 2_000_000  # crossings worked on at once, which bounds the scratch memory
SHORT = 1e-10  # pixels: a piece of this length is a rounding error at a corner


def matrix(n: int, through: Vector, along: Vector) -> sp.csr_matrix:
    """(rays, n * n) lengths, in pixels, of each ray in each pixel of the square [-n/2, n/2]^2; pixel i * n + j.

    through, along: (rays, 2), a point and a direction of any length for each ray; row i counts upwards, column j to
    the right. A ray along a line between pixels runs in the pixels to its right, or above it. The method is Siddon's
    (Medical Physics 12, 1985): cut the ray at all grid lines, each piece lies in the pixel of its middle.
    """
    along = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), np.finfo(float).tiny)
    at_once = max(1, SLICE // (2 * n + 2))
    blocks = [_block(n, through[i : i + at_once], along[i : i + at_once]) for i in range(0, len(through), at_once)]
    return sp.vstack(blocks, format="csr") if blocks else sp.csr_matrix((0, n * n))


def _block(n: int, through: Vector, along: Vector) -> sp.csr_matrix:
    cuts = _cuts(n, through, along)
    with np.errstate(invalid="ignore"):  # inf - inf, where a ray runs along the grid: those pieces are dropped
        length, middle = np.diff(cuts, axis=1), (cuts[:, 1:] + cuts[:, :-1]) / 2
        place = through[:, None, :] + middle[..., None] * along[:, None, :] + n / 2
        within = np.isfinite(length) & (length > SHORT) & ((place >= 0) & (place < n)).all(axis=2)
    ray, piece = np.nonzero(within)
    column, row = np.floor(place[ray, piece]).astype(np.int64).T
    entries = sp.coo_matrix((length[ray, piece], (ray, row * n + column)), shape=(len(through), n * n))
    return entries.tocsr()


def _cuts(n: int, through: Vector, along: Vector) -> Vector:
    """(rays, 2 n + 2) places along each ray, sorted, at which it crosses a grid line; inf where it never does."""
    lines = np.arange(n + 1) - n / 2
    steep = np.abs(along) < 1e-12  # sine and cosine of a right angle are not exactly 0
    with np.errstate(divide="ignore", invalid="ignore"):
        cuts = (lines - through[:, :, None]) / along[:, :, None]
    cuts[steep] = np.inf
    return np.asarray(np.sort(cuts.reshape(len(through), -1), axis=1))
