"""The rules that choose λ, each against its definition, computed from the dense decomposition."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from compute.labs.l_curve import LCurve, small_system
from compute.labs.l_curve.rules import RULES, CurveReading, RuleChoice, choose, minima
from compute.labs.l_curve.rules.corners import pruning, triangle
from tests.compute.labs.l_curve.test_survey import CASES, Dense


def lab_of(name, n, noise=1e-3, **others):
    return LCurve(problem=name, n=n, noise=noise, tolerance=1e-8, **others)


def fine(low, high, count=4001):
    return np.geomspace(low, high, count)


def test_the_corner_of_shaw_is_where_it_bends_most():
    """With 0.1 % noise at about λ = 2.06e-3; the curvature is some 900 there."""
    lab = lab_of("shaw", 100)
    found, dense = lab.solve().corners["curvature"], Dense(lab)
    grid = fine(1e-4, 0.1)
    bend = np.array([dense.curvature(lam) for lam in grid])
    assert found == pytest.approx(grid[np.argmax(bend)], rel=2e-3)
    assert found == pytest.approx(2.06e-3, rel=0.02)
    assert lab.curve([found]).curvature[0] == pytest.approx(bend.max(), rel=1e-4)
    assert bend.max() == pytest.approx(921, rel=0.03)


@pytest.mark.parametrize(("name", "n"), [("shaw", 60), ("heat", 58), ("phillips", 64), ("gravity", 61), ("deriv2", 60)])
@pytest.mark.parametrize("noise", [1e-3, 0.05])
def test_rules_that_minimise_find_the_minimum(name, n, noise):
    lab = lab_of(name, n, noise, noise_seed=4)
    choices, dense = lab.solve().choices, Dense(lab)
    s, c, m = dense.s, dense.c, lab.system.shape[0]
    grid = fine(lab.grid[0], s[0])
    f = s**2 / (s**2 + grid[:, None] ** 2)
    residual = np.sqrt((((1 - f) * c) ** 2).sum(axis=1) + dense.rest**2)
    gcv = residual / (m - f.sum(axis=1))
    quasi = np.linalg.norm((1 - f) * f * c / s, axis=1)
    inside = 1 + np.flatnonzero((quasi[1:-1] < quasi[:-2]) & (quasi[1:-1] < quasi[2:]))
    require_minimum(choices["gcv"], grid, gcv, int(np.argmin(gcv)))
    require_minimum(choices["quasi_optimality"], grid, quasi, inside[np.argmin(quasi[inside])] if inside.size else 0)
    assert choices["discrepancy"].lam == pytest.approx(np.interp(1.01 * lab.noise_norm, residual, grid), rel=1e-3)


def require_minimum(choice, grid, values, best):
    if choice.lam is None:
        near = grid[values <= (1 + 2e-3) * values[best]]
        assert best in (0, grid.size - 1) or near[-1] / near[0] > 50
        assert "flat minimum" in choice.reason or "no interior minimum" in choice.reason
    else:
        assert choice.lam == pytest.approx(grid[best], rel=0.01)


def test_rules_that_know_white_noise_are_near_the_best_solution():
    lab = lab_of("phillips", 200, 0.01)
    corners = lab.solve().corners

    def error_at(lam):
        return np.linalg.norm(lab.solution(lam) - lab.system.x) / np.linalg.norm(lab.system.x)

    best = min(error_at(lam) for lam in lab.grid)
    assert max(error_at(corners["discrepancy"]), error_at(corners["ncp"])) < 3 * best


def test_weighted_gcv_with_the_weight_of_all_rows_is_gcv():
    """k + 1 - ω F with ω = (k + 1) / m is (m - F) (k + 1) / m: Renaut, Vatankhah and Ardestani (2017)."""
    lab = lab_of("phillips", 64, 0.02)
    lab.solve()
    lab.gcv_weight = (lab.survey.read_steps + 1) / 64
    corners = lab.solve().corners
    assert corners["weighted_gcv"] == pytest.approx(corners["gcv"], rel=1e-3)


def projected(lab, k):
    """Return B (k + 1, k) and |b| of the bidiagonalisation."""
    alpha, beta = (lab.device.download(array) for array in (lab.bidiagonal.work.alpha, lab.bidiagonal.work.beta))
    B = np.zeros((k + 1, k))
    B[range(k), range(k)], B[range(1, k + 1), range(k)] = alpha[:k], beta[1 : k + 1]
    return B, beta[0]


def squared_residual_and_filters(B, size, lam):
    """Return |B y - b e_1|^2 and the sum of the filter factors at λ, from the dense decomposition of B."""
    U, s, _ = np.linalg.svd(B)
    f = s**2 / (s**2 + lam**2)
    c = size * U[0]
    return np.sum(((1 - f) * c[:-1]) ** 2) + c[-1] ** 2, f.sum()


def asked_weight(B, size):
    """Return ω with N / (k + 1 - ω F)^2 stationary at the smallest singular value of B, by differences."""
    smallest, k = np.linalg.svd(B, compute_uv=False)[-1], B.shape[1]
    (low, less), (high, more) = (squared_residual_and_filters(B, size, smallest * (1 + h)) for h in (-1e-4, 1e-4))
    N, F = squared_residual_and_filters(B, size, smallest)
    return (k + 1) * (high - low) / ((high - low) * F - 2 * (more - less) * N)


@pytest.mark.parametrize(("name", "n", "above"), [("tomo", 8, 32), ("heat", 58, 12)])
def test_weights_above_1_count_as_1_in_the_adaptive_weight(name, n, above):
    """HyBR uses min(1, ω) of every step for the mean; here each ω comes from a dense decomposition."""
    lab = lab_of(name, n, 0.01)
    lab.solve()
    asked = [asked_weight(*projected(lab, k)) for k in range(1, 33)]
    assert sum(weight > 1 for weight in asked) == above
    assert minima.adaptive_weight(lab.bidiagonal.small) == pytest.approx(np.mean(np.minimum(asked, 1)), rel=1e-3)


def test_weighted_gcv_finds_a_minimum_if_every_weight_is_above_1():
    """For tomography ω is 1, and the minimum that of |B y - b|^2 / (k + 1 - F)^2; the mean of all ω had no minimum."""
    lab = lab_of("tomo", 12, 0.01)
    choice = lab.solve().choices["weighted_gcv"]
    B, size = projected(lab, lab.survey.read_steps)
    grid = fine(0.05, 1.0, 801)
    values = [N / (B.shape[0] - F) ** 2 for N, F in (squared_residual_and_filters(B, size, lam) for lam in grid)]
    assert 0 < np.argmin(values) < grid.size - 1
    assert choice.lam == pytest.approx(grid[np.argmin(values)], rel=5e-3)
    assert choice.reason == "ω = 1"


def test_a_weight_above_1_has_no_minimum_below_its_pole():
    """For ω F >= k + 1 no degree of freedom is left; the minimum is searched above this pole."""
    lab = lab_of("tomo", 12, 0.01, gcv_weight=1.3)
    choice = lab.solve().choices["weighted_gcv"]
    B, size = projected(lab, lab.survey.read_steps)
    found = [squared_residual_and_filters(B, size, lam) for lam in lab.grid]
    left = np.array([B.shape[0] - 1.3 * F for _, F in found])
    drawn = lab.frame().curves["weighted-gcv"].y
    assert 0 < np.count_nonzero(left <= 0) < left.size
    np.testing.assert_array_equal(np.isinf(drawn), left <= 0)
    above = left > 0
    values = np.array([N for N, _ in found])[above] / left[above] ** 2
    np.testing.assert_allclose(drawn[above], values, rtol=1e-6)
    assert choice.lam == pytest.approx(lab.grid[above][np.argmin(values)], rel=0.1)


@pytest.mark.parametrize(("name", "n"), [("shaw", 16), ("gravity", 32), ("blur", 21)])
def test_choices_do_not_depend_on_the_portions_of_the_steps(name, n):
    """The portions end with different steps, on which weighted GCV depends; blur's probe has portions as well."""
    found, steps = [], set()
    for portion in (500, 7, 1):
        lab = LCurve(problem=name, n=n, noise=1e-3, tolerance=1e-3)
        while not lab.status.resting:
            lab.advance(portion)
        steps.add(lab.bidiagonal.k)
        parts = [small_system.points(lab.bidiagonal.small.part(k), lab.grid) for k in range(1, lab.bidiagonal.k + 1)]
        closed = [bool(part.widths.max() <= 1e-3) for part in parts]
        assert lab.survey.read_steps == 1 + closed.index(True)
        found.append([choice.lam or np.nan for choice in lab.choices().values()])
    assert len(steps) > 1
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-9)
    assert np.isfinite(found).any()


