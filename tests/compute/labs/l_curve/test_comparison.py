"""The live comparison of L-curve labs: whole curves of the current problem, compared by their norms."""

from __future__ import annotations

import math
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from compute.lab.frames import Frame
from compute.labs.l_curve import LCurve
from compute.labs.l_curve.comparison import CITED, LARGEST, ROUNDING, RULES, CurveTarget
from compute.measure import verdict as verdicts
from compute.measure.records import Recorded
from compute.measure.statistics import Measurement
from compute.measure.verdict import Variant
from tests.comparing import LiveComparison


def values(**changes):
    defaults = {name: LCurve.param[name].default for name in LCurve.param if name != "name"}
    return defaults | {"backend": "cpu_numba", "problem": "shaw", "n": 40} | changes


@pytest.fixture(autouse=True)
def cpu_only(monkeypatch):
    monkeypatch.setattr(verdicts, "BACKENDS", [b for b in verdicts.BACKENDS if b.device == "host"])


def test_results_are_compared_before_curves_are_timed():
    session = LiveComparison(LCurve, values(dtype="float32", tolerance=1e-3))
    verdict = session.turn(30)
    assert verdict.state == "agree", verdict
    asked = [(given["backend"], given["dtype"]) for _, given in session.asked]
    assert asked[0] == ("cpu_numpy", "float64")
    assert set(asked[1:]) == {("cpu_numpy", "float32"), ("cpu_numba", "float32")}
    assert all(standing.measurement.step.median > 0 for standing in verdict.standings)
    assert 0 < verdict.agreement.difference <= verdict.agreement.tolerance


def test_a_step_is_a_whole_curve():
    twin = CurveTarget(LCurve(**values(problem="heat", n=120, noise=1e-2)))
    timing = twin.advance(1)
    while not timing.steps:
        timing = twin.advance(1)
    lab = LCurve(**values(problem="heat", n=120, noise=1e-2))
    lab.solve()
    assert timing.compute > timing.launch == 0  # a processor launches nothing
    assert timing.cells >= 2 * lab.system.A.nnz * (lab.bidiagonal.k - lab.chunk)
    twin.close()


@pytest.mark.parametrize(("once", "share"), [(False, 1.0), (True, 0.5)])
def test_a_timing_contains_the_share_of_the_matrices_that_was_read(monkeypatch, once, share):
    monkeypatch.setattr("compute.labs.l_curve.cpu_numba.one_pass", lambda matrix: once)
    twin = CurveTarget(LCurve(**values(problem="heat", n=120, noise=1e-2)))
    timing = pickle.loads(pickle.dumps(twin.advance(1)))  # as received from an engine
    assert (timing.share, timing.then(timing).share) == (share, share)
    twin.close()


def test_a_curve_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr("compute.labs.l_curve.comparison.PATIENCE", 0.0)
    twin = CurveTarget(LCurve(**values(problem="random_sparse", n=900, tolerance=1e-9)))
    with pytest.raises(ValueError, match="longer than 0 s"):
        twin.advance(100)


def test_a_large_problem_is_not_compared():
    assert not RULES.refusal(Variant("cpu_numba"), values(problem="random_sparse", n=3000, density=0.1))
    assert "hold up" in RULES.refusal(Variant("cpu_numba"), values(problem="random_sparse", n=15_000, density=0.1))
    assert LARGEST < 15_000**2 * 0.1


@pytest.mark.parametrize(
    ("problem", "n", "small"), [("random_sparse", 15_000, 300), ("shaw", 900, 200), ("blur", 96, 48)]
)
def test_results_are_compared_at_a_small_size(problem, n, small):
    assert RULES.small(values(problem=problem, n=n))["n"] == small


def test_an_own_problem_is_compared_at_its_own_size():
    matrix = np.diag([3.0, 2.0, 1.0])
    assert RULES.small(values(problem="own", n=3, options={"matrix": matrix, "rhs": np.ones(3)})) == {}


def test_agreement_is_the_largest_relative_error_of_a_norm():
    right = np.array([[1.0, 2.0], [3.0, 4.0]])
    near, far = right * [[1.0, 1.0], [1.0, 1 + 1e-5]], right * [[1.0, 1.0], [1.01, 1.0]]
    given = values(tolerance=1e-4, dtype="float64")
    assert RULES.agreement(right, near, given, 1).difference == pytest.approx(1e-5)
    assert RULES.agreement(right, near, given, 1).agrees
    assert not RULES.agreement(right, far, given, 1).agrees
    assert not RULES.agreement(right, np.full((2, 2), np.nan), given, 1).agrees
    assert RULES.agreement(right, near, given, 1).tolerance == 1e-4 + ROUNDING["float64"]


def facts_of(known):
    return {fact.name: fact.value for fact in RULES.facts(values(), Frame({}, known, None), 3e11)}


def test_the_facts_are_products_of_the_live_run():
    known = {"seconds": 2.0, "products": 100.0, "bytes_per_product": 3e9, "steps": 50.0, "done": 1.0}
    facts = facts_of(known)
    assert facts["Products"] == "50 /s"
    assert facts["Read by them"] == "150 GB/s"
    assert facts["Part of the copy bandwidth"] == pytest.approx(50)
    assert facts["Time to tolerance"] == 2.0
    facts = facts_of(known | {"done": 0.0})
    assert math.isnan(facts["Time to tolerance"])
    cold = known | {"cold_seconds": 1.5, "cold_products": 20.0}
    facts = facts_of(cold)
    assert facts["Products"] == "160 /s"
    assert facts["Time to tolerance"] == "not measured: its kernels were loaded"


@pytest.mark.parametrize(
    ("launched", "cold", "says"),
    [(1.79, {}, "50 /s"), (1.8, {}, "50 /s, launch-bound"), (3.0, {}, "50 /s, launch-bound"),
     (1.8, {"cold_seconds": 1.0, "cold_launched": 1.0}, "100 /s"),
     (1.95, {"cold_seconds": 1.0, "cold_launched": 1.0}, "100 /s, launch-bound")],
)  # fmt: skip
def test_products_are_marked_launch_bound(launched, cold, says):
    known = {"seconds": 2.0, "products": 100.0, "launched": launched, "bytes_per_product": 3e9, "steps": 50.0}
    facts = facts_of(known | cold)
    assert facts["Products"] == says


def test_a_curve_is_launch_bound_if_launching_takes_as_long():
    run = SimpleNamespace(launched=7.0, share=1.0, products=9)
    system = SimpleNamespace(A=SimpleNamespace(nnz=10))
    lab = SimpleNamespace(backend="gpu_cupy", done=True, reset=lambda: None, bidiagonal=run, system=system)
    timing = CurveTarget(lab).advance(1)
    assert (timing.launch, timing.cells) == (7.0, 90)
    assert Measurement.of([timing]).launch_bound


def test_cited_figures_are_shown_for_the_tutorial_s_problem_only():
    ours = Recorded(
        "l_curve", "H", "d", "gpu_cupy", "all λ at once", 15_000, 15_000, "float32", "curve, 10 λ", 0.05, 1.0
    )
    elsewhere = Recorded("l_curve", "H", "d", "gpu_cupy", "x", 3000, 3000, "float32", "curve, 10 λ", 0.05, 1.0)
    assert RULES.chart(values(), [ours]) is None
    chart = RULES.chart(values(problem="random_sparse", n=500), [ours, elsewhere])
    assert chart.figures == (ours, *CITED)
    assert chart.additional
    assert RULES.elsewhere(values(problem="random_sparse", n=500, dtype="float32"), [ours, elsewhere]) == [ours]
