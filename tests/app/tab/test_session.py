"""A tab's reaction to refusals, to moves that fail, and to engines and labs that fail."""

from __future__ import annotations

import asyncio
import errno
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.tab.engine_faults import host_values
from app.tab.session import Session
from app.tab.session_states import FellBack
from compute.engine import EngineBroken, EngineRestarted, FrameReady, LabFailed, Refused, Supervisor, process
from compute.engine.messages import Busy, TakeSnapshot
from compute.engine.shared_memory import NoSharedMemory
from compute.lab.frames import Frame
from compute.labs.diffusion import Diffusion
from tests.app.tab.pages import FakePage, LivePage
from tests.fake_engine import TIMING


@pytest.fixture
def page(live_page) -> LivePage:
    """A page that has shown a frame."""
    page = live_page()
    page.until(lambda: page.session.latest)
    return page


@pytest.fixture
def page_elsewhere(live_page) -> LivePage:
    """A page that has computed a step on the second engine, which has a checkpoint of it."""
    page = live_page(text="host:b")
    page.session.step()
    page.until(lambda: page.session.shown.handle.last_checkpoint and page.session.latest.facts["step"] == 1)
    return page


@pytest.fixture
def restored(page) -> list[dict[str, Any]]:
    """The values that the page's widgets are told to show."""
    restored: list[Any] = []
    page.session.value_changes.subscribe(restored.append)
    return restored


def shown_level(page: LivePage) -> float:
    """Return the level of the latest frame, after all requests are answered."""
    page.session.change(cost=page.session.values["cost"] + 1e-9)
    page.until(lambda: page.session.answered)
    return page.session.latest.facts["level"]


def test_a_refusal_restores_its_own_values_and_no_later_ones(page, restored):
    page.session.change(level=9.0, cost=1e-6)
    page.session.change(level=0.25)
    page.until_told(Refused)
    assert restored == [{"cost": 0.0, "level": 0.25}]
    page.session.act("fail")
    page.session.set_view((9.0, 0.0, 10.0, 1.0), (8, 8))
    page.until_told(Refused, 3)
    assert len(restored) == 1
    assert (page.session.values["level"], shown_level(page)) == (0.25, 0.25)


def test_an_earlier_change_is_put_back_after_a_later_one(page, restored):
    page.session.change(cost=-1.0)
    page.session.change(level=0.25)
    assert page.session.values["cost"] == -1.0
    assert page.session.confirmed["cost"] == 0.0
    page.until_told(Refused)
    assert restored == [{"cost": 0.0}]
    assert (page.session.values["level"], shown_level(page)) == (0.25, 0.25)


def test_each_of_several_quick_steps_is_computed(page):
    for _ in range(20):
        page.session.step()
    page.until(lambda: page.session.latest.facts["step"] >= 20)
    assert page.session.latest.facts["step"] == 20


def test_confirmed_values_are_another_object_once_one_of_them_changes(page):
    """The live comparison detects changes by identity."""
    before = page.session.confirmed
    assert page.session.confirmed is before
    page.session.change(level=0.25)
    page.until(lambda: page.session.confirmed["level"] == 0.25)
    assert page.session.confirmed is not before


NO_RESOURCES = [OSError(errno.EMFILE, "no descriptor is left"), NoSharedMemory("no memory is left")]


@pytest.mark.parametrize("error", [None, *NO_RESOURCES], ids=["too large", "no descriptor", "no memory"])
def test_where_another_engine_cannot_open_the_lab_it_stays(page, restored, engines, monkeypatch, error):
    page.session.change(level=0.75)
    opened = Supervisor.open

    def refuse(engine, *args, **options):
        if error and engine is engines["host:b"]:
            raise error
        return opened(engine, *args, **options)

    monkeypatch.setattr(Supervisor, "open", refuse)
    page.session.change(text="huge")  # which selects the other engine
    refusal = page.until_told(Refused).text
    assert refusal.startswith("the lab stays on host: ")
    assert (str(error) if error else "GiB") in refusal
    assert restored == [{"text": ""}]
    assert (page.session.phase, page.session.values["text"]) == ("paused", "")
    assert shown_level(page) == 0.75


def test_a_state_of_another_size_is_restored_on_another_engine(page_elsewhere):
    """As from a link made on a GPU: the state is restored after the move and the new size, never in the old lab."""
    session = page_elsewhere.session
    session.change(text="", size=64, level=0.25)
    session.restore({"field": np.full((64, 64), 7.0), "count": 7})
    assert session.phase == "moving"
    page_elsewhere.until(lambda: session.phase == "paused" and session.latest.facts["step"] == 7)
    assert page_elsewhere.of(Refused) == []
    state = page_elsewhere.snapshot()
    assert (state["field"].shape, state["count"]) == ((64, 64), 7)
    assert (session.values["text"], session.values["size"], session.values["level"]) == ("", 64, 0.25)


@pytest.fixture
def fake_page():
    """A page on simulated engines of the host and of a GPU; its lab runs on the GPU."""
    page = FakePage("host", "cuda:0", text="cuda:0")
    page.rest()
    yield page
    page.close()


