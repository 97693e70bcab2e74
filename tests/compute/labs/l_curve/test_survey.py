"""The curve, its bounds and its solutions against the dense singular value decomposition, for every problem."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from compute.labs.l_curve import LCurve

SIZES = {
    "random_sparse": 133, "shaw": 62, "phillips": 68, "gravity": 61, "deriv2": 59, "heat": 58, "baart": 54,
    "foxgood": 63, "wing": 57, "i_laplace": 51, "blur": 11, "tomo": 9, "paralleltomo": 9,
}  # fmt: skip


def brought(kind):
    """Return a user's matrix, with a shape or rank of no built-in problem."""
    rng = np.random.default_rng(7)
    A = {
        "wide": rng.normal(size=(23, 311)),
        "wider than tall": rng.normal(size=(97, 130)),
        "tall": rng.normal(size=(211, 19)),
        "low rank": rng.normal(size=(67, 5)) @ rng.normal(size=(5, 41)),
        "graded": rng.normal(size=(45, 45)) * np.geomspace(1, 1e-7, 45),
        "one column": rng.normal(size=(7, 1)),
        "one row": rng.normal(size=(1, 7)),
        "sparse": sp.random(150, 90, 0.05, format="csr", rng=rng),
    }[kind]
    return {"problem": "own", "options": {"matrix": A, "rhs": rng.normal(size=A.shape[0])}}


OWN = ["wide", "wider than tall", "tall", "low rank", "graded", "one column", "one row", "sparse"]
CASES = {
    **{name: {"problem": name, "n": n} for name, n in SIZES.items()},
    **{f"{name}, noise": {"problem": name, "n": n, "noise": 0.01} for name, n in SIZES.items()},
    **{kind: brought(kind) for kind in OWN},
}


class Dense:
    """The reference: filtered sums over the singular values of the matrix that the lab stores."""

    def __init__(self, lab):
        A = lab.system.A.toarray().astype(np.float64)
        b = lab.b.astype(lab.dtype).astype(np.float64)
        U, self.s, self.Vt = np.linalg.svd(A)
        self.c, self.rest = (U.T @ b)[: self.s.size], np.linalg.norm((U.T @ b)[self.s.size :])

    def residual(self, lam):
        return np.hypot(np.linalg.norm(lam**2 / (self.s**2 + lam**2) * self.c), self.rest)

    def solution(self, lam):
        return self.Vt[: self.s.size].T @ (self.s / (self.s**2 + lam**2) * self.c)

    def curvature(self, lam):
        known = self.s > 1e-13 * self.s[0]  # smaller values are rounding errors, which derivatives would amplify
        s, c = self.s[known], self.c[known]
        f = s**2 / (s**2 + lam**2)
        eta, rho = np.sum((f * c / s) ** 2), self.residual(lam) ** 2
        d = -4 / lam * np.sum((1 - f) * f**2 * c**2 / s**2)
        top = lam**2 * d * rho + 2 * lam * eta * rho + lam**4 * eta * d
        return 2 * eta * rho / abs(d) * top / (lam**4 * eta**2 + rho**2) ** 1.5

    def norms(self, lambdas):
        return (
            np.array([self.residual(lam) for lam in lambdas]),
            np.array([np.linalg.norm(self.solution(lam)) for lam in lambdas]),
        )


def require_contained(curve, truth, dtype="float64"):
    """Require that the bounds contain the norms, but for a roundoff of the largest."""
    for bounds, norms in zip((curve.residual_bounds, curve.solution_bounds), truth, strict=True):
        roundoff = np.finfo(dtype).eps * norms.max()
        assert (bounds[0] <= norms + roundoff).all()
        assert (norms <= bounds[1] + roundoff).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_the_truth_is_between_the_bounds_at_every_step(any_backend, case, dtype, monkeypatch):
    """The bounds of a curve enclose the norms of the dense solution, from its first step to its last."""
    monkeypatch.setattr(LCurve, "choices", lambda lab: {})  # slower than all else
    lab = LCurve(backend=any_backend.name, dtype=dtype, tolerance=1e-12, **CASES[case])
    truth = Dense(lab).norms(lab.grid)
    while True:
        require_contained(lab.curve(), truth, dtype)
        if lab.done:
            break
        lab.advance(1 if lab.bidiagonal.k < 12 else 9)
    lab.close()


