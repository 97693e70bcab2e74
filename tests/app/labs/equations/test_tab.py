"""The equations tab without a browser: texts, sliders, presets and refusals reach the lab and are shown."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from app.labs.equations.controls import EquationsControls
from app.labs.equations.parts import PARTS, facts
from app.labs.equations.view import EquationsView
from app.tab.plots import StrokePoint
from compute.engine.shared_memory import MAX_PIXELS
from compute.labs.equations import Equations
from compute.labs.equations.presets import presets
from tests.direct import DirectSession

GRAY_SCOTT, HEAT, WAVE = (presets()[name].text for name in ("gray_scott", "heat", "wave"))


class Tab:
    """View and controls of one session, whose lab computes in this process."""

    def __init__(self, text=GRAY_SCOTT, size=(1200, 800), **values):
        self.session = DirectSession(Equations(backend="cpu_numpy", ny=24, nx=32, text=text, **values))
        self.told = []
        self.view = EquationsView(self.session, size)
        self.controls = EquationsControls(self.session, self.view, SimpleNamespace())
        self.session.value_changes.subscribe(self.controls.show_values)
        self.session.events.subscribe(lambda event: self.controls.on_event(event) or self.told.append(event.text))
        self.see()

    @property
    def lab(self):
        return self.session.live

    @property
    def sliders(self):
        return self.controls.sliders_of_text.sliders

    def see(self):
        frame = self.session.see()
        self.view.first_draw.pending.clear()
        self.view.tick()
        self.controls.tick()
        return frame

    def type(self, text):
        """Type a text and press Ctrl+Enter."""
        self.view.editor.keys._handle_msg({"text": text})
        self.see()

    def pick(self, name):
        """Choose the tile of a preset."""
        self.controls.tiles._handle_msg({"pick": list(presets()).index(name)})
        self.see()


def test_a_typed_text_runs_in_the_lab():
    tab = Tab()
    text = GRAY_SCOTT.replace("F*(1 - u)", "F*(1 - u) + q*u").replace("dt = 1", "dt = 1\nq = 0.001 in [0, 0.01]")
    tab.type(text)
    assert tab.lab.text == text
    assert list(tab.sliders) == ["F", "k", "Du", "Dv", "q"]
    assert tab.lab.numbers["q"] == 0.001
    tab.sliders["q"].value = 0.002
    assert tab.lab.numbers["q"] == 0.002
    assert tab.told == []


def test_the_lab_keeps_its_text_while_the_typed_one_is_invalid():
    tab = Tab()
    tab.lab.advance(3)
    tab.type(GRAY_SCOTT.replace("lap(u)", "lpa(u)"))
    assert (tab.lab.text, tab.lab.steps) == (GRAY_SCOTT, 3)
    assert "did you mean" in tab.view.editor.fault.object
    assert tab.session.changes == []


def test_sliders_keep_their_positions_when_the_text_changes():
    tab = Tab()
    tab.sliders["k"].value = 0.062
    tab.sliders["Du"].value = 0.2
    tab.type("a = 1 in [0, 2]\n" + GRAY_SCOTT.replace("Du = 0.16", "Du = 0.18"))
    assert tab.lab.numbers == {"a": 1, "F": 0.037, "k": 0.062, "Du": 0.18, "Dv": 0.08}
    assert {name: each.value for name, each in tab.sliders.items()} == tab.lab.numbers
    tab.pick("gray_scott")  # a preset has its own values
    assert tab.lab.numbers == {"F": 0.037, "k": 0.06, "Du": 0.16, "Dv": 0.08}
    assert {name: each.value for name, each in tab.sliders.items()} == tab.lab.numbers


@pytest.mark.parametrize("name", presets())
def test_presets_run(name):
    tab = Tab()
    tab.lab.advance(5)
    tab.pick(name)
    tab.lab.advance(2)
    assert tab.lab.steps == 2 or name == "gray_scott"  # another text begins at its initial values
    frame = tab.see()
    assert tab.lab.text == presets()[name].text == tab.view.editor.field.value_input
    assert tab.controls.tiles.items[tab.controls.tiles.current]["title"] == presets()[name].title
    assert {label for label, _, _ in facts(frame)} >= {"step", "t"}
    assert tab.told == []


def test_a_preset_replaces_a_faulty_text():
    tab = Tab()
    tab.type("u_t = (")
    tab.pick("gray_scott")
    assert tab.view.editor.field.value_input == GRAY_SCOTT
    assert not tab.view.editor.fault.visible


def test_a_text_from_a_link_is_shown():
    tab = Tab()
    values = {"text": HEAT, "p1": 0.15, "p2": None, "p3": None, "p4": None}
    tab.session.change(**values)
    tab.session.value_changes.publish(values)
    assert tab.view.editor.field.value_input == HEAT
    assert {name: each.value for name, each in tab.sliders.items()} == {"D": 0.15}
    tab.session.change(text="u_t = (")  # refused by the lab
    assert len(tab.told) == 1
    assert tab.view.editor.field.value_input == tab.lab.text == HEAT


def test_a_refused_text_stays_in_the_editor():
    tab = Tab()
    tab.lab.validate = lambda values: (_ for _ in ()).throw(ValueError("text is too much for this machine"))
    tab.type(WAVE)
    assert (tab.lab.text, tab.session.values["text"]) == (GRAY_SCOTT, GRAY_SCOTT)
    assert tab.view.editor.field.value_input == WAVE
    assert "too much" in tab.view.editor.fault.object
    assert list(tab.sliders) == ["F", "k", "Du", "Dv"]
    assert tab.told == []


def test_the_second_picture_is_chosen_and_survives_a_text_that_has_its_fields():
    tab = Tab()
    second = tab.controls.second
    second.choice.value = "v"
    tab.see()
    assert tab.session.latest.rasters["show"].label == "v"
    assert "v" in tab.view._titles["show"].object
    tab.type(GRAY_SCOTT.replace("0.25*spot", "0.3*spot"))
    assert (tab.lab.show, second.choice.value) == ("v", "v")
    tab.type(HEAT)
    assert (tab.lab.show, second.choice.value) == ("", "")
    assert tab.told == []


def test_the_first_picture_is_chosen():
    tab = Tab()
    assert tab.controls.first.options == ["u", "v"]
    tab.controls.first.value = "v"
    assert tab.see().rasters["field"].label == "v"
    tab.pick("heat")
    assert tab.lab.first_picture == ""
    assert not tab.controls.first.visible


def test_colour_limits_are_held_until_another_text():
    tab = Tab()
    tab.controls.keys["l"]()
    raster = tab.session.latest.rasters["field"]
    assert tab.lab.limits_field == (raster.low, raster.high)
    tab.pick("wave")
    assert tab.lab.limits_field is None
    assert not tab.controls.hold.value


def test_the_time_step_is_typed_and_reset_by_a_preset():
    tab = Tab()
    tab.controls.step.panel.value = "0.5"
    assert tab.lab.dt == 0.5
    tab.session.change(time_step=-1.0)
    assert tab.controls.step.panel.error_state
    assert tab.told == []
    tab.pick("heat")
    assert (tab.lab.time_step, tab.controls.step.panel.value) == (None, "")


@pytest.mark.parametrize("size", [(200, 160), (600, 560), (816, 560), (1296, 900), (3200, 2000)])
@pytest.mark.parametrize("editing", [True, False])
def test_editor_and_pictures_fit_into_the_main_area(size, editing):
    tab = Tab(size=size)
    tab.view.show_editor(editing)
    above, row = tab.view.editor.panel if editing else tab.view._equations, tab.view._row
    roomy = size[1] > 200  # otherwise only the pictures are shown
    assert (tab.view.editor.panel.visible, tab.view._equations.visible) == (editing and roomy, not editing and roomy)
    parts = [each for each in (above, row) if each.visible]
    assert all(each.width <= size[0] and each.height <= size[1] for each in parts)
    assert sum(each.width for each in parts) <= size[0] or sum(each.height for each in parts) <= size[1]
    height, width = tab.session.shown.pixels
    assert 0 < width * height <= MAX_PIXELS
    if size[1] >= 500:
        pictures = tab.view.pictures.plots.values()
        assert all(plot.figure.width <= row.width and plot.figure.height <= row.height for plot in pictures)
        assert all(plot.figure.frame_width >= 100 for plot in pictures)


@pytest.mark.parametrize("size", [(200, 160), (366, 600)])
def test_all_pictures_are_visible_until_they_are_drawn(size):
    session = DirectSession(Equations(backend="cpu_numpy", ny=24, nx=32))
    view = EquationsView(session, size)
    assert view._row.visible
    assert all(plot.figure.visible for plot in view.pictures.plots.values())
    assert all(column.visible for column in view._columns.values())


def test_equations_are_typeset_above_the_pictures_while_the_editor_is_hidden():
    tab = Tab()
    tab.controls.keys["f"]()
    tab.see()
    assert "<math" in tab.view._equations.object
    before = tab.view._equations.object
    tab.pick("wave")
    assert tab.view._equations.object != before


def test_fields_and_walls_are_painted():
    tab = Tab()
    controls = tab.controls
    assert controls.into.options == ["u", "v"]
    controls.brush.mode.value, controls.brush.value.value, controls.into.value = "paint", 2.0, "v"
    controls.brush.stroke(StrokePoint(16.0, 12.0, end=True))
    assert tab.lab.field("v")[12, 16] == 2
    assert tab.lab.field("u").max() <= 1
    tab.pick("fisher_maze")
    assert controls.into.options == ["u", "wall"]
    controls.into.value, controls.brush.value.value = "wall", 1.0
    before = tab.lab.field("wall").sum()
    controls.brush.stroke(StrokePoint(2.0, 2.0, end=True))
    assert tab.lab.field("wall").sum() > before
    tab.pick("heat")
    assert (controls.into.value, controls.into.visible) == ("u", False)
    assert tab.told == []


def test_undo_brings_the_text_and_its_values_back_in_every_widget():
    tab = Tab()
    tab.sliders["F"].value = 0.05
    tab.controls.second.choice.value = "v"
    tab.controls.keys["l"]()
    tab.lab.advance(5)
    before, limits = tab.lab.field(), tab.lab.limits_field
    tab.pick("heat")
    undo = tab.controls.transport.undo.button
    assert "Gray–Scott at step 5" in undo.description
    tab.session.act("undo")
    tab.see()
    assert np.array_equal(tab.lab.field(), before)
    assert tab.lab.steps == 5
    assert tab.view.editor.text == tab.view.editor.field.value_input == tab.session.values["text"] == GRAY_SCOTT
    assert {name: each.value for name, each in tab.sliders.items()} == tab.lab.numbers
    assert tab.lab.numbers["F"] == 0.05
    assert (tab.controls.second.choice.value, tab.lab.show) == ("v", "v")
    assert tab.lab.limits_field == limits == tab.session.values["limits_field"]
    tab.session.act("redo")
    tab.see()
    assert tab.view.editor.text == tab.lab.text == HEAT
    tab.sliders["D"].value = 0.3  # later frames take nothing back
    tab.see()
    assert tab.lab.numbers == {"D": 0.3}
    assert tab.told == []


def test_dials_are_the_sliders_of_the_text():
    tab = Tab()
    assert [dial.label.split()[0] for dial in tab.controls.dials()][:4] == ["F", "k", "Du", "Dv"]
    assert PARTS.view is EquationsView
