"""What a page shows of a lab beside its view comes in turns of the loop of its own, and only while it is shown."""

from __future__ import annotations

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
