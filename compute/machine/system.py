"""The current state of the machine: use, memory, clocks, temperature and power of its processor and its GPUs.

A figure that the machine does not report is None, never 0. NVML (gpu_nvml.py) reports the GPUs; its failure is stored
as text and does not affect the other figures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import psutil

from compute.devices.devices import cpu_name
from compute.machine import gpu_nvml
from compute.machine.container import available_memory, total_memory

AGAIN = 10.0  # seconds between two attempts to open NVML after a failure


@dataclass(frozen=True)
class GpuUser:
    """A process that computes on a GPU. memory: bytes on the GPU; mine: True for this process and descendants."""

    pid: int
    name: str
    memory: int | None = None
    mine: bool = False


@dataclass(frozen=True)
class GpuReading:
    """One GPU, numbered as by CUDA here.

    use: percent of the time in which a kernel ran; memory_used, memory_total: bytes; clock, clock_limit: of the
    multiprocessors, Hz; temperature: °C; power, power_limit: W; held_down: reasons for a clock below its limit as text,
    () for none; held_seconds: total duration of such throttling since the driver was loaded; users: processes.
    """

    index: int
    name: str
    use: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    clock: float | None = None
    clock_limit: float | None = None
    temperature: float | None = None
    power: float | None = None
    power_limit: float | None = None
    held_down: tuple[str, ...] | None = None
    held_seconds: float | None = None
    users: tuple[GpuUser, ...] | None = None


@dataclass(frozen=True)
class CpuReading:
    """The processor and main memory.

    use: percent of each core that this process may use, since the previous reading (() at first); memory_used: bytes
    unavailable without swapping; load: processes ready to run, mean of the last minute; clock, clock_limit,
    temperature: as in GpuReading.
    """

    name: str
    use: tuple[float, ...] = ()
    memory_used: int = 0
    memory_total: int = 0
    load: float | None = None
    clock: float | None = None
    clock_limit: float | None = None
    temperature: float | None = None

    @property
    def mean_use(self) -> float | None:
        """Percent of all these cores together."""
        return sum(self.use) / len(self.use) if self.use else None


@dataclass(frozen=True)
class Reading:
    """All figures at one `moment` (time.monotonic). problem: why GPUs are missing from it, as text."""

    moment: float
    cpu: CpuReading
    gpus: tuple[GpuReading, ...] = ()
    problem: str = ""


@dataclass
class SystemReader:
    """Takes readings. Not thread-safe; a call may take some milliseconds, or hang if a driver hangs."""

    _cores: dict[int, tuple[float, float]] = field(default_factory=dict)  # seconds (busy, total) at the last reading
    _nvml: gpu_nvml.Nvml | None = None
    _problem: str = ""
    _tried_at: float | None = None

    def read(self) -> Reading:
        """Return a reading of the current state."""
        gpus = self._gpus()
        return Reading(time.monotonic(), self._cpu(), gpus, self._problem)

    def _gpus(self) -> tuple[GpuReading, ...]:
        """Return the GPUs' readings; () without a GPU, and after a failure of NVML until it reopens after AGAIN s."""
        now = time.monotonic()
        if self._nvml is None:
            if self._tried_at is not None and now - self._tried_at < AGAIN:
                return ()
            self._tried_at = now
        try:
            self._nvml = self._nvml or gpu_nvml.open_nvml()
            readings = tuple(_gpu(number, facts) for number, facts in enumerate(self._nvml.read()))
            self._problem = ""
        except gpu_nvml.NvmlError as error:
            self._nvml, self._problem = None, str(error)
            return ()
        return readings

    def _cpu(self) -> CpuReading:
        total = total_memory()
        use = self._use()
        clock = _quietly(psutil.cpu_freq)
        return CpuReading(
            cpu_name(), use, total - min(total, available_memory()), total, load(),
            1e6 * clock.current if clock and clock.current else None, 1e6 * clock.max if clock and clock.max else None,
            _temperature(),
        )  # fmt: skip

    def _use(self) -> tuple[float, ...]:
        """Return the percent of each core since the last call; () at first."""
        before, self._cores = self._cores, core_seconds()
        pairs = [(before[core], now) for core, now in self._cores.items() if core in before]
        return tuple(_percent(now[0] - then[0], now[1] - then[1]) for then, now in pairs)


def core_seconds() -> dict[int, tuple[float, float]]:
    """Return seconds (busy, total) since the start of the machine, of each core that this process may use."""
    times = psutil.cpu_times(percpu=True)
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(len(times)))
    return {core: busy_and_all(times[core]) for core in sorted(mine) if core < len(times)}


def busy_and_all(times: Any) -> tuple[float, float]:
    """Return (busy, total) of psutil's CPU times; host time includes guests, and waiting for a disk is idle time."""
    seconds = times._asdict()
    in_all = sum(value for name, value in seconds.items() if not name.startswith("guest"))
    return in_all - seconds["idle"] - seconds.get("iowait", 0.0), in_all


def load() -> float | None:
    """Return the processes ready to run, mean of the last minute; None if the system does not report it."""
    found = _quietly(psutil.getloadavg)
    return float(found[0]) if found else None


def family() -> set[int]:
    """Return the ids of this process and its descendants."""
    me = psutil.Process()
    return {me.pid, *(child.pid for child in me.children(recursive=True))}


def _gpu(number: int, facts: dict[str, Any]) -> GpuReading:
    users = facts.pop("users", None)
    return GpuReading(number, facts.pop("name"), **facts, users=None if users is None else _named(users))


def _named(users: Iterable[tuple[int, int | None]]) -> tuple[GpuUser, ...]:
    users = list(users)
    mine = family() if users else set()
    return tuple(GpuUser(pid, _process_name(pid), memory, pid in mine) for pid, memory in users)


def _process_name(pid: int) -> str:
    """Return a process's name; "a process" if it belongs to another namespace or has ended."""
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "a process"


def _percent(busy: float, in_all: float) -> float:
    """Return a percentage, clipped to 0 … 100, since the kernel's counters may step back by a tick."""
    return 100.0 * min(max(busy / in_all, 0.0), 1.0) if in_all > 0 else 0.0


def _temperature() -> float | None:
    """Return the temperature of the hottest core; None without a sensor."""
    sensors = _quietly(getattr(psutil, "sensors_temperatures", dict)) or {}
    found = [entry.current for name in ("coretemp", "k10temp", "zenpower") for entry in sensors.get(name, ())]
    return float(max(found)) if found else None


def _quietly(ask: Any) -> Any:
    """Return the result of a psutil function; None if this system does not support it."""
    try:
        return ask()
    except (OSError, RuntimeError, NotImplementedError, AttributeError):
        return None
