"""The session's state machine under random sequences of user actions and engine faults.

After each sequence, when all work is done, the page's texts, the widgets, the session's values and the running lab must
agree, and nothing may be lost except the states that an engine had not saved before it died.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from app.tab import engine_faults as faults
from app.tab import session as module
from app.tab.session import Session
from app.tab.session_states import Broken, Live
from compute.engine import messages
from tests.compute.engine.faulty import Faulty
from tests.fake_engine import Engines, FakeLab

NAMES = ("host", "cuda:0", "cuda:1")
EXAMPLES = int(os.environ.get("FIELDLAB_EXAMPLES", "200"))  # number of random sequences; 2000 for a thorough run


class Elsewhere(Session):
    """A session on the engine that the value `text` names; "" is the host."""

    WHERE = ("text",)

    @staticmethod
    def engine_for(values: Any) -> str:
        return values["text"] or "host"


class Tab:
    """A page around a session: its loop, its widgets, its browser, and the events that it received."""

    def __init__(self, names: tuple[str, ...] = NAMES, **values: Any) -> None:
        self.engines = Engines(*names)
        self.jobs: deque[Callable[[], object]] = deque()
        self.told: list[Any] = []
        self.unconfirmed: deque[int] = deque()
        self.most_owed = self.snapshots = 0
        document: Any = SimpleNamespace(add_next_tick_callback=self.jobs.append)
        limiter = SimpleNamespace(engines=self.engines)
        self.restore = pytest.MonkeyPatch()
        self.restore.setattr(module, "session_limiter", lambda: limiter)
        self.restore.setattr(faults, "host_values", lambda lab, values: {"text": ""})
        self.session = Elsewhere(Faulty, document, {"backend": "cpu_numpy", **values})
        self.session.gate._clock = lambda: 0.0  # no delay, so that the window is 1
        self.widgets = dict(self.session.values)
        self.session.value_changes.subscribe(self.widgets.update)
        self.session.events.subscribe(self.told.append)
        self.session.frames.subscribe(lambda frame: self.unconfirmed.append(frame.number))
        self.session.show_in(SimpleNamespace(skip=self.unconfirmed.append, lock_free=False))
        self.session.start()
        self.session.ready()

    def close(self) -> None:
        self.session.close()
        self.restore.undo()

    # -- progress

    def loop(self, n: int = 1) -> None:
        """Run `n` callbacks of the document's loop."""
        for _ in range(n):
            if self.jobs:
                self.jobs.popleft()()

    def paint(self) -> None:
        """Let the browser confirm one frame."""
        if self.unconfirmed:
            self.session.gate.acknowledge(self.unconfirmed.popleft(), 0.001)

    def rest(self, turns: int = 80) -> None:
        """Run engines, loop and browser until all are idle, or for `turns` turns."""
        for _ in range(turns):
            busy = self.engines.turn() or bool(self.jobs or self.unconfirmed)
            self.loop(3)
            self.paint()
            self.count()
            if not busy:
                break
        while self.jobs:
            self.loop()

    def count(self) -> None:
        """Update the greatest number of frames owed to the browser: in flight, waiting, or still to be made."""
        gate, lab = self.session.gate, self.session.shown.handle
        waiting = gate._unsent is not None
        self.most_owed = max(self.most_owed, gate.under_way + waiting + lab.through - lab.frames)

    @property
    def lab(self) -> FakeLab | None:
        """Return the only open lab; None for none, or for more than one."""
        labs = [lab for lab in self.engines.labs if not lab.closed]
        return labs[0] if len(labs) == 1 else None

    def change(self, **values: Any) -> None:
        self.widgets |= values
        self.session.change(**values)


