"""The lab as driven by the app: slices, frames, rest, and the cost of a changed value."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from compute.devices.builds import building
from compute.lab.frames import Curve, Raster
from compute.labs.l_curve import LCurve, cpu_numpy
from compute.labs.l_curve.picture import products_per_second
from compute.labs.l_curve.rules import RULES
from tests.compute.labs.l_curve.test_survey import Dense

ALWAYS = {
    "l-curve", "ribbon-lower", "ribbon-upper", "width", "curvature", "gcv", "weighted-gcv", "quasi-optimality",
    "history", "singular", "solution",
}  # fmt: skip
PICARD = {"picard-coefficients", "picard-ratio"}


def run_live(lab, steps=3, frames=200):
    """Alternate slices and frames until the lab rests; return the frames."""
    seen = [lab.frame()]
    while not lab.status.resting:
        before = lab.bidiagonal.k
        timing = lab.advance(steps)
        assert timing.steps >= 1
        assert timing.steps == lab.bidiagonal.k - before == steps or lab.done
        seen.append(lab.frame())
        assert len(seen) < frames
    return seen


@pytest.mark.parametrize("backend", ["cpu_numpy", "cpu_numba"])
def test_the_curve_grows_and_rests(backend):
    lab = LCurve(backend=backend, problem="shaw", n=60, noise=1e-3, tolerance=1e-6)
    frames = run_live(lab)
    widths = [frame.facts["width"] for frame in frames]
    steps = [frame.facts["steps"] for frame in frames]
    assert steps[0] == 1
    assert steps == sorted(steps)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 0.5
    assert widths[-1] <= 1e-6
    assert [frame.number for frame in frames] == list(range(1, len(frames) + 1))
    last = frames[-1]
    assert set(last.parts) == ALWAYS | PICARD | {"truth", "error"}
    assert last.facts["done"] == last.facts["converged"] == last.facts["finished"] == 1
    assert [frame.facts["finished"] for frame in frames[:-1]] == [0] * (len(frames) - 1)
    assert last.facts["products"] == 1 + 2 * lab.bidiagonal.k
    np.testing.assert_array_equal(last.curves["history"].x, sorted(set(steps)))
    assert lab.advance(5).compute == 0
    assert lab.bidiagonal.k == steps[-1]


def test_a_frame_equals_the_dense_decomposition():
    lab = LCurve(problem="phillips", n=64, noise=0.01, tolerance=1e-9, lam=0.05, lambdas=(1e-3, 5.0, 40))
    frame, dense = run_live(lab, 50)[-1], Dense(lab)
    curves, facts = frame.curves, frame.facts
    residual, solution = dense.norms(lab.grid)
    np.testing.assert_allclose(curves["l-curve"].x, residual, rtol=1e-6)
    np.testing.assert_allclose(curves["l-curve"].y, solution, rtol=1e-6)
    assert (curves["ribbon-lower"].x <= residual).all()
    assert (curves["ribbon-upper"].x >= residual).all()
    assert (curves["ribbon-lower"].y <= solution).all()
    assert (curves["ribbon-upper"].y >= solution).all()
    for name in ("width", "curvature", "gcv", "weighted-gcv", "quasi-optimality", "error"):
        np.testing.assert_allclose(curves[name].x, lab.grid)
    f = dense.s**2 / (dense.s**2 + lab.grid[:, None] ** 2)
    np.testing.assert_allclose(curves["gcv"].y, (residual / (64 - f.sum(axis=1))) ** 2, rtol=1e-6)
    np.testing.assert_allclose(
        curves["quasi-optimality"].y, np.linalg.norm((1 - f) * f * dense.c / dense.s, axis=1), rtol=1e-5
    )
    x, truth = dense.solution(0.05), lab.system.x
    np.testing.assert_allclose(curves["solution"].y, x, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(curves["truth"].y, truth)
    np.testing.assert_allclose(curves["solution"].x, (np.arange(64) + 0.5) / 64)
    wrong = [np.linalg.norm(dense.solution(lam) - truth) / np.linalg.norm(truth) for lam in lab.grid]
    np.testing.assert_allclose(curves["error"].y, wrong, rtol=1e-5)
    np.testing.assert_allclose(curves["singular"].y, dense.s, rtol=1e-9)
    np.testing.assert_allclose(curves["picard-coefficients"].y, np.abs(dense.c), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(curves["picard-ratio"].y, np.abs(dense.c) / dense.s, rtol=1e-6, atol=1e-9)
    expected = {
        "lam": 0.05, "alpha": 0.0025, "residual": dense.residual(0.05), "solution": np.linalg.norm(x),
        "error": np.linalg.norm(x - truth) / np.linalg.norm(truth), "rows": 64, "columns": 64,
        "noise": 0.01 * np.linalg.norm(lab.system.b),
    }  # fmt: skip
    assert {name: facts[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert facts["residual_lower"] <= expected["residual"] <= facts["residual_upper"]
    assert facts["solution_lower"] <= expected["solution"] <= facts["solution_upper"]
    assert facts["error_bound"] >= np.linalg.norm(lab.bidiagonal.solve(0.05) - x) / np.linalg.norm(x) - 1e-9
    assert frame.notes["shown"] == "manual"


def test_facts_and_notes_name_every_rule():
    frame = run_live(LCurve(problem="gravity", n=40, noise=0.01, rule="discrepancy"), 50)[-1]
    assert set(RULES) <= set(frame.facts)
    assert set(RULES) <= set(frame.notes)
    assert frame.notes["shown"] == "Discrepancy principle"
    assert frame.facts["lam"] == frame.facts["discrepancy"]
    assert frame.notes["spectrum"] == "singular values"
    assert all(isinstance(value, float) for value in frame.facts.values())
    pickle.dumps((dict(frame.parts), dict(frame.facts), frame.timing, dict(frame.notes)))


def test_without_an_answer_of_the_rule_the_middle_is_shown():
    lab = LCurve(problem="random_sparse", n=80)
    frame = run_live(lab, 50)[-1]
    assert frame.facts["lam"] == pytest.approx(np.sqrt(lab.grid[0] * lab.grid[-1]))
    assert frame.notes["shown"] == "Maximum curvature gives none: the middle of the range"
    assert np.isnan([frame.facts["curvature"], frame.facts["error"]]).all()
    assert "truth" not in frame.parts


@pytest.mark.parametrize("problem", ["blur", "paralleltomo"])
def test_solutions_of_picture_problems_are_rasters(problem):
    lab = LCurve(problem=problem, n=21, noise=0.01, lam=0.1, tolerance=1e-6)
    frame = run_live(lab, 100)[-1]
    solution, truth = frame.rasters["solution"], frame.rasters["truth"]
    assert solution.levels.shape == truth.levels.shape == (21, 21)
    assert solution.span == truth.span == (lab.system.x.min(), lab.system.x.max())
    back = truth.low + truth.levels / 254 * (truth.high - truth.low)
    np.testing.assert_allclose(back, lab.system.x.reshape(21, 21), atol=0.003)
    part = lab.frame(view=(0.0, 10.0, 7.0, 21.0), pixels=(100, 100)).rasters["solution"]
    assert part.levels.shape == (11, 7)
    assert all(isinstance(frame.parts[name], Raster) for name in ("solution", "truth"))
    assert isinstance(frame.parts["l-curve"], Curve)


def test_a_large_matrix_shows_ritz_values_and_no_picard_plot():
    lab = LCurve(problem="random_sparse", n=500, tolerance=1e-3)
    frame = run_live(lab, 40)[-1]
    assert not PICARD & set(frame.parts)
    assert frame.notes["spectrum"] == "Ritz values"
    values = frame.curves["singular"].y
    assert values.size == lab.bidiagonal.k
    exact = np.linalg.svd(lab.system.A.toarray(), compute_uv=False)
    np.testing.assert_allclose(values[:5], exact[:5], rtol=1e-6)
    assert (values[1:] <= values[:-1]).all()


def test_a_resting_lab_resumes_when_a_value_needs_more_steps():
    lab = LCurve(problem="random_sparse", n=150, tolerance=0.01)
    run_live(lab, 40)
    k = lab.bidiagonal.k
    lab.tolerance = 1e-6
    assert not lab.status.resting
    run_live(lab, 40)
    assert lab.bidiagonal.k > k
    lab.lam = 3.0
    lab.rule = "gcv"
    assert lab.status.resting
    lab.lambdas = (1.0, 100.0, 50)
    assert not lab.status.resting
    k = lab.bidiagonal.k
    run_live(lab, 40)
    assert lab.bidiagonal.k == k
    assert lab.frame().curves["l-curve"].x.size == 50
    lab.noise = 0.1
    assert lab.bidiagonal.k == 1


def test_the_state_names_the_reason_of_the_end():
    lab = LCurve(problem="random_sparse", n=150, steps_at_most=15)
    assert lab.frame().notes["state"] == "Step 1: ribbons wider than 0.0001."
    run_live(lab, 40)
    assert lab.frame().notes["state"].startswith("Stopped at the limit of 15 steps with ribbons wider than 0.0001")
    lab.tolerance = 1.0
    assert lab.frame().notes["state"] == "All ribbons are within 1 after 15 steps."
    lab.update(problem="wing", n=30, tolerance=1e-9)
    run_live(lab, 40)
    assert lab.frame().notes["state"].startswith("The matrix is used up after ")
    low = {"matrix": np.diag([3.0, 2.0, 0.0, 0.0]), "rhs": np.ones(4)}
    lab.update(problem="own", options=low)
    run_live(lab, 40)
    state = lab.frame().notes["state"]
    assert state.startswith("The matrix is used up after 2 steps, since b meets no more than 2 of its singular values")


def test_another_backend_or_a_snapshot_restarts_the_run():
    lab = LCurve(problem="shaw", n=40, noise=0.01)
    curve = lab.solve()
    lab.backend = "cpu_numpy"
    assert lab.bidiagonal.k == 1
    np.testing.assert_allclose(lab.solve().residual_norms, curve.residual_norms, rtol=1e-9)
    lab.restore(pickle.loads(pickle.dumps(lab.snapshot())))
    assert lab.bidiagonal.k == 1
    assert lab.status.healthy


def test_predicted_bytes_are_close_to_the_allocated_ones():
    lab = LCurve(problem="random_sparse", n=2000, density=0.05, dtype="float32", steps_at_most=500)
    work = lab.bidiagonal.work
    held = work.A.nbytes + work.T.nbytes + work.V.nbytes
    assert held <= lab.predicted_bytes(**lab.values()) <= 2 * held + 32 * 2**20
    assert LCurve.predicted_bytes(problem="shaw", n=1000) > 2 * 8 * 10**6
    own = {"problem": "own", "options": {"matrix": np.eye(50), "rhs": np.ones(50)}}
    assert LCurve.predicted_bytes(**own) > 0
    assert LCurve.predicted_bytes(problem="own", options={"matrix": bytes(10**6)}) > 10**6


def test_the_history_of_the_ribbon_restarts_with_the_range():
    """The widest ribbon over other λ is another quantity: its history starts again and is not joined to the old one."""
    lab = LCurve(problem="shaw", n=60, noise=1e-3, tolerance=1e-3, lambdas=(1e-2, 1.0, 50))
    before = run_live(lab)[-1].curves["history"]
    lab.update(lambdas=(1e-6, 1e-2, 50))
    frames = [lab.frame(), *run_live(lab, 1, 400)]
    for frame in frames:
        history = frame.curves["history"]
        assert history.x[0] == before.x[-1]  # its first entry is of the step at which the range changed
        assert (np.diff(history.y) <= 0).all()  # ribbons of one range only close
    assert frames[0].curves["history"].y[0] == pytest.approx(frames[0].curves["width"].y.max())
    steps = lab.bidiagonal.k
    lab.update(tolerance=1e-6)  # the same range: the history continues
    assert run_live(lab, 1, 400)[-1].curves["history"].x[0] < steps


def test_steps_that_compile_kernels_count_in_no_rate(monkeypatch):
    def compiling(*given):
        with building():
            steps(*given)

    steps = cpu_numpy.steps
    lab = LCurve(backend="cpu_numpy", problem="heat", n=60)
    lab.advance(2)
    lab.reset()
    with monkeypatch.context() as patch:
        patch.setattr(cpu_numpy, "steps", compiling)
        lab.advance(2)
    first = lab.frame().facts
    assert 0 < first["cold_products"] <= first["products"]
    lab.advance(2)
    later = lab.frame().facts
    assert later["cold_products"] == first["cold_products"] < later["products"]
    assert products_per_second(later) > 0
    lab.reset()
    assert lab.frame().facts["cold_products"] == 0
    lab.close()
    cold = {"seconds": 2.0, "products": 5.0, "cold_seconds": 2.0, "cold_products": 5.0}
    assert math.isnan(products_per_second(cold))
