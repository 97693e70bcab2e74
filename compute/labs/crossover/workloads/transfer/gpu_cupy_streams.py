"""CuPy, overlapped: pinned chunks on streams; upload, computation and download run at the same time."""

from __future__ import annotations

import cupy as cp
import cupyx

from compute.devices.devices import Array

CHUNKS = 8
STREAMS = [cp.cuda.Stream(non_blocking=True) for _ in range(CHUNKS)]


def prepare(a: Array, out: Array) -> tuple[Array, Array, Array]:
    """Return the arrays in pinned memory, and an array on the GPU."""
    pinned, pinned_out = cupyx.empty_like_pinned(a), cupyx.empty_like_pinned(out)
    pinned[:], pinned_out[:] = a, out
    return pinned, pinned_out, cp.empty(a.shape, a.dtype)


def round_trip(a: Array, out: Array, b: Array) -> None:
    """Compute out = a + 1, both (n,) in pinned main memory; b: (n,) on the GPU."""
    for k, stream in enumerate(STREAMS):
        part = slice(k * a.size // CHUNKS, (k + 1) * a.size // CHUNKS)
        with stream:
            b[part].set(a[part], stream=stream)
            b[part] += 1
            b[part].get(stream=stream, out=out[part], blocking=False)
    for stream in STREAMS:
        stream.synchronize()
