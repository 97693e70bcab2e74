"""A tab's reaction to a refusal: it restores the refused values, and no others."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.server.session import ServerSession
from tornado.ioloop import IOLoop

from app.tab import engine_faults as faults
from app.tab import session as module
from app.tab.engine_faults import host_values
from app.tab.session import Session
from app.tab.session_states import FellBack
from compute.engine import (
    EngineBroken,
    EngineRestarted,
    FrameReady,
    LabFailed,
    Refused,
    SnapshotTaken,
    Supervisor,
    process,
)
from compute.engine.messages import Busy, TakeSnapshot
from compute.engine.shared_memory import NoSharedMemory
from compute.labs.diffusion import Diffusion
from tests.app.tab.test_tab_recording import Tab
from tests.compute.engine.faulty import running


@pytest.fixture(scope="module")
def engine():
    yield from running()


def live_tab(get, monkeypatch) -> Iterator[Tab]:
    """Yield a tab that has shown a frame, on engines from `get`; its `restored` lists the values set in widgets."""
    limiter = SimpleNamespace(engines=SimpleNamespace(get=get))
    monkeypatch.setattr(module, "session_limiter", lambda: limiter)
    tab = Tab(level=0.5)
    tab.restored = []
    tab.session.value_changes.subscribe(tab.restored.append)
    tab.session.frames.subscribe(lambda frame: tab.session.gate.acknowledge(frame.number, 0.0))
    tab.session.ready()
    tab.until(lambda: tab.session.latest)
    yield tab
    tab.session.close()


@pytest.fixture
def tab(engine, monkeypatch) -> Iterator[Tab]:
    yield from live_tab(lambda name: engine, monkeypatch)


@pytest.fixture(scope="module")
def two() -> Iterator[dict[str, Supervisor]]:
    lives = {name: running(name) for name in ("host:a", "host:b")}
    yield {name: next(life) for name, life in lives.items()}
    for life in lives.values():
        next(life, None)


@pytest.fixture
def tab_on_two(two, monkeypatch) -> Iterator[Tab]:
    """Yield a tab with two engines, selected by its value `text`."""
    yield from live_tab(two.__getitem__, monkeypatch)


def refusals(tab: Tab) -> list[Refused]:
    return [event for event in tab.heard if isinstance(event, Refused)]


def shown(tab: Tab) -> float:
    """Return the level of the latest frame, after all requests are answered."""
    tab.session.change(cost=tab.session.values["cost"] + 1e-9)
    tab.until(lambda: tab.session.answered)
    return tab.session.latest.facts["level"]


def test_a_refused_change_is_put_back(tab):
    tab.session.change(level=0.75)
    assert shown(tab) == 0.75
    tab.session.change(level=9.0)
    tab.until(lambda: refusals(tab))
    assert "level" in refusals(tab)[0].text
    assert tab.restored == [{"level": 0.75}]
    assert (tab.session.values["level"], shown(tab)) == (0.75, 0.75)


def test_a_refused_action_or_view_puts_nothing_back(tab):
    tab.session.change(level=0.75)
    tab.session.act("fail")
    tab.until(lambda: refusals(tab))
    tab.session.set_view((9.0, 0.0, 10.0, 1.0), (8, 8))
    tab.until(lambda: len(refusals(tab)) == 2)
    assert (tab.restored, tab.session.values["level"], shown(tab)) == ([], 0.75, 0.75)


def test_what_was_changed_since_stays(tab):
    tab.session.change(level=9.0, cost=1e-6)
    tab.session.change(level=0.25)
    tab.until(lambda: refusals(tab))
    assert tab.restored == [{"cost": 0.0, "level": 0.25}]
    assert (tab.session.values["level"], shown(tab)) == (0.25, 0.25)


def test_an_earlier_change_is_put_back_after_a_later_one(tab):
    tab.session.change(cost=-1.0)
    tab.session.change(level=0.25)
    assert tab.session.values["cost"] == -1.0
    assert tab.session.confirmed["cost"] == 0.0
    tab.until(lambda: refusals(tab))
    assert tab.restored == [{"cost": 0.0}]
    assert (tab.session.values["level"], shown(tab)) == (0.25, 0.25)
    assert tab.session.confirmed["level"] == 0.25


def test_confirmed_values_are_another_object_once_one_of_them_changes(tab):
    """The live comparison detects changes by identity: with a single object it kept timing the first values."""
    before = tab.session.confirmed
    assert tab.session.confirmed is before
    tab.session.change(level=0.25)
    tab.until(lambda: tab.session.confirmed["level"] == 0.25)
    assert tab.session.confirmed is not before


def test_where_another_engine_cannot_open_the_lab_it_stays(tab):
    tab.session.change(level=0.75)
    tab.session.change(text="huge")  # which selects another engine
    tab.until(lambda: refusals(tab))
    assert "GiB" in refusals(tab)[0].text
    assert tab.restored == [{"text": "a"}]
    assert (tab.session.phase, tab.session.values["text"]) == ("paused", "a")
    assert shown(tab) == 0.75


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "no descriptor is left"), NoSharedMemory("no memory is left")])
def test_a_move_for_which_no_descriptor_or_memory_is_left_is_taken_back(tab_on_two, two, monkeypatch, error):
    tab = tab_on_two
    opened = Supervisor.open

    def refuse(engine, *about, **more):
        if engine is two["host:b"]:
            raise error
        return opened(engine, *about, **more)

    monkeypatch.setattr(Supervisor, "open", refuse)
    tab.session.change(text="b")
    tab.until(lambda: refusals(tab))
    assert f"the lab stays on host:a: {error}" in refusals(tab)[0].text
    assert tab.restored == [{"text": "a"}]
    assert (tab.session.phase, tab.session.values["text"]) == ("paused", "a")
    assert shown(tab) == 0.5


def test_a_step_asked_for_during_a_move_does_not_end_the_run_asked_for_after_it(tab_on_two):
    tab = tab_on_two
    tab.session.change(text="b")
    tab.session.step()
    tab.session.play(True)
    assert tab.session.phase == "moving"
    tab.until(lambda: tab.session.phase == "running")
    tab.until(lambda: tab.session.latest.facts["step"] > 20)


@pytest.mark.parametrize("before", [True, False])
def test_what_took_long_is_over_once_a_frame_has_come(tab, before):
    """Even if its text reaches the page after that frame, which needs no lock of the document."""
    session = tab.session
    words, frame = Busy("compiling"), replace(session.latest, number=session.gate.newest + 1)
    events = [words, FrameReady(frame)]
    for event in events if before else reversed(events):
        session._receive(session.shown.key, event)
    if before:
        session.gate._flush()  # as on the fast path, before the callbacks that wait for the lock
    while tab.jobs:
        tab.jobs.popleft()()
    assert session.busy == ("" if before else "compiling")


def snapshot(tab: Tab) -> dict[str, object]:
    before = len([event for event in tab.heard if isinstance(event, SnapshotTaken)])
    tab.session.request_snapshot()
    answers: list[SnapshotTaken] = []

    def answered() -> bool:
        answers[:] = [event for event in tab.heard if isinstance(event, SnapshotTaken)]
        return len(answers) > before

    tab.until(answered)
    return dict(answers[-1].snapshot)


def test_a_state_of_another_size_is_restored_on_another_engine(two, tab_on_two):
    """As from a link made on a GPU: the state is restored after the move and the new size, never in the old lab."""
    tab = tab_on_two
    tab.session.step()
    tab.until(lambda: tab.session.latest and tab.session.latest.facts["step"] == 1)
    tab.session.change(text="b", size=64, level=0.25)
    tab.session.restore({"field": np.full((64, 64), 7.0), "count": 7})
    assert tab.session.phase == "moving"
    tab.until(lambda: tab.session.phase == "paused" and tab.session.latest.facts["step"] == 7)
    assert refusals(tab) == []
    state = snapshot(tab)
    assert (state["field"].shape, state["count"]) == ((64, 64), 7)
    assert (tab.session.values["text"], tab.session.values["size"], tab.session.values["level"]) == ("b", 64, 0.25)


def test_an_engine_that_gives_up_hands_its_last_state_to_the_host(two, tab_on_two, monkeypatch):
    tab = tab_on_two
    monkeypatch.setattr(faults, "HOST", "host:b")
    monkeypatch.setattr(faults, "host_values", lambda lab, values: {"text": "b"})
    tab.session.step()
    tab.until(lambda: tab.session.shown.handle.last_checkpoint is not None and tab.session.latest.facts["step"] == 1)
    tab.session._react(tab.session.shown.key, EngineBroken("it died four times"))
    assert tab.session.phase == "moving"
    tab.until(lambda: tab.session.phase == "paused")
    assert snapshot(tab)["count"] == 1
    assert (tab.session.values["text"], tab.restored[-1]) == ("b", {"text": "b"})
    assert [event.reason for event in tab.heard if isinstance(event, FellBack)] == ["it died four times"]


def test_who_has_asked_the_host_s_engine_for_a_state_hears_that_it_has_given_up(two, tab_on_two, monkeypatch):
    tab = tab_on_two
    monkeypatch.setattr(faults, "HOST", "host:a")
    monkeypatch.setattr(tab.session.shown.handle, "snapshot", lambda: None)  # as an engine that does not answer
    tab.session.request_snapshot()
    tab.session._react(tab.session.shown.key, EngineBroken("it died four times"))
    assert tab.session.phase == "broken"
    assert [(event.request, event.text) for event in refusals(tab)] == [
        (TakeSnapshot, "the engine stopped: it died four times")
    ]


@pytest.fixture
def hardly_waiting(engine, monkeypatch):
    """Shorten the pauses before labs are opened again after a failure, and make the tab's engine the host's."""
    engine._breaker.reset()
    monkeypatch.setattr(process, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(process, "MOST_PAUSE", 0.05)
    monkeypatch.setattr(faults, "HOST", "host:a")


@pytest.mark.usefixtures("hardly_waiting")
def test_a_lab_that_failed_is_opened_again_by_run_at_last_with_the_default_values(tab):
    """The present values kill its engine, so the third Run must start without them."""
    session = tab.session
    session.change(level=0.75, trap="crash")
    for failures in (1, 2):
        session.play(True)
        tab.until(lambda failures=failures: len([e for e in tab.heard if isinstance(e, LabFailed)]) == failures)
        assert session.phase == "failed"
        assert not session.playing
        assert "failed twice while it worked for this lab" in session.detail
        assert "Press Run" in session.detail
        assert session.values["trap"] == "crash"
        session.act("spoil")
        assert "the lab is not open" in refusals(tab)[-1].text
    session.play(True)
    assert tab.restored[-1].items() >= {"level": 0.5, "trap": ""}.items()
    tab.until(lambda: session.phase == "running" and session.latest.facts["step"] > 3)
    assert (session.values["trap"], session.latest.facts["level"]) == ("", 0.5)
    assert not [event for event in tab.heard if isinstance(event, EngineBroken)]


@pytest.mark.usefixtures("hardly_waiting")
def test_a_lab_that_failed_runs_with_the_value_that_was_changed_since(tab):
    session = tab.session
    session.change(level=0.75, trap="crash")
    session.play(True)
    tab.until(lambda: session.phase == "failed")
    session.change(trap="")
    session.play(True)
    tab.until(lambda: session.phase == "running" and session.latest.facts["level"] == 0.75)


def test_a_lab_that_failed_on_another_engine_goes_on_on_the_host_from_its_last_state(two, tab_on_two, monkeypatch):
    """Another crash is not part of the values, so the lab continues there."""
    tab, session = tab_on_two, tab_on_two.session
    monkeypatch.setattr(faults, "HOST", "host:b")
    monkeypatch.setattr(faults, "host_values", lambda lab, values: {"text": "b"})
    session.step()
    tab.until(lambda: session.shown.handle.last_checkpoint is not None and session.latest.facts["step"] == 1)
    session.act("crash")
    tab.until(lambda: [event for event in tab.heard if isinstance(event, EngineRestarted)])
    session.act("crash")
    tab.until(lambda: [event for event in tab.heard if isinstance(event, FellBack)])
    tab.until(lambda: session.phase == "paused" and session.shown.engine == "host:b")
    assert snapshot(tab)["count"] == 1
    (told,) = [event.reason for event in tab.heard if isinstance(event, FellBack)]
    assert "failed twice while it worked for this lab" in told


def test_values_that_the_host_takes():
    """For a GPU's kernel that the host's backends lack."""
    values = {"backend": "gpu_cupy", "variant": "temporal blocking"}
    assert host_values(Diffusion, values) == {"backend": "cpu_numba", "variant": ""}
    assert host_values(Diffusion, {"backend": "gpu_cupy", "variant": ""}) == {"backend": "cpu_numba"}


def test_what_an_engine_says_while_the_document_is_let_go_is_not_lost():
    """Bokeh adds a callback to the list of held events from any thread, and drops that list when it is released."""

    class Held:
        """A held event; a thread that tries to combine it with a new event blocks."""

        callback_invoker = None

        def combine(self, event):
            looked.set()
            assert threading.current_thread() is threading.main_thread() or go_on.wait(60)
            return False

        def dispatch(self, receiver):
            """Ignore the event."""

    looked, go_on = threading.Event(), threading.Event()

    def until_it_waits(engine):
        while engine.is_alive() and not looked.is_set():
            time.sleep(0.001)

    async def main():
        document, called = Document(), []
        session, served = Session(Diffusion, document), ServerSession("id", document, io_loop=IOLoop.current())
        document.hold("combine")
        document.callbacks._held_events.append(Held())
        engine = threading.Thread(target=session.later, args=[lambda: called.append("engine")])
        engine.start()
        until_it_waits(engine)  # without running the loop
        document.unhold()
        go_on.set()
        engine.join(60)
        for _ in range(1000):
            await asyncio.sleep(0.01 * (not called))
        served.destroy()
        return called

    assert asyncio.run(main()) == ["engine"]