@pytest.mark.parametrize("reorthogonalise", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_norms_curvature_and_solutions_are_those_of_the_dense_decomposition(case, reorthogonalise):
    """To 1e-6 in float64, for λ >= 1e-5 of the largest singular value; that is 1e11 roundoffs."""
    probe = LCurve(**CASES[case])
    dense = Dense(probe)
    span = (1e-5 * dense.s[0], dense.s[0], 31)
    settings = {**CASES[case], "lambdas": span, "tolerance": 1e-9, "reorthogonalise": reorthogonalise}
    lab = LCurve(**settings)
    curve = lab.solve()
    assert curve.converged
    residual, solution = dense.norms(curve.lambdas)
    np.testing.assert_allclose(curve.residual_norms, residual, rtol=1e-6)
    np.testing.assert_allclose(curve.solution_norms, solution, rtol=1e-6)
    np.testing.assert_allclose(curve.alphas, curve.lambdas**2)
    bend = np.array([dense.curvature(lam) for lam in curve.lambdas])
    np.testing.assert_allclose(curve.curvature[5:], bend[5:], rtol=1e-6, atol=1e-6)  # x hardly changes at smaller λ
    for lam in curve.lambdas[5::10]:  # at smaller λ, rounding of b - A x alone changes x of a low rank by more
        x = dense.solution(lam)
        assert np.linalg.norm(lab.solution(lam) - x) <= 1e-6 * np.linalg.norm(x)
        assert np.linalg.norm(lab.residual(lam)) == pytest.approx(dense.residual(lam), rel=1e-6)


def test_every_backend_has_the_same_solutions_probe_and_pictures(any_backend):
    labs = [
        LCurve(backend=name, problem="blur", n=24, noise=0.02, tolerance=1e-4, dtype=any_backend.dtypes[-1])
        for name in ("cpu_numpy", any_backend.name)
    ]
    answers = [lab.solve().corners for lab in labs]
    assert answers[0]["gcv"] is not None
    for name, lam in answers[0].items():
        assert answers[1][name] == (None if lam is None else pytest.approx(lam, rel=1e-3)), name
    x, y = (lab.solution(answers[0]["gcv"]) for lab in labs)
    assert np.linalg.norm(x - y) <= 1e-3 * np.linalg.norm(x)
    pictures = [lab.frame().rasters["solution"].levels.astype(int) for lab in labs]
    assert np.abs(pictures[0] - pictures[1]).max() <= 1


def test_the_tutorials_problem_at_its_own_lambdas():
    """In float32, against Cholesky in float64."""
    lab = LCurve(problem="random_sparse", n=1501, dtype="float32", tolerance=1e-3)
    curve = lab.solve()
    np.testing.assert_allclose(curve.lambdas, np.geomspace(0.1, 5e3, 10))
    assert curve.width <= 1e-3
    A = lab.system.A.toarray().astype(np.float64)
    M, rhs = A.T @ A, A.T @ lab.b
    for i, lam in enumerate(curve.lambdas[:4]):
        x = scipy.linalg.solve(M + lam**2 * np.eye(1501), rhs, assume_a="pos")
        norms = np.linalg.norm(A @ x - lab.b), np.linalg.norm(x)
        assert curve.residual_norms[i] == pytest.approx(norms[0], rel=1e-3)
        assert curve.solution_norms[i] == pytest.approx(norms[1], rel=1e-3)
        assert curve.residual_bounds[0, i] <= norms[0] <= curve.residual_bounds[1, i]
        assert curve.solution_bounds[0, i] <= norms[1] <= curve.solution_bounds[1, i]
        assert np.linalg.norm(lab.solution(lam) - x) <= 1e-3 * norms[1]


def test_a_smaller_tolerance_continues_the_run():
    lab = LCurve(problem="random_sparse", n=200, tolerance=0.1)
    rough = lab.solve()
    lab.tolerance = 1e-8
    fine = lab.solve()
    assert rough.steps < fine.steps
    assert lab.bidiagonal.products == 1 + 2 * fine.steps
    assert fine.width <= 1e-8 < rough.width <= 0.1
    lab.reorthogonalise = False
    assert lab.solve().steps > fine.steps


def test_other_lambdas_and_a_chosen_one_repeat_no_product():
    lab = LCurve(problem="shaw", n=80, noise=1e-3)
    lab.solve()
    products = lab.bidiagonal.products
    lab.update(lambdas=(1e-4, 2.0, 500), lam=0.05, rule="gcv")
    assert lab.solve().lambdas.size == 500
    assert lab.curve([0.3, 0.1]).lambdas.tolist() == [0.1, 0.3]
    lab.solution(0.05)
    lab.frame()
    assert lab.bidiagonal.products == products


def test_a_solution_takes_as_many_steps_as_its_lambda_needs():
    lab = LCurve(problem="random_sparse", n=200, lambdas=(10.0, 100.0, 5), tolerance=1e-9)
    few = lab.solve().steps
    x = lab.solution(0.05)
    assert lab.bidiagonal.k > few
    dense = Dense(lab).solution(0.05)
    assert np.linalg.norm(x - dense) <= 1e-6 * np.linalg.norm(dense)


def test_more_steps_may_be_allowed_later(any_backend):
    few = {"steps_at_most": 20, "tolerance": 1e-6, "dtype": any_backend.dtypes[-1]}
    lab = LCurve(backend=any_backend.name, problem="random_sparse", n=150, **few)
    short = lab.solve()
    assert (short.steps, short.converged) == (20, False)
    lab.steps_at_most = 200
    whole = lab.solve()
    assert whole.converged
    assert whole.steps > 20
    require_contained(whole, Dense(lab).norms(whole.lambdas), lab.dtype)
    truth = LCurve(problem="random_sparse", n=150, tolerance=1e-6).solve().solution_norms
    np.testing.assert_allclose(whole.solution_norms, truth, rtol={"float64": 1e-7, "float32": 1e-5}[lab.dtype])
    lab.steps_at_most = 30
    assert lab.done


def test_changed_noise_restarts_the_run_with_one_noise_for_all_lambdas():
    lab = LCurve(problem="gravity", n=50)
    clean = lab.solve()
    lab.update(noise=0.05, noise_seed=3)
    assert lab.bidiagonal.k == 1
    assert lab.noise_norm == pytest.approx(0.05 * np.linalg.norm(lab.system.b))
    assert np.linalg.norm(lab.b - lab.system.b) == pytest.approx(lab.noise_norm)
    noisy = lab.solve()
    np.testing.assert_allclose(noisy.residual_norms, Dense(lab).norms(noisy.lambdas)[0], rtol=1e-6)
    assert noisy.solution_norms[0] > 10 * clean.solution_norms[0]
