"""The roof that rates are compared with: how fast a device copies memory, measured, never from a datasheet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit, prange

from compute import numba_threads
from compute.backends import backend
from compute.devices import Array, Device
from compute.timings import Spread

ARRAY_BYTES = {"cpu": 256 * 2**20, "gpu": 1024 * 2**20}  # much larger than the caches of their kind (H200: 50 MB)
CACHES = 4  # an array is at least so many times the last-level cache of the CPU
SHARE = 0.2  # of the free memory that the two arrays may take together
COPIES = 15  # copies timed
FIRST = 2  # copies before that, not counted: compilation and first touch
LONGEST = 2.0  # seconds after which a slow machine stops copying

numba_threads.choose_layer()


@dataclass(frozen=True)
class CopyBandwidth:
    """Bytes read and written a second while one array is copied to another of `array_bytes` bytes each."""

    device: str
    rate: Spread
    array_bytes: int


_known: dict[str, CopyBandwidth] = {}


def copy_bandwidth(device: Device) -> CopyBandwidth:
    """The device's copy bandwidth, measured on the first call of this process for a device of that name."""
    if device.name not in _known:
        with device.lock:
            _known[device.name] = measure(device)
    return _known[device.name]


def measure(device: Device) -> CopyBandwidth:
    """Copy on the device in every way it has and time it there; the fastest way is the roof."""
    device = _best_view(device)
    size = _array_bytes(device)
    source, target = device.upload(np.ones(size // 4, np.float32)), device.allocate((size // 4,), np.float32)
    spreads = [Spread.of(_rates(device, copy, source, target)) for copy in _ways(target)]
    return CopyBandwidth(device.name, max(spreads, key=lambda spread: spread.median), size)


def _best_view(device: Device) -> Device:
    """A GPU as CuPy sees it, where CuPy is there: its copying kernel is faster than the driver's copy."""
    cupy = backend("gpu_cupy")
    return cupy.open_device(device.index) if device.kind == "gpu" and not cupy.missing else device


def _rates(device: Device, copy: Callable[[Array, Array], None], source: Array, target: Array) -> list[float]:
    """Bytes read and written a second, copy after copy."""
    rates: list[float] = []
    start = perf_counter()
    while len(rates) < FIRST + COPIES and (len(rates) < FIRST + 3 or perf_counter() - start < LONGEST):
        stopwatch = device.stopwatch()
        with stopwatch:
            copy(source, target)
        rates.append(2 * source.nbytes / stopwatch.seconds())
    return rates[FIRST:]


def _ways(target: Array) -> tuple[Callable[[Array, Array], None], ...]:
    """How to copy to an array like `target`.

    On the host by all cores; for a Numba array by the driver; for a CuPy array by the driver and by CuPy's kernel: on
    an H200 these two gave 3530 and 4250 GB/s.
    """
    if isinstance(target, np.ndarray):
        return (_host_copy,)
    if hasattr(target, "copy_to_device"):
        return (_numba_copy,)
    return _driver_copy, _kernel_copy


def _numba_copy(source: Array, target: Array) -> None:
    target.copy_to_device(source)


def _driver_copy(source: Array, target: Array) -> None:
    target.data.copy_from_device_async(source.data, source.nbytes)


def _kernel_copy(source: Array, target: Array) -> None:
    target[...] = source


@njit(cache=True, nogil=True, parallel=True)
def _host_copy(source: Any, target: Any) -> None:
    for i in prange(source.size):
        target[i] = source[i]


def _array_bytes(device: Device) -> int:
    wanted = ARRAY_BYTES[device.kind]
    if device.kind == "cpu":
        wanted = max(wanted, CACHES * _last_cache_bytes())
    return int(min(wanted, SHARE * device.free_bytes() / 2)) // 4096 * 4096


def _last_cache_bytes() -> int:
    """Bytes of one last-level cache of the CPU; 0 where the system does not tell."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    texts = [path.read_text().strip() for path in sizes]
    return max((int(text[:-1]) * units[text[-1]] for text in texts if text[-1:] in units), default=0)
