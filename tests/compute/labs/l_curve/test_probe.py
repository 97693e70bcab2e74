"""The random probe: its bounds against its quadratic form, and that form against the trace."""

from __future__ import annotations

import numpy as np
import pytest

from compute.labs.l_curve import LCurve
from compute.labs.l_curve.survey import CLOSE, SEED, TraceProbe


def quadratic(A, lambdas):
    """Return z (A transpose(A) + λ^2)^-1 z λ^2 for the probe's signs z, and the trace that it estimates."""
    z = np.random.default_rng(SEED).choice([-1.0, 1.0], A.shape[0])
    U, s, _ = np.linalg.svd(A)
    squares = np.zeros(A.shape[0])
    squares[: s.size] = s**2
    kept = lambdas[:, None] ** 2 / (squares + lambdas[:, None] ** 2)
    return (kept * (U.T @ z) ** 2).sum(axis=1), kept.sum(axis=1)


@pytest.mark.parametrize("backend", ["cpu_numpy", "cpu_numba"])
@pytest.mark.parametrize(("problem", "n"), [("random_sparse", 430), ("blur", 22), ("paralleltomo", 21)])
def test_the_probe_bounds_its_quadratic_form_and_is_near_the_trace(problem, n, backend):
    lab = LCurve(backend=backend, problem=problem, n=n)
    A = lab.system.A.toarray()
    lambdas = np.geomspace(1e-2, 0.5, 7) * np.linalg.norm(A, 2)
    form, trace = quadratic(A, lambdas)
    probe = TraceProbe(lab.bidiagonal)
    while not probe.finished(lambdas, 10_000):
        probe.advance(7)
        low, high = probe.bounds(lambdas)
        assert (low <= form * (1 + 1e-9)).all()
        assert (form <= high * (1 + 1e-9)).all()
    np.testing.assert_allclose(probe.freedom(lambdas), form, rtol=CLOSE)
    np.testing.assert_allclose(probe.freedom(lambdas), trace, rtol=0.25)
    assert lab.bidiagonal.k == 1


def test_a_probe_of_low_rank_ends_exactly():
    A = np.zeros((450, 420))
    A[[0, 5, 7], [3, 3, 9]] = 2.0, 1.0, 3.0
    lab = LCurve(problem="own", options={"matrix": A, "rhs": np.ones(450)})
    probe = TraceProbe(lab.bidiagonal)
    probe.advance(10)
    lambdas = np.array([0.1, 1.0])
    assert probe.finished(lambdas, 10_000)
    np.testing.assert_allclose(probe.freedom(lambdas), quadratic(A, lambdas)[0], rtol=1e-10)


def test_gcv_of_a_large_matrix_uses_the_probe_for_every_noise():
    lab = LCurve(problem="blur", n=24, noise=0.02, tolerance=1e-4)
    lab.advance(5)
    assert lab.choices()["gcv"].reason.startswith("computed after the last step")
    assert "gcv" not in lab.frame().parts
    first = lab.solve().choices["gcv"]
    assert first.lam is not None
    assert first.reason == "trace from a random probe"
    dense = np.linalg.svd(lab.system.A.toarray(), compute_uv=False)
    U = np.linalg.svd(lab.system.A.toarray())[0]
    grid = np.geomspace(first.lam / 30, first.lam * 30, 601)
    kept = grid[:, None] ** 2 / (dense**2 + grid[:, None] ** 2)
    gcv = np.linalg.norm(kept * (U.T @ lab.b), axis=1) / kept.sum(axis=1)
    at = np.argmin(np.abs(grid - first.lam))
    assert gcv[at] <= 1.02 * gcv.min()
    k = lab.probe.k
    lab.noise_seed = 5
    while not lab.status.resting:
        lab.advance(40)
    assert lab.probe.k == k
    assert "gcv" in lab.frame().parts


def test_a_very_large_matrix_is_probed_only_by_complete(monkeypatch):
    monkeypatch.setattr("compute.labs.l_curve.lab.PROBE_ROWS", 400)
    lab = LCurve(problem="blur", n=21, noise=0.02, tolerance=1e-3)
    assert lab.solve().choices["gcv"].reason == "computed after the last step"
    assert lab.probe is None
    assert lab.complete().corners["gcv"] is not None
