"""Two-dimensional problems: blurred pictures and tomography. Unknowns are the pixels, row by row, row 0 the lowest.

Each function returns (A, b, x): A sparse, float64; x (n * n,) the picture; b = A x.

The picture to be recovered is the phantom of Shepp and Logan, or a given picture.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.lab.fields import as_field

# grey value, half axes, centre, angle in degrees: Shepp and Logan (1974) with the contrast of Toft (1996)
ELLIPSES = (
    (1.0, 0.69, 0.92, 0.0, 0.0, 0.0),
    (-0.8, 0.6624, 0.874, 0.0, -0.0184, 0.0),
    (-0.2, 0.11, 0.31, 0.22, 0.0, -18.0),
    (-0.2, 0.16, 0.41, -0.22, 0.0, 18.0),
    (0.1, 0.21, 0.25, 0.0, 0.35, 0.0),
    (0.1, 0.046, 0.046, 0.0, 0.1, 0.0),
    (0.1, 0.046, 0.046, 0.0, -0.1, 0.0),
    (0.1, 0.046, 0.023, -0.08, -0.605, 0.0),
    (0.1, 0.023, 0.023, 0.0, -0.606, 0.0),
    (0.1, 0.023, 0.046, 0.06, -0.605, 0.0),
)

Vector = NDArray[np.float64]
SLICE = 2_000_000  # crossings computed together, which bounds the scratch memory
SHORT = 1e-10  # pixels: a piece of this length is a rounding error at a corner
SparseProblem = tuple["scipy.sparse.csr_matrix", Vector, Vector]


def shepp_logan(n: int) -> NDArray[np.float64]:
    """Return (n, n) grey values 0 to 1 of the head phantom, at pixel centres of [-1, 1]^2, row 0 the lowest."""
    at = (2 * np.arange(n) + 1 - n) / n
    x, y = at, at[:, None]
    picture = np.zeros((n, n))
    for grey, a, b, x0, y0, degrees in ELLIPSES:
        c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        u, v = (x - x0) * c + (y - y0) * s, (y - y0) * c - (x - x0) * s
        picture += grey * ((u / a) ** 2 + (v / b) ** 2 <= 1)
    return np.maximum(picture, 0.0)  # sums of tenths: rounding may leave -1e-17


def as_picture(image: object, n: int) -> NDArray[np.float64]:
    """Return the (n * n,) pixels of `image`, an (n, n) array with row 0 the lowest; of the phantom if it is None.

    Raises ValueError for another shape, and for values that as_field refuses.
    """
    if image is None:
        return shepp_logan(n).ravel()
    return as_field(image, (n, n), np.float64, "image").ravel()


# -- lengths of rays in the pixels of a square picture


def matrix(n: int, through: Vector, along: Vector) -> scipy.sparse.csr_matrix:
    """Return (rays, n * n) lengths, in pixels, of each ray in each pixel of [-n/2, n/2]^2; pixel i * n + j.

    through, along: (rays, 2), a point and a direction of any length for each ray; row i counts upwards, column j to the
    right. A ray along a line between pixels counts for the pixels to its right, or above it. The method is Siddon's
    (Medical Physics 12, 1985): cut the ray at all grid lines; each piece belongs to the pixel of its middle.
    """
    along = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), np.finfo(float).tiny)
    at_once = max(1, SLICE // (2 * n + 2))
    blocks = [_block(n, through[i : i + at_once], along[i : i + at_once]) for i in range(0, len(through), at_once)]
    return scipy.sparse.vstack(blocks, format="csr") if blocks else scipy.sparse.csr_matrix((0, n * n))


def _block(n: int, through: Vector, along: Vector) -> scipy.sparse.csr_matrix:
    cuts = _cuts(n, through, along)
    with np.errstate(invalid="ignore"):  # inf - inf, where a ray runs along the grid: those pieces are dropped
        length, middle = np.diff(cuts, axis=1), (cuts[:, 1:] + cuts[:, :-1]) / 2
        place = through[:, None, :] + middle[..., None] * along[:, None, :] + n / 2
        within = np.isfinite(length) & (length > SHORT) & ((place >= 0) & (place < n)).all(axis=2)
    ray, piece = np.nonzero(within)
    column, row = np.floor(place[ray, piece]).astype(np.int64).T
    entries = scipy.sparse.coo_matrix((length[ray, piece], (ray, row * n + column)), shape=(len(through), n * n))
    return entries.tocsr()


def _cuts(n: int, through: Vector, along: Vector) -> Vector:
    """Return (rays, 2 n + 2) sorted places along each ray at which it crosses a grid line; inf if it does not."""
    lines = np.arange(n + 1) - n / 2
    steep = np.abs(along) < 1e-12  # sine and cosine of a right angle are not exactly 0
    with np.errstate(divide="ignore", invalid="ignore"):
        cuts = (lines - through[:, :, None]) / along[:, :, None]
    cuts[steep] = np.inf
    return np.asarray(np.sort(cuts.reshape(len(through), -1), axis=1))


# -- the problems


def blur(n: int, band: int, sigma: float, image: object) -> SparseProblem:
    """Blur a picture of n x n pixels by a Gaussian of `sigma` pixels that is cut off at `band` pixels."""
    x = as_picture(image, n)
    column = np.zeros(n)
    reach = np.arange(min(band, n))
    column[: reach.size] = np.exp(-(reach**2) / (2 * sigma**2))
    line = scipy.sparse.csr_matrix(scipy.linalg.toeplitz(column))
    A = scipy.sparse.csr_matrix(scipy.sparse.kron(line, line) / (2 * np.pi * sigma**2))
    return A, A @ x, x


def paralleltomo(n: int, angles: int | Sequence[float], rays: int, image: object) -> SparseProblem:
    """Parallel-beam tomography of n x n pixels of unit size: for each angle `rays` rays, at most one unit apart.

    angles: their number, evenly spread over half a turn, or the angles in degrees; rays: 0 for the length of the
    diagonal, round(sqrt(2) n). As in paralleltomo of AIR Tools II (Hansen and Jorgensen 2018).
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


