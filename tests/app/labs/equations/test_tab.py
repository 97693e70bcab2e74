"""The equations tab without a browser: texts, sliders, presets and refusals reach the lab and are shown."""

from __future__ import annotations

import csv
import io
from types import SimpleNamespace

import numpy as np
import pytest

from app.labs.equations.controls import EquationsControls
from app.labs.equations.parts import PARTS, facts
from app.labs.equations.view import EquationsView
from app.tab.plots import StrokePoint
from compute.engine.shared_memory import MAX_PIXELS
from compute.lab.compilation import Interim
from compute.labs.equations import Equations
from compute.labs.equations.lab import PANELS
from compute.labs.equations.presets import presets
from tests.direct import DirectSession

GRAY_SCOTT, HEAT, WAVE = (presets()[name].text for name in ("gray_scott", "heat", "wave"))


class Tab:
    """View and controls of one session, whose lab computes in this process."""

    def __init__(self, text=GRAY_SCOTT, size=(1200, 800), **values):
        self.session = DirectSession(Equations(**{"backend": "cpu_numpy", "ny": 24, "nx": 32, "text": text, **values}))
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
    assert tab.lab.steps == 2  # a preset begins at its initial values
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
    second = tab.controls.second.picture
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


def test_the_time_step_is_written_into_the_text_and_the_fields_stay():
    tab = Tab(HEAT)
    step = tab.controls.settings.step.panel
    tab.sliders["D"].value = 0.5
    tab.lab.advance(3)
    assert tab.see().facts["limit"] == pytest.approx(0.5)
    tab.controls.tick()
    assert step.helper_text == "Stable up to about 0.5. Empty: 90 % of it, now 0.45."
    step.value = "0.625"
    tab.see()
    assert tab.lab.text == HEAT + "dt = 0.625\n" == tab.view.editor.field.value_input
    assert (tab.lab.steps, tab.lab.dt, tab.lab.numbers) == (3, 0.625, {"D": 0.5})
    assert step.helper_text == "Unstable: above its bound, about 0.5."
    step.value = "1e9"
    assert step.error_state
    assert "dt = 1e+09 is outside 1e-06" in step.helper_text
    step.value = ""
    assert (tab.lab.text, step.error_state) == (HEAT, False)
    assert tab.lab.dt == pytest.approx(0.45)
    tab.session.change(time_step=0.25)  # of an older link
    tab.session.value_changes.publish({"time_step": 0.25})
    assert step.value == "0.25"
    step.value = "0.125"
    assert (tab.lab.time_step, tab.lab.dt) == (None, 0.125)
    tab.pick("heat")
    assert (tab.lab.text, tab.lab.steps, step.value) == (HEAT, 0, "")
    assert tab.told == []


def test_the_scheme_is_written_into_the_text_with_advice_below_it():
    tab = Tab(WAVE)
    scheme = tab.controls.settings.scheme
    assert scheme.value == "symplectic"
    tab.lab.advance(2)
    scheme.value = "euler"
    tab.see()
    assert tab.lab.text == WAVE.replace("scheme: symplectic", "scheme: euler") == tab.view.editor.text
    assert tab.lab.steps == 2
    assert "euler amplifies the waves" in scheme.helper_text
    tab.type(WAVE)
    assert (scheme.value, scheme.helper_text) == ("symplectic", "")
    assert tab.told == []


def test_edges_are_those_of_all_fields_or_of_each():
    tab = Tab()
    settings = tab.controls.settings
    assert (settings.every.kind.value, settings.fields) == ("periodic", {})
    settings.every.kind.value = "fixed"
    assert tab.lab.text == GRAY_SCOTT + "edges: fixed 0\n"
    assert settings.every.value.panel.visible
    settings.every.value.panel.value = "0.5"
    assert tab.lab.text == GRAY_SCOTT + "edges: fixed 0.5\n"
    settings.every.kind.value = "each"
    assert [each.kind.value for each in settings.fields.values()] == ["fixed", "fixed"]
    settings.fields["v"].kind.value = "zero-flux"
    assert tab.lab.text == GRAY_SCOTT + "edges: fixed 0.5\nv: zero-flux\n"
    assert not settings.fields["v"].value.panel.visible
    settings.fields["u"].value.panel.value = "abc"
    assert settings.fields["u"].value.panel.error_state
    settings.every.kind.value = "periodic"
    assert tab.lab.text == GRAY_SCOTT + "edges: periodic\n"
    assert settings.fields == {}
    tab.type(GRAY_SCOTT + "v: zero-flux\nedges: periodic")
    assert [each.kind.value for each in settings.fields.values()] == ["periodic", "zero-flux"]
    tab.pick("heat")
    assert (settings.every.kind.value, settings.fields) == ("zero-flux", {})
    assert "each" not in settings.every.kind.options.values()
    assert tab.told == []


