"""What a time of this lab includes, in words."""

from __future__ import annotations

INCLUDED = {
    "device": "A time is that of a call, when many follow each other, on data that lie on the device: between two CUDA "
    "events on a GPU, wall time on the host and for JAX. Arrays that a way makes for itself are included.",
    "host": "A time is wall time from data in main memory to results in main memory. Pinned memory is got before.",
}  # by ON of a workload
WARM = "Caches are as the call before left them."
EVICTED = "Each sample is one call, on caches that another array has just filled."
