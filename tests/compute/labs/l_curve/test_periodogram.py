"""The whitest residual against a dense search, over 216 cases: problems x sizes x noise x seeds."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.fft

from compute.labs.l_curve import LCurve
from compute.labs.l_curve.rules.minima import ncp_search

PROBLEMS = ("shaw", "phillips", "gravity", "deriv2", "heat", "baart", "foxgood", "wing", "i_laplace")
SIZES, NOISES, SEEDS = (48, 64), (1e-4, 1e-3, 1e-2, 1e-1), (1, 2, 3)
DENSE = 8000  # λ of the dense search, 16 for each step of 200
CLOSE = 0.03  # relative distance in λ, or in the distance from white noise, of equal minima


@cache
def decomposed(name, n):
    """Return (left vectors, singular values, system) of a problem; the system has the right side without noise."""
    lab = LCurve(problem=name, n=n)
    left, values, _ = np.linalg.svd(lab.system.A.toarray().astype(np.float64))
    return left, values, lab.system


def found_by(going):
    """Run a search, and return its result."""
    while True:
        try:
            next(going)
        except StopIteration as found:
            return found.value


class Case:
    """The residuals b - A x of one noisy problem, from its singular values, and their distances from white noise."""

    def __init__(self, name, n, noise, seed):
        self.left, self.values, system = decomposed(name, n)
        self.b, _ = system.noisy(noise, seed)
        self.lambdas = np.geomspace(1e-6 * self.values[0], self.values[0], 200)
        self.evaluated = 0

    def residuals(self, lambdas):
        """Return the residuals, of shape (m, count) with a column for each λ."""
        kept = lambdas**2 / (self.values[:, None] ** 2 + lambdas**2)
        return self.left @ (kept * (self.left.T @ self.b)[:, None])

    def residual(self, lam):
        """Return the residual of one λ, of shape (m,)."""
        self.evaluated += 1
        return self.residuals(np.array([lam]))[:, 0]

    def distances(self, lambdas):
        """Return the distances of the cumulative periodograms from that of white noise, of shape (count,)."""
        half = self.b.size // 2
        power = np.abs(scipy.fft.fft(self.residuals(lambdas), axis=0)[1 : half + 1]) ** 2
        shares = np.cumsum(power, axis=0) / power.sum(axis=0)
        return np.linalg.norm(shares - np.arange(1, half + 1)[:, None] / half, axis=0)

    def search(self):
        """Return the rule's result."""
        return found_by(ncp_search(self.residual, self.lambdas, self.b.size))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_whitest_residual_is_that_of_a_dense_search(name, n):
    for noise in NOISES:
        for seed in SEEDS:
            case = Case(name, n, noise, seed)
            choice = case.search()
            dense = np.geomspace(case.lambdas[0], case.lambdas[-1], DENSE)
            distances = case.distances(dense)
            best = int(np.argmin(distances))
            about = (name, n, noise, seed, choice, dense[best])
            if best in (0, DENSE - 1):
                assert choice.lam is None, about
                continue
            assert choice.lam is not None, about
            there = case.distances(np.array([choice.lam]))[0]
            assert abs(np.log(choice.lam / dense[best])) < CLOSE or there <= (1 + 1e-3) * distances[best], about
            assert there <= (1 + CLOSE) * distances[best], about


def test_a_large_problem_is_searched_at_fewer_points():
    """A product with a matrix of many rows is expensive: a quarter of the grid, and points around its minima."""
    lambdas = np.geomspace(1e-3, 1, 200)
    asked = []

    def residual(lam):
        asked.append(lam)
        rng = np.random.default_rng(0)
        tone = np.sin(np.arange(10_000) / 50)
        return rng.normal(size=10_000) + 10 * np.log(lam / 0.05) * tone

    assert found_by(ncp_search(residual, lambdas, 10_000)).lam == pytest.approx(0.05, rel=0.05)
    assert len(asked) < 130
