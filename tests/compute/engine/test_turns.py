"""How the labs of an engine share its time: fake labs and a simulated clock, without a real lab or process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf

import pytest

from compute.engine.pacing import BETWEEN, CLAIM, LONGEST, MANY, RECENT, ROUND, SHORTEST, Turns, Urgency


@dataclass(eq=False)
class FakeLab:
    """Has work from `wakes` on; its turn takes `cost` seconds, or all of its time if `cost` is 0."""

    number: int
    cost: float = 0.0
    kind: Urgency = Urgency.AWAITED
    wakes: float = 0.0
    used: float = 0.0
    turns: int = 0

    def wakes_at(self, now: float) -> float:
        return self.wakes

    def urgency(self) -> Urgency:
        return self.kind

    def turn(self, now: float, seconds: float) -> None:
        """Take a turn; Engine advances the clock."""


class Engine:
    """Gives turns to fake labs on a simulated clock."""

    def __init__(self, *labs: FakeLab) -> None:
        self.turns, self.now, self.order = Turns(), 100.0, list[FakeLab]()
        for lab in labs:
            self.turns.join(lab)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end and (turn := self.turns.next(self.now)) is not None:
            lab = turn.share.taker
            assert isinstance(lab, FakeLab)
            took = lab.cost or turn.seconds
            self.now, lab.used, lab.turns = self.now + took, lab.used + took, lab.turns + 1
            self.turns.done(turn, took)
            self.order.append(lab)


@pytest.mark.parametrize("n", [2, 8, 16, 40])
def test_labs_of_any_cost_get_equal_time(n):
    labs = [FakeLab(k, cost=0.0005 * (1 + k % 7)) for k in range(n)]
    Engine(*labs).run(n * 1.0)
    assert [lab.used for lab in labs] == pytest.approx([1.0] * n, rel=0.03)


def test_one_turn_that_took_far_longer_than_usual_costs_its_lab_no_share():
    """For example, during a garbage collection: 0.08 s are 80 turns of 1 ms, for which 50 labs would pay for 4 s."""
    labs = [FakeLab(k, cost=0.001) for k in range(50)]
    engine = Engine(*labs)
    engine.run(2.0)
    labs[7].cost = 0.08
    while engine.order[-1] is not labs[7]:
        engine.run(0.0005)
    labs[7].cost = 0.001
    before = [lab.turns for lab in labs]
    engine.run(5.0)
    assert [lab.turns - had for lab, had in zip(labs, before, strict=True)] == pytest.approx([100] * 50, abs=6)


@pytest.mark.parametrize("n", [1, 8, 16, 40])
def test_a_round_of_all_labs_is_bounded_however_many_there_are(n):
    labs = [FakeLab(k) for k in range(n)]
    engine = Engine(*labs)
    engine.run(2.0)  # until the number of awaited labs is known
    engine.order.clear()
    engine.run(20 * max(ROUND, n * SHORTEST))
    assert Counter(engine.order) == {lab: pytest.approx(20, abs=1) for lab in labs}


def test_turns_are_longer_again_when_others_have_gone():
    labs = [FakeLab(k) for k in range(10)]
    engine = Engine(*labs)
    engine.run(1.0)
    for lab in labs[1:]:
        lab.wakes = inf
    engine.run(2 * RECENT)
    turn = engine.turns.next(engine.now)
    assert turn is not None
    assert turn.seconds == ROUND


def test_a_core_is_left_to_the_server_while_there_is_a_crowd():
    for n in (MANY - 1, MANY):
        engine = Engine(*(FakeLab(k) for k in range(n)))
        engine.run(1.0)
        turn = engine.turns.next(engine.now)
        assert turn is not None
        assert turn.labs == n
        assert turn.crowded == (n >= MANY)


def test_a_lab_gets_its_turn_from_the_moment_at_which_it_is_due():
    lab = FakeLab(1, wakes=100.5)
    engine = Engine(lab)
    assert engine.turns.wakes_at(engine.now) == 100.5
    assert engine.turns.next(100.4) is None
    turn = engine.turns.next(100.5)
    assert turn is not None
    assert turn.share.taker is lab


def test_what_is_waited_for_comes_before_a_lab_that_is_only_ahead():
    shown, ahead = FakeLab(1), FakeLab(2, kind=Urgency.AHEAD)
    engine = Engine(ahead, shown)
    engine.run(2.0)
    assert ahead.turns == 0
    shown.wakes = inf  # its browser is painting: the other lab gets the remaining time
    engine.run(1.0)
    assert ahead.used == pytest.approx(1.0, abs=2 * ROUND)


def test_what_is_due_comes_to_an_end_where_nothing_is_left_over():
    labs = [FakeLab(k, cost=0.002) for k in range(10)]
    recording, measuring = (FakeLab(10 + k, cost=0.004, kind=Urgency.DUE) for k in range(2))
    Engine(*labs, recording, measuring).run(20.0)
    assert recording.used + measuring.used == pytest.approx(BETWEEN * 20.0, rel=0.05)
    assert recording.used == pytest.approx(measuring.used, rel=0.05)
    assert [lab.used for lab in labs] == pytest.approx([(1 - BETWEEN) * 2.0] * 10, rel=0.05)


@pytest.mark.parametrize("alone", ["shown", "recording"])
def test_who_had_the_engine_alone_owes_nothing_and_is_owed_nothing(alone):
    shown, recording = FakeLab(1, cost=0.002), FakeLab(2, cost=0.004, kind=Urgency.DUE)
    engine = Engine(shown, recording)
    absent = recording if alone == "shown" else shown
    absent.wakes = inf
    engine.run(100.0)
    absent.wakes, before = 0.0, recording.used
    engine.run(5.0)
    assert recording.used - before == pytest.approx(BETWEEN * 5.0, abs=0.02)


def test_what_is_due_and_who_is_ahead_share_what_is_left():
    due, ahead = FakeLab(1, cost=0.004, kind=Urgency.DUE), FakeLab(2, cost=0.008, kind=Urgency.AHEAD)
    Engine(due, ahead).run(10.0)
    assert due.used == pytest.approx(ahead.used, rel=0.03)


def test_a_pause_gives_no_claim_to_the_time_that_went_by():
    early, late = FakeLab(1, cost=0.001), FakeLab(2, cost=0.001, wakes=inf)
    engine = Engine(early, late)
    engine.run(50.0)
    late.wakes = 0.0
    engine.order.clear()
    engine.run(1.0)
    assert engine.order[0] is late
    assert late.used == pytest.approx(0.5, abs=CLAIM)
    new = FakeLab(3, cost=0.001)
    engine.turns.join(new)
    engine.run(3.0)
    assert new.used == pytest.approx(1.0, abs=2 * CLAIM)


def test_a_machine_that_slept_in_a_turn_costs_its_lab_no_more_than_a_long_turn():
    unlucky, other = FakeLab(1, cost=3600.0), FakeLab(2, cost=0.001)
    engine = Engine(unlucky, other)
    engine.run(1.0)
    unlucky.cost = 0.001
    engine.run(2 * LONGEST + 1.0)
    assert unlucky.turns > 100


def test_who_leaves_has_no_further_turn_and_nobody_has_one_when_nobody_has_work():
    one, other = FakeLab(1), FakeLab(2, wakes=inf)
    engine = Engine(one, other)
    engine.run(0.5)
    engine.turns.leave(one)
    assert engine.turns.next(engine.now) is None
    assert engine.turns.wakes_at(engine.now) == inf
    other.wakes = engine.now + 3.0
    assert engine.turns.wakes_at(engine.now) == other.wakes
    assert engine.turns.next(engine.now) is None
