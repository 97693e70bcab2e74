"""Two runs with one clock: the second one is the run of a lab alone at its value, whatever is done to both."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from msgspec import structs

from compute.export import render
from compute.export.scene import Scene, Style, read, scene_of
from compute.lab.two_runs import MOST_STEPS, SECOND
from compute.labs.diffusion import Diffusion
from compute.labs.equations import Equations

SMALL = {"ny": 24, "nx": 32, "backend": "cpu_numpy"}
HEAT = "u_t = D*lap(u) - a*u\nD = 0.2 in [0, 1]\na = 0 in [0, 1]\ns = 3 in [1, 5]\nu(0) = exp(-x^2/s)\n"
GIVEN = HEAT + "dt = 0.25\n"
STROKE = {"points": [(3.0, 4.0), (9.0, 11.0)], "value": 2.0, "radius": 3.0}


def require_same(lab, other):
    """Require that two labs are at the same step of the same fields, bit for bit."""
    assert lab.steps == other.steps
    for name, array in lab.data().items():
        np.testing.assert_array_equal(array, other.data()[name], strict=True)


def do_all(lab):
    """Run, paint, reset, and undo the reset."""
    lab.advance(7)
    lab.act("paint", **STROKE)
    lab.advance(20)
    lab.act("reset")
    lab.advance(3)
    lab.act("undo")
    lab.advance(5)


@pytest.mark.parametrize(
    ("kind", "values", "other"),
    [
        (Diffusion, {}, {"r": 0.05}),
        (Diffusion, {"preset": "noise", "hold_limits": True}, {"edges": "periodic"}),
        (Diffusion, {"r": 0.25}, {"dtype": "float64"}),
        (Diffusion, {"unstable": True, "r": 0.25}, {"r": 0.27}),
        (Diffusion, {"backend": "cpu_numba"}, {"variant": "one-step"}),
        (Equations, {"text": "gray_scott"}, {"p1": 0.05}),
        (Equations, {"text": GIVEN}, {"p1": 0.5}),
    ],
)
def test_the_second_run_is_that_of_a_lab_alone_with_the_other_value(kind, values, other):
    values = SMALL | values
    with kind(**values, second_run=other) as lab, kind(**values | other) as alone, kind(**values) as first:
        for each in (lab, alone, first):
            do_all(each)
            each.frame()
            each.advance(4)
        require_same(lab, first)
        require_same(lab.second, alone)
        assert np.array_equal(lab.field(), lab.second.field()) == ("variant" in other)  # kernels differ in speed only


@pytest.mark.parametrize(("kind", "other"), [(Diffusion, {"r": 0.05}), (Equations, {"p1": 0.05})])
def test_both_runs_share_the_device_of_every_backend(any_backend, kind, other):
    values = {"ny": 24, "nx": 32, "backend": any_backend.name}
    with kind(**values) as lab, kind(**values | other) as alone:
        lab.update(second_run=other)
        for each in (lab, alone):
            each.advance(5)
            each.frame()
            each.advance(6)
        require_same(lab.second, alone)
        lab.update(second_run={})
        lab.advance(2)  # its device is still open
        assert np.isfinite(lab.field()).all()


@pytest.mark.parametrize(("first", "other"), [(0.1, 0.7), (0.7, 0.1), (1.0, 0.02)])
def test_runs_with_different_time_steps_show_the_same_time(first, other):
    with (
        Equations(**SMALL, text=HEAT, p1=first, second_run={"D": other}) as lab,
        Equations(**SMALL, text=HEAT, p1=other) as alone,
    ):
        for count in (1, 2, 30):
            lab.advance(count)
            facts = lab.frame().facts
            assert abs(facts["second_t"] - facts["t"]) <= lab.second.dt / 2
        assert lab.steps == 33 != lab.second.steps
        alone.advance(lab.second.steps)
        require_same(lab.second, alone)


def test_the_engine_learns_how_long_a_step_of_both_runs_may_take():
    with Equations(**SMALL, text=HEAT, time_step=0.5, second_run={"time_step": 0.05}) as lab:
        unknown = lab.status.longest_call
        lab.advance(3)
        assert lab.status.longest_call == pytest.approx(unknown * 10 / MOST_STEPS)
        lab.update(second_run={"time_step": 0.06})
        assert lab.status.longest_call == unknown


def test_a_far_smaller_time_step_is_refused():
    lab = Equations(**SMALL, text=HEAT, time_step=1.0, second_run={"time_step": 0.5 / MOST_STEPS})
    with lab, pytest.raises(ValueError, match="second_run: its time step is too small"):
        lab.advance(1)


def test_a_second_run_begins_in_the_present_state_and_ends_without_a_trace():
    with Diffusion(**SMALL) as lab, Diffusion(**SMALL) as alone:
        for each in (lab, alone):
            each.advance(9)
            each.act("paint", **STROKE)
        lab.update(second_run={"r": 0.1})
        require_same(lab.second, alone)
        alone.update(r=0.1)
        for each in (lab, alone):
            each.advance(11)
        require_same(lab.second, alone)
        lab.update(second_run={"r": 0.02})  # another value of the same parameter: the run continues
        alone.update(r=0.02)
        for each in (lab, alone):
            each.advance(5)
        require_same(lab.second, alone)
        lab.update(second_run={"edges": "periodic"})  # another parameter: it starts in the present state
        np.testing.assert_array_equal(lab.second.field(), lab.field())
        lab.update(second_run={})
        assert lab.second is None
        assert SECOND not in lab.frame().rasters


def test_other_values_an_image_and_another_grid_apply_to_both():
    with Diffusion(**SMALL, second_run={"r": 0.1}) as lab, Diffusion(**SMALL, r=0.1) as alone:
        for each in (lab, alone):
            each.update(preset="ring", edges="periodic")
            each.advance(3)
            each.update(ny=16, nx=16)
            each.advance(3)
            each.update(dtype="float64", backend="cpu_numba")
            each.advance(3)
            each.load(np.eye(16))
            each.act("checkpoint")
            each.advance(8)
            each.act("rollback")
            each.advance(2)
        require_same(lab.second, alone)


@pytest.mark.parametrize(("kind", "other"), [(Diffusion, {"r": 0.1}), (Equations, {"p1": 0.05})])
def test_a_snapshot_restores_both_runs(kind, other):
    with kind(**SMALL, second_run=other) as lab, kind(**SMALL, second_run=other) as again:
        lab.advance(6)
        again.restore(pickle.loads(pickle.dumps(lab.snapshot())))
        for each in (lab, again):
            each.advance(5)
        require_same(again, lab)
        require_same(again.second, lab.second)


ACTIONS = {
    "advance": lambda rng, lab: lab.advance(int(rng.integers(1, 40))),
    "other value": lambda rng, lab: lab.update(second_run={"r": float(rng.uniform(0, 0.25))}),
    "other edges": lambda rng, lab: lab.update(second_run={"edges": str(rng.choice(["periodic", "zero-dirichlet"]))}),
    "no other": lambda rng, lab: lab.update(second_run={}),
    "drag": lambda rng, lab: lab.update(r=float(rng.uniform(0, 0.25))),
    "paint": lambda rng, lab: lab.act("paint", **STROKE | {"value": float(rng.normal())}),
    "dtype": lambda rng, lab: lab.update(dtype=str(rng.choice(["float32", "float64"]))),
    "checkpoint": lambda rng, lab: lab.act("checkpoint"),
    "rollback": lambda rng, lab: lab.act("rollback"),
    "undo": lambda rng, lab: lab.act("undo") if lab.earlier.past else None,
    "redo": lambda rng, lab: lab.act("redo") if lab.earlier.future else None,
    "preset": lambda rng, lab: lab.update(preset=str(rng.choice(["ring", "noise", "single mode"]))),
    "frame": lambda rng, lab: lab.frame(),
    "hold": lambda rng, lab: lab.update(limits_field=[None, (0.0, float(rng.uniform(1, 2)))][rng.integers(2)]),
}


EQUATION_ACTIONS = {
    **{name: ACTIONS[name] for name in ("advance", "no other", "paint", "dtype", "undo", "redo", "hold")},
    "reset": lambda rng, lab: lab.act("reset"),
    "other": lambda rng, lab: lab.update(second_run={"D": float(rng.uniform(0, 0.9))}),
    "other number": lambda rng, lab: lab.update(second_run={"a": float(rng.uniform(0, 0.9))}),
    "drag": lambda rng, lab: lab.update(p1=float(rng.uniform(0, 0.9))),
    "scheme": lambda rng, lab: lab.update(text=GIVEN + f"scheme: {rng.choice(['euler', 'rk3'])}\n"),
    "edges": lambda rng, lab: lab.update(text=GIVEN + f"edges: {rng.choice(['periodic', 'zero-flux'])}\n"),
    "time step": lambda rng, lab: lab.update(time_step=[None, 0.125, 0.0625][rng.integers(3)]),
}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("kind", "values", "actions"), [(Diffusion, {}, ACTIONS), (Equations, {"text": GIVEN}, EQUATION_ACTIONS)]
)
def test_a_file_restores_both_runs_whatever_was_done(kind, values, actions, seed):
    rng = np.random.default_rng(seed)
    with kind(**SMALL | values) as lab:
        if "checkpoint" in actions:
            lab.act("checkpoint")
        for turn, name in enumerate(rng.choice(list(actions), 60)):
            actions[name](rng, lab)
            if turn % 20 == 19:
                told = kind.HISTORY.of(kind, lab.values(), lab.snapshot())
                made = Scene(kind.LAB, told.values, (12, 16), told.steps, SECOND, Style(), told.entries)
                made = scene_of(read(json.dumps(made.plain())))
                made.check()
                assert told.missing == ""
                with render.opened_at(made) as again:
                    part = made if lab.second is not None else structs.replace(made, part="")
                    np.testing.assert_array_equal(*(render.current_pixels(each, part) for each in (again, lab)))
                    require_same(again, lab)
                    assert (again.second is None) == (lab.second is None)
                    if lab.second is not None:
                        require_same(again.second, lab.second)


def test_after_a_rollback_a_change_of_the_number_type_finds_both_runs():
    """A single mode is drawn for the edges of each run, in the number type of the moment at which it begins."""
    with Diffusion(**SMALL, preset="single mode") as lab, Diffusion(**SMALL, preset="single mode") as direct:
        lab.act("checkpoint")
        for each in (lab, direct):
            each.update(second_run={"edges": "zero-dirichlet"})
        lab.act("rollback")
        for each in (lab, direct):
            each.update(dtype="float64")
        require_same(lab, direct)
        require_same(lab.second, direct.second)


def test_both_pictures_have_the_same_limits_which_contain_both_fields():
    with Equations(**SMALL, text=GIVEN, second_run={"p2": 0.5}) as lab:
        lab.advance(40)
        rasters, (first, second) = lab.frame().rasters, (lab.field(), lab.second.field())
        low, high = min(first.min(), second.min()), max(first.max(), second.max())
        assert rasters["field"].span == rasters[SECOND].span == pytest.approx((low, high))
        assert [rasters[name].label for name in ("field", SECOND)] == ["u, a = 0", "u, a = 0.5"]
        expected = np.rint(254 * (second - low) / (high - low))
        assert np.abs(rasters[SECOND].levels - expected).max() <= 1
        lab.update(limits_field=(0.0, 2.0))
        assert {lab.frame().rasters[name].span for name in ("field", SECOND)} == {(0.0, 2.0)}


@pytest.mark.parametrize(
    ("kind", "values", "other", "says"),
    [
        (Diffusion, {}, {"ny": 8}, "second_run must have a value of one of r, edges, variant, dtype, not of 'ny'"),
        (Diffusion, {}, {"r": 0.1, "edges": "periodic"}, "not of 'r, edges'"),
        (Diffusion, {}, {"r": 0.3}, "second_run: .*r.* must be at most 0.25"),
        (Diffusion, {}, {"edges": ["periodic"]}, "second_run: .*edges"),
        (Equations, {"text": HEAT}, {"p3": 2.0}, "one of p1, p2, time_step, not of 'p3'"),  # of the initial values
        (Equations, {"text": HEAT}, {"D": 1.5}, r"second_run: D \(p1\) must be from 0 to 1, not 1.5"),
    ],
)
def test_another_second_run_is_refused_and_changes_nothing(kind, values, other, says):
    with pytest.raises(ValueError, match=says):
        kind(**SMALL, **values, second_run=other)
    with kind(**SMALL, **values) as lab:
        for change in (lambda: lab.update(second_run=other), lambda: setattr(lab, SECOND, other)):
            with pytest.raises(ValueError, match=says):
                change()
            assert (lab.second_run, lab.second) == ({}, None)


def test_a_value_that_the_second_run_cannot_follow_is_refused():
    with Diffusion(**SMALL, unstable=True, second_run={"r": 0.3}) as lab:
        with pytest.raises(ValueError, match=r"second_run: .*r.* must be at most 0\.25, not 0\.3"):
            lab.update(unstable=False)
        assert lab.unstable


def test_other_equations_have_no_second_run():
    with Equations(**SMALL, text=HEAT, second_run={"D": 0.5}) as lab:
        lab.update(text=HEAT + "edges: periodic\n")
        assert lab.second_run == {"p1": 0.5}
        lab.update(text="gray_scott")
        assert (lab.second_run, lab.frame().rasters.keys() & {SECOND}) == ({}, set())


@pytest.mark.parametrize("line", ["edges: periodic", "scheme: rk3", "dt = 0.1"])
def test_other_edges_schemes_and_time_steps_continue_both_runs(line):
    values = SMALL | {"text": GIVEN}
    changed = HEAT + line + ("" if "dt" in line else "\ndt = 0.25") + "\n"
    with Equations(**values, second_run={"D": 0.5}) as lab, Equations(**values, p1=0.5) as alone:
        for each in (lab, alone):
            each.advance(4)
            each.update(text=changed)
            each.advance(5)
            each.frame()
            each.advance(2)
        assert lab.second.text == changed
        require_same(lab.second, alone)


def test_a_second_run_that_blows_up_pauses_the_lab_and_says_which():
    with Diffusion(ny=24, nx=32, backend="cpu_numba", unstable=True, second_run={"r": 0.5}) as lab:
        assert lab.status.cold  # its first step may compile a kernel
        for _ in range(10):
            lab.advance(200)
            lab.frame()
        assert not lab.status.healthy
        assert lab.status.why.startswith("second run: its field holds values that are not finite")
        assert not lab.status.cold


def test_memory_is_that_of_both_runs():
    assert Diffusion.predicted_bytes(second_run={"r": 0.1}) == 2 * Diffusion.predicted_bytes()
    double = Diffusion.predicted_bytes() + Diffusion.predicted_bytes(dtype="float64")
    assert Diffusion.predicted_bytes(second_run={"dtype": "float64"}) == double
