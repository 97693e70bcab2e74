"""Conditions of a measurement: machine, versions, other users of the GPU or the processor, throttled clocks.

`Watch`, for a bench, takes readings before the first case and after each case, never during a timing. `Sampler`, for a
page, has one reading thread for all viewers, which ends with the last of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import psutil

from compute.machine import machine
from compute.machine.container import processors, throttled_seconds
from compute.machine.system import CpuReading, GpuReading, GpuUser, Reading, SystemReader, busy_and_all

OTHERS_SHARE = 0.10  # fraction of the machine's threads that others must keep busy for a warning
HELD_LONG = 0.05  # seconds of a throttled clock from which there is a warning
PERIOD = 1.0  # seconds between two readings for a page
SPAN = 60.0  # seconds of their history
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Note:
    """A reading at the end of one case. others: cores that other processes kept busy since the previous reading.

    others is None if the system does not report it; warnings: disturbances of the GPU, and by a CPU quota.
    """

    title: str
    reading: Reading
    others: float | None
    warnings: tuple[str, ...]


class Watch:
    """Reads the system when it is created, and at each call of `note`."""

    def __init__(self, system: SystemReader | None = None) -> None:
        self._system = system or SystemReader()
        self._processor, self._throttled = _processor_seconds(), throttled_seconds()
        self.before = self._system.read()
        self.notes: list[Note] = []
        self._after: Reading | None = None

    def note(self, title: str) -> None:
        """Read the system at the end of the case of that title, or of a part of it."""
        last, reading = self.notes[-1].reading if self.notes else self.before, self._system.read()
        then, self._processor = self._processor, _processor_seconds()
        seconds = reading.moment - last.moment
        others = _others(then, self._processor, seconds)
        stopped, self._throttled = self._throttled, throttled_seconds()
        warnings = *self._gpu_warnings(last, reading), *quota_warnings(stopped, self._throttled)
        self.notes.append(Note(title, reading, others, warnings))

    def end(self) -> None:
        """Read the system a last time while child processes of the bench run, which would count as other processes."""
        self._after = self._system.read()

    def warnings(self, title: str) -> tuple[str, ...]:
        """Return warnings about disturbances of the case of that title."""
        gpu = dict.fromkeys(text for note in self.notes if note.title == title for text in note.warnings)
        return (*cpu_warnings(self._cores_of_others(title)), *gpu)

    def as_record(self) -> dict[str, Any]:
        """Return plain values for the record: the machine before and after, and the warnings of each case."""
        after = self._after or (self.notes[-1].reading if self.notes else self.before)
        titles = dict.fromkeys(note.title for note in self.notes)
        cases = [
            {"title": title, "cores_of_others": self._cores_of_others(title), "warnings": list(self.warnings(title))}
            for title in titles
        ]  # fmt: skip
        return {"before": plain_reading(self.before), "after": plain_reading(after), "cases": cases}

    def _cores_of_others(self, title: str) -> float | None:
        """Return the cores that other processes kept busy, averaged over all notes of that title."""
        moments = (self.before.moment, *(note.reading.moment for note in self.notes))
        known = [
            (now - then, note.others)
            for note, then, now in zip(self.notes, moments, moments[1:], strict=False)
            if note.title == title and note.others is not None
        ]
        seconds = sum(length for length, _ in known)
        return sum(length * cores for length, cores in known) / seconds if seconds else None

    def _gpu_warnings(self, last: Reading, now: Reading) -> Iterator[str]:
        if now.problem:
            yield f"other users of the GPU were not looked for: {now.problem}"
        known = {gpu.index: gpu for gpu in self.before.gpus}
        earlier = {gpu.index: gpu for gpu in last.gpus}
        for gpu in now.gpus:
            for user in strangers(known.get(gpu.index), gpu):
                memory = f", {user.memory / 2**30:.1f} GiB" if user.memory else ""
                yield f"another process used cuda:{gpu.index}: {user.name} (pid {user.pid}{memory})"
            held = held_down(earlier.get(gpu.index), gpu)
            if held:
                yield f"the clock of cuda:{gpu.index} was held down by {held}"


class OtherWork:
    """Measures the CPU use of other processes since its creation."""

    def __init__(self) -> None:
        self._start, self._processor = time.monotonic(), _processor_seconds()

    def cores(self) -> float | None:
        """Return the average number of cores they kept busy; None if the system does not report it."""
        return _others(self._processor, _processor_seconds(), time.monotonic() - self._start)


def strangers(before: GpuReading | None, now: GpuReading) -> tuple[GpuUser, ...]:
    """Return the processes on the GPU that do not belong to this program.

    In a container the driver may report the host's process ids, so that no process matches ours. If none matches, a
    single process that was absent from `before` counts as ours.
    """
    users = now.users or ()
    others = tuple(user for user in users if not user.mine)
    if len(others) < len(users):
        return others
    there = {user.pid for user in (before.users or ())} if before else set()
    new = [user for user in others if user.pid not in there]
    return tuple(user for user in others if len(new) != 1 or user is not new[0])


def held_down(before: GpuReading | None, now: GpuReading) -> str:
    """Return what reduced the clock since `before`, as text; "" for nothing, or if the GPU does not report it."""
    reasons = " and ".join(now.held_down or ())
    if before and now.held_seconds is not None and before.held_seconds is not None:
        seconds = now.held_seconds - before.held_seconds
        if seconds >= HELD_LONG:
            return f"{reasons or 'power or heat'} for {seconds:.2g} s"
    if not reasons:
        return ""
    clock = f" ({now.clock / 1e6:.0f} of {now.clock_limit / 1e6:.0f} MHz)" if now.clock and now.clock_limit else ""
    return reasons + clock


def cpu_warnings(others: float | None) -> Iterator[str]:
    """Yield a warning if other processes kept more than OTHERS_SHARE of the CPU threads busy."""
    threads = psutil.cpu_count() or 1
    if others is not None and others > OTHERS_SHARE * threads:
        yield f"other processes kept {others:.1f} of {threads} CPU threads busy"


def quota_warnings(before: float | None, now: float | None) -> Iterator[str]:
    """Yield a warning if the container's CPU quota has stopped processes for HELD_LONG seconds or more."""
    if before is not None and now is not None and now - before >= HELD_LONG:
        yield f"the container's CPU quota of {processors() or 0:g} processors stopped it for {now - before:.2g} s"