def test_settings_of_a_faulty_text_are_refused_in_words():
    tab = Tab()
    tab.view.editor.field.value_input = "u_t = lpa(u)"
    settings = tab.controls.settings
    settings.every.kind.value = "fixed"
    settings.scheme.value = "rk3"
    for widget, kept in ((settings.every.kind, "periodic"), (settings.scheme, "euler")):
        assert (widget.value, widget.error_state) == (kept, True)
        assert widget.helper_text.startswith("Correct the text first, line 1, column 7: unknown function 'lpa'")
    assert tab.lab.text == GRAY_SCOTT
    assert tab.view.editor.field.value_input == "u_t = lpa(u)"
    tab.view.editor.field.value_input = "u_t = lap(u)"  # not applied yet
    settings.scheme.value = "rk3"
    assert tab.lab.text == "u_t = lap(u)\nscheme: rk3"
    assert not settings.scheme.error_state


def test_a_setting_that_the_lab_refuses_is_shown_in_the_editor():
    tab = Tab(HEAT)
    tab.lab.validate = lambda values: (_ for _ in ()).throw(ValueError("text is too much for this machine"))
    tab.controls.settings.scheme.value = "rk3"
    assert "too much" in tab.view.editor.fault.object
    assert (tab.lab.text, tab.controls.settings.scheme.value) == (HEAT, "euler")
    assert tab.told == []


# -- the second panel


def drawn(tab):
    """Return (x, y) of the second panel's curve."""
    return tuple(np.array(column) for column in tab.view.plot.curves.sources[0].data.values())


def labels(tab):
    plot = tab.view.plot.curves.figure
    return tab.view.plot.title, plot.xaxis[0].axis_label, plot.yaxis[0].axis_label


def test_the_second_panel_is_a_profile_through_a_clicked_point():
    tab = Tab()
    tab.controls.second.choice_of_panel.value = "profile"
    assert [each.visible for each in tab.view._columns.values()] == [True, False, True]
    tab.view.pictures._tapped(8.5, 20.2)
    tab.see()
    x, y = drawn(tab)
    assert np.array_equal(x, np.arange(32) + 0.5)
    assert np.array_equal(y, tab.lab.field("u")[20].astype(float))
    assert labels(tab) == ("u along row 20", "x [cells]", "u")
    tab.controls.second.section.value = "vertical"
    tab.controls.second.plotted.value = "v"
    tab.see()
    assert np.array_equal(drawn(tab)[1], tab.lab.field("v")[:, 8].astype(float))
    assert labels(tab) == ("v along column 8", "y [cells]", "v")
    sections = [plot.section for plot in tab.view.pictures.plots.values()]
    assert {(each.visible, each.dimension, each.location) for each in sections} == {(True, "height", 8.5)}
    sections[0].location = 12.75  # dragged
    assert tab.lab.probe_x * 32 == 12.75
    assert tab.lab.probe_y * 24 == pytest.approx(20.2)
    assert set(tab.view.pictures.probe.data["x"]) == {12.75}
    tab.controls.second.choice_of_panel.value = "picture"
    assert [each.visible for each in tab.view._columns.values()] == [True, True, False]
    assert not sections[0].visible
    tab.view.pictures._tapped(1.0, 1.0)
    assert tab.lab.probe_x * 32 == 12.75
    assert tab.told == []


