"""The equations lab: its text, its numbers, its time step, its health, and what is kept of its state."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compute.devices.backends import BACKENDS
from compute.engine.messages import Paused
from compute.export.link import packed, unpacked
from compute.export.scene import Scene, SceneError
from compute.lab.frames import NOT_FINITE
from compute.labs.equations import Equations
from compute.labs.equations.language import read
from compute.labs.equations.presets import presets
from compute.labs.equations.programs import SLOTS
from compute.labs.equations.reference import Reference
from compute.labs.equations.rewriting import with_edges, with_scheme, with_time_step
from compute.labs.equations.tree import Edge, EquationError
from compute.measure.benchmark import benchmark_of
from compute.measure.race import Race, Racer, run_race
from tests.compute.engine.faulty import QuietSender, hosted
from tests.conftest import backend_cases, require

DECAY = "u_t = -a*u; a = 1 in [0, 2]; u(0) = a + x/Lx; dt = 0.125"
SMALL = {"backend": "cpu_numpy", "ny": 21, "nx": 34, "dtype": "float64"}


@pytest.fixture
def make():
    labs = []

    def made(text="gray_scott", **values):
        labs.append(Equations(**{**SMALL, "text": text, **values}))
        return labs[-1]

    yield made
    for lab in labs:
        lab.close()


def slots(lab):
    return {name: lab.values()[name] for name in SLOTS if lab.values()[name] is not None}


# -- text and numbers


@pytest.mark.parametrize("name", presets())
def test_every_preset_gives_the_results_of_the_reference(make, name):
    lab = make(name)
    lab.time_step = lab.dt  # the same throughout
    right = Reference(read(lab.text), 21, 34, dt=lab.dt)
    lab.advance(20)
    right.advance(20)
    for field in read(lab.text).fields:
        assert np.abs(lab.field(field) - right.arrays[field]).max() <= 1e-12 * np.abs(right.arrays[field]).max()
    assert lab.t == pytest.approx(right.time)
    frame = lab.frame()
    assert list(frame.rasters) == ["field", "show"]
    assert lab.status.healthy
    assert list(lab.panels(frame)) == ["field", "show", "profile"]


def test_a_text_gives_its_numbers_to_the_slots_and_none_is_its_value(make):
    lab = make()
    assert lab.numbers == {"F": 0.037, "k": 0.06, "Du": 0.16, "Dv": 0.08}
    assert slots(lab) == {"p1": 0.037, "p2": 0.06, "p3": 0.16, "p4": 0.08}
    lab.set(F=0.05)
    assert lab.p1 == lab.numbers["F"] == 0.05
    lab.update(p1=None)
    assert lab.p1 == 0.037
    lab.update(text=DECAY, p1=0.5)
    assert lab.numbers == {"a": 0.5}
    assert slots(lab) == {"p1": 0.5}
    assert (lab.param["p1"].label, lab.param["p1"].bounds) == ("a", (0, 2))


def test_a_text_set_as_an_attribute_gives_its_numbers_too(make):
    lab = make()
    lab.text = DECAY
    assert slots(lab) == {"p1": 1.0}
    with pytest.raises(EquationError, match="unknown name 'b'"):
        lab.text = "u_t = b*u"
    assert lab.text == DECAY
    assert slots(lab) == {"p1": 1.0}


def test_numbers_beyond_their_range_and_unknown_ones_are_refused(make):
    lab = make(DECAY)
    with pytest.raises(ValueError, match=r"a \(p1\) must be from 0 to 2, not 3"):
        lab.set(a=3)
    with pytest.raises(ValueError, match="no number 'F'; it has a"):
        lab.set(F=1)
    with pytest.raises(ValueError, match="p2 must be None: the text has 1 numbers"):
        lab.update(p2=1.0)
    with pytest.raises(ValueError, match=r"a \(p1\) must be"):
        make(DECAY, p1=-1)
    with pytest.raises(ValueError, match="at most 2"):
        lab.p1 = 3
    assert lab.numbers == {"a": 1.0}


def test_an_invalid_text_is_refused_and_the_lab_stays_as_it_is(make):
    lab = make(DECAY)
    lab.advance(3)
    before = lab.field()
    with pytest.raises(EquationError, match="line 1, column 9: expected an operator") as refused:
        lab.update(text="u_t = u 3")
    assert "    u_t = u 3\n            ^" in str(refused.value)
    with pytest.raises(EquationError):
        lab.require(text="x" * 10**6)
    assert (lab.text, lab.steps, lab.t) == (DECAY, 3, 0.375)
    assert np.array_equal(lab.field(), before)
    lab.advance()


def test_a_number_of_the_initial_values_begins_the_fields_again_before_the_first_step(make):
    lab = make(DECAY)
    lab.set(a=2)
    assert lab.field().min() == pytest.approx(2 + 0.5 / 34)
    lab.advance()
    lab.set(a=1)
    assert lab.steps == 1
    assert lab.field().min() == pytest.approx((2 + 0.5 / 34) * (1 - 2 / 8))


def test_a_slider_compiles_nothing(make):
    lab = make(backend="cpu_numba", dtype="float32")
    lab.advance(2)
    lab.frame()
    lab.set(F=0.05)
    assert not lab.advance(2).first_call
    assert not lab.status.cold
    lab.update(show="u + v")
    assert lab.status.cold


def test_the_program_is_printed_in_each_language(make):
    lab = make()
    for backend in BACKENDS:
        assert "lap(u)" in lab.source(backend.name)
    assert "float u" in make(dtype="float32").source("gpu_cupy")
    with pytest.raises(ValueError, match="backend must be one of"):
        lab.source("fortran")
    assert lab.source().startswith('"""Gray-Scott: one step')
    assert make("schroedinger").source().startswith('"""Schrodinger: one step')


