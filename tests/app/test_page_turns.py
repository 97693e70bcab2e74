"""What a page shows of a lab beside its view comes in turns of the loop of its own, and only while it is shown."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from app.page import Page


class Turns:
    """A document that notes what is to be done in the next turn of the loop."""

    def __init__(self):
        self.waiting = []

    def add_next_tick_callback(self, callback):
        self.waiting.append(callback)

    def turn(self):
        """Do what was noted before this turn."""
        now, self.waiting = self.waiting, []
        for callback in now:
            callback()


@pytest.fixture
def page():
    page = object.__new__(Page)
    page.document, page.current = Turns(), "a tab"
    page._bars = [SimpleNamespace(objects=[]), SimpleNamespace(objects=[])]
    return page


def test_each_call_has_a_turn_of_its_own(page):
    done = []
    page._one_by_one([lambda: done.append(1), lambda: done.append(2)])
    assert done == []
    for expected in ([1], [1, 2], [1, 2]):
        page.document.turn()
        assert done == expected
    assert page.document.waiting == []


def test_a_tab_that_is_left_meanwhile_fills_no_bar(page):
    page._fill("a tab", 0, ["controls"])
    page._fill("another", 1, ["readout"])
    assert [bar.objects for bar in page._bars] == [["controls"], []]


@pytest.mark.parametrize("active", [None, -1, 2, 10**30])
def test_a_tab_that_there_is_not_is_refused_in_words(page, caplog, active):
    """Found by a fuzz of messages: a browser may send any; -1 was the last one."""
    shown, chosen = SimpleNamespace(drawn=True), []
    page.labs, page.lab_tabs = (SimpleNamespace(LAB="a"), SimpleNamespace(LAB="b")), {"a": shown}
    page.current, page.tabs, page._choose = shown, SimpleNamespace(active=active), chosen.append
    page._choose_soon()
    page._waiting = True
    page._choose_now()
    assert chosen == []
    assert not page._waiting
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == [
        f"tab must be from 0 to 1, not {active}"
    ] * 2
    page.tabs.active = 1
    page._choose_soon()
    assert chosen == [1]