def test_the_second_panel_is_the_value_at_the_probe_over_time_of_any_field():
    tab = Tab(probe_x=0.5, probe_y=0.5)
    right = [tab.lab.field("v")[12, 16]]
    for _ in range(3):
        tab.lab.advance(2)
        tab.see()
        right.append(tab.lab.field("v")[12, 16])
    tab.controls.second.choice_of_panel.value = "probe"
    tab.controls.second.plotted.value = "v"  # with its past values
    x, y = drawn(tab)
    assert x.tolist() == [0, 2, 4, 6]
    assert y.tolist() == right
    assert labels(tab) == ("v at cell (16, 12)", "t", "v")
    name, text = tab.view.samples()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert name == "probe"
    assert [float(row["v"]) for row in rows] == right
    assert [(row["step"], row["t"], row["x_cell"], row["y_cell"]) for row in rows][1] == ("2", "2.0", "16", "12")
    tab.view.pictures._tapped(3.0, 4.0)
    tab.see()
    assert drawn(tab)[0].tolist() == [6]  # of another cell


def test_the_second_panel_is_an_integral_over_time():
    tab = Tab("u_t = -u; u(0) = 1; dx = 0.5; dt = 0.125; show = 2*u")
    tab.controls.second.choice_of_panel.value = "integral"
    for _ in range(4):
        tab.lab.advance(2)
        tab.see()
    area = 32 * 24 * 0.5 * 0.5
    x, y = drawn(tab)
    np.testing.assert_allclose(x, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(y, area * 0.875 ** (8 * x), rtol=1e-6)
    assert labels(tab) == ("Integral of u [u·length²]", "t", "Σ u Δx Δy")
    tab.controls.second.plotted.value = "show"
    np.testing.assert_allclose(drawn(tab)[1], 2 * y, rtol=1e-6)
    assert labels(tab)[0] == "Integral of 2*u [show·length²]"
    assert tab.controls.second.picture.panel.visible  # its expression is plotted
    name, text = tab.view.samples()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert name == "integral"
    assert list(rows[0]) == ["step", "t", "u", "show"]
    np.testing.assert_allclose([float(row["show"]) for row in rows], 2 * y, rtol=1e-6)
    tab.controls.keys["r"]()
    tab.see()
    assert drawn(tab)[0].tolist() == [0]
    tab.type("w_t = -w; w(0) = 1")
    assert (tab.lab.plotted, tab.controls.second.plotted.value) == ("show", "show")
    tab.controls.second.plotted.value = "w"
    tab.type("u_t = -u; u(0) = 1")
    assert (tab.lab.plotted, tab.controls.second.plotted.value) == ("", "u")
    assert labels(tab)[2] == "Σ u Δx Δy"
    assert tab.told == []


def test_a_constant_integral_is_drawn_as_one():
    tab = Tab(HEAT, second_panel="integral")
    for _ in range(3):
        tab.lab.advance(10)
        tab.see()
    y = drawn(tab)[1]
    axis = tab.view.plot.curves.figure.y_range
    assert np.ptp(y) < 1e-5 * abs(y[0])
    assert axis.end - axis.start > 0.1 * abs(y[0])


def test_a_key_shows_the_next_panel_and_a_link_any():
    tab = Tab()
    kinds = []
    for _ in range(4):
        tab.controls.keys["v"]()
        kinds.append(tab.lab.second_panel)
    assert kinds == ["profile", "probe", "integral", "picture"]
    values = {"second_panel": "probe", "plotted": "v", "probe_x": 0.25}
    tab.session.change(**values)
    tab.session.value_changes.publish(values)
    second = tab.controls.second
    assert (second.choice_of_panel.value, second.plotted.value, second.section.visible) == ("probe", "v", False)
    assert tab.view._columns["plot"].visible
    assert set(tab.view.pictures.probe.data["x"]) == {8.0}
    assert tab.told == []


@pytest.mark.parametrize("size", [(200, 160), (366, 600), (600, 560), (816, 560), (1296, 900), (3200, 2000)])
@pytest.mark.parametrize("editing", [True, False])
@pytest.mark.parametrize("presenter", [True, False])
def test_picture_and_plot_fit_into_the_main_area(size, editing, presenter):
    tab = Tab(size=size, second_panel="profile")
    view = tab.view
    view.presenter = presenter
    view.show_editor(editing)
    picture, plot, row = view.pictures.plots["field"].figure, view.plot.curves.figure, view._row
    columns = [each for each in view._columns.values() if each.visible]
    assert not view._columns["show"].visible
    if size[1] >= 560 and not editing:
        assert len(columns) == 2
    if len(columns) == 2:
        assert plot.width >= 240
        assert plot.height >= 160
        assert plot.width * plot.height <= 1.05 * picture.width * picture.height
        beside = sum(each.width for each in columns) <= row.width
        assert beside or sum(each.height for each in columns) <= row.height
        assert max(each.width for each in columns) <= row.width
        assert max(each.height for each in columns) <= row.height


@pytest.mark.parametrize("editing", [True, False])
@pytest.mark.parametrize("kind", PANELS[1:])
@pytest.mark.parametrize(("size", "least"), [((366, 580), 160), ((680, 620), 240), ((3240, 2060), 400)], ids=str)
def test_a_plot_is_visible_and_large_from_a_phone_to_4k(size, least, kind, editing):
    """The editor of a phone leaves room for it; on a large screen, it is next to the picture, not a strip below it."""
    tab = Tab(size=size, second_panel=kind)
    tab.view.show_editor(editing)
    assert tab.view.editor.panel.visible == editing
    assert tab.view._columns["plot"].visible
    assert tab.view.plot.curves.figure.height >= least


def test_an_error_is_below_the_text_if_there_is_no_room_next_to_it():
    tab = Tab(size=(366, 580), second_panel="profile")
    editor = tab.view.editor
    assert not editor.reading.visible
    tab.type("u_t = lpa(u)")
    assert (editor.field.error_state, editor.field.helper_text) == (
        True, "Line 1, column 7: unknown function 'lpa'; did you mean 'lap'?"
    )  # fmt: skip
    tab.view.size = (680, 620)
    tab.view.arrange()
    assert editor.reading.visible
    assert editor.field.helper_text == "The lab continues with the previous text."


def test_a_raster_is_finer_than_its_picture_but_not_reduced_to_half_its_cells():
    tab = Tab(size=(680, 620), ny=256, nx=256)
    assert 200 < tab.view.pictures.plots["field"].figure.frame_width < 256
    assert min(tab.session.shown.pixels) >= 256


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


def test_equations_are_next_to_the_pictures_if_that_makes_them_larger():
    tab = Tab(size=(1280, 510))  # of a projector
    view = tab.view
    view.presenter = True
    view.show_editor(False)
    assert view._equations.width + view._row.width == 1280
    assert view._equations.height == view._row.height == 510
    beside = view.pictures.plots["field"].figure.frame_width
    view.size = (800, 900)
    view.arrange()
    assert view._equations.width == view._row.width == 800
    assert view._equations.height + view._row.height == 900
    assert beside > 240


def test_expressions_of_the_initial_values_only_are_left_out_next_to_the_pictures():
    tab = Tab()
    tab.controls.keys["f"]()
    tab.pick("cahn_hilliard")
    tab.see()
    shown = tab.view._equations.object
    assert "c_t = lap(mu); mu = " in shown
    tab.pick("gray_scott")
    tab.see()
    assert "spot" in tab.view.editor.typeset.object
    assert "spot" not in tab.view._equations.object


def test_titles_are_cut_to_the_width_of_their_picture():
    tab = Tab(size=(680, 620))
    long = " + ".join(["u*v"] * 20)
    tab.session.change(show=long)
    tab.see()
    title = tab.view._titles["show"].object
    assert title.startswith("<h2>u*v + u*v")
    assert title.endswith("\N{HORIZONTAL ELLIPSIS}</h2>")
    assert len(title) < 50
    assert len(tab.view.pictures.plots["show"].bar.title) <= 32


def test_fields_and_walls_are_painted():
    tab = Tab()
    controls = tab.controls
    assert list(controls.into.options.values()) == ["u", "v", "wall"]
    controls.brush.mode.value, controls.brush.value.value, controls.into.value = "paint", 2.0, "v"
    controls.brush.stroke(StrokePoint(16.0, 12.0, end=True))
    assert tab.lab.field("v")[12, 16] == 2
    assert tab.lab.field("u").max() <= 1
    tab.pick("fisher_maze")
    assert controls.into.options == {"u": "u", "wall": "wall"}
    controls.into.value, controls.brush.value.value = "wall", 1.0
    before = tab.lab.field("wall").sum()
    controls.brush.stroke(StrokePoint(2.0, 2.0, end=True))
    assert tab.lab.field("wall").sum() > before
    tab.pick("heat")
    assert (controls.into.value, tab.lab.text) == ("u", presets()["heat"].text)
    assert tab.told == []


def test_a_wall_is_added_to_a_text_and_painted_and_erased_whatever_the_brush_value():
    tab = Tab()
    controls = tab.controls
    assert controls.into.options == {"u": "u", "v": "v", "wall (begins again)": "wall"}
    controls.brush.mode.value, controls.brush.value.value, controls.into.value = "paint", 0.35, "wall"
    assert tab.lab.text == f"{GRAY_SCOTT}wall = 0\nwall: zero-flux\n"
    assert tab.view.editor.text == tab.lab.text
    assert not controls.brush.value_panel.visible
    assert (controls.into.value, list(controls.into.options)) == ("wall", ["u", "v", "wall"])
    controls.brush.stroke(StrokePoint(16.0, 12.0, end=True))
    assert tab.lab.field("wall")[12, 16] == 1
    controls.brush.mode.value = "erase"
    controls.brush.stroke(StrokePoint(16.0, 12.0, end=True))
    assert not tab.lab.field("wall").any()
    controls.into.value, controls.brush.mode.value = "v", "paint"
    assert controls.brush.value_panel.visible
    controls.brush.stroke(StrokePoint(16.0, 12.0, end=True))
    assert tab.lab.field("v")[12, 16] == pytest.approx(0.35)
    assert tab.told == []
    tab.pick("gray_scott")
    assert controls.into.value == "v"


def test_a_wall_is_not_added_to_a_text_with_a_mistake():
    tab = Tab()
    tab.controls.notices = SimpleNamespace(tell=lambda kind, text: tab.told.append(text))
    tab.type("u_t = lpa(u)")
    tab.controls.into.value = "wall"
    assert tab.told == ["Correct the text first, line 1, column 7: unknown function 'lpa'; did you mean 'lap'?"]
    assert (tab.lab.text, tab.controls.into.value) == (GRAY_SCOTT, "u")


def test_undo_brings_the_text_and_its_values_back_in_every_widget():
    tab = Tab()
    tab.sliders["F"].value = 0.05
    tab.controls.second.picture.choice.value = "v"
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
    assert (tab.controls.second.picture.choice.value, tab.lab.show) == ("v", "v")
    assert tab.lab.limits_field == limits == tab.session.values["limits_field"]
    tab.session.act("redo")
    tab.see()
    assert tab.view.editor.text == tab.lab.text == HEAT
    tab.sliders["D"].value = 0.3  # later frames take nothing back
    tab.see()
    assert tab.lab.numbers == {"D": 0.3}
    assert tab.told == []


def test_a_late_frame_of_the_first_of_two_undos_takes_the_second_not_back():
    tab = Tab()
    tab.lab.advance(3)
    for name in ("heat", "wave"):
        tab.pick(name)
        tab.lab.advance(2)
    tab.session.act("undo")
    late = tab.session.see()
    tab.session.act("undo")
    sent = len(tab.session.changes)
    tab.session.latest = late
    tab.controls.tick()
    assert tab.view.editor.text == tab.session.values["text"] == tab.lab.text == GRAY_SCOTT
    tab.see()
    assert (tab.lab.text, tab.lab.steps, len(tab.session.changes)) == (GRAY_SCOTT, 3, sent)


def test_the_undo_button_says_that_a_new_engine_has_lost_the_earlier_fields():
    tab = Tab()
    undo = tab.controls.transport.undo.button
    for _ in range(2):
        old = tab.lab
        assert undo.disabled
        tab.lab.advance(2)
        tab.lab.act("reset")
        tab.see()
        assert not undo.disabled
        assert "lost" not in undo.description
        tab.session.live = Equations(**old.values())
        tab.lab.restore(old.snapshot())
        tab.lab.advance(1)
        tab.see()
        assert undo.description == "Undo (Ctrl+Z): nothing to undo; the earlier fields are lost with the engine"


def test_dials_are_the_sliders_of_the_text():
    tab = Tab()
    assert [dial.label.split()[0] for dial in tab.controls.dials()][:4] == ["F", "k", "Du", "Dv"]
    assert PARTS.view is EquationsView


def test_the_status_bar_names_the_backend_that_computes_during_a_compilation():
    tab = Tab(HEAT)
    assert "computed by" not in {label for label, _, _ in facts(tab.see())}
    tab.lab.set_interim(Interim("NumPy computes while Numba compiles"))
    assert ("computed by", "NumPy", "warn") in facts(tab.see())
