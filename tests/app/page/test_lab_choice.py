"""Labs are built one after the other when they are chosen; one that cannot be built leaves the page usable."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import panel_material_ui as pmui
import pytest

from app.page.lab_choice import LabChoice
from app.page.markup import plain
from app.tab.publisher import Publisher

WORDS = "no <b>plot</b> :material/home: here"


class Turns:
    """A document that collects the callbacks for the next iteration of the loop; `timers` collects the later ones."""

    def __init__(self):
        self.waiting, self.timers = [], []

    def add_next_tick_callback(self, callback):
        self.waiting.append(callback)

    def add_timeout_callback(self, callback, milliseconds):
        self.timers.append(callback)

    def turn(self):
        """Run all callbacks, including those that they add."""
        while self.waiting:
            self.waiting.pop(0)()


class Place:
    """A page that records what its main area and bars show."""

    def __init__(self):
        self.tabs = SimpleNamespace(active=0)
        self.main, self.bars, self.veiled = None, {}, ""

    def show(self, main):
        self.main, self.bars, self.veiled = main, {}, ""

    def fill(self, bar, components):
        self.bars[bar] = components

    def veil(self, title):
        self.veiled = title

    def unveil(self):
        self.veiled = ""


class FakeTab:
    """An open lab. drawn: whether the browser has drawn it at once."""

    def __init__(self, lab, drawn=True):
        self.session, self.drawn, self.started = SimpleNamespace(lab=lab), drawn, False
        self.first_drawn = Publisher()
        self.told, self.entered, self.shown = [], [], []
        self.notices = SimpleNamespace(tell=lambda kind, text: self.told.append((kind, text)))
        self.address = SimpleNamespace(enter=self.enter)
        self.show = self.shown.append
        self.main = [f"view of {lab.LAB}"]
        self.controls = SimpleNamespace(panel=f"controls of {lab.LAB}")
        self.readout, self.questions = SimpleNamespace(panel=[f"readout of {lab.LAB}"]), []

    def enter(self, push):
        self.entered.append(push)

    def start(self, awaits_scene=False):
        self.started = True

    def close(self):
        pass


class Opened:
    """The choice of the labs a, b and c. broken: labs that cannot be built; undrawn: labs that no browser draws."""

    def __init__(self, broken="", undrawn=""):
        self.document, self.place, self.broken, self.undrawn = Turns(), Place(), broken, undrawn
        self.labs = tuple(SimpleNamespace(LAB=name, TITLE=name.upper()) for name in "abc")
        self.entered, self.left = [], []
        self.choice = LabChoice(
            self.document, self.labs, [], self.place, self.document.add_next_tick_callback, self.make,
            lambda tab: self.entered.append(self.name(tab)),
            lambda tab, closed: self.left.append((self.name(tab), closed)),
        )  # fmt: skip

    @staticmethod
    def name(tab):
        return tab.session.lab.LAB

    def make(self, lab):
        if lab.LAB in self.broken:
            raise RuntimeError(WORDS)
        return FakeTab(lab, drawn=lab.LAB not in self.undrawn)

    def begin(self):
        """Open the first lab."""
        self.choice.begin(lambda: self.choice.choose(0))
        self.document.turn()
        return self

    def click(self, index, turn=True):
        """Choose a tab, as the browser does, and run the loop if `turn`."""
        self.place.tabs.active = index
        self.choice.choose_soon()
        if turn:
            self.document.turn()

    def time_out(self):
        """Let the time for drawing the shown lab pass."""
        self.document.timers.pop()()
        self.document.turn()

    @property
    def shown(self):
        return self.name(self.choice.current)


def problem(name):
    return f"The lab {name} cannot be shown: RuntimeError: {WORDS}"


def test_a_chosen_lab_is_shown_first_and_its_bars_are_filled_later():
    page = Opened().begin()
    assert (page.place.main, page.place.bars) == (["view of a"], {0: ["controls of a"], 1: ["readout of a"]})
    page.click(1, turn=False)
    assert (page.place.veiled, page.shown) == ("B", "a")
    page.document.waiting.pop(0)()
    assert (page.place.main, page.place.bars) == (["view of b"], {})
    page.document.turn()
    assert page.place.bars == {0: ["controls of b"], 1: ["readout of b"]}
    assert (page.entered, page.left) == (["a", "b"], [("a", False)])
    assert (page.choice.open["a"].shown, page.choice.open["b"].entered) == ([False], [True])
    page.click(0, turn=False)
    assert page.place.veiled == ""  # it is open already
    page.document.turn()
    assert page.shown == "a"


def test_a_tab_that_is_left_before_its_bars_are_filled_fills_none():
    page = Opened().begin()
    page.click(1, turn=False)
    page.document.waiting.pop(0)()
    page.choice.choose(0)
    page.document.turn()
    assert page.place.bars == {0: ["controls of a"], 1: ["readout of a"]}


@pytest.mark.parametrize("active", [None, -1, 3, True, "1"])
def test_a_tab_that_does_not_exist_is_logged(caplog, active):
    """A browser may send any number; -1 must not select the last tab."""
    page = Opened(undrawn="c").begin()
    page.click(active)
    assert (page.shown, page.document.timers) == ("a", [])
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == [
        f"tab must be from 0 to 2, not {active!r}"
    ]
    page.click(2)
    page.click(1)
    page.place.tabs.active = active  # while the shown lab is drawn
    page.time_out()
    assert page.shown == "c"
    assert len(caplog.records) == 2


def test_a_key_pressed_before_the_chosen_lab_is_built_is_handled_then():
    page, done = Opened().begin(), []
    page.click(1, turn=False)
    assert page.choice.defer(lambda: done.append(page.shown))
    assert done == []
    page.document.turn()
    assert done == ["b"]
    assert not page.choice.defer(lambda: done.append("late"))


def test_a_tab_that_is_chosen_before_the_page_has_a_lab_is_shown_once_it_has_one():
    page = Opened()
    page.click(1, turn=False)
    assert page.document.waiting == []
    page.begin()
    assert page.entered == ["a", "b"]


@pytest.mark.parametrize("drawn", [True, False])
def test_a_chosen_lab_is_built_when_the_current_one_is_drawn_or_after_a_while(drawn):
    page = Opened(undrawn="a").begin()
    page.click(1)
    page.click(2)
    assert (page.shown, len(page.document.timers)) == ("a", 1)
    if drawn:
        page.choice.current.first_drawn.publish(None)
        page.document.turn()
    else:
        page.time_out()
    assert page.shown == "c"


def test_a_lab_that_is_left_before_it_was_drawn_is_closed():
    """Back opens another lab while a click on a third one is pending: that click is dropped, and the next one works."""
    page = Opened(undrawn="b").begin()
    page.click(1)
    page.click(2)
    assert page.shown == "b"
    page.choice.show(page.labs[0])
    assert page.left[-1] == ("b", True)
    assert "b" not in page.choice.open
    page.time_out()
    assert page.shown == "a"
    page.click(2)
    assert page.shown == "c"


def test_a_choice_that_is_taken_back_leaves_the_lab_and_removes_the_veil():
    page = Opened().begin()
    page.click(1, turn=False)
    page.place.tabs.active = 0
    page.document.turn()
    assert (page.place.veiled, page.shown, page.entered) == ("", "a", ["a"])


def test_a_lab_requested_repeatedly_is_shown_once_and_its_tab_selected():
    page = Opened().begin()
    for _ in range(3):
        page.choice.show_soon(page.labs[2])
    assert len(page.document.waiting) == 1
    page.document.turn()
    assert (page.entered, page.place.tabs.active) == (["a", "c"], 2)
    assert page.choice.current.entered == [False]  # no entry in the browser's history


def test_a_lab_that_cannot_be_built_is_reported_and_the_others_stay_usable(caplog):
    page = Opened(broken="b").begin()
    for clicks in (1, 2):  # the first notice may have disappeared by the second click
        page.click(1)
        assert (page.shown, page.place.tabs.active) == ("a", 0)
        assert page.choice.current.told == clicks * [("error", problem("b"))]
        assert caplog.text.count("the tab of the lab b") == 1
    assert page.choice.show(page.labs[1]) is None
    page.click(2)
    assert page.shown == "c"


def test_a_page_whose_first_labs_cannot_be_built_begins_with_the_next():
    page = Opened(broken="ab").begin()
    assert (page.shown, page.place.tabs.active) == ("c", 2)
    assert page.choice.current.told == [("warning", problem("a")), ("warning", problem("b"))]


def test_a_page_of_which_no_lab_can_be_built_shows_the_reasons_as_text():
    page = Opened(broken="abc").begin()
    assert page.choice.current is None
    (said,) = page.place.main
    alerts = said.select(pmui.Alert)
    assert [alert.title for alert in alerts] == [plain(problem(name)) for name in "abc"]
    assert {alert.severity for alert in alerts} == {"error"}
    assert all(":material/" not in alert.title for alert in alerts)
