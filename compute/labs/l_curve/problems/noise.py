"""Noise on b: white, of a chosen size relative to b, drawn once for all λ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def noisy(b: NDArray[np.float64], level: float, seed: int) -> tuple[NDArray[np.float64], float]:
    """(b + e, |e|) with white Gaussian e of exactly |e| = level |b|, level >= 0; e depends on `seed` alone."""
    if level == 0:
        return b, 0.0
    e = np.random.default_rng(seed).standard_normal(b.size)
    size = level * float(np.linalg.norm(b))
    return b + e * (size / np.linalg.norm(e)), size
