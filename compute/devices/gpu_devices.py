"""NVIDIA GPUs as devices: `Cuda` for CuPy arrays, `NumbaCuda` for Numba-CUDA arrays or Numba's simulator.

CuPy and numba.cuda are imported when a device is opened or queried, never at import of this file.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.devices.devices import Array, Device, HostStopwatch, NoDevice, Stopwatch, installed_version
from compute.machine.container import available_memory
from compute.measure.timing import note_span

# CUDA errors after which "the process must be terminated and relaunched" (cuda.h)
LOST_CONTEXT = frozenset({226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911})
ALIGNMENT = 64  # bytes between the starts of adjacent copies: enough for every dtype


class EventStopwatch(Stopwatch):
    """Device time between two CUDA events around the kernels; `events` is (start, stop), `elapsed` returns ms.

    free: list to which the events are returned for the next stopwatch.
    """

    def __init__(self, events: tuple[Any, Any], elapsed: Any, free: list[tuple[Any, Any]] | None = None) -> None:
        self._events, self._elapsed, self._free = events, elapsed, free
        self._seconds: float | None = None

    def __enter__(self) -> Self:
        self._seconds = None
        self._entered = time.perf_counter()
        self._events[0].record()
        return self

    def __exit__(self, *exc: object) -> None:
        self._events[1].record()
        left = time.perf_counter()
        self.launch = left - self._entered
        note_span(left, self.launch, "launch")

    def seconds(self) -> float:
        """Return the seconds between the two events; waits for the second."""
        if self._seconds is None:
            self._events[1].synchronize()
            ended = time.perf_counter()
            self._seconds = 1e-3 * float(self._elapsed(*self._events))
            note_span(ended, self._seconds)
        return self._seconds

    def __del__(self) -> None:
        if self._free is not None:
            self._free.append(self._events)


@dataclass(frozen=True)
class Landing:
    """Pinned host memory at `address`, which receives several copies, and the event recorded after them."""

    memory: Any
    address: int
    copied: Any

    @classmethod
    def of(cls, nbytes: int, cuda: Any) -> Self:
        """Return a landing of `nbytes` bytes. cuda: the module cupy.cuda."""
        memory = cuda.alloc_pinned_memory(nbytes)
        return cls(memory, int(memory.ptr), cuda.Event(disable_timing=True))


class NvidiaGpu(Device):
    """An NVIDIA GPU through any library: checks the number and names the device."""

    kind = "gpu"
    clock = "events"
    fma_dtypes: tuple[str, ...] = ()  # without CuPy

    def __init__(self, index: int = 0) -> None:
        if not 0 <= index < self.count():
            raise ValueError(f"device_index must be from 0 to {self.count() - 1}, not {index}")
        super().__init__(index)
        self.name = f"cuda:{index}"

    @staticmethod
    @abstractmethod
    def count() -> int:
        """Return the number of GPUs that this class can use."""

    @staticmethod
    def lost(error: Exception) -> bool:
        """Return whether a CUDA error, of CuPy (`status`) or Numba (`code`), has destroyed this process's context."""
        if type(error).__module__.partition(".")[0] not in {"cupy", "cupy_backends", "numba", "numba_cuda", "cuda"}:
            return False
        return getattr(error, "status", getattr(error, "code", None)) in LOST_CONTEXT

    def best_view(self) -> Device:
        """Return the GPU through CuPy, if that can be used."""
        return self if Cuda.missing() else Cuda(self.index)