# -- time step


def test_the_time_step_is_that_of_the_text_or_given_or_below_the_bound(make):
    assert make(DECAY).dt == 0.125
    assert make(DECAY, time_step=0.5).dt == 0.5
    lab = make("heat")
    assert lab.dt == pytest.approx(0.9 * 1.25)
    lab.set(D=0.5)
    assert lab.dt == pytest.approx(0.9 * 0.5)
    lab.advance(4)
    assert lab.t == pytest.approx(4 * 0.45)
    assert lab.frame().facts["limit"] == pytest.approx(0.5)


def test_an_automatic_time_step_follows_a_growing_diffusivity_however_the_steps_are_split(make):
    text = "u_t = div(u*grad(u)) + 0.02*u; u(0) = 1 + 0.1*noise(1)"
    lab, other = make(text), make(text)
    lab.advance(1100)
    for _ in range(11):
        other.advance(100)
    assert lab.t == other.t
    assert np.array_equal(lab.field(), other.field())
    assert np.isfinite(lab.field()).all()
    assert lab.bound.limit < 0.1


def test_a_large_grid_needs_a_time_step(make):
    lab = make("heat")
    with pytest.raises(ValueError, match="time_step must be given on more than 16,777,216 cells"):
        lab.require(ny=8192, nx=8192)
    lab.require(ny=8192, nx=8192, time_step=1.0)


def test_a_long_text_has_a_smaller_largest_grid(make, monkeypatch):
    """A step, and the start, take about as long as with 100 operations on a cell of the largest grid."""
    monkeypatch.setattr("compute.labs.equations.lab.limit", {"grid": 1000}.__getitem__)
    make("heat", ny=25, nx=40)
    terms = "+".join("(" + "+".join(f"{10 * k + j}*u" for j in range(10)) + ")" for k in range(10))
    noise = "+".join(f"noise({k})" for k in range(34))
    for text, count in (
        (f"u_t = {terms}", 202),  # with the two of a step, and the value that is read
        (f"u_t = 0; u(0) = {terms.replace('u', 'x')}", 199),
        (f"u_t = 0; u(0) = {noise}", 5 * 34 + 33),
    ):
        words = rf"must be at most {100_000 // count} for this text, which has {count} operations on a cell, not 1,000"
        with pytest.raises(ValueError, match=words):
            make(text, ny=25, nx=40)
        make(text, ny=20, nx=20)


# -- pictures


