"""Penalties on a derivative of x, against NumPy's least squares of the stacked system [A; λ L], and against theory."""

from __future__ import annotations

import numpy as np
import pytest

from compute.labs.l_curve import LCurve, problems
from compute.labs.l_curve.standard_form import StandardForm, difference
from compute.labs.l_curve.system import noisy
from tests.compute.labs.l_curve.test_survey import brought

NOISE, SEED = 1e-2, 3
NAMED = {"shaw": 62, "gravity": 61, "heat": 58, "deriv2": 59, "foxgood": 63}
CASES = {
    **{name: {"problem": name, "n": n} for name, n in NAMED.items()},
    "random_sparse": {"problem": "random_sparse", "n": 83},
    **{kind: brought(kind) for kind in ("wider than tall", "tall", "sparse")},
}


def stacked(values, order, lambdas):
    """Return (x, L x, b - A x) for each λ by dense least squares of [A; λ L] x = [b; 0]; L is written out here."""
    name, n = values["problem"], values.get("n")
    A, b, _ = problems.make(name, n=n, **values.get("options", {}))
    A = A.toarray().astype(float) if hasattr(A, "toarray") else A
    b, _ = noisy(b, NOISE, SEED)
    rows = {1: [-1, 1], 2: [1, -2, 1]}[order]
    L = np.zeros((A.shape[1] - order, A.shape[1]))
    for i in range(len(L)):
        L[i, i : i + order + 1] = rows
    for lam in lambdas:
        right = np.concatenate([b, np.zeros(len(L))])
        x = np.linalg.lstsq(np.vstack([A, lam * L]), right, rcond=None)[0]
        yield x, L @ x, b - A @ x


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_curve_and_solutions_are_those_of_the_stacked_system(case, order, any_backend, monkeypatch):
    """In float64 to 1e-6, in float32 to the error of the stored matrix; the bounds contain the dense norms."""
    monkeypatch.setattr(LCurve, "choices", lambda lab: {})  # slower than all else
    dtype = any_backend.dtypes[-1]
    small = {"float64": 1e-6, "float32": 3e-2}[dtype]
    values = {**CASES[case], "noise": NOISE, "noise_seed": SEED, "derivative": order, "dtype": dtype}
    lab = LCurve(backend=any_backend.name, tolerance=1e-8, **values)
    size = np.linalg.norm(lab.system.A.toarray(), 2)
    lambdas = size * np.geomspace({"float64": 1e-3, "float32": 1e-2}[dtype], 10, 7)
    lab.lambdas = (lambdas[0], lambdas[-1], 7)
    while not lab.done:
        lab.advance(64)
    curve = lab.curve()
    found = list(stacked(values, order, curve.lambdas))
    smooth, residual = ([np.linalg.norm(each[part]) for each in found] for part in (1, 2))
    np.testing.assert_allclose(curve.residual_norms, residual, rtol=small)
    np.testing.assert_allclose(curve.solution_norms, smooth, rtol=small)
    for bounds, norms in ((curve.residual_bounds, residual), (curve.solution_bounds, smooth)):
        assert (bounds[0] <= np.multiply(norms, 1 + 1e-9)).all()  # the dense x has an error of 1e-10
        assert (bounds[1] >= np.multiply(norms, 1 - 1e-9)).all()
    for lam, (x, _, rest) in list(zip(curve.lambdas, found, strict=True))[::3]:
        assert np.linalg.norm(lab.solution(lam) - x) <= small * np.linalg.norm(x)
        assert np.linalg.norm(lab.residual(lam) - rest) <= small * np.linalg.norm(rest)
    lab.close()


@pytest.mark.parametrize("order", [1, 2])
def test_a_large_parameter_leaves_the_best_polynomial(order):
    """L does not damp its null space: for λ → ∞ a mean and a regression line remain, where |x| would vanish."""
    b = np.random.default_rng(5).normal(size=47) + 0.3 * np.arange(47)
    lab = LCurve(problem="own", options={"matrix": np.eye(47), "rhs": b}, derivative=order)
    best = np.polyval(np.polyfit(np.arange(47), b, order - 1), np.arange(47))
    np.testing.assert_allclose(lab.solution(1e9), best, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("order", "worst"), [(0, 0.3), (1, 0.2), (2, 0.02)])
