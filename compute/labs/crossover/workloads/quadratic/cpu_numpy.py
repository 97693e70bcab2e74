"""NumPy: nine passes through memory, one for each operation, on one core."""

from __future__ import annotations

import numpy as np

from compute.devices import Array


def root(a: Array, b: Array, c: Array, x: Array) -> None:
    """x = the root next to 0 of a x² + b x + c; all (n,)."""
    np.divide(-b + np.sqrt(b**2 - 4 * a * c), 2 * a, out=x)
