"""Where a figure was taken, and what else the machine did: others on the GPU or the processor, clocks held down.

Of a bench (`Watch`): readings are taken before the first case and after each, never while something is timed. Of a page
(`Sampler`): one reader for everybody who looks, at work only meanwhile.
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

from compute import machine
from compute.container import processors, throttled_seconds
from compute.system import CpuReading, GpuReading, GpuUser, Reading, System, busy_and_all

OTHERS_SHARE = 0.10  # of the machine's threads kept busy by others, from which it is said
HELD_LONG = 0.05  # seconds of a held-down clock from which it is said
PERIOD = 1.0  # seconds between two readings for a page
SPAN = 60.0  # seconds of their history
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Note:
    """The time from the note before to the end of one case. others: cores that other processes kept busy, None if
    the system does not tell; warnings: what disturbed the GPU, and a CPU quota.
    """

    title: str
    reading: Reading
    others: float | None
    warnings: tuple[str, ...]


class Watch:
    """Reads now, and again whenever `note` is called."""

    def __init__(self, system: System | None = None) -> None:
        self._system = system or System()
        self._processor, self._throttled = _processor_seconds(), throttled_seconds()
        self.before = self._system.read()
        self.notes: list[Note] = []
        self._after: Reading | None = None

    def note(self, title: str) -> None:
        """The case of that title, or a part of it, is over."""
        last, reading = self.notes[-1].reading if self.notes else self.before, self._system.read()
        then, self._processor = self._processor, _processor_seconds()
        seconds = reading.moment - last.moment
        others = _others(then, self._processor, seconds)
        stopped, self._throttled = self._throttled, throttled_seconds()
        warnings = *self._gpu_warnings(last, reading), *quota_warnings(stopped, self._throttled)
        self.notes.append(Note(title, reading, others, warnings))

    def end(self) -> None:
        """Read once more, where processes of the bench's own are at work and others cannot be told from them."""
        self._after = self._system.read()

    def warnings(self, title: str) -> tuple[str, ...]:
        """What disturbed that case."""
        gpu = dict.fromkeys(text for note in self.notes if note.title == title for text in note.warnings)
        return (*cpu_warnings(self._cores_of_others(title)), *gpu)

    def as_record(self) -> dict[str, Any]:
        """Plain values for the record: the machine before and after, and what was noticed of each case."""
        after = self._after or (self.notes[-1].reading if self.notes else self.before)
        titles = dict.fromkeys(note.title for note in self.notes)
        cases = [
            {"title": title, "cores_of_others": self._cores_of_others(title), "warnings": list(self.warnings(title))}
            for title in titles
        ]  # fmt: skip
        return {"before": plain_reading(self.before), "after": plain_reading(after), "cases": cases}

    def _cores_of_others(self, title: str) -> float | None:
        """Cores that other processes kept busy, on average over all notes of that title."""
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
    """Tells what other processes have done since it was made."""

    def __init__(self) -> None:
        self._start, self._processor = time.monotonic(), _processor_seconds()

    def cores(self) -> float | None:
        """Return how many cores they have kept busy, on average; None if the system does not tell."""
        return _others(self._processor, _processor_seconds(), time.monotonic() - self._start)


def strangers(before: GpuReading | None, now: GpuReading) -> tuple[GpuUser, ...]:
    """Processes on the GPU that are not ours.

    In a container the driver may number processes as the host does, so that our own looks like another's: where none
    is ours, the one process that was not there before is taken for ours.
    """
    users = now.users or ()
    others = tuple(user for user in users if not user.mine)
    if len(others) < len(users):
        return others
    there = {user.pid for user in (before.users or ())} if before else set()
    new = [user for user in others if user.pid not in there]
    return tuple(user for user in others if len(new) != 1 or user is not new[0])


def held_down(before: GpuReading | None, now: GpuReading) -> str:
    """What held the clock down since then, in words; empty for nothing, and where the GPU does not tell."""
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
    """Yield what is said of so many cores that other processes kept busy, if they are worth a word."""
    threads = psutil.cpu_count() or 1
    if others is not None and others > OTHERS_SHARE * threads:
        yield f"other processes kept {others:.1f} of {threads} CPU threads busy"


def quota_warnings(before: float | None, now: float | None) -> Iterator[str]:
    """Yield a warning if the container's CPU quota has stopped processes for HELD_LONG seconds or more."""
    if before is not None and now is not None and now - before >= HELD_LONG:
        yield f"the container's CPU quota of {processors() or 0:g} processors stopped it for {now - before:.2g} s"


def _processor_seconds() -> tuple[float, float, float]:
    """Seconds of all cores (busy, in all), and of this process with its children that have ended."""
    own = psutil.Process().cpu_times()
    busy, in_all = busy_and_all(psutil.cpu_times())
    return busy, in_all, own.user + own.system + own.children_user + own.children_system


def _others(then: tuple[float, float, float], now: tuple[float, float, float], seconds: float) -> float | None:
    """Cores that others kept busy, by the kernel's counters of 10 ms; None where these stand still."""
    busy, in_all, own = (after - before for after, before in zip(now, then, strict=True))
    return max(0.0, busy - own) / seconds if in_all > 0 and seconds > 0 else None


def plain_reading(reading: Reading) -> dict[str, Any]:
    """A reading as a record has it: load, clock and temperature of the processor, and all that the GPUs tell."""
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
    """Reads every `period` seconds in a thread of its own as long as there are lookers.

    `look`, `leave` and `history` return at once, whatever a driver does, and may be called from any thread.
    """

    def __init__(self, read: Callable[[], Reading] | None = None, period: float = PERIOD) -> None:
        self._read, self._period = read or System().read, period
        self._lookers: set[Hashable] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._readings: deque[Reading] = deque(maxlen=int(SPAN / period) + 2)

    def look(self, who: Hashable) -> None:
        """Start reading for `who`; harmless if it looks already."""
        with self._changed:
            self._lookers.add(who)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="system", daemon=True)
                self._thread.start()

    def leave(self, who: Hashable) -> None:
        """It looks no longer; harmless if it never did."""
        with self._changed:
            self._lookers.discard(who)
            self._changed.notify_all()

    @property
    def working(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None

    def history(self) -> tuple[Reading, ...]:
        """The readings of the last SPAN seconds, oldest first."""
        oldest = time.monotonic() - SPAN
        with self._changed:
            return tuple(reading for reading in self._readings if reading.moment >= oldest)

    def _run(self) -> None:
        wait = min(self._period, 0.25)  # the second reading is the first that knows a use
        while True:
            try:
                reading = self._read()
            except Exception:  # one reading that fails must not end those that follow
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
    """This process's sampler."""
    return Sampler()


# -- what the records of all timings have in common: each is made with `provenance`, which
# tests/measure/test_provenance.py sees to


@cache
def software() -> dict[str, Any]:
    """Commit, machine and versions, as they were when first asked: that asks other programs, which may take seconds."""
    return {"commit": machine.commit(), "machine": machine.machine(), "versions": machine.versions()}


def provenance(command: str, samples: int, watch: Watch | None = None) -> dict[str, Any]:
    """Return {date, command, commit, machine, versions, conditions} of a record that is made now.

    samples: how many timings are in it; watch: what was read before and meanwhile. Without one the newest reading of
    the page's sampler is taken, or one is made now.

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
