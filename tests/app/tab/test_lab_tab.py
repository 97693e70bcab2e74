"""A tab shows a text for every state, and applies a colour scheme that was set before its plots were drawn."""

from __future__ import annotations

from types import SimpleNamespace

import panel as pn
import pytest
from bokeh.document import Document

from app.page.theme import DARK, LIGHT
from app.readout.numbers import Numbers
from app.server.admission import session_limiter
from app.tab.lab_tab import ONLY_RECORDED, UNTRIED, LabTab, StatusBar
from app.tab.session import Session
from app.tab.session_states import Broken, Closed, Failed, Live, Moving, Opening, Restarting
from compute.labs import LABS
from compute.labs.diffusion import Diffusion
from compute.measure.verdict import ResultCache


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (Opening(), "Starting"),
        (Live(), "Paused"),
        (Moving("cuda:0", {}), "Moving"),
        (Restarting("killed"), "Engine restarting"),
        (Broken("killed <b>often</b>"), "Engine stopped"),
        (Failed("killed <b>twice</b>"), "Stopped"),
        (Closed(), "Closed"),
    ],
)
def test_every_state_has_its_text(state, words):
    session = Session(Diffusion, SimpleNamespace(add_next_tick_callback=lambda callback: None))
    bar = StatusBar(session, lambda frame: [])
    session.state = state
    assert f">{words}<" in bar.panel.object
    assert "<b>often" not in bar.panel.object
    assert "<b>twice" not in bar.panel.object


def ink(tab: LabTab) -> str:
    """Return the colour in which a tab marks a place in its main plot."""
    plot = tab.lab_view.plot
    return (plot.span if tab.session.lab.LAB == "crossover" else plot.ring.glyph).line_color


def pass_time(document: Document) -> None:
    """Run the next-tick callbacks, and those that they add."""
    while later := [call for call in document.session_callbacks if type(call).__name__ == "NextTickCallback"]:
        for call in later:
            document.callbacks.remove_session_callback(call)
            call.callback()


@pytest.mark.parametrize("name", ["crossover", "l_curve"])
def test_a_scheme_chosen_before_the_plots_are_drawn_colours_them_once_they_are(name):
    (lab,) = (lab for lab in LABS if name == lab.LAB)
    tab = LabTab(lab, Document(), (1280, 720))
    tab.fit((1280, 720), True, False)
    pass_time(tab.session.document)
    assert ink(tab) == LIGHT["ink"]  # changing a plot before its first draw raises an error in the browser
    for pane in tab.lab_view.panel.select(pn.pane.Bokeh):
        pane.object.trigger("inner_width", 0, 600)
    pass_time(tab.session.document)
    assert tab.drawn
    assert ink(tab) == DARK["ink"]
    tab.fit((656, 599), False, False)  # the page has turned light before it shows this tab again
    assert ink(tab) == LIGHT["ink"]  # immediately: updates of the plots may be sent before the scheme


@pytest.mark.parametrize("chip", ["", "nvidia-h200"])
def test_the_controls_follow_whether_the_page_shows_recorded_numbers_only(chip, monkeypatch):
    (lab,) = (lab for lab in LABS if lab.LAB == "crossover")
    document, numbers = Document(), Numbers({"nvidia-h200": "NVIDIA H200"}, chip)
    tab = LabTab(lab, document, (1280, 720), numbers=numbers)
    run = tab.controls.sweep.run
    assert run.disabled is bool(chip)
    monkeypatch.setattr(tab.status, "_untried", lambda: True)
    tab.session.state = Live()
    assert f">{ONLY_RECORDED if chip else UNTRIED}<" in tab.status.panel.object
    numbers.chip = "" if chip else "nvidia-h200"
    pass_time(document)
    assert run.disabled is not bool(chip)
    tab.close()
    numbers.chip = chip
    pass_time(document)
    assert run.disabled is not bool(chip)  # a closed tab no longer follows


@pytest.fixture
def drawn_tab():
    """Return a tab of the diffusion lab with parts that record their ticks."""
    (lab,) = (lab for lab in LABS if lab.LAB == "diffusion")
    tab = LabTab(lab, Document(), (1280, 720))
    tab.ticks = []
    for name in ("lab_view", "controls", "status", "readout", "restorer", "address"):
        getattr(tab, name).tick = lambda name=name: tab.ticks.append(name)
    return tab


@pytest.mark.parametrize(("pages", "apart"), [(1, 1), (8, 1), (16, 2), (40, 5)])
def test_the_more_pages_are_open_the_less_often_each_is_refreshed(drawn_tab, monkeypatch, pages, apart):
    monkeypatch.setattr(session_limiter(), "pages", dict.fromkeys(range(pages), ""))
    for _ in range(4 * apart):
        drawn_tab._tick()
    assert len(drawn_tab.ticks) == 6 * 4


def test_nothing_is_written_for_a_hidden_tab(drawn_tab):
    for visible, ticks in ((False, 0), (True, 6)):
        drawn_tab.look(visible)
        drawn_tab._tick()
        assert len(drawn_tab.ticks) == ticks
    drawn_tab.show(False)  # another lab is shown
    drawn_tab._tick()
    assert len(drawn_tab.ticks) == 6


def test_a_hidden_tab_closes_the_lab_that_it_measures(drawn_tab):
    comparison, closed = drawn_tab.readout._comparison, []
    handle = SimpleNamespace(solve=lambda steps, seed: None, close=lambda: closed.append(1))
    comparison._results, comparison._open = ResultCache(), lambda engine, values, on_event: handle
    comparison.follow(drawn_tab.session.values)
    comparison.tick()
    drawn_tab.look(False)
    assert closed == [1]


def test_a_refresh_changes_the_document_once(drawn_tab):
    """The changes of all parts are held until the last has finished, even if one of them raises."""
    document, heard = drawn_tab.session.document, []
    document.add_root(drawn_tab.lab_view.profile.figure)
    document.on_change(lambda event: heard.append(document.callbacks.hold_value))

    def change():
        drawn_tab.lab_view.profile.figure.height += 1
        assert not heard
        raise ValueError("half-way")

    drawn_tab.lab_view.tick = change
    with pytest.raises(ValueError, match="half-way"):
        drawn_tab._tick()
    assert heard == [None]


def test_nothing_is_compared_while_a_scene_is_restored(drawn_tab):
    drawn_tab.restorer._state = object()  # a restore is in progress
    drawn_tab._tick()
    assert sorted(drawn_tab.ticks) == ["address", "controls", "lab_view", "restorer", "status"]
    drawn_tab.restorer._state = None
    drawn_tab._tick()
    assert drawn_tab.ticks.count("readout") == 1


def test_a_backend_that_is_compiled_is_announced_once_and_then_the_chosen_one(drawn_tab):
    told = []
    drawn_tab.notices.tell = lambda kind, text, about="": told.append((kind, text, about))
    drawn_tab.words.tick = lambda: None
    waits, failed = "NumPy computes while Numba compiles", "NumPy computes: Numba did not compile"
    for notes in ({}, {"interim": waits}, {"interim": waits}, {}, {"interim": waits}, {"warning": failed}, {}):
        drawn_tab.session.latest = SimpleNamespace(notes=notes)
        drawn_tab._tick()
    assert told == [
        ("info", f"{waits} …", "backend"),
        ("success", "Numba is compiled and computes.", "backend"),
        ("info", f"{waits} …", "backend"),
        ("warning", failed, ""),
    ]
