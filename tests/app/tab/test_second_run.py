"""Two runs on a tab without a browser: one choice shows both pictures, and turning it off restores the panel."""

from __future__ import annotations

import numpy as np
import pytest

from app.tab.restore import scene_of_lab
from app.tab.second_run import Offer
from compute.export import render
from compute.export.link import packed, unpacked
from compute.export.scene import Style
from compute.lab.two_runs import SECOND
from tests.app.labs.diffusion.test_diffusion_tab import Sided
from tests.app.labs.equations.test_tab import HEAT, Tab


def column(pictures, name):
    """Return the levels that a picture shows, and their limits."""
    data = pictures.frames.source.data
    return data[name][0], (data[f"{name}_low"][0], data[f"{name}_high"][0])


def choose(tab, control, name):
    control.choice.value = name
    tab.see()
    tab.see()


def test_a_tick_between_a_frame_and_its_layout_leaves_no_old_headings():
    tab, waiting = Sided(preset="noise"), []
    tab.session.later = waiting.append
    tab.controls.second.choice.value = "r"
    tab.see()
    assert SECOND in tab.session.latest.rasters
    tab.lab_view.tick()
    for call in waiting:
        call()
    headings = [str(pane.object) for pane in tab.lab_view._headings.values()]
    assert headings == ["<h2>First run: r = 0.2</h2>", "<h2>Second run: r = 0.15</h2>"]


def test_both_runs_are_shown_and_the_former_panel_comes_back():
    tab = Sided(preset="noise", hold_limits=True)
    pictures, second = tab.lab_view.pictures, tab.controls.second
    tab.controls.display.shown.value = "Field"
    before = pictures.plots["laplacian"].mapper.palette
    choose(tab, second, "r")
    assert tab.session.values[SECOND] == {"r": 0.15}
    tab.run(20)
    first, other = tab.lab.frame().rasters["field"], tab.lab.frame().rasters[SECOND]
    for name, raster in (("field", first), ("laplacian", other)):
        levels, limits = column(pictures, name)
        np.testing.assert_array_equal(levels, raster.levels)
        assert limits == first.span
    assert pictures.plots["laplacian"].mapper.palette == pictures.plots["field"].mapper.palette != before
    for source, each in zip(tab.lab_view.profile.sources, (tab.lab, tab.lab.second), strict=True):
        np.testing.assert_allclose(source.data["u"], each.field()[16])  # the section is in the middle
    headings = [str(pane.object) for pane in tab.lab_view._headings.values()]
    assert headings == ["<h2>First run: r = 0.2</h2>", "<h2>Second run: r = 0.15</h2>"]
    assert all(each.visible for each in tab.lab_view._columns.values())
    assert "First run: r = 0.2. Second run: r = 0.15. All else is equal" in second.panel[-1].object
    tab.controls.display.palettes.lists["field"].value = "Viridis"
    assert pictures.plots["laplacian"].mapper.palette == pictures.plots["field"].mapper.palette
    labels = [item.label["value"] for item in tab.lab_view.profile.figure.legend[0].items]
    assert labels == ["First run", "Second run"]
    choose(tab, second, "")
    assert [each.visible for each in tab.lab_view.profile.figure.renderers] == [True, False]
    assert (tab.lab.second, len(second.panel)) == (None, 1)
    assert pictures.plots["laplacian"].mapper.palette == before
    assert [each.visible for each in tab.lab_view._columns.values()] == [True, False]
    assert "∇²u" in tab.lab_view._headings["laplacian"].object
    levels, _ = column(pictures, "laplacian")
    np.testing.assert_array_equal(levels, tab.lab.frame().rasters["laplacian"].levels)


@pytest.mark.parametrize(
    ("name", "value"), [("r", 0.1), ("edges", "periodic"), ("variant", "one-step"), ("dtype", "float64")]
)
def test_the_value_has_a_widget_of_its_kind_and_follows_the_session(name, value):
    tab = Sided(backend="cpu_numba", ny=16, nx=16)
    choose(tab, tab.controls.second, name)
    assert tab.session.values[SECOND][name] != tab.session.values[name]
    tab.bring(**{SECOND: {name: value}})
    tab.see()
    panel = tab.controls.second.panel[1]
    widget = panel[0] if name == "r" else panel
    assert widget.value == value
    other = 0.05 if name == "r" else next(each for each in widget.options.values() if each != value)
    widget.value = other
    assert tab.lab.second.values()[name] == other
    assert [dial.place() for dial in tab.controls.dials()[1:-1]] == ([0.05] if name == "r" else [])
    assert tab.told == []


def test_a_refused_value_is_told_and_taken_back():
    tab = Sided(unstable=True)
    tab.bring(**{SECOND: {"r": 0.3}})
    tab.session.change(unstable=False)
    assert "second_run: " in tab.told[-1]
    assert tab.lab.unstable
    assert tab.lab.second.r == 0.3


def test_the_second_run_of_equations_takes_the_place_of_a_plot():
    tab = Tab(second_panel="profile")
    tab.view.show_panel()
    visible = {name: each.visible for name, each in tab.view._columns.items()}
    assert not visible["show"]
    choose(tab, tab.controls.second_run, "p1")
    assert (tab.lab.numbers["F"], tab.lab.second.numbers["F"]) == (0.037, 0.057)
    assert {name: each.visible for name, each in tab.view._columns.items()} == {
        "field": True, "show": True, "plot": False,
    }  # fmt: skip
    assert "Second run: u, F = 0.057" in tab.view._titles["show"].object
    assert tab.controls.second.choice_of_panel.disabled
    assert "the same t" in tab.controls.second_run.panel[-1].object
    tab.type(HEAT)  # other equations
    tab.see()
    assert (tab.lab.second_run, tab.controls.second_run.choice.value) == ({}, "")
    assert list(tab.controls.second_run.choice.options) == ["Off", "D", "Time step"]
    assert {name: each.visible for name, each in tab.view._columns.items()} == visible
    assert tab.told == []


def test_a_link_restores_both_runs():
    tab = Tab()
    choose(tab, tab.controls.second_run, "p1")
    tab.lab.advance(9)
    lab = tab.lab
    lab.act("paint", points=[(4.0, 5.0)], value=0.5, radius=3.0)
    lab.advance(4)
    scene = scene_of_lab(type(lab), lab.values(), lab.HISTORY.origin(lab), "field", Style(), None)
    with render.opened_at(unpacked(packed(scene))) as again:
        for one, other in ((again, lab), (again.second, lab.second)):
            np.testing.assert_array_equal(one.field(), other.field())
            assert one.numbers == other.numbers


@pytest.mark.parametrize(
    ("offer", "other"),
    [
        (Offer("r", 0.2, (0.0, 0.25)), 0.15),
        (Offer("r", 0.0, (0.0, 0.25)), 0.05),
        (Offer("F", 0.0371234, (0.0, 0.1)), 0.0571),
        (Offer("Time step", 0.5), 0.25),
        (Offer("Edges", "b", options={"A": "a", "B": "b"}), "a"),
    ],
)
def test_the_first_value_of_a_second_run_differs_visibly(offer, other):
    assert offer.other == pytest.approx(other)
