"""Run one way at one n on its device: create its arrays, check its result, and time it.

A time is that of `steps` consecutive calls divided by `steps`: between two CUDA events on a GPU, so that launches count
only as far as the device waits for them; wall time on the host, and for workloads whose data begin and end in main
memory. With `evict` every sample is a single call with none of its data in the caches.

A way in Numba runs on one thread or on all, whichever is faster at that n: both are tried after the first call, unless
the work takes much longer than waking the threads.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from math import nan
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from compute.devices import numba_threads
from compute.devices.backends import backend
from compute.devices.devices import Array, Device, HostStopwatch, Stopwatch
from compute.measure.rates import gpu_caches, host_caches
from compute.measure.timing import Timing
from compute.ways.ecosystems import Extra
from compute.ways.workload import LAB, Case, Way

SCRATCH_BYTES = {"cpu": 2**28, "gpu": 2**27}  # least size of the array that fills the caches
CACHES = 2  # least size as a multiple of the device's caches, if known: reading it leaves little of older data
SHARE = 0.25  # fraction of the free memory that may be used beyond SCRATCH_BYTES

HOST = backend("cpu_numba")

numba_threads.choose_layer()
_scratch: dict[tuple[str, str], Array] = {}


@dataclass(frozen=True)
class FirstCall:
    """Result of the first call. difference: from the reference; first_call: seconds, compilation included."""

    difference: float
    first_call: float


class WorkloadRunner:
    """Context manager with the arrays of `way` at `case`. inputs: those of the case, on the host."""

    def __init__(self, way: Way, case: Case, inputs: tuple[Any, ...]) -> None:
        self._way, self._case, self._inputs = way, case, inputs
        self._call = way.function()
        self.device: Device = way.backend.open_device()
        self._on_host = case.workload.on == "host"
        self._arguments: tuple[Any, ...] = ()
        self._threads = 0  # used by a way in Numba; 0 for all threads
        self._load()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._arguments = ()
        self.device.close()

    def check(self, truth: tuple[NDArray[Any], ...]) -> FirstCall:
        """Call the way once, compare its result with `truth`, and restore the arrays."""
        start = perf_counter()
        result = self._results(self._call(*self._arguments))
        self.device.synchronise()
        seconds = perf_counter() - start
        found = FirstCall(self._case.workload.difference(self._download(result), truth), seconds)
        if self._way.backend.threaded:
            self._threads = numba_threads.quicker(lambda: self._call(*self._arguments))
        self._load()
        return found

    def time(self, steps: int) -> Timing:
        """Time `steps` calls; launch and compute are their sums."""
        call, arguments = self._call, self._arguments
        stopwatch = self._stopwatch()
        limit = numba_threads.limited(self._threads) if self._threads else nullcontext()
        with self.device.lock, limit, stopwatch:
            for _ in range(steps):
                result = call(*arguments)
        seconds = stopwatch.seconds()
        del result  # not earlier: a device without events waits for all live arrays
        way, n = self._way, self._case.n
        regions = 0.0 if self._threads == 1 else nan
        return Timing(way.backend.name, way.variant, steps, n, stopwatch.launch, seconds, regions=regions)

    def transfer(self) -> float:
        """Return the wall time to copy the inputs to the device and the results back; 0 for data on the host."""
        if self.device.kind == "cpu" or self._on_host:
            return 0.0
        self.device.synchronise()
        start = perf_counter()
        inputs = [self._place(value) for value in self._inputs]
        self._download(self._results(None))
        self.device.synchronise()
        seconds = perf_counter() - start
        del inputs
        return seconds

    def evict(self) -> None:
        """Replace the contents of the caches of the memory that contains the data."""
        sweeper = HOST if self._on_host else self._way.backend
        device = sweeper.open_device() if self._on_host else self.device
        key = sweeper.name, device.name
        if key not in _scratch:
            _scratch[key] = device.upload(np.zeros(scratch_bytes(device) // 4, np.float32))
        evict = sweeper.evict if isinstance(sweeper, Extra) else sweeper.kernels(LAB).evict
        evict(_scratch[key])
        device.synchronise()

    def _load(self) -> None:
        """Create the arguments again."""
        outputs = self._case.outputs()
        self._first, self._last = len(self._inputs), len(self._inputs) + len(outputs)
        self._arguments = self._way.prepared(tuple(self._place(value) for value in (*self._inputs, *outputs)))

    def _place(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return value.copy() if self._on_host else self.device.upload(value)

    def _results(self, returned: Any) -> tuple[Any, ...]:
        """Return the returned arrays, else the outputs, else the inputs, which the call changed."""
        if returned is not None:
            return returned if isinstance(returned, tuple) else (returned,)
        inputs = self._arguments[: self._first]
        return self._arguments[self._first : self._last] or tuple(v for v in inputs if hasattr(v, "dtype"))

    def _download(self, arrays: tuple[Any, ...]) -> tuple[NDArray[Any], ...]:
        return tuple(
            array.copy() if isinstance(array, np.ma.MaskedArray)  # np.array would drop the mask silently
            else np.array(array) if self._on_host else self.device.download(array)
            for array in arrays
        )  # fmt: skip

    def _stopwatch(self) -> Stopwatch:
        return HostStopwatch() if self._on_host else self.device.stopwatch()


def scratch_bytes(device: Device) -> int:
    """Return the bytes that fill the caches of `device`: 1.5 GiB on two processors with 384 MiB each."""
    caches = host_caches() if device.kind == "cpu" else gpu_caches(device.best_view().l2_bytes())
    wanted = CACHES * max((level.size for level in caches), default=0)
    most = max(SCRATCH_BYTES[device.kind], int(min(wanted, SHARE * device.free_bytes())))
    return int(min(most, device.largest_array))


def forget_scratch() -> None:
    """Release the arrays that fill the caches."""
    _scratch.clear()