def _processor_seconds() -> tuple[float, float, float]:
    """Return seconds of all cores (busy, total), and of this process including its ended children."""
    own = psutil.Process().cpu_times()
    busy, in_all = busy_and_all(psutil.cpu_times())
    return busy, in_all, own.user + own.system + own.children_user + own.children_system


def _others(then: tuple[float, float, float], now: tuple[float, float, float], seconds: float) -> float | None:
    """Return the cores that others kept busy, from the kernel's 10 ms counters; None if they did not advance."""
    busy, in_all, own = (after - before for after, before in zip(now, then, strict=True))
    return max(0.0, busy - own) / seconds if in_all > 0 and seconds > 0 else None


def plain_reading(reading: Reading) -> dict[str, Any]:
    """Return a reading as stored in records: load, clock and temperature of the processor, and all GPU values."""
    cpu: CpuReading = reading.cpu
    return {
        "load": cpu.load,
        "cpu_clock": cpu.clock,
        "cpu_temperature": cpu.temperature,
        "gpus": [asdict(gpu) for gpu in reading.gpus],
        "problem": reading.problem,
    }


# -- for a page


class Sampler:
    """Reads the system every `period` seconds in its own thread, as long as viewers are registered.

    `look`, `leave` and `history` never block on a driver, and may be called from any thread.
    """

    def __init__(self, read: Callable[[], Reading] | None = None, period: float = PERIOD) -> None:
        self._read, self._period = read or SystemReader().read, period
        self._lookers: set[Hashable] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._readings: deque[Reading] = deque(maxlen=int(SPAN / period) + 2)

    def look(self, looker: Hashable) -> None:
        """Register a viewer and start the thread if needed; no-op for a registered viewer."""
        with self._changed:
            self._lookers.add(looker)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="system", daemon=True)
                self._thread.start()

    def leave(self, looker: Hashable) -> None:
        """Remove a viewer; no-op for an unknown one."""
        with self._changed:
            self._lookers.discard(looker)
            self._changed.notify_all()

    @property
    def working(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None

    def history(self) -> tuple[Reading, ...]:
        """Return the readings of the last SPAN seconds, oldest first."""
        oldest = time.monotonic() - SPAN
        with self._changed:
            return tuple(reading for reading in self._readings if reading.moment >= oldest)

    def _run(self) -> None:
        wait = min(self._period, 0.25)  # utilisation needs two readings, so the second one follows soon
        while True:
            try:
                reading = self._read()
            except Exception:  # one failed reading must not end the thread
                log.exception("a reading of the system failed")
            else:
                with self._changed:
                    self._readings.append(reading)
            with self._changed:
                if self._lookers:
                    self._changed.wait_for(lambda: not self._lookers, wait)
                if not self._lookers:
                    self._thread = None
                    return
            wait = self._period


@cache
def sampler() -> Sampler:
    """Return this process's sampler."""
    return Sampler()


# -- the common part of the records of all timings: each must call `provenance`, which
# tests/compute/measure/test_provenance.py checks


@cache
def software() -> dict[str, Any]:
    """Return commit, machine and versions, cached: finding them runs other programs, which may take seconds."""
    return {"commit": machine.commit(), "machine": machine.machine(), "versions": machine.versions()}


def provenance(command: str, samples: int, watch: Watch | None = None) -> dict[str, Any]:
    """Return {date, command, commit, machine, versions, conditions} of a record that is made now.

    samples: the number of timings in it; watch: the readings before and during the run. Without a watch the history of
    the page's sampler is used, or one new reading without a history.

    conditions: changed (whether the source differs from the commit; None if there is no commit), samples, and the
    machine before and after: load, clocks, temperatures, power and its cap.
    """
    known = software()
    history = sampler().history() if watch is None else ()
    if history:
        state: dict[str, Any] = {"before": plain_reading(history[0]), "after": plain_reading(history[-1]), "cases": []}
    else:
        state = (watch or Watch()).as_record()
    commit = known["commit"]
    changed = commit.endswith(machine.CHANGED) if commit else None
    return {
        "date": machine.now(),
        "command": command,
        **known,
        "conditions": {"changed": changed, "samples": samples, **state},
    }
