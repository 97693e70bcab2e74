"""How a way of computing is sampled: repeated until its quartiles settle, in shuffled order beside the others.

Rounds over all ways, shuffled, spread a disturbance (another process, a clock that drops) over all of them. The
rounds end for all ways together, once each has settled or the budget is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from time import perf_counter

from compute.bench.samples import Sample
from compute.timings import settled

LEAST = 5  # samples of every way even if the budget is over: fewer give no quartiles
MOST = 200  # samples of one way: beyond it the quartiles of a noisy machine do not settle any more
SAMPLE_SECONDS = 0.05  # length one sample aims at: long against the clock (1 us) and against an odd launch or copy
LAUNCH_STEPS = 48  # steps are a multiple of it when there are many, so that 12 or 16 steps a launch divide them
MOST_STEPS = 4800  # steps of one sample, so that a field hardly changes its character within it


def steps_for(step_seconds: float, sample_seconds: float = SAMPLE_SECONDS, most: int = MOST_STEPS) -> int:
    """Steps to put into one sample so that it lasts about `sample_seconds`, at most `most`.

    Odd when few (an even count may cost one extra copy), else a multiple of LAUNCH_STEPS.
    """
    wanted = min(sample_seconds / max(step_seconds, 1e-9), float(most))
    if wanted < LAUNCH_STEPS:
        return max(1, 2 * int(wanted / 2) + 1 if wanted >= 2 else 1)
    return LAUNCH_STEPS * int(wanted / LAUNCH_STEPS)


def interleave(
    ways: Mapping[str, Callable[[], Sample]],
    budget: float,
    seed: int = 0,
    clock: Callable[[], float] = perf_counter,
    heard: Callable[[float], object] = lambda _: None,
) -> dict[str, list[Sample]]:
    """Call every way in shuffled rounds; samples by way.

    budget: seconds for all ways together; LEAST samples of each are taken even beyond it, MOST at most. heard(part of
    the budget that is over, 1 at most) is called between two rounds, when nothing is being timed.
    """
    order, random = list(ways), Random(seed)
    samples: dict[str, list[Sample]] = {name: [] for name in ways}
    start = clock()
    while order and not all(_finished(samples[name], clock() - start > budget) for name in order):
        heard(min(1.0, (clock() - start) / max(budget, 1e-9)))
        random.shuffle(order)
        for name in order:
            samples[name].append(ways[name]())
    return samples


def _finished(samples: list[Sample], late: bool) -> bool:
    if len(samples) < LEAST:
        return False
    return late or len(samples) >= MOST or settled([sample.timing.step_seconds for sample in samples])
