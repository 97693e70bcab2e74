"""A recording in a tab: it follows the lab to another engine, and ends with a message if an engine gives up."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.tab import engine_faults as faults
from app.tab import session as module
from app.tab.session import Session
from compute.engine import EngineBroken, RecordingProgress, Refused, Supervisor
from compute.engine.recording_store import RecordingStore
from tests.compute.engine.faulty import Faulty, running


class Moving(Session):
    """A session on the engine that the value `text` names."""

    WHERE = ("text",)

    @staticmethod
    def engine_for(values: Any) -> str:
        return f"host:{values['text']}"


class Tab:
    """A page with a manual document loop."""

    def __init__(self, **values: Any) -> None:
        self.jobs: deque[Callable[[], object]] = deque()
        self.heard: list[Any] = []
        document: Any = SimpleNamespace(add_next_tick_callback=self.jobs.append)
        self.session = Moving(Faulty, document, {"backend": "cpu_numpy", "text": "a", **values})
        self.session.events.subscribe(self.heard.append)
        self.session.start()

    def until(self, good: Callable[[], object]) -> None:
        end = time.monotonic() + 120
        while not good():
            assert time.monotonic() < end, self.heard[-5:]
            if self.jobs:
                self.jobs.popleft()()
            else:
                time.sleep(0.002)

    @property
    def last(self) -> RecordingProgress | None:
        return next((news for news in self.heard if isinstance(news, RecordingProgress) and news.ended), None)


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[str, Supervisor]]:
    a, b = running("host:a"), running("host:b")
    yield {"host:a": next(a), "host:b": next(b)}
    for one in (a, b):
        next(one, None)


@pytest.fixture
def tab(engines, monkeypatch) -> Iterator[Tab]:
    room = SimpleNamespace(engines=SimpleNamespace(get=engines.__getitem__))
    monkeypatch.setattr(module, "session_limiter", lambda: room)
    tab = Tab(cost=0.002)
    yield tab
    tab.session.close()


def test_a_recording_goes_on_where_the_lab_goes(tab, tmp_path):
    folder = tmp_path / "film"
    tape = RecordingStore(folder)
    tab.session.record(str(folder), 7, (8, 8), 400)
    assert tab.session.recording
    tab.session.play(True)
    tab.until(lambda: len(tape.numbers()) > 40)
    tab.session.change(text="b")
    tab.until(lambda: tab.session.phase == "running")
    moved = tab.session.shown.recording._news
    assert moved.frames < 400  # it was interrupted without a message
    assert tab.last is None
    assert tab.session.recording
    tab.until(lambda: tab.last)
    assert "the bound of 400 frames" in tab.last.ended
    assert not tab.session.recording
    taken = [tape.get(number) for number in range(400)]
    assert [shot.step for shot in taken] == list(range(0, 2800, 7))
    assert [shot.frame.facts["value"] for shot in taken] == list(range(0, 2800, 7))
    assert [shot.values.get("text") for shot in taken if shot.values] == ["b"]


def test_a_recording_is_stopped_also_while_the_lab_moves(tab, tmp_path):
    tab.session.record(str(tmp_path / "film"), 7, (8, 8), 150)
    tab.session.play(True)
    tab.session.change(text="b")
    tab.session.stop_recording()
    tab.session.record(str(tmp_path / "other"), 7, (8, 8), 150)
    tab.until(lambda: sum(isinstance(news, RecordingProgress) and bool(news.ended) for news in tab.heard) == 2)
    words = {news.ended for news in tab.heard if isinstance(news, RecordingProgress) and news.ended}
    assert words == {"stopped", "the lab is moving to another engine just now"}
    tab.until(lambda: tab.session.phase == "running")
    assert not tab.session.recording


def test_where_an_engine_gives_up_the_recording_ends_with_words(tab, tmp_path, monkeypatch):
    tab.session.record(str(tmp_path / "film"), 7, (8, 8), 10**6)
    tab.until(lambda: [news for news in tab.heard if isinstance(news, RecordingProgress)])
    tab.session.shown.handle.stop_recording = lambda: None
    monkeypatch.setattr(faults, "HOST", "host:a")  # which can be started again by Run
    tab.session._react(tab.session.shown.key, EngineBroken("the sky fell"))
    tab.until(lambda: tab.last)
    assert tab.last.ended == "the engine gave up: the sky fell"
    assert tab.last.frames == 1
    assert not tab.session.recording


def test_where_the_other_engine_refuses_the_lab_the_recording_goes_on(tab, tmp_path):
    """As without the request: no frame is missing or doubled, and no end is reported."""
    tape = RecordingStore(tmp_path / "film")
    tab.session.record(str(tmp_path / "film"), 7, (8, 8), 150)
    tab.session.play(True)
    tab.until(lambda: len(tape.numbers()) > 20)
    tab.session.change(text="b", level=9.0)  # the other engine refuses the level
    tab.until(lambda: [event for event in tab.heard if isinstance(event, Refused)])
    assert len(tape.numbers()) < 150
    assert tab.session.recording
    assert (tab.session.playing, tab.session.values["text"], tab.session.values["level"]) == (True, "a", 0.5)
    tab.until(lambda: tab.last)
    assert "the bound of 150 frames" in tab.last.ended
    assert [tape.get(number).step for number in range(150)] == list(range(0, 1050, 7))


def test_what_is_refused_is_no_recording(tab, tmp_path):
    tab.session.record(str(tmp_path / "film"), -7, (8, 8), 10)
    assert not tab.session.recording
    assert not Path(tmp_path / "film").exists()
