"""The random sparse matrix of a GPU tutorial: the speed benchmark. It has no real corner, since b is not of A."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def random_sparse(n: int, density: float, seed: int) -> tuple[sp.csr_matrix, NDArray[np.float64], None]:
    """A (n, n) float32 with `density` n^2 entries uniform in [0, 1), and b ~ N(3, 1), both from one generator.

    The draws are the tutorial's, in its order, so that A and b are its own bit for bit; but b is (n,), not (n, 1).
    """
    rng = np.random.default_rng(seed)
    A = sp.csr_matrix(sp.random(m=n, n=n, density=density, dtype=np.float32, random_state=rng))
    return A, rng.normal(loc=3.0, scale=1.0, size=(n, 1))[:, 0], None


def random_entries(n: int, density: float, **_others: object) -> int:
    """Non-zeros of `random_sparse`."""
    return round(density * n * n)
