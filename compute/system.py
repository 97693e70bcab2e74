"""What the machine is doing just now: use, memory, clocks, temperature and power of its processor and its GPUs.

A figure that the machine does not tell is None, never 0. The GPUs are asked through NVML (gpu_nvml.py); what goes wrong
there is said in words and leaves the rest as it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import psutil

from compute import gpu_nvml
from compute.container import available_memory, total_memory
from compute.devices import cpu_name

AGAIN = 10.0  # seconds after which NVML is tried again when it has failed


@dataclass(frozen=True)
class GpuUser:
    """A process that computes on a GPU. memory: bytes there; mine: it is this process or a child of it."""

    pid: int
    name: str
    memory: int | None = None
    mine: bool = False


@dataclass(frozen=True)
class GpuReading:
    """One GPU as CUDA numbers it here.

    use: percent of the time in which a kernel ran; memory_used, memory_total: bytes; clock, clock_limit: of the
    multiprocessors, Hz; temperature: °C; power, power_limit: W; held_down: what keeps the clock below its limit, in
    words, () for nothing; held_seconds: for how long that was so since the driver was loaded; users: processes.
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

    use: percent of each core that this process may use, since the reading before (() at first); memory_used: bytes that
    could not be had without swapping; load: processes that wanted to run, mean of the last minute; clock, clock_limit,
    temperature as of a GPU.
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
    """Everything at one `moment` (time.monotonic). problem: in words, why GPUs are missing from it."""

    moment: float
    cpu: CpuReading
    gpus: tuple[GpuReading, ...] = ()
    problem: str = ""


@dataclass
class System:
    """Reads. One thread at a time may use it; a call may take some milliseconds, or hang where a driver hangs."""

    _cores: dict[int, tuple[float, float]] = field(default_factory=dict)  # seconds (busy, in all) at the last reading
    _nvml: gpu_nvml.Nvml | None = None
    _problem: str = ""
    _tried_at: float | None = None

    def read(self) -> Reading:
        """What is known now."""
        gpus = self._gpus()
        return Reading(time.monotonic(), self._cpu(), gpus, self._problem)

    def _gpus(self) -> tuple[GpuReading, ...]:
        """() without a GPU, and when NVML has failed: then it is opened anew after AGAIN seconds."""
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
        """Percent of each core since the last call; () at first."""
        before, self._cores = self._cores, core_seconds()
        pairs = [(before[core], now) for core, now in self._cores.items() if core in before]
        return tuple(_percent(now[0] - then[0], now[1] - then[1]) for then, now in pairs)


def core_seconds() -> dict[int, tuple[float, float]]:
    """Seconds (busy, in all) since the start of the machine, of each core that this process may use."""
    times = psutil.cpu_times(percpu=True)
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(len(times)))
    return {core: busy_and_all(times[core]) for core in sorted(mine) if core < len(times)}


def busy_and_all(times: Any) -> tuple[float, float]:
    """(busy, in all) of psutil's CPU times; a guest's time is in its host's already, waiting for a disk is idle."""
    seconds = times._asdict()
    in_all = sum(value for name, value in seconds.items() if not name.startswith("guest"))
    return in_all - seconds["idle"] - seconds.get("iowait", 0.0), in_all


def load() -> float | None:
    """Processes that wanted to run, mean of the last minute."""
    found = _quietly(psutil.getloadavg)
    return float(found[0]) if found else None


def family() -> set[int]:
    """This process and its descendants."""
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
    """Its name; "a process" where it is another namespace's, or gone."""
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "a process"


def _percent(busy: float, in_all: float) -> float:
    """Between 0 and 100: the kernel's counters may step back by a tick."""
    return 100.0 * min(max(busy / in_all, 0.0), 1.0) if in_all > 0 else 0.0


def _temperature() -> float | None:
    """Of the hottest core, where a sensor tells."""
    sensors = _quietly(getattr(psutil, "sensors_temperatures", dict)) or {}
    found = [entry.current for name in ("coretemp", "k10temp", "zenpower") for entry in sensors.get(name, ())]
    return float(max(found)) if found else None


def _quietly(ask: Any) -> Any:
    """What psutil answers; None where this system does not tell."""
    try:
        return ask()
    except (OSError, RuntimeError, NotImplementedError, AttributeError):
        return None