def test_the_pictures_are_a_field_and_an_expression(make):
    lab = make()
    lab.update(first_picture="v", show="u + v")
    frame = lab.frame()
    assert [raster.label for raster in frame.rasters.values()] == ["v", "u + v"]
    total = lab.field("u") + lab.field("v")
    assert frame.rasters["show"].span == pytest.approx((total.min(), total.max()))
    lab.update(show="v")
    assert lab.frame().rasters["show"].span == pytest.approx((lab.field("v").min(), lab.field("v").max()))
    with pytest.raises(ValueError, match="unknown name 'w'"):
        lab.update(show="w")
    with pytest.raises(ValueError, match="show must be one expression without"):
        lab.update(show="u; dt = 3")
    with pytest.raises(ValueError, match="first_picture must be empty or one of u, v"):
        lab.update(first_picture="w")
    lab.update(limits_field=(0, 2), limits_show=(-1, 1))
    assert [raster.span for raster in lab.frame().rasters.values()] == [(0, 2), (-1, 1)]


def test_a_text_is_set_together_with_a_picture_that_only_it_has(make):
    lab = make("heat")
    lab.update(text="gray_scott", show="u + v", first_picture="v")
    assert lab.frame().rasters["show"].label == "u + v"
    with pytest.raises(ValueError, match="first_picture must be empty or one of u, not 'v'"):
        lab.update(text="heat")
    assert lab.text == presets()["gray_scott"].text


def test_the_second_picture_of_one_field_is_its_rate_of_change(make):
    lab = make(DECAY)
    rate = lab.frame().rasters["show"]
    assert rate.label == "-a*u"
    assert rate.span == pytest.approx((-lab.field().max(), -lab.field().min()))


@pytest.mark.parametrize(("statement", "span"), [("", (0, 1)), ("; wall: zero-flux", (-1, 1))])
def test_cells_of_a_wall_have_no_number_and_the_rate_excludes_them(make, statement, span):
    """The rate of u = x is 1 in the first column, and -1 next to a wall without flux; in the last column, in the wall,
    it would be -1, too.
    """
    lab = make(f"u_t = lap(u); u(0) = x; edges: zero-flux; wall = x - 20{statement}")
    frame = lab.frame()
    assert frame.rasters["show"].span == span
    for raster in frame.rasters.values():
        assert ((raster.levels == NOT_FINITE) == (lab.field("wall") == 1)).all()
    lab.arrays["u"][3, 4] = np.inf
    found = lab.frame().rasters["field"].levels == NOT_FINITE
    assert found[3, 4]
    assert found.sum() == 1


# -- profile, probe and integral


