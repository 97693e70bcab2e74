"""When a page's race begins, on a page that is not there. tests/browser/test_race.py has it in whole."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app import race
from app.race import RaceTrack
from compute.labs.diffusion import Diffusion


@pytest.fixture
def page(monkeypatch):
    """One tab, whose lab cannot race: `page.told` is what was said of it, `page.waiting` what is to come."""

    def refuse(*_given):
        raise ValueError("there is one backend")

    monkeypatch.setattr(race, "default_racers", refuse)
    made = SimpleNamespace(told=[], waiting=[])
    made.document = SimpleNamespace(add_timeout_callback=lambda call, _ms: made.waiting.append(call))
    notices = SimpleNamespace(tell=lambda _kind, text: made.told.append(text))
    made.current = SimpleNamespace(drawn=False, notices=notices, session=SimpleNamespace(values={}, lab=Diffusion))
    return made


def test_a_press_before_the_plots_are_drawn_is_heard_once_they_are(page):
    track = RaceTrack(page)
    track.toggle()
    track.toggle()  # impatient
    assert (page.told, len(page.waiting)) == ([], 1)
    page.waiting.pop()()
    assert (page.told, len(page.waiting)) == ([], 1)  # still not
    page.current.drawn = True
    page.waiting.pop()()
    assert (page.told, page.waiting) == (["No race here: there is one backend."], [])


def test_it_is_forgotten_with_the_tab(page):
    track = RaceTrack(page)
    track.toggle()
    page.current = SimpleNamespace(drawn=True)
    page.waiting.pop()()
    assert (page.told, page.waiting) == ([], [])
