"""Memory and clocks of devices: the common interface, and the host. The GPUs are in gpu_devices.py."""

from __future__ import annotations

import os
import platform
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from math import inf, nan
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.machine.container import available_memory, processors, total_memory
from compute.measure.timing import note_span

Array = Any  # numpy.ndarray, cupy.ndarray or a Numba device array: the kernels of one backend use one kind only


class DeviceLost(RuntimeError):
    """A device has stopped working for this process; another process may be able to use it."""


class NoDevice(str):
    """The reason why a device is missing, if no package provides it: there is none, no driver, or it is off."""

    __slots__ = ()


class Stopwatch(ABC):
    """Times the block of a `with` statement on its device.

    launch: host seconds until the block returned (0 on the host, where launching is computing).
    """

    launch: float = 0.0

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *exc: object) -> None: ...

    @abstractmethod
    def seconds(self) -> float:
        """Return the device seconds of the block; waits until it has finished."""


class HostStopwatch(Stopwatch):
    """Wall time by the monotonic performance counter: host kernels are synchronous."""

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop = time.perf_counter()
        note_span(self._stop, self._stop - self._start)

    def seconds(self) -> float:
        """Return the seconds between entering and leaving the block."""
        return self._stop - self._start


class Device(ABC):
    """A device with memory and a clock. Only one thread at a time may use it: acquire `lock`.

    copies_at_once: whether `fetch` and `fetch_all` block until the copies are made; largest_array: bytes that one array
    can have; fma_dtypes: number types whose multiply-adds can be measured on its arrays; clock: of its stopwatches.
    """

    name: str
    kind: str
    copies_at_once = True
    clock: str = "wall time"
    largest_array: float = inf
    fma_dtypes: tuple[str, ...] = ("float32", "float64")

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.lock = threading.RLock()

    @staticmethod
    @abstractmethod
    def missing() -> str | None:
        """Return why no device of this class can be used on this machine; None if one can.

        The reason is a NoDevice if its packages are installed.
        """

    @staticmethod
    def count() -> int:
        """Return the number of devices of this class that can be used."""
        return 1

    @staticmethod
    def simulated() -> str:
        """Return why times on this device are meaningless; "" for valid times."""
        return ""

    @staticmethod
    def exact(index: int = 0) -> bool:  # noqa: ARG004 - for subclasses
        """Return whether device `index` was found to round sums and products of float32 numbers without their errors.

        Only devices without float64 are tested, whose compilers may rearrange.
        """
        return False

    @staticmethod
    def lost(error: Exception) -> bool:
        """Return whether `error` means that this process can no longer use the device."""
        return isinstance(error, DeviceLost)

    def best_view(self) -> Device:
        """Return this device through the library with the fastest kernels on it; by default itself."""
        return self

    def copiers(self) -> tuple[Callable[[Array, Array], object], ...]:
        """Return functions (source, target) that copy between two arrays on the device; () on the host."""
        return ()

    @abstractmethod
    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Return a C-contiguous array with undefined contents."""

    @abstractmethod
    def write(self, host: NDArray[Any], array: Array) -> None:
        """Copy `host` into `array` of the same shape and dtype."""

    @abstractmethod
    def download(self, array: Array) -> NDArray[Any]:
        """Return a host copy of `array`."""

    def fetch(self, array: Array) -> Callable[[], NDArray[Any]]:
        """Queue a host copy of `array` after all launched work; return a function that waits for that copy only.

        If the device copies synchronously (`copies_at_once`), the copy is complete on return.
        """
        arrive = self.fetch_all([array])
        return lambda: arrive()[0]

    def fetch_all(self, arrays: Sequence[Array]) -> Callable[[], Sequence[NDArray[Any]]]:
        """As `fetch`, of several arrays with a single wait."""
        hosts = [self.download(array) for array in arrays]
        return lambda: hosts

    @abstractmethod
    def synchronise(self) -> None:
        """Wait until everything launched on this device has finished."""

    @abstractmethod
    def stopwatch(self) -> Stopwatch:
        """Return a new stopwatch for this device."""

    @abstractmethod
    def free_bytes(self) -> float:
        """Return the bytes that can be allocated now; inf if the device does not report them."""

    def has_room(self, nbytes: int) -> bool:
        """Return whether `nbytes` bytes can be allocated, by trying it if the device does not report free memory."""
        return nbytes <= self.free_bytes()

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return a description of the device: name, memory in bytes, cores or multiprocessors, driver."""

    def l2_bytes(self) -> float:
        """Return the bytes of the L2 cache; nan if unknown."""
        return float(self.describe().get("l2_bytes", nan))

    def upload(self, host: NDArray[Any]) -> Array:
        """Return a new array on this device with the contents of `host`."""
        host = np.ascontiguousarray(host)
        array = self.allocate(host.shape, host.dtype)
        self.write(host, array)
        return array

    def close(self) -> None:
        """Release cached memory to the system."""


