"""The live comparison: schedules small measurement jobs on engines that live labs and other sessions use, too.

A job opens a second lab, requests a result (`solve`) or timings (`sample`) from it, and closes it. For every setting,
results are compared first, then times are sampled until their quartiles settle. A ResultCache stores all answers, so
that no request is repeated. The two ways of the headline come first, one job right after the other; their first timings
yield a first estimate. Of all sessions with the same parameters only one has a job at a time, the first to claim it;
the others read its results. `tick`, `follow` and `verdict` must be called from one thread; engine events may arrive on
any thread.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, nan
from typing import Any, Literal, Protocol

from compute.devices.backends import backend
from compute.engine.benchmark_target import SAMPLE_SLICE
from compute.engine.messages import (
    Busy,
    EngineBroken,
    LabClosed,
    LabFailed,
    MeasurementQueued,
    Refused,
    Sampled,
    Solved,
)
from compute.measure.rates import RoofKind
from compute.measure.rules import ComparisonRules
from compute.measure.sampling import steps_for
from compute.measure.statistics import FEW, Measurement, Spread, settled
from compute.measure.timing import Timing
from compute.measure.verdict import ResultCache, ResultKey, Standing, Variant, Verdict, judge, pairing

CALM = 0.7  # seconds without a change of the parameters before the first request for them
REST = 0.25  # seconds between two jobs, of one session or of all with the same parameters
HOLD = 15.0  # seconds after which a session that does not tick loses its job's claim: a hidden page may never tick
LOOK = 1.0  # seconds between two searches for a job while no result changes
LONGEST_JOB = 90.0  # timeout of a running job in seconds; compiling the first kernel may take that long
# Timeout in seconds, without news from the engine's queue, of a job that waits there: the job before it may hang, but
# is cancelled after LONGEST_JOB, and the queue then reports.
LONGEST_SILENCE = 2 * LONGEST_JOB
SAMPLE_SECONDS = 0.008  # length of one sample: shorter than a frame, so that the picture does not stutter
PACED = 2  # growth factor of the requested steps a sample from which earlier samples are dropped
REPEAT = 5  # samples a job: few, so that the ways take turns and a disturbance meets all of them
LONG = 0.3  # seconds of a step from which a job has one sample
TELLING = 0.002  # least median seconds of samples that count: in shorter ones too much is launch time
ALONE = LONG  # the same for the step that finds the pace: after a rest caches hold other data, and threads sleep
SOON = 0.5  # seconds for all samples of a first-estimate job, or one sample if that takes longer
AGAIN = 8.0  # seconds between two jobs for a way that has MOST_TIMINGS samples and is still noisy
RETRY = 60.0  # seconds after which a failed request is retried
SEED = 20
MOST_TIMINGS = 45  # timings of one variant at one setting; while they are noisy, newer ones replace them


class MeasuredLab(Protocol):
    """The methods of an engine's lab handle that a comparison uses."""

    def sample(self, steps: int, repeat: int, roof: RoofKind | Literal[""] = "", dtype: str = "") -> None:
        """Request timings, followed by samples of the device's roof."""

    def solve(self, steps: int, seed: int) -> None:
        """Request a result."""

    def close(self) -> None:
        """Close the lab."""


KeyKind = Literal["right", "checked", "timed", "failed", "job"]
Opener = Callable[[str, dict[str, Any], Callable[[Any], None]], MeasuredLab]  # (engine, values, on_event)


@dataclass(frozen=True)
class EngineTask(ABC):
    """One request to an engine. key, failed: the ResultCache keys of its answer and of a failure."""

    key: ResultKey
    failed: ResultKey
    engine: str
    values: dict[str, Any]
    steps: int

    @abstractmethod
    def ask(self, lab: MeasuredLab) -> None:
        """Send the request to a lab that was opened with `values`."""


@dataclass(frozen=True)
class SolveTask(EngineTask):
    """Request the result after `steps` steps."""

    def ask(self, lab: MeasuredLab) -> None:
        """Request the result."""
        lab.solve(self.steps, SEED)


