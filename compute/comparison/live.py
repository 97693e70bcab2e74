"""The live comparison: which way to ask for what next, one small job at a time, on engines that others use too.

A job opens a lab apart from the live one, asks it for a result (`solve`) or for timings (`sample`), and closes it. For
every setting the results are compared first, then times are taken until their quartiles settle; what is known stays
in a Book and is not asked for again. `tick` and `follow` belong to one thread; engine events may come from any.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import nan
from typing import Any

from compute.backends import backend
from compute.bench.measure import steps_for
from compute.bench.workload import workload_of
from compute.comparison.contest import Book, Contestant, Key, Standing, Verdict, judge, pairing
from compute.comparison.jobs import MOST, Handle, Job, Opener, Samples
from compute.comparison.rules import Rules
from compute.engine.messages import EngineBroken, LabClosed, Refused, Sampled, Solved
from compute.timings import FEW, Measurement, Spread, Timing, settled

CALM = 0.7  # seconds without a change of the parameters before anything is asked for them
REST = 0.25  # seconds between two jobs
LONGEST_JOB = 90.0  # seconds after which an unanswered job is given up; a first kernel may compile that long
SAMPLE_SECONDS = 0.008  # length of one sample: shorter than a frame, so that the picture does not stutter
REPEAT = 5  # samples a job: few, so that the ways take turns and a disturbance meets all of them
LONG = 0.3  # seconds of a step from which a job has one sample
AGAIN = 8.0  # seconds between two jobs for a way that has MOST samples and is still noisy
RETRY = 60.0  # seconds after which something that failed is tried again
SEED = 20


class Comparison:
    """Follows one lab's values; `verdict()` says what is known about them."""

    def __init__(self, lab: str, open_lab: Opener, book: Book, clock: Callable[[], float] = time.monotonic) -> None:
        self._lab, self._open, self._book, self._clock = lab, open_lab, book, clock
        self.rules: Rules = workload_of(lab).RULES
        self._values: dict[str, Any] = {}
        self._calm_at = 0.0
        self._job: Job | None = None
        self._handle: Handle | None = None
        self._deadline = 0.0
        self._answers: deque[tuple[Job, Any]] = deque()
        self._right: tuple[Key, Any] = ((), None)  # the reference field, of one setting

    # -- what the view calls

    def follow(self, values: Mapping[str, Any]) -> None:
        """The lab's newest values. A change waits until the parameters are calm."""
        names = ("backend", "variant", "device_index", *self.rules.checked)
        kept = {name: values[name] for name in names if name in values}
        if kept != self._values:
            self._values = kept
            self._calm_at = self._clock() + CALM

    def witness(self, timing: Timing) -> None:
        """A live frame's timing. It counts where its way cannot be sampled apart, because the grid is too large."""
        live = self._live
        if live is None or timing.steps < 1 or not self._crowded(live):
            return
        if (timing.backend, timing.cells) == (live.backend, self.rules.cells(self._values)):
            self._book.put(self._timed_key(live), self._taken(live).with_more([timing], self._clock()))

    def tick(self) -> None:
        """Take an answer, give up a late job, or start the next one."""
        while self._answers:
            job, event = self._answers.popleft()
            if job is self._job:
                self._take(job, event)
        now = self._clock()
        if self._job is not None:
            if now > self._deadline:
                self._fail(self._job, f"no answer within {LONGEST_JOB:.0f} s")
        elif self._values and now >= self._calm_at:
            following = self._next()
            if following is not None:
                self._start(following, now)

    def verdict(self) -> Verdict | None:
        """What may be said about the newest values; None before there are any."""
        if not self._values:
            return None
        challenger, opponent, everybody = self._ways
        return judge(challenger, opponent, tuple(self._standing(contestant) for contestant in everybody))

    def roof(self, engine: str, dtype: str) -> float:
        """What rates on `engine` are compared with, bytes or multiply-adds on `dtype` a second: the upper quartile of
        what was sampled in turn with the ways; nan before there are FEW samples.
        """
        rates = self._book.get(self._roof_key(engine, dtype)) or ()
        return Spread.of(rates).q3 if len(rates) >= FEW else nan

    def close(self) -> None:
        """End the job under way."""
        self._values = {}
        self._end()

    # -- what to ask next

    def _next(self) -> Job | None:
        """Results first; then whoever has the fewest samples."""
        everybody = self._ways[2]
        by_samples = sorted(everybody, key=lambda contestant: len(self._taken(contestant).timings))
        for find, contestants in ((self._check, everybody), (self._sample, by_samples)):
            for contestant in contestants:
                job = None if self._note(contestant) else find(contestant)
                if job is not None and job.key not in self._book.claimed:
                    return job
        return None

    def _check(self, contestant: Contestant) -> Job | None:
        """Its result, or before that the reference's, unless known."""
        key = self._checked_key(contestant)
        if self._book.get(key) is not None:
            return None
        rules, small = self.rules, self.rules.small(self._values)
        steps = rules.compared_after(self._values)
        right_key = self._setting("right", rules.checked, rules.reference)
        if self._right[0] != right_key:
            changes = small | rules.right(self._values)
            return self._job_for(right_key, rules.reference, "solve", steps, changes)
        return self._job_for(key, contestant, "solve", steps, small)

    def _sample(self, contestant: Contestant) -> Job | None:
        """More samples, unless there are enough or its result is wrong."""
        agreement = self._book.get(self._checked_key(contestant))
        if agreement is None or not agreement.agrees:
            return None
        if self._crowded(contestant):
            return None
        samples = self._taken(contestant)
        key, warm, changes = self._timed_key(contestant), samples.warm, self.rules.sampled(self._values)
        if not samples.timings:
            return self._job_for(key, contestant, "sample", 1, changes)
        dtype = self.rules.dtype(self._values)
        late = self._clock() - samples.at >= AGAIN
        if settled(warm) or (len(warm) >= MOST and not (late and Spread.of(warm).noisy)):
            return None
        step_seconds = warm[-1] if warm else samples.timings[-1].step_seconds
        steps, repeat = steps_for(step_seconds, SAMPLE_SECONDS), REPEAT if step_seconds < LONG else 1
        job = self._job_for(key, contestant, "sample", steps, changes, repeat)
        if len(self._book.get(self._roof_key(job.engine, dtype)) or ()) >= MOST:
            return job
        return replace(job, roof=self.rules.rate.roof, dtype=dtype)

    def _note(self, contestant: Contestant) -> str:
        """Why nothing is asked of it at this setting; empty if something may be."""
        for who in (contestant, self.rules.reference):
            text, until = self._book.get(self._failed_key(who)) or ("", 0.0)
            if self._clock() < until:
                return str(text)
        refusal = self.rules.refusal(contestant, self._values)
        if refusal:
            return refusal
        if self._crowded(contestant) and contestant != self._live:
            return "a second grid of this size would hold up the picture; `fieldlab bench` times it"
        return ""

    @property
    def _live(self) -> Contestant | None:
        """What computes the live picture."""
        if not self._values:
            return None
        return Contestant(self._values["backend"], self._values.get("variant", ""))

    def _crowded(self, contestant: Contestant) -> bool:
        """Whether its engine should not get a second grid of this size."""
        beside = self._live is not None and self._engine(contestant) == self._engine(self._live)
        return self.rules.crowded(self._values, beside)

    @property
    def _ways(self) -> tuple[Contestant, Contestant | None, list[Contestant]]:
        """Challenger, opponent, and everybody: each contestant once."""
        challenger, opponent, everybody = pairing(self._values)
        return challenger, opponent, list(dict.fromkeys([*everybody, *self.rules.others(self._values)]))

    def _job_for(
        self, key: Key, contestant: Contestant, ask: str, steps: int, changes: Mapping[str, Any], repeat: int = 1
    ) -> Job:
        own = {"backend": contestant.backend}
        if "variant" in self._values:  # a lab with one kernel a backend has no such parameter
            own["variant"] = contestant.variant
        values = {**self._values, **own, **self.rules.own(contestant, self._values), **changes}
        return Job(key, self._failed_key(contestant), self._engine(contestant), values, ask, steps, repeat)

    # -- one job

    def _start(self, job: Job, now: float) -> None:
        self._job, self._deadline = job, now + LONGEST_JOB
        self._book.claimed.add(job.key)
        try:
            handle = self._open(job.engine, dict(job.values), lambda event: self._answers.append((job, event)))
        except (RuntimeError, ValueError, OSError) as error:  # the engine is closed, or refuses at once
            self._fail(job, str(error))
            return
        self._handle = handle
        if job.ask == "solve":
            handle.solve(job.steps, SEED)
        else:
            handle.sample(job.steps, job.repeat, job.roof, job.dtype)

    def _take(self, job: Job, event: Any) -> None:
        match event:
            case Solved(field=field) if job.key[0] == "right":  # another setting's may follow: keep one only
                self._right = (job.key, field)
                self._end()
            case Solved(field=field):
                self._book.put(job.key, self.rules.agreement(self._right[1], field, job.values, job.steps))
                self._end()
            case Sampled(timings=timings, roof=rates):
                if rates:
                    roof_key = self._roof_key(job.engine, job.dtype)
                    self._book.put(roof_key, (*(self._book.get(roof_key) or ()), *rates))
                before = self._book.get(job.key) or Samples()
                self._book.put(job.key, before.with_more(timings, self._clock()))
                self._end()
            case Refused(text=text) | EngineBroken(reason=text):
                self._fail(job, text)
            case LabClosed():
                self._fail(job, "the engine closed it")

    def _fail(self, job: Job, text: str) -> None:
        self._book.put(job.failed, (text, self._clock() + RETRY))
        self._end()

    def _end(self) -> None:
        if self._job is not None:
            self._book.claimed.discard(self._job.key)
        if self._handle is not None:
            self._handle.close()
        self._job = self._handle = None
        self._calm_at = max(self._calm_at, self._clock() + REST)

    # -- values and keys

    def _standing(self, contestant: Contestant) -> Standing:
        agreement = self._book.get(self._checked_key(contestant))
        taken = self._taken(contestant).timings
        right = agreement is not None and agreement.agrees
        timings = _alike([*taken[:1], *taken[2:]]) if right and len(taken) > 2 else []
        measurement = Measurement.of(timings) if timings else None
        return Standing(contestant, measurement, agreement, self._note(contestant), tuple(timings))

    def _taken(self, contestant: Contestant) -> Samples:
        return self._book.get(self._timed_key(contestant)) or Samples()

    def _engine(self, contestant: Contestant) -> str:
        device = backend(contestant.backend).device
        return device if device == "host" else f"{device}:{self._values.get('device_index', 0)}"

    def _checked_key(self, contestant: Contestant) -> Key:
        return self._setting("checked", self.rules.checked, contestant)

    def _timed_key(self, contestant: Contestant) -> Key:
        return self._setting("timed", self.rules.timed, contestant)

    def _failed_key(self, contestant: Contestant) -> Key:
        return self._setting("failed", self.rules.checked, contestant)

    def _roof_key(self, engine: str, dtype: str) -> Key:
        """Of all labs whose rates are compared with the same."""
        return ("roof", engine, self.rules.rate.roof, dtype)

    def _setting(self, kind: str, names: tuple[str, ...], contestant: Contestant) -> Key:
        """The setting is frozen at the values a job was made for: its key goes with it."""
        values = tuple(_frozen(self._values.get(name)) for name in (*names, "device_index"))
        return (kind, self._lab, contestant, *values)


def _frozen(value: Any) -> Any:
    """A parameter's value as a part of a key."""
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value


def _alike(timings: list[Timing]) -> list[Timing]:
    """The same timings, all with the cells of the newest: what a picture takes may differ a little from run to run."""
    return [replace(timing, cells=timings[-1].cells, variant=timings[-1].variant) for timing in timings]