class Cuda(NvidiaGpu):
    """GPU `index` through CuPy: pooled memory, CUDA events, pinned downloads."""

    copies_at_once = False
    fma_dtypes = "float32", "float64"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        import cupy

        self._cupy = cupy
        self._device = cupy.cuda.Device(index)
        self._landings: defaultdict[int, list[Landing]] = defaultdict(list)  # unused ones, by their bytes
        self._events: list[tuple[Any, Any]] = []  # unused ones, of stopwatches
        self._device.use()

    @staticmethod
    def count() -> int:
        """Return the number of GPUs that CuPy can use."""
        try:
            import cupy
        except ImportError:
            return 0
        return int(cupy.cuda.runtime.getDeviceCount()) if cupy.cuda.is_available() else 0

    @staticmethod
    def missing() -> str | None:
        """Return why CuPy cannot compute on this machine; None if it can."""
        try:
            import cupy
        except ImportError as error:
            return f"CuPy cannot be imported ({error})"
        if not cupy.cuda.is_available():
            return NoDevice("CuPy is installed but finds no NVIDIA GPU or driver")
        return _driver_too_old(cupy) or _no_compiler(cupy)

    def best_view(self) -> Device:
        """Return this device."""
        return self

    def copiers(self) -> tuple[Callable[[Array, Array], object], ...]:
        """Return the driver's copy and CuPy's kernel: on an H200 they reached 3530 and 4250 GB/s."""
        return (
            lambda source, target: target.data.copy_from_device_async(source.data, source.nbytes),
            lambda source, target: target.__setitem__(..., source),
        )

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Return a CuPy array on this GPU."""
        with self._device:
            return self._cupy.empty(tuple(shape), dtype)

    def write(self, host: NDArray[Any], array: Array) -> None:
        """Copy from host to device; blocks until the host array may be changed again."""
        with self._device:
            array.set(np.ascontiguousarray(host, dtype=array.dtype))
            self._cupy.cuda.get_current_stream().synchronize()

    def download(self, array: Array) -> NDArray[Any]:
        """Copy from device to host through pinned memory; blocks."""
        with self._device:
            source = self._cupy.ascontiguousarray(array)
            out = self._pinned(source)
            source.get(out=out)
            return np.array(out)

    def _pinned(self, like: Array) -> NDArray[Any]:
        """Return a host array of this shape and dtype in pinned memory."""
        pinned = self._cupy.cuda.alloc_pinned_memory(max(like.nbytes, 1))
        return np.frombuffer(pinned, like.dtype, like.size).reshape(like.shape)

    def fetch_all(self, arrays: Sequence[Array]) -> Callable[[], Sequence[NDArray[Any]]]:
        """Queue copies into pinned memory; further work can be launched before they are waited for.

        The driver is called directly, the memory is reused, and one event covers all copies: a frame has six small
        copies, and each took 25 us of Python with `get`.
        """
        cuda = self._cupy.cuda
        with self._device:
            sources = [each if each.flags.c_contiguous else self._cupy.ascontiguousarray(each) for each in arrays]
            *starts, total = accumulate((-(-each.nbytes // ALIGNMENT) * ALIGNMENT for each in sources), initial=0)
            room = 1 << max(total - 1, 0).bit_length()
            free = self._landings[room]
            landing = free.pop() if free else Landing.of(room, cuda)
            stream = cuda.get_current_stream()
            copy, down = cuda.runtime.memcpyAsync, cuda.runtime.memcpyDeviceToHost
            for start, source in zip(starts, sources, strict=True):
                copy(landing.address + start, source.data.ptr, source.nbytes, down, stream.ptr)
            landing.copied.record(stream)

        def wait() -> list[NDArray[Any]]:
            """Wait for the copies and return them."""
            landing.copied.synchronize()
            copied = np.array(np.frombuffer(landing.memory, np.uint8, total))
            free.append(landing)
            return [
                copied[start : start + source.nbytes].view(source.dtype).reshape(source.shape)
                for start, source in zip(starts, sources, strict=True)
            ]

        return wait

    def synchronise(self) -> None:
        """Wait for the device."""
        self._device.synchronize()

    def stopwatch(self) -> Stopwatch:
        """Return a stopwatch of CUDA events on the current stream."""
        cuda, free = self._cupy.cuda, self._events
        return EventStopwatch(free.pop() if free else (cuda.Event(), cuda.Event()), cuda.get_elapsed_time, free)

    def free_bytes(self) -> int:
        """Return the free bytes of the device and of CuPy's pool."""
        free, _ = self._device.mem_info
        return int(free) + int(self._cupy.get_default_memory_pool().free_bytes())

    def describe(self) -> dict[str, Any]:
        """Return name, memory in bytes, multiprocessors, compute capability and the driver's CUDA version."""
        facts = self._cupy.cuda.runtime.getDeviceProperties(self.index)
        return {
            "name": facts["name"].decode(),
            "memory": int(facts["totalGlobalMem"]),
            "multiprocessors": int(facts["multiProcessorCount"]),
            "l2_bytes": int(facts["l2CacheSize"]),
            "compute_capability": f"{facts['major']}.{facts['minor']}",
            "cuda_driver": _version(self._cupy.cuda.runtime.driverGetVersion()),
        }

    def close(self) -> None:
        """Return the pool's unused blocks to the driver."""
        self._landings.clear()
        self._cupy.get_default_memory_pool().free_all_blocks()


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver_too_old(cupy: Any) -> str | None:
    """Return both versions if the driver, of an older major CUDA version, refuses CuPy's kernels; else None."""
    driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    if driver // 1000 < runtime // 1000:
        return f"the NVIDIA driver supports CUDA {_version(driver)} but CuPy was built for CUDA {_version(runtime)}"
    return None


