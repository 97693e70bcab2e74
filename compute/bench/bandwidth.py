"""The roof that rates are compared with: how fast a device copies memory, measured, never from a datasheet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit, prange

from compute import numba_threads
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
    """Copy on the device and time it there; on the host all cores copy."""
    size = _array_bytes(device)
    source, target = device.upload(np.ones(size // 4, np.float32)), device.allocate((size // 4,), np.float32)
    rates: list[float] = []
    start = perf_counter()
    while len(rates) < FIRST + COPIES and (len(rates) < FIRST + 3 or perf_counter() - start < LONGEST):
        stopwatch = device.stopwatch()
        with stopwatch:
            _copy(source, target)
        rates.append(2 * size / stopwatch.seconds())
    return CopyBandwidth(device.name, Spread.of(rates[FIRST:]), size)


def _copy(source: Array, target: Array) -> None:
    """target = source where both live: all cores on the host, the driver's copy on a GPU (Numba's array, CuPy's)."""
    if isinstance(target, np.ndarray):
        _host_copy(source, target)
    elif hasattr(target, "copy_to_device"):
        target.copy_to_device(source)
    else:
        target.data.copy_from_device_async(source.data, source.nbytes)


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
