"""The baseline repeats a tutorial's method, LSMR for each λ on [A; λ I] in float64: its results, and its waste."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg

from compute.labs.l_curve import baseline, gpu_baseline
from compute.labs.l_curve.problems import make

LAMBDAS = np.geomspace(0.1, 5e3, 10)  # from the tutorial


@pytest.fixture(params=["cpu", "gpu"])
def solvers(request, monkeypatch):
    """Return the solvers of the CPU, or those of the GPU with NumPy and SciPy in place of CuPy."""
    if request.param == "cpu":
        return baseline.SOLVERS
    for name, module in {"cupy": np, "cupyx": scipy, "cupyx.scipy": scipy, "cupyx.scipy.sparse": sp}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse.linalg", scipy.sparse.linalg)
    return gpu_baseline.SOLVERS


def truth(A, b, lam):
    """Return both norms of the Tikhonov solution, from a dense SVD."""
    left, values, right = np.linalg.svd(A.toarray().astype(np.float64), full_matrices=False)
    x = right.T @ (values / (values**2 + lam**2) * (left.T @ b))
    return np.linalg.norm(A.astype(np.float64) @ x - b), np.linalg.norm(x)


@pytest.mark.parametrize("shape", [(200, 200), (90, 40)])
@pytest.mark.parametrize("name", ["stacked", "damped"])
def test_norms_equal_those_of_the_tikhonov_solution(solvers, name, shape):
    rng = np.random.default_rng(1)
    A, b = sp.random(*shape, 0.1, "csr", np.float32, rng), rng.normal(size=shape[0])
    lambdas = [0.5, 3.0, 40.0]
    made = baseline.run(solvers[name](A, b), lambdas)
    for point, lam in zip(made.points, lambdas, strict=True):
        assert (point.residual_norm, point.solution_norm) == pytest.approx(truth(A, b, lam), rel=5e-3)
        assert point.seconds > 0
    np.testing.assert_array_equal(made.column("lam"), lambdas)
    assert made.seconds == pytest.approx(made.column("seconds").sum())


def test_the_stacked_matrix_is_float64(monkeypatch):
    """The tutorial wastes memory: 12 bytes per non-zero instead of 8 or 6."""
    seen = []
    original = scipy.sparse.linalg.lsmr
    monkeypatch.setattr(scipy.sparse.linalg, "lsmr", lambda M, b: seen.append((M, b)) or original(M, b))
    A, b, _ = make("random_sparse", n=60)
    baseline.run(baseline.StackedSciPy(A, b), [2.0])
    ((stacked, right),) = seen
    assert (stacked.dtype, stacked.format, stacked.shape, right.shape) == (np.float64, "csr", (120, 60), (120,))
    assert stacked.data.nbytes + stacked.indices.nbytes == 12 * (A.nnz + 60)
    np.testing.assert_array_equal(stacked[60:].toarray(), 2 * np.eye(60))
    assert not right[60:].any()


def test_iterations_fall_with_lambda_as_in_the_tutorial():
    """They fall with λ to two or three, as they do at n = 15 000: 858 387 156 58 21 8 4 3 2 2."""
    A, b, _ = make("random_sparse", n=1000)
    made = baseline.run(baseline.StackedSciPy(A, b), LAMBDAS)
    iterations = made.column("iterations")
    assert (np.diff(iterations) <= 0).all()
    assert iterations[0] > 20 * iterations[5]
    assert iterations[-1] <= 3


def test_progress_is_reported_and_cancelled_between_lambdas(solvers):
    A, b, _ = make("random_sparse", n=50)
    seen = []
    made = baseline.run(
        solvers["stacked"](A, b), [5.0, 6.0, 7.0], lambda point, count: seen.append((point.lam, count)),
        lambda: len(seen) == 2,
    )  # fmt: skip
    assert seen == [(5.0, 1), (6.0, 2)]
    assert [point.lam for point in made.points] == [5.0, 6.0]
    assert "tutorial" in made.title


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_an_invalid_lambda_is_refused_before_any_solve(bad):
    A, b, _ = make("random_sparse", n=20)
    with pytest.raises(ValueError, match="lambdas must be finite and above 0, not "):
        baseline.run(baseline.StackedSciPy(A, b), [1.0, bad], progress=lambda *_: pytest.fail("solved"))