class Machine(RuleBasedStateMachine):
    """A user, a browser and three engines, in any order."""

    @initialize(where=st.sampled_from(["", "cuda:0"]), playing=st.booleans())
    def begin(self, where: str, playing: bool) -> None:
        self.tab = Tab(text=where)
        self.marks: set[int] = set()
        self.asked = 0
        self.tab.session.play(playing)

    def teardown(self) -> None:
        if hasattr(self, "tab"):
            self.settle()
            self.agree()
            self.tab.close()

    # -- the user

    @rule(level=st.sampled_from([0.1, 0.25, 0.75, 9.0]))
    def changes_a_value(self, level: float) -> None:
        self.tab.change(level=level)

    @rule(where=st.sampled_from(["", "cuda:0", "cuda:1"]), level=st.sampled_from([None, None, 0.3, 9.0]))
    def chooses_an_engine(self, where: str, level: float | None) -> None:
        self.tab.change(text=where, **({} if level is None else {"level": level}))

    @rule()
    def paints(self) -> None:
        self.marks.add(len(self.marks))
        self.tab.session.act("paint", mark=len(self.marks) - 1)

    @rule(playing=st.booleans())
    def plays(self, playing: bool) -> None:
        self.tab.session.play(playing)

    @rule()
    def steps(self) -> None:
        self.tab.session.step()

    @rule(steps=st.sampled_from([None, 1, 5]))
    def sets_the_pace(self, steps: int | None) -> None:
        self.tab.session.pace(steps)

    @rule(edge=st.integers(1, 4))
    def looks(self, edge: int) -> None:
        self.tab.session.set_view((0.0, 0.0, float(edge), 1.0), (8, 8))

    @rule()
    def asks_for_a_snapshot(self) -> None:
        self.asked += 1
        self.tab.session.request_snapshot()

    @rule(shown=st.booleans())
    def shows_another_tab(self, shown: bool) -> None:
        self.tab.session.show(shown)

    @precondition(lambda self: not self.tab.session.recording)
    @rule()
    def records(self) -> None:
        self.tab.session.record("film", 3, (8, 8), 100)

    @rule()
    def stops_the_recording(self) -> None:
        self.tab.session.stop_recording()

    # -- progress

    @rule(turns=st.integers(1, 12))
    def engines_work(self, turns: int) -> None:
        for _ in range(turns):
            self.tab.engines.turn()

    @rule(turns=st.integers(1, 12))
    def the_loop_runs(self, turns: int) -> None:
        self.tab.loop(turns)

    @rule()
    def the_browser_paints(self) -> None:
        self.tab.paint()
        self.tab.count()

    @rule()
    def all_goes_on(self) -> None:
        self.tab.rest(20)

    @rule()
    def checkpoints_are_kept(self) -> None:
        for engine in self.tab.engines.by_name.values():
            engine.keep()

    # -- faults

    @rule(name=st.sampled_from(NAMES))
    def an_engine_dies(self, name: str) -> None:
        self.tab.engines.get(name).die()

    @rule(name=st.sampled_from(NAMES))
    def an_engine_gives_up(self, name: str) -> None:
        self.tab.engines.get(name).give_up()

    @rule(name=st.sampled_from(NAMES[1:]))
    def an_engine_refuses_the_next_lab(self, name: str) -> None:
        self.tab.engines.get(name).refusals = ["no room"]

    @rule(name=st.sampled_from(NAMES))
    def an_engine_has_no_memory_for_a_copy(self, name: str) -> None:
        self.tab.engines.get(name).no_memory = True

    # -- after the sequence

    def settle(self) -> None:
        """Show the page again, press Run for broken engines, and run all work to its end."""
        tab = self.tab
        tab.rest()
        for engine in tab.engines.by_name.values():
            engine.refusals, engine.no_memory = [], False
        tab.session.show(True)
        tab.rest()
        for _ in range(3):  # one engine after the other
            if not isinstance(tab.session.state, Broken):
                break
            assert not tab.session.playing
            assert tab.session.phase == "broken"
            tab.session.play(True)
            tab.rest()

    def agree(self) -> None:
        """Assert that page, values and the running lab agree, and that no action is lost."""
        tab, session = self.tab, self.tab.session
        assert isinstance(session.state, Live), session.state
        assert session.phase == ("running" if session.playing else "paused")
        lab = tab.lab
        assert lab is not None, tab.engines.labs
        assert lab.engine.name == session.engine == session.shown.engine
        assert lab.running == session.playing
        assert lab.updates == []
        assert {name: session.values[name] for name in ("text", "level")} == {
            name: lab.values_now[name] for name in ("text", "level")
        }
        assert tab.widgets == dict(session.values)
        assert (lab.steps, lab.view) == (session.steps_per_frame, (session.view, session.shown.pixels))
        engines = tab.engines.by_name.values()
        lost = set().union(*(engine.lost for engine in engines))
        refused = [mark for engine in engines for mark in engine.refused]
        refusals = [event.text for event in tab.told if isinstance(event, messages.Refused)]
        nobody = [text for text in refusals if "the lab is not open" in text]
        assert len(self.marks - set(lab.marks) - lost - set(refused)) <= len(nobody)
        assert len(refusals) >= len(refused) + len(nobody)
        assert sorted(set(lab.marks)) == sorted(lab.marks)
        assert session.latest is not None
        if not session.playing:
            assert session.latest.facts["count"] == lab.count
        answers = [event for event in tab.told if isinstance(event, messages.SnapshotTaken)]
        refused = [event for event in tab.told if isinstance(event, messages.Refused)]
        silent = [event for event in refused if event.request is messages.TakeSnapshot]
        assert len(answers) + len(silent) >= self.asked
        assert session.shown.snapshots.pending == 0
        assert (lab.recording is not None) == session.recording
        assert tab.most_owed <= session.gate.window + 1


@pytest.mark.parametrize("examples", [EXAMPLES])
def test_page_values_and_what_computes_agree_after_any_sequence(examples: int) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, database=None,
            suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
        ),
    )  # fmt: skip


def test_a_lab_that_nobody_looks_at_rests_and_goes_on_where_it_was():
    tab = Tab()
    tab.rest(10)
    tab.session.play(True)
    assert tab.lab.running
    tab.session.show(False)
    tab.session.play(True)  # by a key pressed before
    assert not tab.lab.running
    tab.session.show(True)
    assert tab.lab.running
    tab.close()