HOST = "host"  # name of the host's device, and of the engine that computes on it


def device_kind(name: str) -> Literal["cpu", "gpu"]:
    """Return the kind of the device or engine `name`, which may end with its number, as in "cuda:1"."""
    return "cpu" if name.partition(":")[0] == HOST else "gpu"


class Host(Device):
    """The CPU with its main memory; index must be 0."""

    name, kind = HOST, "cpu"

    def __init__(self, index: int = 0) -> None:
        if index != 0:
            raise ValueError(f"device_index must be 0 on the host, not {index}")
        super().__init__(index)

    @staticmethod
    def missing() -> str | None:
        """Return None: the host is always available."""
        return None

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Return a NumPy array."""
        return np.empty(tuple(shape), dtype)

    def write(self, host: NDArray[Any], array: Array) -> None:
        """Assign the contents."""
        array[...] = host

    def download(self, array: Array) -> NDArray[Any]:
        """Return a copy, so that the caller owns it as on a GPU."""
        return np.array(array)

    def synchronise(self) -> None:
        """Return immediately: the host is synchronous."""

    def stopwatch(self) -> Stopwatch:
        """Return a stopwatch for wall time."""
        return HostStopwatch()

    def free_bytes(self) -> int:
        """Return the bytes that can be allocated without swapping."""
        return available_memory()

    def describe(self) -> dict[str, Any]:
        """Return the number of cores that this process may use, and the memory in bytes."""
        return {"name": cpu_name(), "cores": cpu_count(), "memory": total_memory()}


def cpu_count() -> int:
    """Return the number of processors that this process may use: its affinity mask, limited by the container's quota.

    A quota of 1.5 processors counts as 1: of two threads one would be stopped for half of the time.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    quota = processors()
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def installed_version(distribution: str) -> str:
    """Return the version of an installed distribution; "" without its metadata."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def cpu_name() -> str:
    """Return the processor's model name, or the architecture if the system does not provide it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def processor_waits(pid: int) -> dict[str, float]:
    """Return the seconds that each thread of a process has waited for a processor; {} without such data."""
    found = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():  # exists only on Linux
            with suppress(OSError, ValueError, IndexError):  # the thread has just ended
                found[task.name] = 1e-9 * int((task / "schedstat").read_text().split()[1])
    return found


def longest_wait(before: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Return the longest wait of a thread, in seconds, between two results of `processor_waits`."""
    return max((seconds - before.get(task, 0.0) for task, seconds in now.items()), default=0.0)


# -- several GPUs by name

MOST = 64  # GPUs of one machine
LONGEST = 200  # characters of a list
_LIST = re.compile(r"cuda:(\d{1,2}(?:-\d{1,2})?(?:,\d{1,2}(?:-\d{1,2})?)*)")


def device_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of the GPUs that `text` names, in its order. ValueError unless it is such a list."""
    found = _LIST.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise ValueError(f"devices must be a list of GPUs like cuda:0-3 or cuda:0,2, not {text[:LONGEST]!r}")
    numbers: list[int] = []
    for part in found[1].split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
        if last and int(last) < int(first):
            raise ValueError(f"devices: {part} in {text!r} must name the smaller number first")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"devices must name each GPU once, not {text!r}")
    if max(numbers) >= MOST:
        raise ValueError(f"devices must be numbers from 0 to {MOST - 1}, not {text!r}")
    return tuple(numbers)


def devices_name(numbers: Sequence[int]) -> str:
    """Return the shortest list that names these GPUs: "cuda:0-3,6"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return "cuda:" + ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