@dataclass(frozen=True)
class SampleTask(EngineTask):
    """Request `repeat` samples of `steps` steps each. roof: the roof to sample as well, of `dtype`; "" for no roof."""

    repeat: int = 1
    roof: RoofKind | Literal[""] = ""
    dtype: str = ""

    def ask(self, lab: MeasuredLab) -> None:
        """Request timings."""
        lab.sample(self.steps, self.repeat, self.roof, self.dtype)


@dataclass(frozen=True)
class TakenTimings:
    """Timings of one way at one setting: the first call, the call that found the pace, then the latest MOST_TIMINGS.

    at: time of the latest answer, by the comparison's clock; planned: the largest number of steps that was requested
    for a sample. Samples are kept or dropped by their requested steps, never by their duration: when at least twice as
    many steps are requested, all earlier samples are dropped, since they were planned with a pace that was too slow.
    """

    timings: tuple[Timing, ...] = ()
    at: float = 0.0
    planned: int = 0

    @property
    def samples(self) -> tuple[Timing, ...]:
        """Return all samples, or none while only a first job with short samples is complete.

        On an H100 a single step of 1.3 us takes 47 us, and 2.1 us among 96 steps.
        """
        taken = self.timings[2:]
        if len(taken) > REPEAT or Spread.of(timing.compute for timing in taken).median >= TELLING:
            return taken
        return ()

    @property
    def telling(self) -> tuple[Timing, ...]:
        """Timings for an estimate: the samples, or before them the step that found the pace if longer than ALONE."""
        if len(self.timings) > 2:
            return self.samples
        return tuple(timing for timing in self.timings[1:] if timing.compute >= ALONE)

    @cached_property
    def reported(self) -> tuple[Timing, ...]:
        """The first call and the telling timings, all with the `cells` of the latest; () without telling timings.

        The cells of a picture may differ slightly from run to run.
        """
        if not (telling := self.telling):
            return ()
        cells, variant = telling[-1].cells, telling[-1].variant
        return tuple(replace(timing, cells=cells, variant=variant) for timing in (*self.timings[:1], *telling))

    @cached_property
    def measurement(self) -> Measurement | None:
        """The measurement of `reported`, computed once for all sessions that show it; None without timings."""
        return Measurement.of(list(self.reported)) if self.reported else None

    @property
    def warm(self) -> list[float]:
        """Seconds a step of each sample."""
        return [timing.step_seconds for timing in self.samples]

    def with_more(self, timings: Sequence[Timing], now: float, planned: int = 0) -> TakenTimings:
        """Return these timings plus new ones. planned: steps requested for each, 0 for live frames.

        The first timing of an answer is a warm-up, which counts as the first call only for the first answer.
        """
        most = max(self.planned, planned)
        if not self.timings:
            return TakenTimings(tuple(timings), now, most)
        before = () if planned >= PACED * max(self.planned, 1) else self.timings[2:]
        warm = (*before, *(timing for timing in timings if not timing.first_call))
        return TakenTimings((*self.timings[:2], *warm[-MOST_TIMINGS:]), now, most)


