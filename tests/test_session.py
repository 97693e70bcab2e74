"""What a tab does with a refusal: it puts back what was refused, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app import session as module
from compute.engine import Refused
from tests.engine_faulty import running
from tests.test_session_recording import Tab


@pytest.fixture(scope="module")
def engine():
    yield from running()


@pytest.fixture
def tab(engine, monkeypatch) -> Iterator[Tab]:
    """A tab; self.restored: what its widgets were told."""
    room = SimpleNamespace(engines=SimpleNamespace(get=lambda name: engine))
    monkeypatch.setattr(module, "lobby", lambda: room)
    tab = Tab(level=0.5)
    tab.restored = []
    tab.session.on_values = tab.restored.append
    tab.session.on_frame = lambda number, frame: tab.session.gate.acknowledge(number, 0.0)
    tab.session.ready()
    tab.until(lambda: tab.session.latest)
    yield tab
    tab.session.close()


def refusals(tab: Tab) -> list[Refused]:
    return [event for event in tab.heard if isinstance(event, Refused)]


def shown(tab: Tab) -> float:
    """The level of the newest frame, once all that was asked for is done."""
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
    tab.session.look((9.0, 0.0, 10.0, 1.0), (8, 8))
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
    tab.until(lambda: refusals(tab))
    assert tab.restored == [{"cost": 0.0}]
    assert (tab.session.values["level"], shown(tab)) == (0.25, 0.25)


def test_where_another_engine_cannot_open_the_lab_it_stays(tab):
    tab.session.change(level=0.75)
    tab.session.change(text="huge")  # which names another engine
    tab.until(lambda: refusals(tab))
    assert "GiB" in refusals(tab)[0].text
    assert tab.restored == [{"text": "a"}]
    assert (tab.session.phase, tab.session.values["text"]) == ("paused", "a")
    assert shown(tab) == 0.75
