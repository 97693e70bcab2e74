"""Transfer on the GPU, in CuPy."""

from __future__ import annotations

import cupy as cp
import cupyx

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_cupy")
def round_trip_cupy(a: Array, out: Array) -> None:
    """CuPy, pageable: ordinary memory, which the driver first copies to its own pinned memory.

    Compute out = a + 1, both (n,) in main memory.
    """
    b = cp.asarray(a)
    b += 1
    b.get(out=out)


def prepare_cupy_pinned(a: Array, out: Array) -> tuple[Array, Array]:
    """Return the arrays in pinned memory; its allocation takes far longer than one transfer."""
    pinned, pinned_out = cupyx.empty_like_pinned(a), cupyx.empty_like_pinned(out)
    pinned[:], pinned_out[:] = a, out
    return pinned, pinned_out


@way("gpu_cupy_pinned", prepare=prepare_cupy_pinned)
def round_trip_cupy_pinned(a: Array, out: Array) -> None:
    """CuPy, pinned: memory that the system never moves, so that the GPU can read it directly.

    Compute out = a + 1, both (n,) in pinned main memory.
    """
    b = cp.asarray(a)
    b += 1
    b.get(out=out)


CHUNKS = 8
STREAMS = [cp.cuda.Stream(non_blocking=True) for _ in range(CHUNKS)]


def prepare_cupy_streams(a: Array, out: Array) -> tuple[Array, Array, Array]:
    """Return the arrays in pinned memory, and an array on the GPU."""
    pinned, pinned_out = cupyx.empty_like_pinned(a), cupyx.empty_like_pinned(out)
    pinned[:], pinned_out[:] = a, out
    return pinned, pinned_out, cp.empty(a.shape, a.dtype)


@way("gpu_cupy_streams", prepare=prepare_cupy_streams)
def round_trip_cupy_streams(a: Array, out: Array, b: Array) -> None:
    """CuPy, overlapped: pinned chunks on streams; upload, computation and download run at the same time.

    Compute out = a + 1, both (n,) in pinned main memory; b: (n,) on the GPU.
    """
    for k, stream in enumerate(STREAMS):
        part = slice(k * a.size // CHUNKS, (k + 1) * a.size // CHUNKS)
        with stream:
            b[part].set(a[part], stream=stream)
            b[part] += 1
            b[part].get(stream=stream, out=out[part], blocking=False)
    for stream in STREAMS:
        stream.synchronize()