class Comparison:
    """Follows one lab's values and measures them; `verdict()` returns the current result.

    backends: names of the backends that the lab has a file for; None for all.
    """

    def __init__(
        self,
        lab: str,
        rules: ComparisonRules,
        open_lab: Opener,
        results: ResultCache,
        clock: Callable[[], float] = time.monotonic,
        backends: Collection[str] | None = None,
    ) -> None:
        self._lab, self.rules, self._open, self._results, self._clock = lab, rules, open_lab, results, clock
        self._backends = backends
        self._followed: Mapping[str, Any] | None = None  # the last argument of `follow`
        self._values: dict[str, Any] = {}
        self._crowded_live: Variant | None = None  # the variant of the live picture, if it cannot be sampled apart
        self._keys: dict[tuple[KeyKind, Variant], ResultKey] = {}  # of those values
        self._calm_at = 0.0
        self._job: EngineTask | None = None
        self._handle: MeasuredLab | None = None
        self._doing = ""  # text on that job's current long operation
        self._queued = False  # whether it waits for other jobs, so that no measurement runs for this session
        self._deadline = 0.0
        self._answers: deque[tuple[EngineTask, Any]] = deque()
        self._right: tuple[ResultKey, Any] = ((), None)  # the reference field, of one setting
        self._claims: tuple[ResultKey, ...] = ()  # of the running job
        self._for_first_estimate = False  # whether that job is for the first estimate
        self._looked: tuple[int, float] = (-1, 0.0)  # version of the results at the last search; time of the next one
        self._judged: tuple[int, float, Verdict | None] = (-1, 0.0, None)  # version, expiry time, verdict

    # -- methods for the view

    def follow(self, values: Mapping[str, Any]) -> None:
        """Follow the lab's current values, a new object if they changed; new values are measured after CALM seconds."""
        if values is self._followed:  # called for each painted frame
            return
        self._followed = values
        names = ("backend", "variant", "device_index", *self.rules.checked)
        kept = {name: values[name] for name in names if name in values}
        if kept != self._values:
            self._calm_at = self._clock() + (CALM if self._values else 0.0)  # the first values follow no user action
            self._values = kept
            self._crowded_live = self._live if self._live is not None and self._crowded(self._live) else None
            self._forget()

    def record_live(self, timing: Timing) -> None:
        """Record a live frame's timing if its way cannot be sampled apart, because the grid is too large.

        Frames before the parameters are calm are ignored, since they may belong to the previous values; and those of
        another kernel, which computes while the chosen one compiles.
        """
        live = self._crowded_live
        if live is None or self._clock() < self._calm_at or timing.steps < 1 or timing.devices > 1:
            return
        chosen = (live.backend, live.name, self.rules.cells(self._values))
        if (timing.backend, timing.variant, timing.cells) == chosen:
            self._results.put(self._timed_key(live), self._taken(live).with_more([timing], self._clock()))

    def tick(self) -> None:
        """Process an answer, cancel a late job, or start the next one."""
        while self._answers:
            job, event = self._answers.popleft()
            if job is self._job:
                self._take(job, event)
        now = self._clock()
        if self._job is not None:
            if now > self._deadline:
                self._fail(self._job, f"no answer within {LONGEST_SILENCE if self._queued else LONGEST_JOB:.0f} s")
            else:
                self._results.claim(self._claims, self, now, now + HOLD)
        elif (
            self._values
            and now >= self._calm_at
            and (self._looked[0] != self._results.version or now >= self._looked[1])
        ):
            self._look(now)

    def measure_again(self) -> None:
        """Discard the timings and failures of the current values; the agreement of all backends stays known."""
        if not self._values:
            return
        if self._job is not None:
            self._end()
        for variant in self._ways[2]:
            for key in (self._timed_key(variant), self._failed_key(variant)):
                self._results.discard(key)
        self._calm_at = 0.0
        self._forget()

    def _look(self, now: float) -> None:
        """Start the next job, unless other sessions have claimed all remaining ones."""
        if not self._results.claim([self._shared], self, now, now + HOLD):
            return
        job = self._next(now)
        if job is not None:
            self._claims = (self._shared, job.key)
            self._start(job, now)
        else:
            self._results.release([self._shared], self, now)
            self._looked = self._results.version, now + LOOK

    def verdict(self) -> Verdict | None:
        """Return the verdict on the current values, the same object until it changes; None before `follow`."""
        if not self._values:
            return None
        version, until, verdict = self._judged
        if version == self._results.version and self._clock() < until:
            return verdict
        version = self._results.version
        challenger, opponent, everybody = self._ways
        verdict = judge(challenger, opponent, tuple(self._standing(variant) for variant in everybody))
        self._judged = version, self._next_retry(everybody), verdict
        return verdict

    @property
    def for_first_estimate(self) -> bool:
        """Whether the running job is for the first estimate, so that its answer is urgent. Callable from any thread."""
        return self._for_first_estimate and self._job is not None

    @property
    def _shared(self) -> ResultKey:
        """Key claimed in addition to a job's own: sessions with the same parameters have one job at a time."""
        return self._key("job", self.rules.reference)

    def _next_retry(self, variants: Sequence[Variant]) -> float:
        """Return when the first of the current failures expires; inf without a failure."""
        failures = [self._results.get(self._failed_key(variant)) for variant in (*variants, self.rules.reference)]
        now = self._clock()
        return min((until for _, until in filter(None, failures) if now < until), default=inf)

    def _forget(self) -> None:
        """Reset the search and the verdict after a change of the values."""
        self._looked, self._judged = (-1, 0.0), (-1, 0.0, None)
        self._keys.clear()

    def roof(self, engine: str, dtype: str) -> float:
        """Return the roof of `engine`, in bytes or multiply-adds on `dtype` a second; nan below FEW samples.

        It is the upper quartile of the samples taken in turn with the ways.
        """
        rates = self._results.get(self._roof_key(engine, dtype)) or ()
        return Spread.of(rates).q3 if len(rates) >= FEW else nan

    def let_go(self) -> None:
        """End the running job, for pauses between calls of `tick`; another session may start it again."""
        if self._job is not None:
            self._end()

    def close(self) -> None:
        """End the running job; another session may start it again."""
        self._values, self._followed, self._crowded_live = {}, None, None
        self._forget()
        self._end()

    # -- the next job

    def _next(self, now: float) -> EngineTask | None:
        """Return the next job, its key claimed: for the first estimate, then results, then the least sampled way."""
        challenger, opponent, everybody = self._ways
        pair = [variant for variant in (challenger, opponent) if variant is not None]

        def count(variant: Variant) -> int:
            """Return the number of timings of that variant."""
            return len(self._taken(variant).timings)

        untimed = sorted((variant for variant in pair if not self._taken(variant).telling), key=count)
        by_samples = sorted(everybody, key=count)
        for find, variants, first_estimate in (
            (self._check, pair, True), (self._sample, untimed, True),
            (self._check, everybody, False), (self._sample, by_samples, False),
        ):  # fmt: skip
            for variant in variants:
                job = None if self._note(variant) else find(variant)
                if first_estimate and isinstance(job, SampleTask):
                    job = self._soon(job, variant)
                if job is not None and self._results.claim((job.key,), self, now, now + HOLD):
                    self._for_first_estimate = first_estimate
                    return job
        return None

    def _check(self, variant: Variant) -> EngineTask | None:
        """Return a task for the variant's result, or first for the reference's; None if they have been compared."""
        key = self._checked_key(variant)
        if self._results.get(key) is not None:
            return None
        rules, small = self.rules, self.rules.small(self._values)
        steps = rules.compared_after(self._values)
        right_key = self._key("right", rules.reference)
        if self._right[0] != right_key and (known := self._results.right(right_key)) is not None:
            self._right = right_key, known
        if self._right[0] != right_key:
            changes = small | rules.right(self._values)
            return SolveTask(right_key, *self._where(rules.reference, changes), steps)
        return SolveTask(key, *self._where(variant, small), steps)

    def _sample(self, variant: Variant) -> EngineTask | None:
        """Return a task for more samples; None if they suffice or the result is wrong."""
        agreement = self._results.get(self._checked_key(variant))
        if agreement is None or not agreement.agrees:
            return None
        if self._crowded(variant):
            return None
        samples = self._taken(variant)
        key, warm, changes = self._timed_key(variant), samples.warm, self.rules.sampled(self._values)
        if not samples.timings:
            return SampleTask(key, *self._where(variant, changes), 1)
        dtype = self.rules.dtype(self._values)
        late = self._clock() - samples.at >= AGAIN
        if settled(warm) or (len(warm) >= MOST_TIMINGS and not (late and Spread.of(warm).noisy)):
            return None
        newest = samples.timings[-1]
        at_once, step_seconds = self.rules.steps_at_once(newest.backend, newest.variant), newest.step_seconds
        if at_once * step_seconds > SAMPLE_SLICE:  # the engine shows the picture in between, which splits a pass anyway
            at_once = 1
        steps, repeat = steps_for(step_seconds, SAMPLE_SECONDS, at_once=at_once), REPEAT if step_seconds < LONG else 1
        job = SampleTask(key, *self._where(variant, changes), steps, repeat)
        if len(self._results.get(self._roof_key(job.engine, dtype)) or ()) >= MOST_TIMINGS:
            return job
        return replace(job, roof=self.rules.rate.roof, dtype=dtype)

    def _soon(self, job: SampleTask, variant: Variant) -> SampleTask:
        """Return the task without its deferrable parts: the roof, and samples beyond SOON."""
        known = self._taken(variant).timings
        seconds = job.steps * known[-1].step_seconds if known else 0.0
        return replace(job, roof="", repeat=max(1, min(job.repeat, int(SOON / max(seconds, 1e-9)))))

    def _note(self, variant: Variant) -> str:
        """Return why the variant is not measured at this setting; "" if it may be."""
        for each in (variant, self.rules.reference):
            text, until = self._results.get(self._failed_key(each)) or ("", 0.0)
            if self._clock() < until:
                return str(text)
        refusal = self.rules.refusal(variant, self._values)
        if refusal:
            return refusal
        if self._crowded(variant) and variant != self._live:
            return "a second grid of this size would hold up the picture; `fieldlab bench` times it"
        return ""

    @property
    def _live(self) -> Variant | None:
        """The variant that computes the live picture."""
        if not self._values:
            return None
        return Variant(self._values["backend"], self._values.get("variant", ""))

    def _crowded(self, variant: Variant) -> bool:
        """Whether the variant's engine should not get a second grid of this size."""
        shared = self._live is not None and self._engine(variant) == self._engine(self._live)
        return self.rules.crowded(self._values, shared)

    @property
    def _ways(self) -> tuple[Variant, Variant | None, list[Variant]]:
        """Challenger, opponent, and all variants without duplicates."""
        challenger, opponent, everybody = pairing(self._values, self._backends)
        return challenger, opponent, list(dict.fromkeys([*everybody, *self.rules.others(self._values)]))

    def _where(self, variant: Variant, changes: Mapping[str, Any]) -> tuple[ResultKey, str, dict[str, Any]]:
        """Return (key of a failure, engine, values) of a task for that variant."""
        return self._failed_key(variant), self._engine(variant), self.rules.values_of(variant, self._values, changes)

    # -- one job

    def _start(self, job: EngineTask, now: float) -> None:
        self._job, self._deadline = job, now + LONGEST_JOB
        try:
            handle = self._open(job.engine, dict(job.values), lambda event: self._answers.append((job, event)))
        except (RuntimeError, ValueError, OSError) as error:  # the engine is closed, or refuses immediately
            self._fail(job, str(error))
            return
        self._handle = handle
        job.ask(handle)

    def _take(self, job: EngineTask, event: Any) -> None:
        match event:
            case Busy(what=what) if what.startswith("compiling"):  # "opening" would only flash
                self._say(what)
            case MeasurementQueued(before=others):
                self._queue(others)
            case Solved(field=field) if job.key[0] == "right":
                field = deepcopy(field)  # the engine's array maps a file, which would stay open as long as the array
                self._results.put_right(job.key, field)
                self._right = (job.key, field)  # only one: it may be large, and the next setting may have another
                self._end()
            case Solved(field=field):
                self._results.put(job.key, self.rules.agreement(self._right[1], field, job.values, job.steps))
                self._end()
            case Sampled(timings=timings, roof=rates):
                if rates and isinstance(job, SampleTask):
                    roof_key = self._roof_key(job.engine, job.dtype)
                    self._results.put(roof_key, (*(self._results.get(roof_key) or ()), *rates))
                before = self._results.get(job.key) or TakenTimings()
                self._results.put(job.key, before.with_more(timings, self._clock(), job.steps))
                self._end()
            case Refused(text=text) | EngineBroken(reason=text) | LabFailed(reason=text):
                self._fail(job, text)
            case LabClosed():
                self._fail(job, "the engine closed it")

    def _queue(self, before: int) -> None:
        """Note that `before` other jobs precede the running one; its timeout starts when it begins."""
        self._queued = before > 0
        self._deadline = self._clock() + (LONGEST_SILENCE if self._queued else LONGEST_JOB)
        self._say(f"waiting: {before} measurement{'s' * (before != 1)} before it" if self._queued else "")

    def _say(self, doing: str) -> None:
        """Set the text on the running job's long operation, which the verdict shows."""
        if doing != self._doing:
            self._doing, self._judged = doing, (-1, 0.0, None)

    def _fail(self, job: EngineTask, text: str) -> None:
        self._results.put(job.failed, (text, self._clock() + RETRY))
        self._end()

    def _end(self) -> None:
        now = self._clock()
        rest = 0.0 if self._for_first_estimate else REST
        self._results.release(self._claims, self, now + rest)
        if self._handle is not None:
            self._handle.close()
        self._job, self._handle, self._claims, self._queued = None, None, (), False
        self._say("")
        self._calm_at = max(self._calm_at, now + rest)

    # -- values and keys

    def _standing(self, variant: Variant) -> Standing:
        agreement = self._results.get(self._checked_key(variant))
        taken = self._taken(variant)
        right = agreement is not None and agreement.agrees
        shown = taken if right else TakenTimings()
        doing = self._doing if self._job is not None and (self._queued or self._job.key[2] == variant) else ""
        return Standing(variant, shown.measurement, agreement, self._note(variant), shown.reported, doing)

    def _taken(self, variant: Variant) -> TakenTimings:
        return self._results.get(self._timed_key(variant)) or TakenTimings()

    def _engine(self, variant: Variant) -> str:
        return backend(variant.backend).engine(self._values.get("device_index", 0))

    def _checked_key(self, variant: Variant) -> ResultKey:
        return self._key("checked", variant)

    def _timed_key(self, variant: Variant) -> ResultKey:
        return self._key("timed", variant)

    def _failed_key(self, variant: Variant) -> ResultKey:
        return self._key("failed", variant)

    def _roof_key(self, engine: str, dtype: str) -> ResultKey:
        """Return the key of a roof; labs with the same kind of roof share it."""
        return ("roof", engine, self.rules.rate.roof, dtype)

    def _key(self, kind: KeyKind, variant: Variant) -> ResultKey:
        """Return the key of a kind of entry for `variant` at the current values; a job keeps its key."""
        if (kind, variant) not in self._keys:
            self._keys[kind, variant] = (kind, self._lab, variant, *self._measured(kind, variant))
        return self._keys[kind, variant]

    def _measured(self, kind: KeyKind, variant: Variant) -> tuple[Any, ...]:
        """Return the values that identify a setting in keys of this kind, taken from the measured labs.

        The live lab's values are not used: its grid may follow the browser's window, while all sizes share one
        measurement of a small grid.
        """
        rules, values = self.rules, self._values
        match kind:
            case "timed":
                return self._frozen(rules.timed, variant, rules.sampled(values))
            case "right":
                changes = rules.small(values) | rules.right(values)
                return (*self._frozen(rules.checked, rules.reference, changes), rules.compared_after(values))
            case "checked":
                right = self._key("right", rules.reference)
                return (*self._frozen(rules.checked, variant, rules.small(values)), right)
            case "failed" | "job":
                return self._key("checked", variant), self._key("timed", variant)

    def _frozen(self, names: tuple[str, ...], variant: Variant, changes: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return those values of the variant's second lab, hashable, as parts of a key."""
        values = self.rules.values_of(variant, self._values, changes)
        return tuple(_frozen(values.get(name)) for name in (*names, "device_index"))


def _frozen(value: Any) -> Any:
    """Return a parameter's value in hashable form, as a part of a key."""
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value
