"""The relations that define the L-curve's kernels, checked in float64 for the kernels of any device."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from compute.devices.devices import Host
from compute.labs.l_curve import cpu_numpy
from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Rows, compressed

DTYPES = ("float32", "float64")
EPSILON = {"float32": 1.2e-7, "float64": 2.2e-16}


def random_matrix(m, n, density, dtype, seed=1):
    rng = np.random.default_rng(seed)
    return compressed(sp.random(m, n, density, "csr", np.float64, rng, data_rvs=rng.standard_normal), dtype)


def vector(m, seed=3):
    return np.random.default_rng(seed).normal(size=m)


def begun(device, kernels, A, b, most):
    """Return the arrays of a bidiagonalisation that has started from b, with room for `most` steps."""
    work = BidiagonalArrays.of(device, kernels, A, most)
    device.write(np.asarray(b, A.dtype), work.u)
    kernels.start(work)
    return work


def host(device, work, *names):
    return [device.download(getattr(work, name)).astype(np.float64) for name in names]


def require_product(device, kernels, A, allowed=60):
    """Check A x for a random x, to `allowed` roundings of each entry; return it."""
    x = np.random.default_rng(2).normal(size=A.shape[1]).astype(A.dtype)
    truth, size = A.astype(np.float64) @ x.astype(np.float64), abs(A.astype(np.float64)) @ abs(x.astype(np.float64))
    out = device.upload(np.full(A.shape[0], np.nan, A.dtype))
    kernels.multiply(Rows.of(device, kernels, A), device.upload(x), out)
    got = device.download(out)
    assert got.dtype == A.dtype
    np.testing.assert_array_less(abs(got - truth), allowed * EPSILON[A.dtype.name] * size + 1e-300)
    return got


def require_relations(device, kernels, A, b, k):
    """Check A V = U B, V orthonormal, u normalised, in float64; for a tall A also A^T U = V B^T and U orthonormal.

    U is computed by the recurrence, one step at a time.
    """
    dtype = A.dtype.name
    work = begun(device, kernels, A, b, k)
    U = [device.download(work.u).astype(np.float64)]
    for j in range(k):
        kernels.steps(work, j, 1, True, 0.0)
        U.append(device.download(work.u).astype(np.float64))
    V, alpha, beta = host(device, work, "V", "alpha", "beta")
    V, U, B = V[:k], np.array(U).T, np.zeros((k + 1, k))
    B[range(k), range(k)], B[range(1, k + 1), range(k)] = alpha[:k], beta[1:]
    allowed = (60 if device.kind == "cpu" else 100) * EPSILON[dtype]
    largest, exact = np.linalg.norm(B, 2), A.toarray().astype(np.float64)
    start = np.linalg.norm(np.asarray(b, dtype).astype(np.float64))
    assert abs(beta[0] - start) <= (4 if device.kind == "cpu" else 30) * EPSILON[dtype] * start
    assert np.linalg.norm(exact @ V.T - U @ B, 2) <= allowed * largest
    assert np.linalg.norm(V @ V.T - np.eye(k), 2) <= allowed
    np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1, rtol=30 * EPSILON[dtype])
    if A.shape[0] >= A.shape[1]:
        assert np.linalg.norm(exact.T @ U[:, :k] - V.T @ B[:k].T, 2) <= allowed * largest
        assert np.linalg.norm(U.T @ U - np.eye(k + 1), 2) <= 1e4 * EPSILON[dtype]


def require_equal_runs(device, kernels, A, runs, orthogonal, rtol, atol):
    """Check runs of steps, split in several ways, against the reference; return (alpha, beta, V, u) of each."""
    b, k = vector(A.shape[0], 4), sum(runs[0])
    reference = begun(Host(), cpu_numpy, A, b, k)
    cpu_numpy.steps(reference, 0, k, orthogonal, 0.0)
    made = []
    for split in runs:
        work = begun(device, kernels, A, b, k)
        for at, count in zip(np.cumsum([0, *split]), split, strict=False):
            kernels.steps(work, int(at), count, orthogonal, 0.0)
        made.append(host(device, work, "alpha", "beta", "V", "u"))
    for got, truth in zip(made[0], (reference.alpha, reference.beta, reference.V, reference.u), strict=True):
        np.testing.assert_allclose(got, truth, rtol=rtol, atol=atol)
    return made


def require_zeros_when_exhausted(device, kernels, dtype="float64"):
    """Check that b with two singular vectors yields zeros from the third step on."""
    work = begun(device, kernels, compressed(np.diag([3.0, 2, 1, 1]), dtype), [1.0, 1, 0, 0], 6)
    kernels.steps(work, 0, 6, True, 500 * EPSILON[dtype])
    alpha, beta, V, u = host(device, work, "alpha", "beta", "V", "u")
    assert (alpha[:2] > 0).all()
    assert not alpha[2:].any()
    assert not V[2:].any()
    assert np.isfinite(beta).all()
    assert not u.any()


def require_combination_and_projection(device, kernels, rows, width, used, dtype, allowed):
    """Check y V and V x with the first `used` rows of V, to `allowed` roundings of a sum of one term."""
    rng = np.random.default_rng(5)
    V, y, x = (rng.normal(size=shape).astype(dtype) for shape in ((rows, width), used, width))
    out, back = device.upload(np.full(width, np.nan, dtype)), device.upload(np.full(used, np.nan, dtype))
    kernels.combine(device.upload(V), device.upload(y), out)
    kernels.project(device.upload(V), device.upload(x), back)
    small = allowed * EPSILON[dtype]
    np.testing.assert_allclose(device.download(out), y.astype(float) @ V[:used], rtol=0, atol=small * used**0.5)
    np.testing.assert_allclose(device.download(back), V[:used].astype(float) @ x, rtol=0, atol=small * width**0.5)
