"""Measurements beside the live labs: on a twin of its own, at low duty, one slice at a time.

The worker has one thread, so a job's slice never overlaps a live lab's kernels on this device. Between two slices a
job rests three times as long as the slice took: it gets a quarter of the device at most.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Literal

from compute.bench.meter import beside
from compute.bench.rates import Roof
from compute.engine.messages import Answered, Event, Refused, Sampled, Solved
from compute.engine.pace import Tally
from compute.engine.port import LONG, Port
from compute.engine.twin import Twin, twin_of
from compute.spans import listening
from compute.timings import Timing

REST = 3.0  # rest after a slice, in lengths of the slice
ROOF_SAMPLES = 3  # of the roof a job
SAMPLE_SLICE = 0.025  # seconds a sample may run without letting others in: longer slices disturb it less

Work = Generator[None, None, Event]  # yields between slices, returns the answer


class Bench:
    """The jobs of all labs, one after the other."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._jobs: deque[tuple[int, str, Work]] = deque()
        self._ready_at = 0.0
        self._warm = False

    @property
    def lab(self) -> int:
        """The number of the lab that the first job is for; 0 without a job."""
        return self._jobs[0][0] if self._jobs else 0

    def add(self, lab: int, verb: str, work: Work) -> None:
        """Queue a job of lab number `lab`; `verb` says which question it answers."""
        self._jobs.append((lab, verb, work))

    def drop(self, lab: int) -> None:
        """End the jobs of a lab that is closed; their memory is given back."""
        for job in [job for job in self._jobs if job[0] == lab]:
            self._jobs.remove(job)
            job[2].close()

    def wakes_at(self) -> float:
        """When the next slice may run; inf without a job."""
        return self._ready_at if self._jobs else inf

    def turn(self) -> None:
        """Run one slice of the first job; tell its lab's client the answer once there is one."""
        lab, verb, work = self._jobs[0]
        start = time.monotonic()
        try:
            with self._port.expecting(lab, "" if self._warm else "measuring", LONG):
                next(work)
            self._warm = True
        except StopIteration as stop:
            self._finish()
            self._port.deliver(lab, stop.value)
            self._port.say(Answered(lab, verb))
        except Exception as error:  # noqa: BLE001 - reported to its client and logged
            self._finish()
            self._port.trouble(lab, error, partial(Refused, request=verb))
            self._port.say(Answered(lab, verb))
        now = time.monotonic()
        self._ready_at = now + REST * (now - start)

    def _finish(self) -> None:
        self._jobs.popleft()[2].close()
        self._warm = False


def sample(
    kind: type[Any], values: Mapping[str, Any], steps: int, repeat: int, roof: Roof | Literal[""] = "", dtype: str = ""
) -> Work:
    """Time `repeat` runs of `steps` steps; before them one step, which may compile and is marked first_call.

    roof, dtype: what the device's roof is measured of afterwards, in the same process and on the same threads; "" for
    nothing.

    Each slice begins with a little work that is not counted (`warm`): after a rest the threads sleep and the caches
    hold other data, which a lab that runs back to back never sees (16 threads, 2000 x 2000: 1720 us a step instead of
    180).
    """
    lab = kind(**values)
    with closing(twin_of(lab)) as twin:
        yield
        first = twin.advance(1)
        while not first.steps:
            yield
            first = twin.advance(1)
        timings = [replace(first, first_call=True)]
        yield
        fit = 1
        for _ in range(repeat):
            tally, done = Tally(), 0
            while done < steps:
                twin.warm()
                timing, fit = _slice(twin, min(fit, steps - done))
                tally.add(timing)
                done += timing.steps
                yield
            timings.append(replace(tally.total(replace(timing, spans=())), first_call=False))
        rates = (yield from beside(lab.device, roof, dtype, ROOF_SAMPLES)) if roof else ()
        return Sampled(tuple(timings), rates)


def solve(kind: type[Any], values: Mapping[str, Any], steps: int, seed: int) -> Work:
    """The result after `steps` steps from the state of `seed`: for a field noise, drawn in float64, then cast."""
    with closing(twin_of(kind(**values))) as twin:
        yield
        twin.begin(seed)
        for _ in _slices(twin, steps):
            yield
        return Solved(steps, seed, twin.result())


def _slices(twin: Twin, steps: int) -> Iterator[Timing]:
    """Advance `steps` steps in slices of about SAMPLE_SLICE seconds; the first slice is a single step."""
    done, fit = 0, 1
    while done < steps:
        timing, fit = _slice(twin, min(fit, steps - done))
        done += timing.steps
        yield timing


def _slice(twin: Twin, steps: int) -> tuple[Timing, int]:
    """Advance `steps` steps; their timing, and how many steps fit into SAMPLE_SLICE seconds by that."""
    start = time.perf_counter()
    with listening() as heard:
        timing = replace(twin.advance(steps), spans=heard.spans)
    seconds = max(time.perf_counter() - start, 1e-9)
    return timing, max(1, int(SAMPLE_SLICE * steps / seconds))