@pytest.mark.parametrize("frame_first", [False, True])
def test_a_long_operation_is_over_once_a_later_frame_is_shown(fake_page, frame_first):
    """Frames need no lock of the document, so the text may be handled after a frame that arrived after it."""
    lab = fake_page.lab
    events = [Busy("compiling"), FrameReady(Frame({}, {"count": 0.0, "level": 0.5}, TIMING, lab.frames + 1))]
    for event in reversed(events) if frame_first else events:
        lab.on_event(event)
    if not frame_first:
        fake_page.jobs.reverse()
    fake_page.loop(9)
    assert fake_page.session.busy == ("compiling" if frame_first else "")


def test_a_step_requested_during_a_move_does_not_end_a_run_requested_after_it(fake_page):
    fake_page.session.change(text="")
    fake_page.session.step()
    fake_page.session.play(True)
    assert fake_page.session.phase == "moving"
    fake_page.rest()
    assert fake_page.session.phase == "running"
    assert fake_page.lab.running


def test_an_engine_that_gives_up_hands_its_last_state_to_the_host(fake_page):
    engine = fake_page.engines.get("cuda:0")
    fake_page.session.act("paint", mark=1)
    fake_page.rest()
    engine.keep()
    fake_page.session.act("paint", mark=2)
    fake_page.rest()
    engine.give_up("it died four times")
    fake_page.rest()
    assert (fake_page.lab.engine.name, fake_page.lab.marks) == ("host", [1])
    assert fake_page.session.phase == "paused"
    assert fake_page.session.values["text"] == fake_page.widgets["text"] == ""
    assert [event.reason for event in fake_page.of(FellBack)] == ["it died four times"]


def test_a_snapshot_requested_from_the_host_is_refused_when_its_engine_gives_up():
    page = FakePage("host")
    page.rest()
    page.session.request_snapshot()
    page.engines.get("host").give_up("it died four times")
    page.rest()
    page.close()
    assert [(event.request, event.text) for event in page.of(Refused)] == [
        (TakeSnapshot, "the engine stopped: it died four times")
    ]


@pytest.fixture
def short_pauses(engines, monkeypatch):
    """Shorten the pauses before labs are opened again after a failure."""
    engines["host"]._breaker.reset()
    monkeypatch.setattr(process, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(process, "MOST_PAUSE", 0.05)


@pytest.mark.usefixtures("short_pauses")
def test_a_lab_that_failed_is_opened_again_by_run_at_last_with_the_default_values(page, restored):
    """The present values kill its engine, so the third Run must start without them."""
    session = page.session
    session.change(level=0.75, trap="crash")
    for failures in (1, 2):
        session.play(True)
        page.until_told(LabFailed, failures)
        assert (session.phase, session.playing, session.values["trap"]) == ("failed", False, "crash")
        assert "failed twice while it worked for this lab" in session.detail
        assert "Press Run" in session.detail
        session.act("spoil")
        assert "the lab is not open" in page.of(Refused)[-1].text
    session.play(True)
    assert restored[-1].items() >= {"level": 0.5, "trap": ""}.items()
    page.until(lambda: session.phase == "running" and session.latest.facts["step"] > 3)
    assert (session.values["trap"], session.latest.facts["level"]) == ("", 0.5)
    assert not page.of(EngineBroken)


@pytest.mark.usefixtures("short_pauses")
def test_a_lab_that_failed_runs_with_the_value_that_was_changed_since(page):
    session = page.session
    session.change(level=0.75, trap="crash")
    session.play(True)
    page.until(lambda: session.phase == "failed")
    session.change(trap="")
    session.play(True)
    page.until(lambda: session.phase == "running" and session.latest.facts["level"] == 0.75)


def test_a_lab_that_failed_on_another_engine_continues_on_the_host_from_its_last_state(page_elsewhere, monkeypatch):
    page, session = page_elsewhere, page_elsewhere.session
    monkeypatch.setattr("app.tab.engine_faults.host_values", lambda lab, values: {"text": ""})
    session.act("crash")
    page.until_told(EngineRestarted)
    session.act("crash")
    assert "failed twice while it worked for this lab" in page.until_told(FellBack).reason
    page.until(lambda: session.phase == "paused" and session.shown.engine == "host")
    assert page.snapshot()["count"] == 1


def test_values_that_the_host_takes():
    """For a GPU's kernel that the host's backends lack."""
    values = {"backend": "gpu_cupy", "variant": "temporal blocking"}
    assert host_values(Diffusion, values) == {"backend": "cpu_numba", "variant": ""}
    assert host_values(Diffusion, {"backend": "gpu_cupy", "variant": ""}) == {"backend": "cpu_numba"}


def test_an_engine_s_callback_is_added_to_the_document_by_the_loop():
    """Bokeh loses a callback that another thread adds while it releases the document's lock."""
    threads = []

    async def main():
        added = asyncio.Event()

        def add_next_tick_callback(callback):
            threads.append(threading.current_thread())
            added.set()

        session = Session(Diffusion, SimpleNamespace(add_next_tick_callback=add_next_tick_callback))
        await asyncio.to_thread(session.later, print)
        await asyncio.wait_for(added.wait(), 60)

    asyncio.run(main())
    assert threads == [threading.main_thread()]
