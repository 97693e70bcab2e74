"""The parts of a page besides a lab's view are filled after the view, and only while the lab is shown."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from app.page.page import Page


class Turns:
    """A document that collects the callbacks for the next iteration of the loop."""

    def __init__(self):
        self.waiting = []

    def add_next_tick_callback(self, callback):
        self.waiting.append(callback)

    def turn(self):
        """Run the callbacks added before this call."""
        now, self.waiting = self.waiting, []
        for callback in now:
            callback()


def lab(name):
    """Return a lab's class with the attributes that a tab reads."""
    return SimpleNamespace(LAB=name, TITLE=name.upper())


@pytest.fixture
def page():
    page = object.__new__(Page)
    page.document, page.current, page._choosing = Turns(), "a tab", False
    page._meant = []
    page._build = page.document.add_next_tick_callback
    page._bars = [SimpleNamespace(objects=[], visible=True), SimpleNamespace(objects=[], visible=True)]
    page._main = SimpleNamespace(objects=[], visible=True)
    page._opening = SimpleNamespace(object="", visible=False)
    return page


def test_a_tab_that_is_left_meanwhile_fills_no_bar(page):
    page._fill("a tab", 0, ["controls"])
    page._fill("another", 1, ["readout"])
    assert [bar.objects for bar in page._bars] == [["controls"], []]


@pytest.mark.parametrize("active", [None, -1, 2, 10**30])
def test_a_tab_that_there_is_not_is_refused_in_words(page, caplog, active):
    """Found by a fuzz of messages: a browser may send any number; -1 used to select the last tab."""
    shown, chosen = SimpleNamespace(drawn=True), []
    page.labs, page.lab_tabs = (lab("a"), lab("b")), {"a": shown}
    page.current, page.tabs, page._choose = shown, SimpleNamespace(active=active), chosen.append
    page._choose_soon()
    page._waiting = True
    page._choose_now()
    page.document.turn()
    assert chosen == []
    assert not page._waiting
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == [
        f"tab must be from 0 to 1, not {active}"
    ] * 2
    page.tabs.active = 1
    page._choose_soon()
    assert chosen == []
    page.document.turn()
    assert chosen == [1]


def test_a_key_is_meant_for_the_lab_that_was_chosen_before_it(page):
    """The lab is built later; a key pressed before that is queued."""
    done = []
    page.labs, page.lab_tabs = (
        (lab("a"), lab("b")),
        {"a": SimpleNamespace(drawn=True)},
    )
    page.current, page.tabs, page._choose = page.lab_tabs["a"], SimpleNamespace(active=1), done.append
    page.stories = SimpleNamespace(keys={})
    page._keys, page._cards = {"h": lambda: done.append("h")}, {}
    page.browser = SimpleNamespace(card="", presenter=False)
    page._choose_soon()
    page._pressed("h")
    assert done == []
    page.document.turn()
    page.document.turn()
    assert done == [1, "h"]


def test_a_tab_that_is_chosen_before_the_page_has_a_lab_is_shown_once_it_has_one(page):
    chosen, opened = [], SimpleNamespace(drawn=True)
    page.labs, page.lab_tabs = (lab("a"), lab("b")), {"a": opened}
    page.current, page.tabs, page._choose = None, SimpleNamespace(active=1), chosen.append
    page._problems, page._open = [], lambda: setattr(page, "current", opened)
    page._choose_soon()
    page._begin()
    page.document.turn()
    assert chosen == [1]


def test_a_wait_for_a_tab_that_is_left_before_it_was_drawn_ends_with_it(page):
    """Back opens another lab while a click on a third one is pending: that click is dropped, and the next one works."""

    def opened(name):
        bars = {"controls": SimpleNamespace(panel=None), "readout": SimpleNamespace(panel=[])}
        session = SimpleNamespace(lab=lab(name))
        return SimpleNamespace(
            drawn=name == "a", session=session, main=[], questions=[], look=list, address=SimpleNamespace(), **bars
        )  # fmt: skip

    tabs = {name: opened(name) for name in "ab"}
    timers, chosen = [], []
    page.document.add_timeout_callback = lambda callback, milliseconds: timers.append(callback)
    page.labs, page.lab_tabs = [lab(name) for name in "abc"], dict(tabs)
    page.current, page._waiting, page.tabs, page._choose = tabs["b"], False, SimpleNamespace(active=2), chosen.append
    page._fit = page._list_keys = lambda *tab: None
    page._main, page.bar = (
        SimpleNamespace(objects=[], visible=True),
        SimpleNamespace(follow=lambda tab: None, refresh=None),
    )
    page.visible, page.export, page.code = [], SimpleNamespace(show=id), SimpleNamespace(show=id)
    page._choose_soon()
    assert page._waiting
    page._put(tabs["a"])
    for timer in timers:
        timer()
    page._choose_soon()
    while page.document.waiting:
        page.document.turn()
    assert chosen == [2]
    again = opened("b")  # the previous tab of that lab was closed
    page._put(again)
    page._choose_soon()
    assert page._waiting
    page._stop_waiting(again)
    while page.document.waiting:
        page.document.turn()
    assert chosen == [2, 2]


def test_the_last_lab_is_hidden_while_another_is_built_and_shown_again_where_it_stays(page):
    shown = SimpleNamespace(drawn=True)
    page.labs = (lab("a"), lab("b <i>"))
    page.lab_tabs, page.current, page.tabs = {"a": shown}, shown, SimpleNamespace(active=1)
    page._choose = lambda index: pytest.fail("another tab was chosen meanwhile")
    parts = page._main, *page._bars
    page._choose_soon()
    assert [part.visible for part in parts] == [False] * 3
    assert page._opening.visible
    assert "Opening B &lt;I&gt; …" in page._opening.object
    page.tabs.active = 0
    page.document.turn()
    assert [part.visible for part in parts] == [True] * 3
    assert not page._opening.visible


def test_a_lab_that_is_there_already_is_shown_without_a_word(page):
    there = {name: SimpleNamespace(drawn=True) for name in "ab"}
    page.labs = (lab("a"), lab("b"))
    page.lab_tabs, page.current, page.tabs = there, there["a"], SimpleNamespace(active=1)
    page._choose = lambda index: None
    page._choose_soon()
    assert page._main.visible
    assert not page._opening.visible
