"""# A missing synchronise

**What you see.** A product of two 4096 × 4096 matrices in some ten microseconds: fourteen petaflop/s. Or the time
suddenly appears in a harmless line below, the first that needs the result.

**Why.** Python only puts the kernel into a queue and continues. The clock then measures the time to queue it.

**Instead.** Wait for the device before you read the clock, both at the start and at the end; or let the GPU measure
the time, with an event before and an event after.
"""

from __future__ import annotations

from time import perf_counter

import cupy as cp

from compute.ways.declaring import way


@way("gpu_cupy_wrong")
def wrong(n: int = 4096) -> dict[str, float]:
    """Reads the clock when the launch returns, not when the product is computed.

    Multiply two n x n matrices.
    """
    a = cp.ones((n, n), cp.float32)
    a @ a
    start = perf_counter()
    a @ a
    return {"milliseconds": 1e3 * (perf_counter() - start)}


@way("gpu_cupy_right")
def right(n: int = 4096) -> dict[str, float]:
    """Synchronises with the device before it reads the clock, at the start and at the end.

    Multiply two n x n matrices.
    """
    a = cp.ones((n, n), cp.float32)
    a @ a
    cp.cuda.get_current_stream().synchronize()
    start = perf_counter()
    a @ a
    cp.cuda.get_current_stream().synchronize()
    return {"milliseconds": 1e3 * (perf_counter() - start)}