def test_weighted_gcv_of_shaw_is_the_minimum_after_the_first_steps_with_closed_ribbons():
    """The choice is that of the dense decomposition after those steps; later ones would give another λ."""
    lab = lab_of("shaw", 64)
    lab.solve()
    grid = fine(2e-3, 3e-2, 1201)
    found = []
    for k in (lab.survey.read_steps, lab.bidiagonal.k):
        B, size = projected(lab, k)
        weight = np.mean([min(1, asked_weight(*projected(lab, j))) for j in range(1, min(k, minima.EARLY) + 1)])
        values = [
            N / (k + 1 - weight * F) ** 2 for N, F in (squared_residual_and_filters(B, size, lam) for lam in grid)
        ]
        found.append(grid[np.argmin(values)])
    assert lab.choices()["weighted_gcv"].lam == pytest.approx(found[0], rel=5e-3)
    assert found[1] != pytest.approx(found[0], rel=0.05)


# -- corners of synthetic curves: (log10 residual, log10 solution) in the order of falling λ


def drawn(points, bend=np.inf):
    points = np.asarray(points, float)[::-1]
    lambdas = np.geomspace(1e-3, 1, len(points))
    norms = {"residual": 10 ** points[:, 0], "solution": 10 ** points[:, 1]}
    return SimpleNamespace(points=SimpleNamespace(curvature=np.full(len(points), bend), **norms), lambdas=lambdas)


