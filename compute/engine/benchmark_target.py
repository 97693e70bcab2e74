"""Measurements next to the live labs: on a separate lab, at a low duty cycle, one slice at a time.

The worker has one thread, so a slice of a measurement never overlaps the kernels of a live lab on this device. While a
client watches any lab of this device, the queue rests after each slice for three times the slice's duration. A
measurement then uses at most a quarter of the time, and less if the live labs need it (pacing.py).

Each measurement runs on a second lab of the live lab's class, wrapped by its Benchmark as a BenchmarkTarget
(compute/measure/target.py): an object that advances in steps and has a result.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Literal, TypeAlias

from compute.engine.messages import Answered, Event, MeasurementQueued, Refused, Sampled, Solve, Solved, TakeSample
from compute.engine.pacing import Tally, Urgency
from compute.engine.sending import COMPILING, EventSender
from compute.lab.lab import Lab
from compute.lab.two_runs import alone
from compute.measure.benchmark import benchmark_of
from compute.measure.clocks import clock_rate
from compute.measure.rates import RoofKind
from compute.measure.roofs import sampled_live
from compute.measure.target import BenchmarkTarget
from compute.measure.timing import Timing, listening

WARM = 2  # uncounted steps before each timed slice; two steps touch both grids
REST = 3.0  # rest after a slice, as a multiple of the slice's duration
ROOF_SAMPLES = 3  # samples of the roof in one measurement
COMPILED_SOON = 0.05  # seconds between two checks of a running compilation
SAMPLE_SLICE = 0.025  # seconds that a sample may run before other labs get a turn: longer slices disturb it less

AnswerInSlices: TypeAlias = Generator[None, None, Event]  # yields between slices, returns the answer


@dataclass(frozen=True, eq=False)
class Queued:
    """A measurement for `request`, on a lab with the class and values of `live`."""

    request: TakeSample | Solve
    live: Lab
    work: AnswerInSlices


class BenchmarkQueue:
    """The measurements of all labs, run in order; MeasurementQueued reports how many come before each."""

    def __init__(self, sender: EventSender) -> None:
        self._sender = sender
        self._waiting: deque[Queued] = deque()
        self._ready_at = 0.0
        self._warm = self._begun = False
        self.beside_live = True  # whether clients watch live labs during the next slice

    @property
    def number(self) -> int:
        """The number of the lab being measured; 0 if the queue is empty."""
        return self._waiting[0].request.lab if self._waiting else 0

    def add(self, request: TakeSample | Solve, live: Lab) -> None:
        """Queue the measurement for `request`, on a new lab with the class and values of `live`."""
        kind, values = type(live), alone(live.values())
        match request:
            case TakeSample(steps=steps, repeat=repeat, roof=roof, dtype=dtype):
                work = sample(kind, values, steps, repeat, roof, dtype)
            case Solve(steps=steps, seed=seed):
                work = solve(kind, values, steps, seed)
        self._waiting.append(Queued(request, live, work))
        if len(self._waiting) > 1:
            self._sender.send_event(request.lab, MeasurementQueued(len(self._waiting) - 1))

    def drop(self, lab: int) -> None:
        """Cancel the measurements of a closed lab and free their memory."""
        if not any(each.request.lab == lab for each in self._waiting):
            return
        if self.number == lab:
            self._warm = self._begun = False
        for each in [each for each in self._waiting if each.request.lab == lab]:
            self._waiting.remove(each)
            each.work.close()
        self._report_places()

    def wakes_at(self, now: float) -> float:
        """Return the time at which the next slice may run; inf if the queue is empty.

        A measurement starts after the kernels of its lab have been compiled.
        """
        if not self._waiting:
            return inf
        interim = self._waiting[0].live.interim
        return self._ready_at if interim is None or interim.lasts else now + COMPILED_SOON

    def urgency(self) -> Urgency:
        """Return DUE: no client waits for a single slice."""
        return Urgency.DUE

    def turn(self, now: float, seconds: float) -> None:  # noqa: ARG002 - a slice has the length that measures best
        """Run one slice of the first measurement; after its last slice, send the answer to its lab's client."""
        first = self._waiting[0]
        request, live, work = first.request, first.live, first.work
        if not self._begun:
            self._begun = True
            self._sender.send_event(request.lab, MeasurementQueued(0))
        start = time.monotonic()
        try:
            with self._sender.extended_deadline(request.lab, "" if self._warm else "measuring", COMPILING):
                require_compiled(live)
                next(work)
            self._warm = True
        except StopIteration as stop:
            self._finish()
            self._sender.send_large_event(request.lab, stop.value)
            self._sender.send(Answered(request.lab, type(request)))
        except Exception as error:  # noqa: BLE001 - reported to its client and logged
            self._finish()
            self._sender.report_error(request.lab, error, partial(Refused, request=type(request)))
            self._sender.send(Answered(request.lab, type(request)))
        now = time.monotonic()
        self._ready_at = now + (REST * (now - start) if self.beside_live else 0.0)

    def _finish(self) -> None:
        self._waiting.popleft().work.close()
        self._warm = self._begun = False
        self._report_places()

    def _report_places(self) -> None:
        """Report to the waiting clients how many measurements come before theirs; not to the first one."""
        for before, each in enumerate(self._waiting):
            if before:
                self._sender.send_event(each.request.lab, MeasurementQueued(before))


