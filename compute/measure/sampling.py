"""How a way is sampled: repeated until its quartiles settle, in shuffled order with the other ways.

Shuffled rounds over all ways spread a disturbance (another process, a clock that drops) over all of them. The rounds
end for all ways together, when each has settled or the budget is over.

Virtual machines share physical cores. A neighbour on a core's second hardware thread makes all programs here up to
twice as slow, for seconds, on one core and not on the next; the guest's system cannot detect it and leaves a thread
there. Measured on a guest of 16 cores next to an H200: at any time half of the cores, for 1 to 5 s each, and a factor
of 2.0 between the slowest and the fastest of six. Two runs of the crossover's bench then overlapped in their quartiles
at 40 % of the points; on quiet cores (`move_to_a_quiet_core`) at 83 %.

A bench's budget covers the whole run, including checks and roofs (`Deadline`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from time import monotonic, perf_counter

from compute.devices.builds import watching
from compute.measure.statistics import FEWEST, settled
from compute.measure.timing import Sample

LEAST_SAMPLES = FEWEST  # samples of every way even if the budget is over: fewer give no confidence interval
MOST_SAMPLES = 200  # samples of one way: if quartiles have not settled by then, the machine is too noisy
SAMPLE_SECONDS = 0.05  # target length of a sample: long compared with the clock (1 us) and a stray launch or copy
MOST_STEPS = 4800  # steps of one sample, so that a field hardly changes its character within it
TRIES = 6  # cores that are compared: if half of all cores are slow, all six are with probability 1/64; 1 ms in all
LOOP, LOOPS = 3000, 3  # additions in a row, about 30 us: many instructions a cycle, which a neighbour halves


def steps_for(
    step_seconds: float, sample_seconds: float = SAMPLE_SECONDS, most: int = MOST_STEPS, at_once: int = 1
) -> int:
    """Return the steps of one sample for about `sample_seconds`; at most the larger of `most` and `at_once`.

    at_once: steps of one launch, or pass. The result is an odd number of launches: launches alternate between two
    arrays, so that an even number costs a copy, or one more launch. Samples of 23 steps, in launches of 8, 8, 4, 2 and
    1, took 1.5 times as long a step as 24 on an H200.
    """
    wanted = min(sample_seconds / max(step_seconds, 1e-9), float(most))
    launches = 2 * int(wanted / at_once / 2) + 1
    if launches > 1 and launches * at_once > most:
        launches -= 2
    return launches * at_once


def interleave(
    ways: Mapping[str, Callable[[], Sample]],
    budget: float,
    seed: int = 0,
    clock: Callable[[], float] = perf_counter,
    heard: Callable[[float], object] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    samples: dict[str, list[Sample]] | None = None,
    least: Mapping[str, int] | None = None,
) -> dict[str, list[Sample]]:
    """Call every way in shuffled rounds; return the samples by way.

    budget: seconds for all ways together; `least` samples of each, by default LEAST_SAMPLES, are taken even beyond it,
    MOST_SAMPLES at most. stop(): whether to end immediately, even with fewer. samples: a dictionary to fill, which
    keeps the samples if this call is interrupted.
    heard(fraction of the budget used, 1 at most) is called between two rounds, when no timing runs.
    """
    order, random = list(ways), Random(seed)
    samples = {} if samples is None else samples
    samples.update((name, []) for name in ways)
    start = clock()
    fewest = {name: (least or {}).get(name, LEAST_SAMPLES) for name in order}
    while order and not all(_finished(samples[name], clock() - start > budget, fewest[name]) for name in order):
        late = clock() - start > budget
        heard(min(1.0, (clock() - start) / max(budget, 1e-9)))
        random.shuffle(order)
        for name in order:
            if stop():
                return samples
            if not late or len(samples[name]) < fewest[name]:  # late: only ways that lack samples continue
                samples[name].append(ways[name]())
    return samples


def _finished(samples: list[Sample], late: bool, least: int) -> bool:
    if len(samples) < least:
        return False
    return late or len(samples) >= MOST_SAMPLES or settled([sample.timing.step_seconds for sample in samples])


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


# -- duration of a whole run

LEAST_RUN = 30.0  # seconds that a run may take even with a smaller budget: for checks and five samples of each
OVER = "the budget of the whole run was over"
KEPT = "what is measured is kept if you interrupt it"


class Deadline:
    """The end of a run that begins now. budget: seconds for the run, without compilation, references and data."""

    def __init__(self, budget: float, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._end = clock() + max(budget, LEAST_RUN)

    @property
    def left(self) -> float:
        """Seconds that are left; 0 after the end."""
        return max(0.0, self._end - self._clock())

    @property
    def over(self) -> bool:
        """Whether the end has passed, so that no further work may start."""
        return self.left <= 0.0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Exclude the time of the block: a reference is computed once, whatever the budget."""
        start = self._clock()
        try:
            yield
        finally:
            self._end += self._clock() - start

    @contextmanager
    def watching_builds(self) -> Iterator[None]:
        """Extend the run by the time that this thread spends on building kernels in the block."""

        def ended() -> None:
            """Extend the run by the seconds of a finished build."""
            self._end += builds.seconds

        with watching(ended=ended) as builds:
            yield