def test_the_derivative_suits_a_straight_line(order, worst):
    """x of deriv2 is a straight line: with noise, x″ reaches an error that x and x′ do not."""
    lab = LCurve(problem="deriv2", n=101, noise=NOISE, derivative=order)
    lab.complete()
    best = lab.frame().curves["error"].y.min()
    assert best < worst
    assert order == 2 or best > 0.02


@pytest.mark.parametrize("order", [1, 2])
def test_rules_see_the_generalised_singular_values(order):
    """GCV divides by m minus the trace of A times the matrix that gives x from b, null space included."""
    lab = LCurve(problem="shaw", n=50, noise=NOISE, derivative=order)
    lab.complete()
    frame, (A, _, _) = lab.frame(), problems.make("shaw", n=50)
    gcv, L = frame.curves["gcv"], difference(50, order).toarray()
    for lam, value in list(zip(gcv.x, gcv.y, strict=True))[60::40]:
        influence = A @ np.linalg.lstsq(np.vstack([A, lam * L]), np.eye(100 - order, 50), rcond=None)[0]
        rest = float(np.linalg.norm(lab.residual(lam)))
        assert value == pytest.approx((rest / (50 - np.trace(influence))) ** 2, rel=1e-4)
    assert frame.notes["spectrum"] == "generalised singular values"
    assert frame.curves["singular"].y.size == 50 - order
    errors = [np.linalg.norm(lab.solution(lam) - lab.system.x) for lam in gcv.x[60::40]]
    np.testing.assert_allclose(frame.curves["error"].y[60::40], errors / np.linalg.norm(lab.system.x), rtol=1e-3)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["shaw", "gravity", "wing"])
def test_the_estimated_rounding_error_covers_that_of_the_transformation(name, order):
    """Against the same transformation in extended precision, where the machine has one."""
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps:
        pytest.skip("long double is float64 here")
    A, _, _ = problems.make(name, n=102)
    form = StandardForm.of(A, order)
    exact = A.astype(np.longdouble)
    left, vectors = exact @ form.basis, []
    for j in range(order):
        v = left[:, j] * (np.arange(102) >= j)
        v[j] += np.copysign(np.sqrt(v @ v), v[j])
        vectors.append(v / np.sqrt(v @ v / 2))
        left = left - np.outer(vectors[-1], vectors[-1] @ left)
    for _ in range(order):
        exact = np.cumsum(exact[:, ::-1], axis=1)[:, -2::-1]
    for v in vectors:
        exact = exact - np.outer(v, v @ exact)
    apart = np.linalg.norm((form.A - exact[order:]).astype(float))
    assert 0 < apart <= form.error <= 1e-8 * np.linalg.norm(form.A)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"problem": "blur", "n": 9}, "derivative must be 0 for blur, a picture, not 1"),
        ({"problem": "shaw", "n": 40, "derivative": 3}, "derivative"),
        (
            {"problem": "own", "options": {"matrix": np.ones((1, 5)), "rhs": np.ones(1)}},
            "derivative must be below the 1 rows or columns of A, not 1",
        ),
        (
            {"problem": "own", "options": {"matrix": difference(6, 1), "rhs": np.arange(5.0)}},
            "derivative must be 0 for this A: it maps constants to 0",
        ),
        (
            {"problem": "own", "options": {"matrix": np.eye(6), "rhs": np.ones(6)}},
            "derivative must be below 1 for this b: x = a constant explains it",
        ),
    ],
)
def test_a_derivative_that_does_not_fit_is_refused(values, words):
    with pytest.raises(ValueError, match=words):
        LCurve(**{"derivative": 1, **values})


def test_a_picture_resets_the_derivative_and_a_line_keeps_it():
    lab = LCurve(problem="shaw", n=30, derivative=2)
    lab.update(problem="heat")
    assert lab.derivative == 2
    lab.update(problem="blur")
    assert lab.derivative == 0
    with pytest.raises(ValueError, match="derivative must be 0 for blur"):
        lab.update(derivative=1)
    assert lab.derivative == 0


def test_the_predicted_bytes_are_those_of_the_dense_matrix():
    values = {"problem": "random_sparse", "n": 2000, "density": 1e-3}
    sparse, dense = (LCurve.predicted_bytes(**values, derivative=order) for order in (0, 1))
    assert dense - sparse >= 2 * 8 * 2000**2 * (1 - 1e-3)
