"""The kernels of a bidiagonalisation: what defines it, in every shape, and both backends alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from compute.devices import Host
from compute.labs.l_curve import cpu_numba, cpu_numpy
from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Rows, compressed
from compute.labs.l_curve.problems import make
from compute.labs.l_curve.small_system import Small, points

KERNELS = [cpu_numpy, cpu_numba]
EPSILON = {"float32": 1.2e-7, "float64": 2.2e-16}


def begun(kernels, A, b, dtype, most):
    work = BidiagonalArrays.of(Host(), kernels, compressed(A, dtype), most)
    work.u[:] = b
    kernels.start(work)
    return work


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize(("m", "n", "k"), [(40, 40, 12), (70, 23, 20), (23, 1070, 15), (5, 1, 1), (1500, 333, 30)])
def test_the_relations_that_define_it(kernels, dtype, m, n, k):
    """A V = U B and V orthonormal, worked out in float64; U comes from the recurrence, one step at a time."""
    rng = np.random.default_rng(m + n)
    A = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.7)
    b = rng.normal(size=m)
    work = begun(kernels, A, b, dtype, k)
    U = [work.u.astype(np.float64)]
    for j in range(k):
        kernels.steps(work, j, 1, True, 0.0)
        U.append(work.u.astype(np.float64))
    V, U = work.V[:k].astype(np.float64), np.array(U).T
    B = np.zeros((k + 1, k))
    B[range(k), range(k)], B[range(1, k + 1), range(k)] = work.alpha[:k], work.beta[1:]
    allowed = 60 * EPSILON[dtype] * np.linalg.norm(A, 2)
    assert work.beta[0] == pytest.approx(np.linalg.norm(b), rel=4 * EPSILON[dtype])
    assert np.linalg.norm(A @ V.T - U @ B, 2) <= allowed
    assert np.linalg.norm(V @ V.T - np.eye(k), 2) <= 60 * EPSILON[dtype]
    if m >= n:
        assert np.linalg.norm(A.T @ U[:, :k] - V.T @ B[:k].T, 2) <= allowed
        assert np.linalg.norm(U.T @ U - np.eye(k + 1), 2) <= 1e4 * EPSILON[dtype]


def test_a_wide_matrix_loses_the_left_vectors_and_keeps_the_curve():
    """alpha > beta there: what rounding leaves in u grows by alpha / beta, about 9, with each step."""
    rng = np.random.default_rng(1093)
    A, b = rng.normal(size=(23, 1070)), rng.normal(size=23)
    work = begun(cpu_numpy, A, b, "float64", 15)
    U = [work.u.copy()]
    for j in range(15):
        cpu_numpy.steps(work, j, 1, True, 0.0)
        U.append(work.u.copy())
    assert np.linalg.norm(np.array(U) @ np.array(U).T - np.eye(16), 2) > 1e-5
    assert np.linalg.norm(work.V @ work.V.T - np.eye(16), 2) < 1e-12
    at = points(Small.of(work.alpha, work.beta), lambdas := np.array([10.0, 30.0]))
    for i, lam in enumerate(lambdas):
        x = A.T @ np.linalg.solve(A @ A.T + lam**2 * np.eye(23), b)
        assert at.solution[i] == pytest.approx(np.linalg.norm(x), rel=1e-9)
        assert at.residual[i] == pytest.approx(np.linalg.norm(A @ x - b), rel=1e-9)


def test_both_backends_agree_and_splitting_changes_no_bit():
    A, b, _ = make("random_sparse", n=300)
    found = []
    for kernels in KERNELS:
        at_once, one_by_one = (begun(kernels, A, b, "float64", 40) for _ in range(2))
        kernels.steps(at_once, 0, 40, True, 0.0)
        for j in range(40):
            kernels.steps(one_by_one, j, 1, True, 0.0)
        for name in ("alpha", "beta", "V"):
            np.testing.assert_allclose(getattr(at_once, name), getattr(one_by_one, name), rtol=1e-12, atol=1e-13)
        found.append(at_once)
    for name in ("alpha", "beta", "V"):
        np.testing.assert_allclose(getattr(found[0], name), getattr(found[1], name), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_matrix_that_is_used_up_leaves_zeros(kernels):
    """Two singular values in b: the third step finds nothing."""
    work = begun(kernels, np.diag([3.0, 2, 1, 1]), [1.0, 1, 0, 0], "float64", 6)
    kernels.steps(work, 0, 6, True, 1e-13)
    assert (work.alpha[:2] > 0).all()
    assert not work.alpha[2:].any()
    assert not work.V[2:].any()
    assert np.isfinite(work.beta).all()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("columns", [3, 2**16, 2**16 + 1])
def test_products_reach_the_last_column(kernels, columns):
    """Around the width of a two-byte column, with a row that is empty."""
    A = sp.csr_matrix(([2.0, 3.0, 5.0], ([0, 0, 2], [0, columns - 1, columns - 1])), shape=(3, columns))
    rows = Rows.of(Host(), kernels, A)
    x, out = np.arange(1.0, columns + 1), np.empty(3)
    kernels.multiply(rows, x, out)
    np.testing.assert_array_equal(out, [2 + 3.0 * columns, 0, 5.0 * columns])
    assert rows.nbytes == rows.starts.nbytes + rows.columns.nbytes + rows.values.nbytes


@pytest.mark.parametrize("kernels", KERNELS)
def test_combining_and_projecting_are_products_with_v(kernels):
    rng = np.random.default_rng(5)
    V, y, x = rng.normal(size=(7, 2500)), rng.normal(size=5), np.empty(2500)
    kernels.combine(V, y, x)
    np.testing.assert_allclose(x, V[:5].T @ y, rtol=1e-10, atol=1e-12)
    kernels.project(V, x, y)
    np.testing.assert_allclose(y, V[:5] @ x, rtol=1e-10)


def test_compressing_sums_what_is_stored_twice():
    A = sp.csr_matrix((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    packed = compressed(A, "float32")
    assert packed.nnz == 1
    assert packed[0, 1] == 3
    assert A.nnz == 3
