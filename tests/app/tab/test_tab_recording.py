"""A recording in a tab: it follows the lab to another engine, and ends with a message if an engine gives up."""

from __future__ import annotations

import pytest

from app.tab.tab_recording import MOVING
from compute.engine import RecordingProgress, Refused
from compute.engine.messages import STOPPED
from compute.engine.recording_store import RecordingStore
from tests.app.tab.pages import FakePage, LivePage


@pytest.fixture
def page(live_page) -> LivePage:
    return live_page(cost=0.002)


def ends(page: LivePage) -> list[str]:
    """Return the reported ends of recordings."""
    return [news.ended for news in page.of(RecordingProgress) if news.ended]


@pytest.mark.parametrize("level", [0.5, 9.0], ids=["accepted", "refused"])
def test_a_recording_continues_with_the_lab_after_a_move(page, tmp_path, level):
    """No frame is missing or doubled, and no end is reported before the last frame."""
    store, session = RecordingStore(tmp_path / "film"), page.session
    session.record(str(tmp_path / "film"), 7, (8, 8), 150)
    session.play(True)
    page.until(lambda: len(store.numbers()) > 20)
    session.change(text="host:b", level=level)  # the other engine refuses a level of 9
    page.until((lambda: page.of(Refused)) if level > 1 else (lambda: session.phase == "running"))
    assert len(store.numbers()) < 150
    assert (session.recording, session.playing, ends(page)) == (True, True, [])
    page.until(lambda: ends(page))
    assert "the bound of 150 frames" in ends(page)[0]
    assert not session.recording
    shots = [store.get(number) for number in range(150)]
    assert [shot.step for shot in shots] == list(range(0, 1050, 7))
    assert [shot.frame.facts["value"] for shot in shots] == list(range(0, 1050, 7))
    moves = [shot.values["text"] for shot in shots if shot.values.get("text")]
    assert moves == ([] if level > 1 else ["host:b"])


def test_a_recording_can_be_stopped_but_not_started_during_a_move(page, tmp_path):
    page.session.record(str(tmp_path / "film"), 7, (8, 8), 150)
    page.session.play(True)
    page.session.change(text="host:b")
    page.session.stop_recording()
    page.session.record(str(tmp_path / "other"), 7, (8, 8), 150)
    page.until(lambda: len(ends(page)) == 2)
    assert set(ends(page)) == {STOPPED, MOVING}
    page.until(lambda: page.session.phase == "running")
    assert not page.session.recording


def test_a_recording_ends_with_the_reason_when_the_host_s_engine_gives_up(tmp_path):
    page = FakePage("host")
    page.rest()
    page.session.record(str(tmp_path), 7, (8, 8), 150)
    page.engines.get("host").give_up("the sky fell")
    page.rest()
    page.close()
    assert [news.ended for news in page.of(RecordingProgress)] == ["the engine gave up: the sky fell"]
    assert not page.session.recording


def test_invalid_arguments_start_no_recording(page, tmp_path):
    page.session.record(str(tmp_path / "film"), -7, (8, 8), 10)
    assert not page.session.recording
    assert not (tmp_path / "film").exists()