def tomo(n: int, rays: float, seed: int, image: object) -> SparseProblem:
    """Tomography along round(rays n^2) rays through random pairs of points on the border of n x n pixels."""
    x = as_picture(image, n)
    rng = np.random.default_rng(seed)
    ends = _border(rng.integers(4, size=(2, round(rays * n * n))), rng.random((2, round(rays * n * n))), n / 2)
    A = matrix(n, ends[0], ends[1] - ends[0])
    return A, A @ x, x


def _border(side: NDArray[np.int64], place: Vector, half: float) -> Vector:
    """Return points on the border of the square [-half, half]^2, (..., 2): place 0 to 1 on side 0 to 3."""
    run, edge = half * (2 * place - 1), half * np.where(side % 2, 1.0, -1.0)
    flat = side < 2
    return np.stack([np.where(flat, run, edge), np.where(flat, edge, run)], axis=-1)


def blur_entries(n: int, band: int, **_others: object) -> int:
    """Return the maximum of the non-zeros of `blur`."""
    return (n * min(2 * band - 1, n)) ** 2


def paralleltomo_entries(n: int, angles: int | Sequence[float], rays: int, **_others: object) -> int:
    """Return the approximate non-zeros of `paralleltomo`: a ray crosses at most 2 n - 1 pixels, on average fewer."""
    count = angles if isinstance(angles, int) else len(angles)
    return 2 * n * (rays or round(np.sqrt(2) * n)) * count


def tomo_entries(n: int, rays: float, **_others: object) -> int:
    """Return the maximum of the non-zeros of `tomo`."""
    return 2 * n * round(rays * n * n)
