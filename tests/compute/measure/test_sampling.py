"""Samples: their length, shuffled rounds with a simulated clock, and the choice of a core."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute.devices.builds import building
from compute.measure import sampling
from compute.measure.sampling import (
    LEAST_SAMPLES,
    MOST_SAMPLES,
    MOST_STEPS,
    SAMPLE_SECONDS,
    Budget,
    expected_seconds,
    interleave,
    move_to_a_quiet_core,
    steps_for,
)
from compute.measure.timing import Sample, Timing


def timing(compute):
    return Timing("cpu_numpy", "one-step", 1, 100, compute=compute)


@given(st.floats(1e-9, 100.0), st.sampled_from([1, 8, 12]))
def test_a_sample_is_an_odd_number_of_whole_launches(step, at_once):
    steps = steps_for(step, at_once=at_once)
    assert at_once <= steps <= MOST_STEPS
    assert steps % at_once == 0
    assert steps // at_once % 2 == 1
    assert steps == at_once or abs(steps * step - SAMPLE_SECONDS) <= 2 * at_once * step or steps > MOST_STEPS - 24


class FakeClock:
    """Ways with given durations, on a simulated clock."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def __call__(self):
        return self.now

    def way(self, name, durations):
        stream = iter(durations)

        def call():
            self.calls.append(name)
            duration = next(stream)
            self.now += duration
            return Sample(self.now - duration, self.now, replace(timing(duration), backend=name))

        return call


def forever(values):
    while True:
        yield from values


