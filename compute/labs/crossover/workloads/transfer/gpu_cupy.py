"""CuPy, pageable: ordinary memory, which the driver first copies to its own pinned memory."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array


def round_trip(a: Array, out: Array) -> None:
    """Compute out = a + 1, both (n,) in main memory."""
    b = cp.asarray(a)
    b += 1
    b.get(out=out)
