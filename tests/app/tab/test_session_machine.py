"""The session's state machine under random sequences of user actions and engine faults.

After each sequence, when all work is done, the page's texts, the widgets, the session's values and the running lab must
agree, and nothing may be lost except the states that an engine had not saved before it died.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from app.tab.session_states import Broken, Live
from compute.engine import messages
from tests.app.tab.pages import FakePage

NAMES = ("host", "cuda:0", "cuda:1")
EXAMPLES = int(os.environ.get("FIELDLAB_EXAMPLES", "200"))  # number of random sequences; 2000 for a thorough run


class Machine(RuleBasedStateMachine):
    """A user, a browser and three engines, in any order."""

    @initialize(where=st.sampled_from(["", "cuda:0"]), playing=st.booleans())
    def begin(self, where: str, playing: bool) -> None:
        self.page = FakePage(*NAMES, text=where)
        self.session, self.engines = self.page.session, self.page.engines.by_name
        self.marks: set[int] = set()
        self.snapshots = 0
        self.session.play(playing)

    def teardown(self) -> None:
        if hasattr(self, "page"):
            self.settle()
            self.agree()
            self.page.close()

    # -- the user

    @rule(level=st.sampled_from([0.1, 0.25, 0.75, 9.0]))
    def change_value(self, level: float) -> None:
        self.page.change(level=level)

    @rule(where=st.sampled_from(["", "cuda:0", "cuda:1"]), level=st.sampled_from([None, None, 0.3, 9.0]))
    def choose_engine(self, where: str, level: float | None) -> None:
        self.page.change(text=where, **({} if level is None else {"level": level}))

    @rule()
    def paint(self) -> None:
        self.marks.add(len(self.marks))
        self.session.act("paint", mark=len(self.marks) - 1)

    @rule(playing=st.booleans())
    def play(self, playing: bool) -> None:
        self.session.play(playing)

    @rule()
    def step(self) -> None:
        self.session.step()

    @rule(steps=st.sampled_from([None, 1, 5]))
    def set_pace(self, steps: int | None) -> None:
        self.session.pace(steps)

    @rule(edge=st.integers(1, 4))
    def set_view(self, edge: int) -> None:
        self.session.set_view((0.0, 0.0, float(edge), 1.0), (8, 8))

    @rule()
    def request_snapshot(self) -> None:
        self.snapshots += 1
        self.session.request_snapshot()

    @rule(shown=st.booleans())
    def show_tab(self, shown: bool) -> None:
        self.session.show(shown)

    @precondition(lambda self: not self.session.recording)
    @rule()
    def record(self) -> None:
        self.session.record("film", 3, (8, 8), 100)

    @rule()
    def stop_recording(self) -> None:
        self.session.stop_recording()

    # -- progress

    @rule(turns=st.integers(1, 12))
    def run_engines(self, turns: int) -> None:
        for _ in range(turns):
            self.page.engines.turn()

    @rule(turns=st.integers(1, 12))
    def run_loop(self, turns: int) -> None:
        self.page.loop(turns)

    @rule()
    def confirm_frame(self) -> None:
        self.page.paint()

    @rule()
    def run_all(self) -> None:
        self.page.rest(20)

    @rule()
    def take_checkpoints(self) -> None:
        for engine in self.engines.values():
            engine.keep()

    # -- faults

    @rule(name=st.sampled_from(NAMES))
    def engine_dies(self, name: str) -> None:
        self.engines[name].die()

    @rule(name=st.sampled_from(NAMES))
    def engine_gives_up(self, name: str) -> None:
        self.engines[name].give_up()

    @rule(name=st.sampled_from(NAMES[1:]))
    def engine_refuses_the_next_lab(self, name: str) -> None:
        self.engines[name].refusals = ["no room"]

    @rule(name=st.sampled_from(NAMES))
    def engine_has_no_memory_for_a_checkpoint(self, name: str) -> None:
        self.engines[name].no_memory = True

    # -- after the sequence

    def settle(self) -> None:
        """Show the page again, press Run for broken engines, and run all work to its end."""
        self.page.rest()
        for engine in self.engines.values():
            engine.refusals, engine.no_memory = [], False
        self.session.show(True)
        self.page.rest()
        for _ in range(3):  # one engine after the other
            if not isinstance(self.session.state, Broken):
                break
            assert (self.session.playing, self.session.phase) == (False, "broken")
            self.session.play(True)
            self.page.rest()

    def agree(self) -> None:
        """Assert that page, values and the running lab agree, and that no action is lost."""
        page, session, lab = self.page, self.session, self.page.lab
        assert isinstance(session.state, Live), session.state
        assert session.phase == ("running" if session.playing else "paused")
        assert lab.engine.name == session.engine == session.shown.engine
        assert (lab.running, lab.updates) == (session.playing, {})
        assert page.widgets == dict(session.values)
        assert all(session.values[name] == lab.values_now[name] for name in ("text", "level"))
        assert (lab.steps, lab.view) == (session.steps_per_frame, (session.view, session.shown.pixels))
        assert session.latest is not None
        assert session.playing or session.latest.facts["count"] == lab.count
        assert (lab.recording is not None) == session.recording
        assert page.most_owed <= session.gate.window + 1
        # marks: each is painted once, lost in a crash, or its refusal was reported
        lost = set().union(*(engine.lost for engine in self.engines.values()))
        refused = [mark for engine in self.engines.values() for mark in engine.refused]
        refusals = page.of(messages.Refused)
        closed = [event for event in refusals if "the lab is not open" in event.text]
        assert len(self.marks - set(lab.marks) - lost - set(refused)) <= len(closed)
        assert len(refusals) >= len(refused) + len(closed)
        assert len(set(lab.marks)) == len(lab.marks)
        # snapshots: each request is answered
        unanswered = [event for event in refusals if event.request is messages.TakeSnapshot]
        assert len(page.of(messages.SnapshotTaken)) + len(unanswered) >= self.snapshots
        assert session.shown.snapshots.pending == 0


@pytest.mark.parametrize("examples", [EXAMPLES])
def test_page_values_and_what_computes_agree_after_any_sequence(examples: int) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, database=None,
            suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
        ),
    )  # fmt: skip


def test_a_hidden_lab_rests_and_continues_when_it_is_shown():
    page = FakePage(*NAMES)
    page.rest(10)
    page.session.play(True)
    assert page.lab.running
    page.session.show(False)
    page.session.play(True)  # by a key pressed before
    assert not page.lab.running
    page.session.show(True)
    assert page.lab.running
    page.close()
