"""Where the numbers of the rules stand beside the curve, so that none hides another."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from app.apart import spread

Place = tuple[float, float]
AWAY = 1.2  # sizes of a badge that its middle keeps from the curve
SAMPLES = 9  # places across a badge at which the curve is looked at


def beside(points: Sequence[Place], curve: NDArray[np.float64], size: float) -> list[Place]:
    """A place for a badge of `size` px for each of `points`; all in px, y upwards. curve: (n, 2), which they lie on.

    The room above and to the right of an L-curve is free: badges stand there, apart from each other along the other
    diagonal, and as far from the curve as their neighbours' room asks. Below it, if it bends the other way.
    """
    along, out = _turned(curve)
    even = np.interp(np.linspace(along[0], along[-1], SAMPLES), along, out)  # points of a curve crowd at its ends
    if even.mean() > (out[0] + out[-1]) / 2:
        return [(-x, -y) for x, y in _above([(-x, -y) for x, y in points], -curve, size)]
    return _above(points, curve, size)


def _turned(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2, n) places along one diagonal, ascending, and out along the other."""
    turned = np.stack([curve[:, 0] - curve[:, 1], curve[:, 0] + curve[:, 1]]) / sqrt(2.0)
    return turned[:, np.argsort(turned[0])]


def _above(points: Sequence[Place], curve: NDArray[np.float64], size: float) -> list[Place]:
    root = sqrt(2.0)
    along = [(x - y) / root for x, y in points]
    order = sorted(range(len(points)), key=along.__getitem__)
    apart = dict(zip(order, spread([along[i] for i in order], size), strict=True))
    path = _turned(curve)
    places = []
    for i, _ in enumerate(points):
        around = np.linspace(apart[i] - size / 2, apart[i] + size / 2, SAMPLES)
        out = float(np.interp(around, *path).max()) + AWAY * size
        places.append(((out + apart[i]) / root, (out - apart[i]) / root))
    return places