def test_interleave_shuffles_and_goes_on_with_all_ways_until_each_has_settled():
    clock = FakeClock()
    ways = {name: clock.way(name, forever([1.0])) for name in "abc"}
    taken = interleave(ways, Budget(1e9, clock))
    assert {name: len(timings) for name, timings in taken.items()} == {"a": 9, "b": 9, "c": 9}
    turns = [tuple(clock.calls[k : k + 3]) for k in range(0, 27, 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
    assert len(set(turns)) > 1
    ways = {"steady": ways["a"], "slow start": clock.way("late", forever([9.0] * 4 + [1.0] * 99))}
    taken = interleave(ways, Budget(1e9, clock))
    assert len(taken["steady"]) == len(taken["slow start"]) > 9


def test_interleave_ends_with_the_budget_or_at_most_samples():
    clock = FakeClock()
    wild = clock.way("wild", forever([1.0, 5.0, 1.0, 9.0, 2.0]))
    assert len(interleave({"wild": wild}, Budget(0.0, clock))["wild"]) == LEAST_SAMPLES
    growing = clock.way("growing", (1.1**k for k in range(1000)))
    assert len(interleave({"growing": growing}, Budget(math.inf, clock))["growing"]) == MOST_SAMPLES


def test_an_interleaved_way_may_have_its_own_fewest_samples_and_stop_ends_all_at_once():
    clock = FakeClock()
    ways = {name: clock.way(name, forever([1.0])) for name in "ab"}
    found = interleave(ways, Budget(0.5, clock), least={"a": 2})
    assert {name: len(samples) for name, samples in found.items()} == {"a": 2, "b": LEAST_SAMPLES}
    found = interleave(ways, Budget(1e9, clock), stop=lambda: len(clock.calls) > 12)
    assert sum(map(len, found.values())) == 5  # 8 calls before
    parts = []
    interleave({"c": clock.way("c", forever([1.0]))}, Budget(4.0, clock), progress=parts.append)
    assert parts == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


# -- the budget


def test_a_budget_counts_only_what_it_is_asked_to_count(monkeypatch):
    clock = FakeClock()
    whole, timing_only = Budget(10.0, clock), Budget(10.0, clock, running=False)
    clock.now += 2.0
    with whole.counting(False), timing_only.counting(True):
        clock.now += 4.0
        with whole.counting(True), timing_only.counting(False):
            clock.now += 1.0
    assert (whole.spent, timing_only.spent) == (3.0, 4.0)
    assert (whole.left, whole.part, whole.over) == (7.0, 0.3, False)
    clock.now += 100.0
    assert (whole.left, whole.part, whole.over) == (0.0, 1.0, True)
    assert timing_only.left == 6.0


def test_the_time_of_builds_is_excluded_once(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr("compute.devices.builds.monotonic", clock)
    budget = Budget(10.0, clock)
    with budget.excluding_builds():
        with building("a.kernel"):
            clock.now += 5.0
        with budget.counting(False), building("another.kernel"):
            clock.now += 5.0
        clock.now += 1.0
    assert budget.spent == 1.0


# -- extrapolation


def test_expected_seconds_of_known_work_grow_but_for_a_fixed_part():
    assert expected_seconds({10: 0.1}, 100, growth=10) == pytest.approx(1.0)
    assert expected_seconds({10: 0.1}, 100, growth=10, overhead=1e-3) == pytest.approx(1e-3 + 0.099 * 10)
    assert expected_seconds({10: 0.1}, 100, growth=10, overhead=1.0) == pytest.approx(0.1)
    assert expected_seconds({10: 0.1, 100: 0.1}, 1000, growth=10) == pytest.approx(0.1)
    assert expected_seconds({10: 0.1, 100: 0.2}, 1000, growth=10) == pytest.approx(1.1)


@pytest.mark.parametrize(("power", "seconds"), [(0, 2.0), (1, 8.0), (2, 32.0), (3, 128.0), (5, 128.0)])
def test_expected_seconds_of_unknown_work_follow_the_power_of_the_last_n(power, seconds):
    taken = {1: 100.0, 100: 2.0 * 2.0**-power, 180: 1.0, 200: 2.0}  # the first one compiled
    assert expected_seconds(taken, 800) == pytest.approx(seconds)
    assert expected_seconds(taken, 200) == expected_seconds({100: 1.0, 150: 1.0}, 800) == 0.0


# -- the quiet core: simulated cores with given speeds, and real ones


class Machine:
    """Cores with a slowness each; the thread stays on its core if permitted."""

    def __init__(self, monkeypatch, slowness):
        self.slowness, self.mask, self.at, self.tried = slowness, set(slowness), min(slowness), []
        monkeypatch.setattr(sampling, "_allowed", lambda: set(self.mask))
        monkeypatch.setattr(sampling, "_move", self.move)
        monkeypatch.setattr(sampling, "_loop", self.loop)

    def move(self, to):
        self.mask = set(to)
        if self.at not in to:
            self.at = min(to)

    def loop(self):
        first = self.at not in self.tried
        self.tried.append(self.at)
        return 9.0 if first else self.slowness[self.at]  # an interruption of one loop does not count


def test_the_thread_moves_to_the_quickest_of_the_tried_cores_and_may_use_all_again(monkeypatch):
    slowness = {core: 1.0 + (core * 7 % 16) / 10 for core in range(16)}
    machine, ends = Machine(monkeypatch, slowness), set()
    for seed in range(20):
        machine.tried.clear()
        move_to_a_quiet_core(Random(seed))
        assert len(set(machine.tried)) == sampling.TRIES
        assert machine.at == min(set(machine.tried), key=slowness.get)
        assert machine.mask == set(slowness)
        ends.add(machine.at)
    assert 1 < len(ends) <= 16  # the tried cores vary
    monkeypatch.setattr(sampling, "_loop", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        move_to_a_quiet_core(Random(0))
    assert machine.mask == set(slowness)


@pytest.mark.parametrize("allowed", [set(), {3}])
def test_nothing_is_done_where_there_is_no_choice(monkeypatch, allowed):
    monkeypatch.setattr(sampling, "_allowed", lambda: allowed)
    monkeypatch.setattr(sampling, "_move", lambda to: pytest.fail("moved"))
    move_to_a_quiet_core(Random(0))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system binds no thread to a core")
def test_the_real_thread_may_use_all_its_cores_afterwards():
    before = os.sched_getaffinity(0)
    move_to_a_quiet_core(Random(1))
    assert os.sched_getaffinity(0) == before