def _no_compiler(cupy: Any) -> str | None:
    """Return why NVRTC cannot be loaded, else None; CuPy loads this separate package at the first compilation."""
    try:
        cupy.cuda.nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:
        return f"CuPy cannot load NVRTC, which compiles its kernels ({error})"
    return None


class NumbaCuda(NvidiaGpu):
    """GPU `index` through numba-cuda; with NUMBA_ENABLE_CUDASIM=1 its simulator, which runs kernels on the CPU."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        from numba import cuda

        self._cuda = cuda
        cuda.select_device(index)

    @staticmethod
    def count() -> int:
        """Return the number of GPUs that numba-cuda can use; 1 in the simulator."""
        try:
            from numba import cuda
        except ImportError:
            return 0
        return len(cuda.gpus) if cuda.is_available() else 0

    @staticmethod
    def missing() -> str | None:
        """Return why numba-cuda cannot compute on this machine; None if it can."""
        if not hasattr(np, "row_stack"):  # numba-cuda 0.30.4 calls it; numpy 2.5 removed it
            return f"numba-cuda needs numpy below 2.5; numpy {np.__version__} is installed"
        try:
            from numba import cuda
        except ImportError as error:
            return f"numba.cuda cannot be imported ({error})"
        if not cuda.is_available():
            found = "finds no NVIDIA GPU or driver"
            if installed_version("numba-cuda"):
                return NoDevice(f"numba-cuda {found}")
            return f"numba-cuda is not installed; Numba {found}"
        return None

    def copiers(self) -> tuple[Callable[[Array, Array], object], ...]:
        """Return the driver's copy."""
        return (lambda source, target: target.copy_to_device(source),)

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Return a Numba device array."""
        return self._cuda.device_array(tuple(shape), np.dtype(dtype))

    def write(self, host: NDArray[Any], array: Array) -> None:
        """Copy from host to device; blocks."""
        array.copy_to_device(np.ascontiguousarray(host, dtype=array.dtype))
        self.synchronise()

    def download(self, array: Array) -> NDArray[Any]:
        """Copy from device to host; blocks."""
        return np.array(array.copy_to_host())

    def synchronise(self) -> None:
        """Wait for the device."""
        self._cuda.synchronize()

    def stopwatch(self) -> Stopwatch:
        """Return a stopwatch of CUDA events on the default stream; of wall time in the synchronous simulator."""
        if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
            return HostStopwatch()
        return EventStopwatch((self._cuda.event(), self._cuda.event()), self._cuda.event_elapsed_time)

    def free_bytes(self) -> int:
        """Return the free memory reported by the driver, in the simulator the host's."""
        if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
            return available_memory()
        return int(self._cuda.current_context().get_memory_info().free)

    def describe(self) -> dict[str, Any]:
        """Return the name of the GPU and its compute capability."""
        device = self._cuda.get_current_device()
        name = device.name
        return {
            "name": name.decode() if isinstance(name, bytes) else str(name),
            "compute_capability": ".".join(str(part) for part in device.compute_capability),
        }


def cuda_count() -> int:
    """Return the number of NVIDIA GPUs that the driver reports, 0 without a driver."""
    for device_class in (Cuda, NumbaCuda):
        count = device_class.count()
        if count:
            return count
    return 0
