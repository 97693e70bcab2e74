"""A lab with a view that cannot be built is reported as text, and the page and its other labs stay usable."""

from __future__ import annotations

from types import SimpleNamespace

import panel_material_ui as pmui
import pytest

from app.page.markup import plain
from app.page.page import Page

WORDS = "no <b>plot</b> :material/home: here"


class FakeTab:
    """A tab of the requested lab; the constructor raises for a broken lab."""

    broken: frozenset[str] = frozenset()

    def __init__(self, lab, document, window, alone=False):
        if lab.LAB in self.broken:
            raise RuntimeError(WORDS)
        self.session = SimpleNamespace(lab=lab)
        self.told = []
        self.notices = SimpleNamespace(tell=lambda kind, text: self.told.append((kind, text)))
        self.started, self.drawn = False, True
        self.address = SimpleNamespace(enter=lambda push: None)

    def start(self, awaits_scene=False):
        self.started = True

    def show(self, shown):
        """Do nothing: no frames are streamed here."""


@pytest.fixture
def opened(monkeypatch):
    """Return a function: `opened("b", …)` builds a page of the labs a, b and c, of which the named ones are broken."""

    def build(*broken):
        monkeypatch.setattr("app.page.page.LabTab", FakeTab)
        monkeypatch.setattr(FakeTab, "broken", frozenset(broken))
        page = object.__new__(Page)
        page.labs = tuple(SimpleNamespace(LAB=name) for name in "abc")
        monkeypatch.setattr("app.page.page.LABS", page.labs, raising=False)
        page.document, page._window, page.level, page.current = None, (1280, 720), "", None
        page.lab_tabs, page._problems, page._failed, page._begun = {}, [], set(), False
        page.tabs, page._main = SimpleNamespace(active=0), SimpleNamespace(objects=["waiting"], visible=True)
        page._opening = SimpleNamespace(object="", visible=False)
        page._leave = page._chosen_there = lambda *tab: None
        page._choose_soon, page._open = lambda: None, lambda: page._choose(0)

        def put(tab):
            page.current = page.lab_tabs[tab.session.lab.LAB] = tab

        page._put = put
        return page

    return build


def problem(name):
    return f"The lab {name} cannot be shown: RuntimeError: {WORDS}"


def test_a_lab_that_cannot_be_built_is_told_and_the_others_stay_usable(opened, caplog):
    page = opened("b")
    page._begin()
    page.tabs.active = 1
    page._choose(1)
    first = page.lab_tabs["a"]
    assert page.current is first
    assert page.tabs.active == 0
    assert first.told == [("error", problem("b"))]
    assert "the tab of the lab b" in caplog.text
    page.tabs.active = 1
    page._choose(1)  # the first notice may have disappeared by now
    assert first.told == 2 * [("error", problem("b"))]
    assert caplog.text.count("the tab of the lab b") == 1
    page._choose(2)
    assert page.current is page.lab_tabs["c"]


def test_a_page_whose_first_lab_cannot_be_built_begins_with_the_next(opened):
    page = opened("a", "b")
    page._begin()
    assert page.current is page.lab_tabs["c"]
    assert page.tabs.active == 2
    assert page.current.told == [("warning", problem("a")), ("warning", problem("b"))]


def test_a_page_of_which_no_lab_can_be_built_says_so_in_its_place_as_text(opened):
    page = opened("a", "b", "c")
    page._begin()
    assert page.current is None
    (said,) = page._main.objects
    alerts = said.select(pmui.Alert)
    assert [alert.title for alert in alerts] == [plain(problem(name)) for name in "abc"]
    assert {alert.severity for alert in alerts} == {"error"}
    assert all(":material/" not in alert.title for alert in alerts)
