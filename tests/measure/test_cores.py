"""Which core a thread is moved to: cores whose speed is given, and the real ones."""

from __future__ import annotations

from random import Random

import pytest

from compute.measure import sampling
from compute.measure.sampling import move_to_a_quiet_core


class Machine:
    """Cores with a slowness each; a thread is where it was moved to, and stays if it may."""

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
    assert 1 < len(ends) <= 16  # not always the same ones are tried


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
