"""Samples: their length, shuffled rounds with a simulated clock, and the choice of a core."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute.measure import sampling
from compute.measure.sampling import (
    LEAST_SAMPLES,
    MOST_SAMPLES,
    MOST_STEPS,
    SAMPLE_SECONDS,
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


def test_interleave_shuffles_and_stops_when_settled():
    clock = FakeClock()
    ways = {name: clock.way(name, forever([1.0])) for name in "abc"}
    taken = interleave(ways, budget=1e9, clock=lambda: clock.now)
    assert {name: len(timings) for name, timings in taken.items()} == {"a": 9, "b": 9, "c": 9}
    rounds = [tuple(clock.calls[k : k + 3]) for k in range(0, 27, 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in rounds)
    assert len(set(rounds)) > 1


def test_interleave_goes_on_with_all_ways_until_each_has_settled():
    clock = FakeClock()
    ways = {
        "steady": clock.way("steady", forever([1.0])),
        "slow start": clock.way("late", forever([9.0] * 4 + [1.0] * 99)),
    }
    taken = interleave(ways, budget=1e9, clock=lambda: clock.now)
    assert len(taken["steady"]) == len(taken["slow start"]) > 9


def test_interleave_ends_with_the_budget_or_at_most_samples():
    clock = FakeClock()
    wild = clock.way("wild", forever([1.0, 5.0, 1.0, 9.0, 2.0]))
    assert len(interleave({"wild": wild}, budget=0.0, clock=lambda: clock.now)["wild"]) == LEAST_SAMPLES
    growing = clock.way("growing", (1.1**k for k in range(1000)))
    assert len(interleave({"growing": growing}, budget=math.inf, clock=lambda: clock.now)["growing"]) == MOST_SAMPLES


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
        self.tried.append(self.at)
        return self.slowness[self.at]


def test_it_is_on_the_quickest_of_the_cores_that_were_tried_and_may_use_all_again(monkeypatch):
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


def test_one_odd_interruption_does_not_count(monkeypatch):
    machine = Machine(monkeypatch, {0: 1.5, 1: 1.0})
    times = iter(
        [1.5, 1.5, 1.5, 9.0, 1.0, 1.0] if Random(0).sample([0, 1], 2) == [0, 1] else [9.0, 1.0, 1.0] + [1.5] * 3
    )
    monkeypatch.setattr(sampling, "_loop", lambda: next(times))
    move_to_a_quiet_core(Random(0))
    assert machine.at == 1


@pytest.mark.parametrize("allowed", [set(), {3}])
def test_nothing_is_done_where_there_is_no_choice(monkeypatch, allowed):
    monkeypatch.setattr(sampling, "_allowed", lambda: allowed)
    monkeypatch.setattr(sampling, "_move", lambda to: pytest.fail("moved"))
    move_to_a_quiet_core(Random(0))


def test_an_error_leaves_the_thread_free(monkeypatch):
    machine = Machine(monkeypatch, {0: 1.0, 1: 1.0})
    monkeypatch.setattr(sampling, "_loop", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        move_to_a_quiet_core(Random(0))
    assert machine.mask == {0, 1}


def test_the_real_thread_may_use_all_its_cores_afterwards():
    before = sampling._allowed()
    move_to_a_quiet_core(Random(1))
    assert sampling._allowed() == before