def require_compiled(live: Lab) -> None:
    """Raise ValueError if the chosen backend could not be compiled, so that another one computes the lab."""
    if live.interim is not None:
        raise ValueError(live.interim.words)


def sample(
    kind: type[Any],
    values: Mapping[str, Any],
    steps: int,
    repeat: int,
    roof: RoofKind | Literal[""] = "",
    dtype: str = "",
) -> AnswerInSlices:
    """Time `repeat` runs of `steps` steps, after one step that may compile and is marked first_call.

    roof, dtype: kind and dtype of the device's roof, which is measured afterwards in the same process on the same
    threads; "" for none.

    Each slice begins with a few uncounted steps (`warm`): after a rest the threads sleep and the caches contain other
    data, which does not occur in a lab that runs without pauses (16 threads, 2000 x 2000: 1720 us a step instead of
    180).
    """
    lab = kind(**values)
    with closing(benchmark_of(kind).target(lab)) as target:
        yield
        first = target.advance(1)
        while not first.steps:
            yield
            first = target.advance(1)
        timings = [replace(first, first_call=True)]
        yield
        fit = 1
        for _ in range(repeat):
            tally, done = Tally(), 0
            while done < steps:
                target.warm()
                timing, fit = _slice(target, min(fit, steps - done))
                tally.add(timing)
                done += timing.steps
                yield
            total = tally.total(replace(timing, spans=()))
            timings.append(replace(total, first_call=False, clock_rate=clock_rate(lab.device)))
        rates = (yield from sampled_live(lab.device, roof, dtype, ROOF_SAMPLES)) if roof else ()
        return Sampled(tuple(timings), rates)


def solve(kind: type[Any], values: Mapping[str, Any], steps: int, seed: int) -> AnswerInSlices:
    """Compute `steps` steps from the state of `seed`, then the result; a field's noise is drawn in float64 and cast."""
    lab = kind(**values)
    with closing(benchmark_of(kind).target(lab)) as target:
        yield
        target.begin(seed)
        done, fit = 0, 1
        while done < steps:
            timing, fit = _slice(target, min(fit, steps - done))
            done += timing.steps
            yield
        return Solved(steps, seed, target.result())


def _slice(target: BenchmarkTarget, steps: int) -> tuple[Timing, int]:
    """Advance `steps` steps; return their timing and the number of steps that fit into SAMPLE_SLICE seconds."""
    start = time.perf_counter()
    with listening() as heard:
        timing = replace(target.advance(steps), spans=heard.spans)
    seconds = max(time.perf_counter() - start, 1e-9)
    return timing, max(1, int(SAMPLE_SLICE * steps / seconds))
