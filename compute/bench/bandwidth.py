"""The roof that rates are compared with: how fast a device copies memory, measured, never from a datasheet.

A roof that was measured while something else had the memory lies too low, and a way beside it then shows 170 %. So it
is measured as carefully as what is compared with it: in the same process, on the same threads, in turn with the ways
(`Copies`, a sample at a time), and the upper quartile of all its samples counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
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
LIVE_BYTES = {"cpu": 64 * 2**20, "gpu": 512 * 2**20}  # beside a live picture
CACHES = 4  # an array is at least so many times the last-level cache of the CPU
SHARE = 0.2  # of the free memory that the two arrays may take together
COPIES = 15  # copies timed
LEAST = 3  # of them on a slow machine
FIRST = 2  # copies before that, not counted: compilation and first touch
LONGEST = 2.0  # seconds after which a slow machine stops copying

numba_threads.choose_layer()


@dataclass(frozen=True)
class CopyBandwidth:
    """Bytes read and written a second while one array is copied to another of `array_bytes` bytes each."""

    device: str
    rate: Spread
    array_bytes: int


    @property
    def roof(self) -> float:
        """What counts: the upper quartile, since whatever else went on can only have made copying slower."""
        return self.rate.q3


_known: dict[str, CopyBandwidth] = {}
_rates: dict[str, list[float]] = {}  # every sample of this process, by device


def copy_bandwidth(device: Device) -> CopyBandwidth:
    """The device's copy bandwidth as far as this process has measured it; more of it now if that is little."""
    if device.name not in _known or _known[device.name].rate.n < LEAST:
        with device.lock, closing(Copies(device)) as copies:
            start = perf_counter()
            for number in range(COPIES):
                if number >= LEAST and perf_counter() - start > LONGEST:
                    break
                note(device, copies.sample(), copies.array_bytes)
    return _known[device.name]


def note(device: Device, rate: float, array_bytes: int) -> None:
    """Take a sample into the device's copy bandwidth."""
    rates = _rates.setdefault(device.name, [])
    rates.append(rate)
    _known[device.name] = CopyBandwidth(device.name, Spread.of(rates), array_bytes)


class Copies:
    """Copies of one array to another on a device, a sample at a time, in turn with what is compared with them.

    pieces: of the arrays, of which a sample copies one, the next each time; live: arrays as small as the caches allow.
    The arrays are made by `prepare`, or by the first sample.
    """

    def __init__(self, device: Device, pieces: int = 1, live: bool = False) -> None:
        self._device = _best_view(device)
        self.array_bytes = _array_bytes(self._device, live) // pieces * pieces
        self._pieces, self._next = pieces, 0
        self._arrays: tuple[Array, Array] | None = None

    def prepare(self) -> Iterator[None]:
        """Make the arrays and copy every piece FIRST times uncounted: compilation and first touch. Yields often."""
        size = self.array_bytes // 4
        arrays = [self._device.allocate((size,), np.float32) for _ in range(2)]
        self._arrays = arrays[0], arrays[1]
        for _ in range(FIRST * self._pieces):
            self.sample()
            yield

    def sample(self) -> float:
        """Bytes read and written a second while a piece is copied in the fastest way the device has."""
        if self._arrays is None:
            deque(self.prepare(), maxlen=0)
        source, target = self._piece()
        seconds = []
        for copy in _ways(target):
            stopwatch = self._device.stopwatch()
            with self._device.lock, stopwatch:
                copy(source, target)
            seconds.append(stopwatch.seconds())
        return 2 * self.array_bytes / self._pieces / min(seconds)

    def close(self) -> None:
        """Give the arrays back."""
        self._arrays = None

    def _piece(self) -> tuple[Array, Array]:
        assert self._arrays is not None  # noqa: S101 made by `prepare`
        length = self.array_bytes // 4 // self._pieces
        first = self._next * length
        self._next = (self._next + 1) % self._pieces
        source, target = (array[first : first + length] for array in self._arrays)
        return source, target


def _best_view(device: Device) -> Device:
    """A GPU as CuPy sees it, where CuPy is there: its copying kernel is faster than the driver's copy."""
    cupy = backend("gpu_cupy")
    return cupy.open_device(device.index) if device.kind == "gpu" and not cupy.missing else device


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


def _array_bytes(device: Device, live: bool) -> int:
    wanted = (LIVE_BYTES if live else ARRAY_BYTES)[device.kind]
    if device.kind == "cpu":
        wanted = max(wanted, CACHES * _last_cache_bytes())
    return int(min(wanted, SHARE * device.free_bytes() / 2)) // 4096 * 4096


def _last_cache_bytes() -> int:
    """Bytes of one last-level cache of the CPU; 0 where the system does not tell."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    texts = [path.read_text().strip() for path in sizes]
    return max((int(text[:-1]) * units[text[-1]] for text in texts if text[-1:] in units), default=0)