@pytest.mark.parametrize("plotted", ["", "u", "v", "show"])
@pytest.mark.parametrize("section", ["horizontal", "vertical"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_profile_probe_and_integral_are_those_of_numpy(make, plotted, section, dtype):
    text = presets()["gray_scott"].text + "dx = 0.5\n"
    lab = make(text, dtype=dtype, plotted=plotted, section=section, probe_x=0.3, probe_y=0.8)
    lab.advance(7)
    frame = lab.frame()
    u, v = (lab.field(name).astype(float) for name in "uv")
    right = {"u": u, "v": v, "show": u * v**2}
    row, column = int(0.8 * 21), int(0.3 * 34)
    shown = right[plotted or "u"]
    line = shown[row] if section == "horizontal" else shown[:, column]
    profile = frame.curves["profile"]
    near = {"rtol": 1e-6 if dtype == "float32" else 1e-14}
    np.testing.assert_allclose(profile.y, line, **near)
    np.testing.assert_array_equal(profile.x, np.arange(line.size) + 0.5)
    assert profile.label == {"": "u", "show": "u*v^2"}.get(plotted, plotted)
    place = f"row {row}" if section == "horizontal" else f"column {column}"
    assert frame.notes["section"] == place
    panel = lab.panels(frame)["profile"]
    assert (panel.title, panel.x[0]) == (f"{profile.label} along {place}", "x" if section == "horizontal" else "y")
    facts = frame.facts
    assert (facts["probe_x"], facts["probe_y"]) == (column, row)
    for name, array in right.items():
        assert facts[f"probe_{name}"] == pytest.approx(array[row, column], rel=near["rtol"])
        assert facts[f"integral_{name}"] == pytest.approx(array.sum() * 0.5 * 0.5, rel=1e-6)
    assert facts["integral"] == facts["integral_u"]


WALLED = "u_t = lap(u)/9 + v; v_t = -v/9; u(0) = {}; v(0) = {}; dx = 0.5; dt = 0.1; show = u - v; "
WALLED += "wall: zero-flux; wall = 1.2 - abs(x - 4) + 9*step(0.9 - y)"


@pytest.mark.parametrize("backend", backend_cases())
@pytest.mark.parametrize("painted", [False, True])
def test_cells_of_a_wall_have_no_share_in_integral_range_profile_and_probe(make, backend, painted, monkeypatch):
    """The sums are those of plain Python over the cells outside; in the wall, u is a million and v not finite."""
    require(backend, monkeypatch, Equations.PACKAGE)
    values = {"section": "vertical", "probe_x": 0.5, "probe_y": 0.02, "dtype": "float32"}
    text = WALLED.format("where(x < 2.8, sin(x), where(x < 5.2, 1e6, cos(y)))", "0.3 + x/9")
    lab = make(text, backend=backend.name, **values)
    lab.load("u", np.where(lab.field("wall") == 1, 1e6, lab.field("u")))
    lab.advance(3)
    if painted:
        lab.paint([(25.0, 12.0)], 1, 4.0, field="wall")
        lab.paint([(25.0, 12.0)], 1e7, 2.0, field="u")
    wall, u, v = lab.field("wall"), lab.field("u"), lab.field("v")
    if backend.device == "cpu":
        lab.arrays["v"][wall == 1] = np.nan
    facts, profile = (frame := lab.frame()).facts, frame.curves["profile"]
    cells = [(i, j) for i in range(21) for j in range(34) if wall[i, j] < 1]
    assert 100 < len(cells) < 21 * 34 - 100
    inside = {name: [float(array[each]) for each in cells] for name, array in {"u": u, "v": v}.items()}
    inside["show"] = [a - b for a, b in zip(inside["u"], inside["v"], strict=True)]
    for name, numbers in inside.items():
        assert facts[f"integral_{name}"] == pytest.approx(math.fsum(numbers) * 0.25, rel=1e-5), name
    assert (facts["minimum"], facts["maximum"], facts["nonfinite"]) == (min(inside["u"]), max(inside["u"]), 0)
    assert frame.rasters["field"].span == (min(inside["u"]), max(inside["u"]))
    assert frame.rasters["show"].span == pytest.approx((min(inside["show"]), max(inside["show"])), rel=1e-5)
    assert lab.status.healthy
    assert math.isnan(facts["probe_u"])
    np.testing.assert_array_equal(profile.y, np.where(wall[:, 17] < 1, u[:, 17], np.nan))


def test_a_grid_that_is_all_wall_has_no_range(make):
    facts = make("u_t = lap(u); u(0) = 3; wall = 1").frame().facts
    assert math.isnan(facts["minimum"])
    assert math.isnan(facts["maximum"])
    assert (facts["integral"], facts["nonfinite"]) == (0, 0)


def test_a_conserved_quantity_has_a_constant_integral(make):
    lab = make("cahn_hilliard")
    first = lab.frame().facts["integral_c"]
    lab.advance(50)
    assert lab.frame().facts["integral_c"] == pytest.approx(first, abs=1e-9)
    assert first == pytest.approx(lab.field().sum())


def test_values_that_are_not_finite_have_no_integral(make):
    lab = make("u_t = u^8; v_t = 0*v; u(0) = 9; v(0) = 2; dt = 1")
    lab.advance(8)
    facts = lab.frame().facts
    assert np.isnan(facts["integral_u"])
    assert facts["integral_v"] == 2 * 21 * 34


def test_an_unknown_quantity_is_refused(make):
    lab = make()
    with pytest.raises(ValueError, match="plotted must be empty or one of u, v, show, not 'w'"):
        lab.update(plotted="w")
    with pytest.raises(ValueError, match="probe_x"):
        lab.update(probe_x=1.5)


def test_the_run_changes_when_the_fields_begin_again_and_not_by_a_stroke(make):
    lab = make()
    run = lab.run
    lab.advance(3)
    lab.act("paint", points=[(3, 3)], value=1.0, radius=2.0, field="v")
    assert lab.frame().notes["run"] == run
    kept = lab.snapshot()
    lab.act("reset")
    assert lab.run != run
    lab.act("undo")
    assert lab.run == run
    lab.update(text="heat")
    assert lab.run != run
    lab.update(text="gray_scott")
    lab.restore(kept)
    assert lab.run == run


# -- state


def test_edges_scheme_and_time_step_of_the_text_change_while_the_fields_and_numbers_stay(make):
    lab = make("heat")
    lab.set(D=0.5)
    lab.advance(4)
    before, run = lab.field(), lab.run
    lab.update(text=with_edges(with_scheme(with_time_step(lab.text, 0.25), "rk3"), Edge("fixed", 1)))
    assert (lab.steps, lab.t, lab.run) == (4, pytest.approx(4 * 0.45), run)
    assert lab.numbers == {"D": 0.5}
    assert np.array_equal(lab.field(), before)
    right = Reference(read(lab.text), 21, 34, parameters={"D": 0.5}, start={"u": before})
    lab.advance(3)
    right.advance(3)
    np.testing.assert_allclose(lab.field(), right.arrays["u"], rtol=1e-12)
    lab.text = presets()["heat"].text  # as an attribute
    assert (lab.steps, lab.numbers) == (7, {"D": 0.5})
    lab.update(text=presets()["heat"].text.replace("D = 0.2", "D = 0.3"))
    assert lab.steps == 0


def test_another_scheme_has_another_bound(make):
    lab = make("wave")
    lab.advance()
    assert lab.frame().notes["advice"] == ""
    limit = lab.bound.limit
    lab.update(text=presets()["wave"].text.replace("symplectic", "euler"))
    assert "euler amplifies the waves" in lab.frame().notes["advice"]
    lab.update(text=presets()["wave"].text.replace("symplectic", "rk3"))
    frame = lab.frame()
    assert frame.notes["advice"] == ""
    assert frame.facts["limit"] == pytest.approx(limit * 1.732 / 2, rel=0.02)


def test_a_link_repeats_settings_that_changed_during_a_run_and_undo_restores_them(make):
    lab = make("heat")
    lab.set(D=0.5)
    lab.advance(3)
    lab.act("paint", points=[(10, 10)], value=1.0, radius=3.0)
    painted = lab.field()
    lab.update(text=with_edges(with_time_step(lab.text, 0.25), Edge("periodic")))
    lab.set(D=0.25)
    lab.advance(3)
    plain = lab.HISTORY.of(Equations, lab.values(), lab.snapshot())
    assert not plain.missing
    scene = unpacked(packed(Scene("equations", plain.values, (64, 64), plain.steps, history=plain.entries)))
    scene.check()
    again = scene.open()
    for step in range(scene.steps + 1):
        for entry in scene.history:
            if entry["step"] == step:
                lab.HISTORY.apply(again, entry)
        if step < scene.steps:
            again.advance()
    assert again.numbers == {"D": 0.25}
    assert again.text == lab.text
    assert np.array_equal(again.field(), lab.field())
    again.close()
    lab.act("undo")  # of the settings
    assert np.array_equal(lab.field(), painted)
    assert (lab.steps, lab.text, lab.numbers) == (3, presets()["heat"].text, {"D": 0.5})
    lab.advance(2)
    assert lab.t == pytest.approx(5 * 0.45)


def test_arrays_are_loaded_by_name(make):
    lab = make("wave")
    ramp = np.arange(21.0 * 34).reshape(21, 34)
    lab.load("v", ramp)
    lab.load(2 * ramp)
    assert np.array_equal(lab.field("v"), ramp)
    assert np.array_equal(lab.field(), 2 * ramp)
    assert set(lab.data()) == {"u", "v", "wall"}
    with pytest.raises(ValueError, match="name must be one of u, v, wall, not 'w'"):
        lab.load("w", ramp)
    with pytest.raises(ValueError, match="name must be one of"):
        lab.field("w")
    with pytest.raises(ValueError, match="shape"):
        lab.load("v", ramp[1:])


def test_another_text_begins_again_and_a_snapshot_belongs_to_its_text(make):
    lab = make(DECAY)
    lab.advance(5)
    kept = lab.snapshot()
    lab.update(text=DECAY + "; show = u")
    assert (lab.steps, lab.t) == (0, 0.0)
    with pytest.raises(ValueError, match="same equations"):
        lab.restore(kept)
    lab.update(text=DECAY)
    lab.restore(kept)
    assert (lab.steps, lab.t) == (5, 0.625)
    lab.reset()
    assert (lab.steps, lab.t) == (0, 0.0)


def test_values_that_grow_or_are_not_finite_are_not_healthy(make):
    lab = make("u_t = u; u(0) = 1; dt = 1")
    lab.advance(10)
    lab.frame()
    assert not lab.status.healthy
    assert "more than 1000 times that of the start" in lab.status.why
    lab.frame()
    assert lab.status.healthy  # the user has run it again
    lab.advance(2000)
    lab.frame()
    assert "not finite" in lab.status.why
    lab.reset()
    lab.frame()
    assert lab.status.healthy


def test_a_link_carries_text_numbers_and_history(make):
    lab = make(DECAY, dtype="float32")
    lab.set(a=0.5)
    lab.advance(3)
    lab.set(a=1.5)
    lab.advance(2)
    plain = lab.HISTORY.of(Equations, lab.values(), lab.snapshot())
    scene = unpacked(packed(Scene("equations", plain.values, (64, 64), plain.steps, history=plain.entries)))
    scene.check()
    again = scene.open()
    for step in range(scene.steps):
        for entry in scene.history:
            if entry["step"] == step:
                lab.HISTORY.apply(again, entry)
        again.advance()
    assert np.array_equal(again.field(), lab.field())
    again.close()


@pytest.mark.parametrize("text", ["u_t = " + "(" * 3000, "u_t = 9^9^9^9*u", "\0" * 99, "u_t = __import__('os')", ""])
def test_a_hostile_text_in_a_link_is_refused(text):
    with pytest.raises((EquationError, SceneError), match="line 1, column"):
        Scene("equations", {"text": text}, (64, 64)).check()


def test_a_stroke_paints_a_field_or_the_wall_and_is_part_of_the_history(make):
    lab = make("u_t = 0.1*lap(u); v_t = 0*v; wall = 0; dt = 1; u(0) = x")
    lab.act("paint", points=[(10, 10), (20, 10)], value=5.0, radius=2.0, field="v")
    lab.act("paint", points=[(5, 5)], value=1, radius=1.5, field="wall")
    lab.act("paint", points=[(0, 0)], value=-1, radius=1)
    inside = lab.field("v") == 5
    assert 4 * 10 < inside.sum() < 4 * 10 + 20
    assert inside[10, 15]
    before = lab.field()
    assert before[0, 0] == -1
    lab.advance(3)
    wall = lab.field("wall") == 1
    assert wall[5, 5]
    assert np.array_equal(lab.field()[wall], before[wall])
    assert not np.array_equal(lab.field()[8], before[8])
    plain = lab.HISTORY.of(Equations, lab.values(), lab.snapshot())
    again = Scene("equations", plain.values, (64, 64), plain.steps, history=plain.entries).open()
    for entry in plain.entries:
        lab.HISTORY.require_entry(entry["do"], entry["with"])
        lab.HISTORY.apply(again, entry)
    again.advance(3)
    assert np.array_equal(again.field(), lab.field())
    again.close()


def test_strokes_and_resets_are_undone_and_redone(make):
    lab = make("wave")
    lab.advance(4)
    before, t = lab.field("v"), lab.t
    lab.act("paint", points=[(3, 3)], value=2.0, radius=2.0, field="v")
    lab.act("paint", points=[(4, 4)], value=2.0, radius=2.0, field="v", begins=False)
    painted = lab.field("v")
    lab.act("reset")
    assert lab.frame().notes["undo"] == "Waves at step 4"
    lab.act("undo")
    assert np.array_equal(lab.field("v"), painted)
    lab.act("undo")
    assert np.array_equal(lab.field("v"), before)
    assert (lab.steps, lab.t) == (4, t)
    lab.act("redo")
    assert np.array_equal(lab.field("v"), painted)
    lab.update(ny=8)
    with pytest.raises(ValueError, match=r"nothing to undo \(the grid is another\)"):
        lab.act("undo")


def test_another_text_is_undone_with_its_fields_and_numbers(make):
    lab = make(p1=0.05, time_step=0.5)
    lab.update(show="u + v", limits_field=(0, 1))
    lab.advance(4)
    before, values = lab.data(), lab.values()
    with pytest.raises(EquationError):
        lab.update(text="u_t = (")
    assert lab.frame().notes["undo"] == ""  # a refused text is no change
    lab.update(text="wave", show="", time_step=None, limits_field=None)
    lab.advance(3)
    after = lab.data()
    lab.update(text=DECAY)
    assert lab.frame().notes["undo"] == "Waves at step 3"
    lab.act("undo")
    assert all(np.array_equal(lab.data()[name], array) for name, array in after.items())
    lab.act("undo")
    assert all(np.array_equal(lab.data()[name], array) for name, array in before.items())
    assert (lab.values(), lab.steps, lab.t) == (values, 4, 2.0)
    notes = lab.frame().notes
    assert (notes["undo"], notes["redo"]) == ("", "Waves at step 3")
    lab.advance(1)
    lab.act("redo")
    assert lab.text == presets()["wave"].text
    assert all(np.array_equal(lab.data()[name], array) for name, array in after.items())
    lab.update(text="heat", ny=9, nx=9)
    with pytest.raises(ValueError, match="nothing to undo"):
        lab.act("undo")


def test_an_invalid_stroke_is_refused(make):
    lab = make("heat")
    for match, stroke in {
        "name must be one of u, not 'wall'": {"value": 1, "radius": 1, "field": "wall"},
        "radius must be at most 34 cells": {"value": 1, "radius": 35},
        "radius must be a finite number above 0": {"value": 1, "radius": 0},
        "finite value": {"value": np.nan, "radius": 1},
    }.items():
        with pytest.raises(ValueError, match=match):
            lab.paint([(1, 1)], **stroke)
    with pytest.raises(ValueError, match="value must be 1 or 0 in wall"):
        make("wave").paint([(1, 1)], 0.5, 1, "wall")
    with pytest.raises(ValueError, match="paint needs field, points, radius, value"):
        lab.HISTORY.require_entry("paint", {"points": [[1, 1]], "value": 1, "radius": 1})
    assert not lab.history.entries


def test_an_engine_pauses_the_lab_at_a_time_and_runs_it_on(make):
    lab, sender = make(DECAY, pause_at=2.0), QuietSender()
    host, run = hosted(lab, sender)
    run()
    assert (lab.t, lab.steps) == (2.0, 16)
    assert [event.reason for event in sender.said if isinstance(event, Paused)] == ["t = 2.0 is reached"]
    run()
    assert lab.steps > 16
    assert host.pacer.running
    host.close()


# -- races and benchmarks


def test_backends_race_and_agree():
    values = {"text": "heat", "ny": 32, "nx": 32, "dtype": "float64"}
    result = run_race(Race(Equations, values, (Racer("cpu_numpy"), Racer("cpu_numba")), steps=40), lambda *_: None)
    assert all(lane.right for lane in result.lanes)
    assert result.steps == 40


def test_the_bench_has_heat_and_gray_scott():
    benchmark = benchmark_of(Equations)
    cases = benchmark.cases({"sizes": (32,), "texts": ()}, ("float32",), gpu=False)
    assert [(case.name, case.cells) for case in cases] == [("heat", 1024), ("gray_scott", 2048)]
    assert benchmark.step_time({"text": "gray_scott", "time_step": None}) == 1
    assert benchmark.step_time({"text": "heat", "time_step": None}) == 0
    values = {"text": presets()["gray_scott"].text, "ny": 8, "nx": 4}
    assert benchmark.rules.cells(values) == 64
