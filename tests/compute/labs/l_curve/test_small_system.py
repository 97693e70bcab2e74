"""The small system against dense linear algebra, and at magnitudes at which squares would cancel or underflow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from compute.labs.l_curve.small_system import (
    Small,
    coefficients,
    largest,
    points,
    ritz_values,
    widened,
    widest,
)


def bidiagonal(alpha, beta):
    k = len(alpha) - 1
    B = np.zeros((k + 1, k))
    B[range(k), range(k)], B[range(1, k + 1), range(k)] = alpha[:-1], beta[1:]
    return B


def random_small(k, seed=0):
    rng = np.random.default_rng(seed)
    alpha, beta = rng.uniform(0.2, 2, k + 1), rng.uniform(0.2, 2, k + 1)
    return alpha, beta, Small.of(alpha, beta)


LAMBDAS = np.array([1e-3, 0.02, 0.5, 3.0, 40.0])


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_everything_agrees_with_dense_algebra(k):
    alpha, beta, small = random_small(k, k)
    B, e = bidiagonal(alpha, beta), np.eye(k + 1)[0] * beta[0]
    at = points(small, LAMBDAS)
    for i, lam in enumerate(LAMBDAS):
        M = B.T @ B + lam**2 * np.eye(k)
        y = np.linalg.lstsq(np.vstack([B, lam * np.eye(k)]), np.r_[e, np.zeros(k)], rcond=None)[0]
        C = np.diag(alpha) + np.diag(beta[1:], -1)
        R = np.linalg.qr(np.vstack([B, np.zeros((1, k))]) if k == 1 else B, mode="r")
        small_R = np.zeros((k + 1, k + 1))
        small_R[:k, :k] = np.abs(np.diag(np.diag(R[:k]))) + np.diag(np.abs(np.diag(R[:k], 1)), 1)
        small_R[k - 1, k] = alpha[k] * beta[k] / abs(R[k - 1, k - 1])
        lower = lam**2 * np.linalg.norm(np.linalg.solve(C @ C.T + lam**2 * np.eye(k + 1), e))
        upper = np.linalg.norm(
            np.linalg.solve(small_R.T @ small_R + lam**2 * np.eye(k + 1), alpha[0] * beta[0] * np.eye(k + 1)[0])
        )
        expected = {
            "residual": np.linalg.norm(B @ y - e),
            "solution": np.linalg.norm(y),
            "lower": lower,
            "upper": upper,
            "gradient": alpha[k] * beta[k] * abs(y[-1]),
            "free": np.trace(lam**2 * np.linalg.inv(M)),
            "slope": 4 * lam**2 * (y @ np.linalg.solve(M, y)) / (y @ y),
            "change": lam**2 * np.linalg.norm(np.linalg.solve(M, y)),
        }
        found = {
            "lower": at.residual_bounds[0, i],
            "upper": at.solution_bounds[1, i],
            **{name: getattr(at, name)[i] for name in expected if name not in ("lower", "upper")},
        }
        assert found == pytest.approx(expected, rel=1e-9)
        np.testing.assert_allclose(coefficients(small, lam), y, rtol=1e-8, atol=1e-12 * np.abs(y).max())


def test_curvature_is_that_of_the_curve_by_finite_differences():
    small = random_small(20)[2]
    step = 2e-3  # of ln λ; at smaller λ the curve moves too little for differences
    for lam in (0.1, 0.5, 3.0, 40.0):
        near = points(small, lam * np.exp(step * np.array([-1, 0, 1])))
        p = np.log([near.residual, near.solution])
        first, second = (p[:, 2] - p[:, 0]) / (2 * step), (p[:, 2] - 2 * p[:, 1] + p[:, 0]) / step**2
        bend = (first[0] * second[1] - second[0] * first[1]) / np.hypot(*first) ** 3
        assert near.curvature[1] == pytest.approx(bend, rel=2e-5, abs=1e-5)


def test_singular_values_of_the_small_system():
    alpha, beta, small = random_small(31)
    values = np.linalg.svd(bidiagonal(alpha, beta), compute_uv=False)
    np.testing.assert_allclose(ritz_values(small), values, rtol=1e-12, atol=1e-14)
    assert largest(small) == pytest.approx(values[0], rel=1e-12)
    alpha, beta, one = random_small(1)
    assert largest(one) == pytest.approx(np.hypot(alpha[0], beta[1]))


def exact_solution(M, rhs):
    """Solve M x = rhs by Gauss elimination in fractions."""
    rows = [[*row, value] for row, value in zip(M, rhs, strict=True)]
    n = len(rows)
    for i in range(n):
        for j in range(i + 1, n):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    x = [Fraction(0)] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][j] * x[j] for j in range(i + 1, n))) / rows[i][i]
    return x


def norm(values):
    """Return the norm of fractions too small for float64's squares: the largest value is factored out."""
    top = max(abs(value) for value in values)
    return float(top) * float(sum((value / top) ** 2 for value in values)) ** 0.5


def test_nothing_cancels_however_ill_posed():
    """Coefficients that fall by 1e-3 per step, with λ far below: against exact fractions."""
    k = 7
    alpha, beta = 1e-3 ** np.arange(k + 1.0), 0.5 * 1e-3 ** np.arange(k + 1.0)
    at = points(Small.of(alpha, beta), lams := np.array([1e-20, 1e-13, 1e-6, 1.0]))
    B = [[Fraction(float(value)) for value in row] for row in bidiagonal(alpha, beta)]
    beta0 = Fraction(float(beta[0]))
    for i, lam in enumerate(lams):
        mu = Fraction(float(lam)) ** 2
        M = [[sum(row[p] * row[q] for row in B) + (mu if p == q else 0) for q in range(k)] for p in range(k)]
        y = exact_solution(M, [beta0 * value for value in B[0]])
        residual = [sum(a * b for a, b in zip(row, y, strict=True)) for row in B]
        residual[0] -= beta0
        assert at.solution[i] == pytest.approx(norm(y), rel=1e-13)
        assert at.residual[i] == pytest.approx(norm(residual), rel=1e-13)
        assert at.gradient[i] == pytest.approx(float(abs(y[k - 1])) * alpha[k] * beta[k], rel=1e-12)


def test_the_widest_ribbon_is_found_from_any_start():
    small = random_small(12)[2]
    widths = points(small, LAMBDAS).widths
    assert widest(small, LAMBDAS, 1e-4) == (0, pytest.approx(widths[0]))
    tolerance = (widths[0] + widths[1]) / 2
    assert widest(small, LAMBDAS, tolerance, first=2) == (0, pytest.approx(widths[0]))
    assert widest(small, LAMBDAS[2:], 1.0) == (-1, pytest.approx(widths[2:].max()))


def test_an_exhausted_system_has_ribbons_of_no_width():
    alpha, beta, _ = random_small(6)
    for last in (0.0, beta[6]):
        beta[6], alpha[6] = last, 0.0
        at = points(Small.of(alpha, beta), LAMBDAS)
        np.testing.assert_allclose(at.widths, 0, atol=1e-15)
        assert np.isfinite(at.curvature).all()


def test_rounding_widens_bounds_on_both_sides_down_to_zero():
    at = points(random_small(6)[2], LAMBDAS)
    residual, solution = widened(at, 1e30, "float32")
    assert (residual[0] == 0).any()
    assert (solution[1] > at.solution_bounds[1]).all()
    tight = widened(at, 1.0, "float64")[0]
    np.testing.assert_allclose(tight, at.residual_bounds, rtol=1e-11)
    assert (tight[0] < at.residual_bounds[0]).all()
