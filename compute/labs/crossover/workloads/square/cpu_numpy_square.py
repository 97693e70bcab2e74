"""NumPy: its function square."""

from __future__ import annotations

import numpy as np

from compute.devices.devices import Array


def square(a: Array, out: Array) -> None:
    """Compute out = a * a, both (n,)."""
    np.square(a, out=out)
