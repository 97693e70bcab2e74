"""The scheduler of timed samples: shuffled rounds over subjects, the length of a sample, a budget of seconds.

A subject is whatever is timed: an implementation in `fieldlab bench`, a way at one n in a crossover sweep, a lane of a
race for a whole result, a number of GPUs. Every subject is warmed up by its caller, which drops the first calls. Then
`rounds` schedules one sample of each subject per round, in random order, so that a disturbance (another process, a
clock that drops) affects all subjects. The rounds end for all together: when the quartiles of each have settled, or
when the `Budget` is used up and each has its fewest samples. `in_turn` alternates between whole series of rounds: the
curves of a crossover bench, the processes of `fieldlab try`.

Virtual machines share physical cores. A neighbour on a core's second hardware thread makes all programs here up to
twice as slow, for seconds, on one core and not on the next; the guest's system cannot detect it and leaves a thread
there. Measured on a guest of 16 cores next to an H200: at any time half of the cores, for 1 to 5 s each, and a factor
of 2.0 between the slowest and the fastest of six. Two runs of the crossover's bench then overlapped in their quartiles
at 40 % of the points; on quiet cores (`move_to_a_quiet_core`) at 83 %.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import log
from random import Random
from time import perf_counter
from typing import TypeVar

from compute.devices.builds import watching
from compute.measure.statistics import FEWEST, settled
from compute.measure.timing import Sample

LEAST_SAMPLES = FEWEST  # samples of every subject even if the budget is over: fewer give no confidence interval
MOST_SAMPLES = 200  # samples of one subject: if quartiles have not settled by then, the machine is too noisy
SAMPLE_SECONDS = 0.05  # target length of a sample: long compared with the clock (1 us) and a stray launch or copy
MOST_STEPS = 4800  # steps of one sample, so that a field hardly changes its character within it
TRIES = 6  # cores that are compared: if half of all cores are slow, all six are with probability 1/64; 1 ms in all
LOOP, LOOPS = 3000, 3  # additions in a row, about 30 us: many instructions a cycle, which a neighbour halves
LEAST_RUN = 30.0  # seconds that a bench may take even with a smaller budget: for checks and the fewest samples
OVER = "the budget of the whole run was over"
KEPT = "measurements are kept after an interruption"
TINY = 1e-6  # seconds: the shortest time from which growth is calculated
CUBIC = 3.0  # highest power of n assumed for the time of a run

Subject = TypeVar("Subject")


# -- rounds


def rounds(
    subjects: Callable[[], Sequence[Subject]],
    samples: Callable[[Subject], Sequence[Sample]],
    budget: Budget,
    random: Random,
    least: Callable[[Subject], int] = lambda _: LEAST_SAMPLES,
    group: Callable[[Subject], Hashable] = lambda _: None,
) -> Iterator[list[list[Subject]]]:
    """Yield the groups of subjects to sample in each round; the caller takes one sample of every subject.

    subjects(): those to sample in the next round; samples(subject): those taken so far; least(subject): the number of
    rounds in which it is sampled even if the budget is used up before the round; group(subject): subjects of a group
    are sampled one after the other, and in every round until all of them have enough samples, so that they meet the
    same disturbances and none ends because its first samples happen to be alike.
    """
    for number in range(1 + MOST_SAMPLES):
        now = list(subjects())
        if budget.over:
            now = [one for one in now if number < least(one)]
        going = {group(one) for one in now if not enough(samples(one))}
        if not going:
            return
        yield shuffled_groups([one for one in now if group(one) in going], group, random)


def shuffled_groups(
    subjects: Iterable[Subject], group: Callable[[Subject], Hashable], random: Random
) -> list[list[Subject]]:
    """Return the subjects in groups: the groups in random order, and the subjects of each."""
    found: dict[Hashable, list[Subject]] = {}
    for one in subjects:
        found.setdefault(group(one), []).append(one)
    order = list(found.values())
    random.shuffle(order)
    for members in order:
        random.shuffle(members)
    return order


def enough(samples: Sequence[Sample]) -> bool:
    """Whether further samples are unnecessary: the quartiles have settled, or are not going to."""
    return len(samples) >= MOST_SAMPLES or settled([sample.timing.step_seconds for sample in samples])


def interleave(
    ways: Mapping[str, Callable[[], Sample]],
    budget: Budget,
    progress: Callable[[float], object] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    samples: dict[str, list[Sample]] | None = None,
    least: Mapping[str, int] | None = None,
) -> dict[str, list[Sample]]:
    """Call every way once per round (see `rounds`); return the samples by way.

    budget: of all ways together; least: the fewest samples of a way, by default LEAST_SAMPLES. stop(): whether to end
    immediately, even with fewer. samples: a dictionary to fill, which keeps the samples if this call is interrupted.
    progress(fraction of the budget used, 1 at most) is called between two rounds, when no timing runs.
    """
    samples = {} if samples is None else samples
    samples.update((name, []) for name in ways)
    fewest = dict.fromkeys(ways, LEAST_SAMPLES) | dict(least or {})
    for groups in rounds(lambda: list(ways), samples.__getitem__, budget, Random(0), fewest.__getitem__):
        progress(budget.part)
        for name in (name for names in groups for name in names):
            if stop():
                return samples
            samples[name].append(ways[name]())
    return samples


def in_turn(subjects: Iterable[Subject], turn: Callable[[Subject], bool], random: Random | None = None) -> None:
    """Call turn(subject) in rounds over the subjects, until it returns False for each. random: shuffles every round."""
    going = list(subjects)
    while going:
        if random is not None:
            random.shuffle(going)
        going = [one for one in going if turn(one)]


# -- the length of a sample


def steps_for(
    step_seconds: float, sample_seconds: float = SAMPLE_SECONDS, most: int = MOST_STEPS, at_once: int = 1
) -> int:
    """Return the steps of one sample for about `sample_seconds`; at most the larger of `most` and `at_once`.

    at_once: steps of one launch, or pass. The result is an odd number of launches: launches alternate between two
    arrays, so that an even number costs a copy, or one more launch. Samples of 23 steps, in launches of 8, 8, 4, 2 and
    1, took 1.5 times as long a step as 24 on an H200.
    """
    ideal = min(sample_seconds / max(step_seconds, 1e-9), float(most))
    launches = 2 * int(ideal / at_once / 2) + 1
    if launches > 1 and launches * at_once > most:
        launches -= 2
    return launches * at_once


def expected_seconds(taken: Mapping[int, float], n: int, growth: float = 0.0, overhead: float = 0.0) -> float:
    """Return the seconds expected at `n`, extrapolated from `taken`: the seconds at smaller n, in ascending order.

    growth: factor of the work from the largest of these n to `n`. A part of the time does not grow: the smallest of
    several times, or at most `overhead` of a single one. Without `growth`, the whole time grows with the power of n
    (CUBIC at most) between the largest n and the largest up to half of it; 0.0 if there are no such two.
    """
    last = max(taken)
    if growth:
        fixed = min(taken.values()) if len(taken) > 1 else min(overhead, taken[last])
        return fixed + (taken[last] - fixed) * growth
    before = max((m for m in taken if m <= last / 2), default=0)
    if not before or n <= last:
        return 0.0
    power = log(max(taken[last] / max(taken[before], TINY), 1.0)) / log(last / before)
    return taken[last] * (n / last) ** min(power, CUBIC)


# -- the budget


class Budget:
    """Seconds that may be used for a task. It counts from now on, or only inside `counting` if `running` is False."""

    def __init__(self, seconds: float, clock: Callable[[], float] = perf_counter, running: bool = True) -> None:
        self.seconds, self.clock = seconds, clock
        self._spent, self._since, self._running = 0.0, clock(), running

    @property
    def spent(self) -> float:
        """Seconds used so far."""
        return self._spent + (self.clock() - self._since if self._running else 0.0)

    @property
    def left(self) -> float:
        """Seconds that are left; 0 after the end."""
        return max(0.0, self.seconds - self.spent)

    @property
    def part(self) -> float:
        """Fraction used, 1 at most."""
        return min(1.0, self.spent / max(self.seconds, 1e-9))

    @property
    def over(self) -> bool:
        """Whether the budget is used up, so that no further work may start."""
        return self.left <= 0.0

    @contextmanager
    def counting(self, running: bool) -> Iterator[None]:
        """Count the time of the block, or exclude it: a reference is computed once, whatever the budget."""
        before = self._running
        self._switch(running)
        try:
            yield
        finally:
            self._switch(before)

    def _switch(self, running: bool) -> None:
        if running != self._running:
            self._spent, self._since, self._running = self.spent, self.clock(), running

    @contextmanager
    def excluding_builds(self) -> Iterator[None]:
        """Exclude the time that this thread spends on building kernels in the block."""

        def ended() -> None:
            """Exclude a finished build, unless its time was not counted."""
            if self._running:
                self._spent -= builds.seconds

        with watching(ended=ended) as builds:
            yield


# -- the quiet core


def move_to_a_quiet_core(random: Random) -> None:
    """Move this thread to the fastest of TRIES random cores among those that it may use.

    It stays there until the system has a reason to move it. No effect on systems that cannot move threads (macOS,
    Windows) or with one core.
    """
    allowed = _allowed()
    if len(allowed) < 2:
        return
    tried = random.sample(sorted(allowed), min(TRIES, len(allowed)))
    try:
        _move({quickest(tried)})
    finally:
        _move(allowed)


def quickest(cores: Iterable[int]) -> int:
    """Return the core with the shortest loop time; this thread ends on the last core tried."""
    seconds = {}
    for core in cores:
        _move({core})
        seconds[core] = min(_loop() for _ in range(LOOPS))
    return min(seconds, key=lambda core: seconds[core])


def _allowed() -> set[int]:
    """Return the cores that this thread may use; empty if the system does not report them."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _move(cores: set[int]) -> None:
    """Restrict this thread, and only this one, to these cores; it runs on one of them when this returns."""
    os.sched_setaffinity(0, cores)


def _loop() -> float:
    start = perf_counter()
    sum(range(LOOP))
    return perf_counter() - start
