"""The picture to be recovered: the phantom of Shepp and Logan, or one that is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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


def shepp_logan(n: int) -> NDArray[np.float64]:
    """(n, n) grey values 0 to 1 of the head phantom, at pixel centres of [-1, 1]^2, row 0 the lowest."""
    at = (2 * np.arange(n) + 1 - n) / n
    x, y = at, at[:, None]
    picture = np.zeros((n, n))
    for grey, a, b, x0, y0, degrees in ELLIPSES:
        c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        u, v = (x - x0) * c + (y - y0) * s, (y - y0) * c - (x - x0) * s
        picture += grey * ((u / a) ** 2 + (v / b) ** 2 <= 1)
    return np.maximum(picture, 0.0)  # sums of tenths: rounding may leave -1e-17


def as_picture(image: object, n: int) -> NDArray[np.float64]:
    """(n * n,) pixels of `image`, an (n, n) array with row 0 the lowest; of the phantom if it is None.

    Raises ValueError for another shape, or values that are not finite.
    """
    if image is None:
        return shepp_logan(n).ravel()
    picture = np.asarray(image, np.float64)
    if picture.shape != (n, n):
        raise ValueError(f"image must have the shape ({n}, {n}), not {picture.shape}")
    if not np.isfinite(picture).all():
        raise ValueError("image must be finite; it holds NaN or inf")
    return picture.ravel()
