"""Where arrays live and clocks tick: what every device offers, and the host. The GPUs are in gpu_devices.py."""

from __future__ import annotations

import os
import platform
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.container import available_memory, processors, total_memory
from compute.measure.timing import note_span

Array = Any  # numpy.ndarray, cupy.ndarray or a Numba device array: the kernels of one backend see one kind only


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
        """Device seconds the block took; waits for it to finish."""


class HostStopwatch(Stopwatch):
    """Wall time by the monotonic performance counter: host kernels are synchronous."""

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop = time.perf_counter()
        note_span(self._stop, self._stop - self._start)

    def seconds(self) -> float:
        """Seconds between entering and leaving the block."""
        return self._stop - self._start


class Device(ABC):
    """A place with memory and a clock. One thread at a time may use it: hold `lock`.

    copies_at_once: whether `fetch` and `fetch_all` wait for the copies themselves.
    """

    name: str
    kind: str
    copies_at_once = True

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.lock = threading.RLock()

    @staticmethod
    @abstractmethod
    def missing() -> str | None:
        """Why no device of this class can be used on this machine; None if one can."""

    @abstractmethod
    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """A C-contiguous array with undefined contents."""

    @abstractmethod
    def write(self, host: NDArray[Any], array: Array) -> None:
        """Copy `host` into `array` of the same shape and dtype."""

    @abstractmethod
    def download(self, array: Array) -> NDArray[Any]:
        """A host copy of `array`."""

    def fetch(self, array: Array) -> Callable[[], NDArray[Any]]:
        """A host copy of `array` as it is after what was launched so far; calling what is returned waits for it alone.

        Of a device that copies at once it is there at once.
        """
        arrive = self.fetch_all([array])
        return lambda: arrive()[0]

    def fetch_all(self, arrays: Sequence[Array]) -> Callable[[], Sequence[NDArray[Any]]]:
        """As `fetch`, of several arrays, for which one waits together."""
        hosts = [self.download(array) for array in arrays]
        return lambda: hosts

    @abstractmethod
    def synchronise(self) -> None:
        """Wait until everything launched on this device has finished."""

    @abstractmethod
    def stopwatch(self) -> Stopwatch:
        """A fresh stopwatch for this device."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Bytes that can be allocated now."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What the device is: name, memory in bytes, cores or multiprocessors, driver."""

    def upload(self, host: NDArray[Any]) -> Array:
        """A new array on this device with the contents of `host`."""
        host = np.ascontiguousarray(host)
        array = self.allocate(host.shape, host.dtype)
        self.write(host, array)
        return array

    def close(self) -> None:
        """Give cached memory back to the system."""


class Host(Device):
    """The CPU with its main memory; index must be 0."""

    name, kind = "host", "cpu"

    def __init__(self, index: int = 0) -> None:
        if index != 0:
            raise ValueError(f"device_index must be 0 on the host, not {index}")
        super().__init__(index)

    @staticmethod
    def missing() -> str | None:
        """Never: there is always a CPU."""
        return None

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """A NumPy array."""
        return np.empty(tuple(shape), dtype)

    def write(self, host: NDArray[Any], array: Array) -> None:
        """Plain assignment."""
        array[...] = host

    def download(self, array: Array) -> NDArray[Any]:
        """A copy, so that the caller owns it as on a GPU."""
        return np.array(array)

    def synchronise(self) -> None:
        """Nothing to wait for."""

    def stopwatch(self) -> Stopwatch:
        """Wall time."""
        return HostStopwatch()

    def free_bytes(self) -> int:
        """Memory that can be had without swapping."""
        return available_memory()

    def describe(self) -> dict[str, Any]:
        """Cores this process may use, and memory in bytes."""
        return {"name": cpu_name(), "cores": cpu_count(), "memory": total_memory()}


def cpu_count() -> int:
    """Return the processors that this process may use: its affinity mask, within the CPU quota of its container.

    A quota of 1.5 processors counts as 1: of two threads one would be stopped for half of the time.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    quota = processors()
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def cpu_name() -> str:
    """The processor's own name, or the architecture where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def processor_waits(pid: int) -> dict[str, float]:
    """Return the seconds that each thread of a process has waited for a processor; {} where nobody tells."""
    found = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():  # Linux's account; nowhere else
            with suppress(OSError, ValueError, IndexError):  # it has just ended
                found[task.name] = 1e-9 * int((task / "schedstat").read_text().split()[1])
    return found


def longest_wait(before: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Return the seconds that the thread which waited longest has waited between two answers of `processor_waits`."""
    return max((seconds - before.get(task, 0.0) for task, seconds in now.items()), default=0.0)


# -- several GPUs by name

MOST = 64  # GPUs of one machine
LONGEST = 200  # characters of a list
_LIST = re.compile(r"cuda:(\d{1,2}(?:-\d{1,2})?(?:,\d{1,2}(?:-\d{1,2})?)*)")


def device_numbers(text: str) -> tuple[int, ...]:
    """The numbers of the GPUs that `text` names, in its order. ValueError if it is no such list."""
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
    """The shortest list that names these GPUs: "cuda:0-3,6"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return "cuda:" + ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
