"""Runs one way at one n on its device: its arrays, whether its result is right, and what it takes.

A time is that of `steps` calls one after the other, divided by them: between two CUDA events on a GPU, so that launches
count as far as the device waits for them; wall time on the host, and for workloads whose data begin and end in main
memory. With `evict` every sample is a single call on caches that hold nothing of it.

A way in Numba runs on one thread or on all, whichever is quicker at that n: both are tried after the first call, unless
the work is much longer than waking the threads.
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

from compute import numba_threads
from compute.backends import backend
from compute.devices import Array, Device, HostStopwatch, Stopwatch
from compute.labs.crossover.ecosystems import Extra
from compute.labs.crossover.workload import LAB, Case, Way
from compute.measure.rates import gpu_caches, host_caches
from compute.measure.timing import Timing

SCRATCH_BYTES = {"cpu": 2**28, "gpu": 2**27}  # to fill caches with, at least, and where their size is not known
CACHES = 2  # times the caches of a device that it is at least: what a read leaves of older data is then little
SHARE = 0.25  # of the free memory that it may take beyond SCRATCH_BYTES

HOST = backend("cpu_numba")

numba_threads.choose_layer()
_scratch: dict[tuple[str, str], Array] = {}


@dataclass(frozen=True)
class FirstCall:
    """What the first call told. difference: from the reference; first_call: seconds, compilation included."""

    difference: float
    first_call: float


class WorkloadRunner:
    """Holds the arrays of `way` at `case`, in a `with` statement. inputs: those of the case, on the host."""

    def __init__(self, way: Way, case: Case, inputs: tuple[Any, ...]) -> None:
        self._way, self._case, self._inputs = way, case, inputs
        self._call = way.function()
        self.device: Device = way.backend.open_device()
        self._on_host = case.workload.on == "host"
        self._arguments: tuple[Any, ...] = ()
        self._threads = 0  # that a way in Numba uses; 0 for all there are
        self._load()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._arguments = ()
        self.device.close()

    def check(self, truth: tuple[NDArray[Any], ...]) -> FirstCall:
        """Call it once and compare; the arrays are as at the beginning afterwards."""
        start = perf_counter()
        result = self._results(self._call(*self._arguments))
        self.device.synchronise()
        seconds = perf_counter() - start
        found = FirstCall(self._case.workload.difference(self._download(result), truth), seconds)
        if self._way.backend.name == HOST.name and self.device.kind == "cpu":
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
        del result  # not before: a device without events waits for the arrays that there are
        way, n = self._way, self._case.n
        regions = 0.0 if self._threads == 1 else nan
        return Timing(way.backend.name, way.variant, steps, n, stopwatch.launch, seconds, regions=regions)

    def transfer(self) -> float:
        """Seconds to bring the inputs to the device and the results back, wall time; 0 for what lies on the host."""
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
        """Fill the caches of the memory that the data lie in with something else."""
        sweeper = HOST if self._on_host else self._way.backend
        device = sweeper.open_device() if self._on_host else self.device
        key = sweeper.name, device.name
        if key not in _scratch:
            _scratch[key] = device.upload(np.zeros(scratch_bytes(device) // 4, np.float32))
        evict = sweeper.evict if isinstance(sweeper, Extra) else sweeper.kernels(LAB).evict
        evict(_scratch[key])
        device.synchronise()

    def _load(self) -> None:
        """Make the arguments anew."""
        outputs = self._case.outputs()
        self._first, self._last = len(self._inputs), len(self._inputs) + len(outputs)
        self._arguments = self._way.prepared(tuple(self._place(value) for value in (*self._inputs, *outputs)))

    def _place(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return value.copy() if self._on_host else self.device.upload(value)

    def _results(self, returned: Any) -> tuple[Any, ...]:
        """What a call returned, else the outputs, else the inputs that it changed."""
        if returned is not None:
            return returned if isinstance(returned, tuple) else (returned,)
        inputs = self._arguments[: self._first]
        return self._arguments[self._first : self._last] or tuple(v for v in inputs if hasattr(v, "dtype"))

    def _download(self, arrays: tuple[Any, ...]) -> tuple[NDArray[Any], ...]:
        return tuple(
            array.copy() if isinstance(array, np.ma.MaskedArray)  # else the mask would be lost without a word
            else np.array(array) if self._on_host else self.device.download(array)
            for array in arrays
        )  # fmt: skip

    def _stopwatch(self) -> Stopwatch:
        return HostStopwatch() if self._on_host else self.device.stopwatch()


def scratch_bytes(device: Device) -> int:
    """Bytes that fill the caches of `device` with something else: on two processors with 384 MiB each 1.5 GiB."""
    caches = host_caches() if device.kind == "cpu" else gpu_caches(_l2_bytes(device))
    wanted = CACHES * max((level.size for level in caches), default=0)
    return max(SCRATCH_BYTES[device.kind], int(min(wanted, SHARE * device.free_bytes())))


def _l2_bytes(device: Device) -> float:
    """Of a GPU, as CuPy tells where it is there; nan where nothing does."""
    cupy = backend("gpu_cupy")
    seen = device if cupy.missing else cupy.open_device(device.index)
    return float(seen.describe().get("l2_bytes", nan))


def forget_scratch() -> None:
    """Give back the arrays that fill the caches."""
    _scratch.clear()
