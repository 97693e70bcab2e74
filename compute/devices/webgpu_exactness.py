"""How a GPU of WebGPU rounds, measured on random pairs: WGSL lets compilers fuse and rearrange sums and products."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from compute.devices.wgsl import WgslProgram, launch

if TYPE_CHECKING:
    from compute.devices.webgpu import WebGpu

SOURCE = Path(__file__).with_suffix(".wgsl")
PAIRS = 4096
RESULTS = 6  # numbers per pair, as in webgpu_exactness.wgsl
SUM, PRODUCT = "sum and its error", "product and its error"  # of float64.wgsl, which double-single arithmetic needs


def exactness(device: WebGpu, level: int) -> dict[str, float]:
    """Return the shares of random pairs for which this GPU rounds as IEEE 754 prescribes, compiled with exact=level."""
    rng = np.random.default_rng(1)
    sizes = rng.uniform(1, 2, PAIRS) * 2.0 ** rng.integers(-12, 12, PAIRS) * rng.choice([-1, 1], PAIRS)
    a, b = sizes.astype(np.float32).reshape(2, -1)
    found = device.allocate((a.size, RESULTS), np.float32)
    pairs = device.upload(np.stack([a, b], axis=1))
    launch(WgslProgram(SOURCE, exact=level), "arithmetic", (-(-a.size // 256),), (pairs, found), np.uint32(a.size))
    total, below, product, beyond, separate, fused = device.download(found).astype(np.float64).T
    x, y = a.astype(np.float64), b.astype(np.float64)  # which hold their sums and products exactly
    return {
        SUM: float(np.mean((total == a + b) & (total + below == x + y))),
        PRODUCT: float(np.mean((product == a * b) & (product + beyond == x * y))),
        "product and sum rounded separately": float(np.mean(separate == b + a * a)),
        "fma rounded once": float(np.mean(fused == (x * y - (a * b).astype(np.float64)).astype(np.float32))),
    }