FLAT = [(1 - 0.1 * i, 0.002 * i) for i in range(11)]
STEEP = [(-0.002 * i, 0.02 + 0.15 * i) for i in range(1, 12)]


@pytest.mark.parametrize("rule", [triangle, pruning])
def test_a_right_angle_is_found(rule):
    reading = drawn(FLAT + STEEP)
    assert rule(reading).lam == reading.lambdas[::-1][10]


@pytest.mark.parametrize("rule", [triangle, pruning])
def test_a_straight_or_outward_curve_has_no_corner(rule):
    straight = [(1 - 0.1 * i, 0.1 * i) for i in range(20)]
    outward = [(1 - 0.01 * i, 0.1 * i) for i in range(10)] + [(0.91 - 0.1 * i, 0.9 + 0.01 * i) for i in range(1, 10)]
    for points in (straight, outward):
        choice = rule(drawn(points))
        assert choice.lam is None
        assert "no interior corner" in choice.reason
    assert "bends by 0.2 at most" in rule(drawn(FLAT + STEEP, bend=0.2)).reason


def test_pruning_is_not_misled_by_a_small_kink():
    """A step of the flat part, sharper than the corner but short."""
    kinked = FLAT[:5] + [(0.6, 0.03)] + [(x, y + 0.03) for x, y in FLAT[5:]] + [(x, y + 0.03) for x, y in STEEP]
    reading = drawn(kinked)
    chosen = list(reading.lambdas[::-1]).index(pruning(reading).lam)
    assert kinked[chosen] == (FLAT[10][0], FLAT[10][1] + 0.03)


@pytest.mark.parametrize("case", CASES)
def test_no_rule_answers_with_an_end_of_the_range(case):
    lab = LCurve(**CASES[case])
    curve = lab.solve()
    assert list(curve.corners) == list(RULES)
    for name, choice in curve.choices.items():
        assert choice.reason if choice.lam is None else curve.lambdas[0] < choice.lam < curve.lambdas[-1], name


def test_the_tutorials_curve_has_no_corner():
    choices = LCurve(problem="random_sparse", n=300).solve().choices
    assert choices["curvature"].lam is None
    assert choices["curvature"].reason.startswith("no interior corner")
    assert choices["triangle"].lam is None
    assert choices["discrepancy"] == RuleChoice(None, "the noise is unknown")


def test_a_residual_below_the_noise_is_reported():
    lab = lab_of("shaw", 40, 0.1, lambdas=(1e-6, 1e-4, 20))
    assert "stays below" in lab.solve().choices["discrepancy"].reason
    lab.lambdas = (5.0, 50.0, 20)
    lab.noise = 1e-4
    assert lab.solve().choices["curvature"].lam is None


def test_flat_minima_and_ends_are_reported():
    reading = lab_of("shaw", 40).survey.reading()
    grid = reading.lambdas

    def said(values):
        return minima.minimum(reading, lambda at: np.interp(np.log(at), np.log(grid), values))

    shallow = 1 + 1e-6 * np.linspace(-1, 1, grid.size) ** 2
    assert said(shallow).lam is None
    assert said(shallow).reason.startswith("flat minimum: from λ = ")
    assert said(1 + np.linspace(-1, 1, grid.size) ** 2).lam == pytest.approx(np.sqrt(grid[0] * grid[-1]), rel=0.05)
    assert said(np.linspace(0, 1, grid.size)) == RuleChoice(None, "no interior minimum: it falls to the lowest λ")
    assert said(-np.linspace(0, 1, grid.size)) == RuleChoice(None, "no interior minimum: it falls to the highest λ")


def test_rules_give_no_answer_where_the_ribbon_is_open():
    lab = LCurve(problem="random_sparse", n=200, lambdas=(0.1, 500.0, 100))
    assert set(lab.curve().choices.values()) == {RuleChoice(None, "the ribbon is still open there")}
    lab.advance(30)
    reading = lab.survey.reading()
    assert 0 < reading.first < reading.lambdas.size
    assert (reading.closed().points.widths <= 0.01).all()
    for choice in choose(reading).values():
        assert choice.lam is None or choice.lam >= reading.lambdas[reading.first]
    assert "the ribbon is still open there" in lab.curve().choices["curvature"].reason


def test_rules_ignore_lambdas_above_the_largest_ritz_value():
    lab = lab_of("shaw", 40)
    lab.lambdas = (1e-4, 1e3, 300)
    lab.solve()
    reading: CurveReading = lab.survey.reading()
    assert reading.closed().lambdas[-1] <= reading.top < reading.lambdas[-1]
    assert reading.top == pytest.approx(Dense(lab).s[0], rel=1e-10)
