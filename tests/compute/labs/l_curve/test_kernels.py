"""Bidiagonalisation kernels of every backend: their defining relations, against SciPy in float64 and a dense SVD.

GPUs also run larger matrices than those for every backend.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from compute.devices.backends import BACKENDS, backend
from compute.devices.devices import Host
from compute.labs.l_curve import baseline, cpu_numpy
from compute.labs.l_curve.bidiagonal import Rows, compressed
from compute.labs.l_curve.problems import make
from compute.labs.l_curve.small_system import Small, points
from tests.compute.labs.l_curve.conftest import PACKAGE
from tests.compute.labs.l_curve.relations import (
    DTYPES,
    EPSILON,
    begun,
    host,
    random_matrix,
    require_combination_and_projection,
    require_equal_runs,
    require_product,
    require_relations,
    require_zeros_when_exhausted,
    vector,
)
from tests.conftest import require

SHAPES = [
    (1, 1, 1), (5, 1, 0.5), (1, 700, 0.9), (40, 33, 0.02), (64, 64, 1), (31, 997, 0.31), (7000, 13, 0.3),
    (3000, 2000, 0.004), (101, 2003, 1),
]  # fmt: skip


CUDA = [b for b in BACKENDS if b.device == "cuda" and b.has_kernels(PACKAGE)]


@pytest.fixture(params=[pytest.param(b, id=b.name, marks=pytest.mark.gpu) for b in CUDA])
def gpu(request):
    """Return (device, kernels) of a real GPU only."""
    if request.param.missing:
        pytest.skip(f"{request.param.name}: {request.param.missing}")
    return request.param.open_device(), request.param.kernels(PACKAGE)


@pytest.fixture
def cupy(gpu):
    device, kernels = gpu
    if not hasattr(kernels, "two_products"):
        pytest.skip("for the CUDA C kernels only")
    return device, kernels


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_agree_on_odd_shapes(way, shape, dtype):
    require_product(*way, random_matrix(*shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 2**16 - 1, 2**16, 2**16 + 1])
def test_products_at_the_limit_of_two_byte_columns(way, n, dtype):
    """The last column is in one row; another row is empty."""
    device, kernels = way
    A = sp.csr_matrix(([2.0, 3.0, 5.0], ([0, 0, 2], [0, n - 1, n - 1])), (3, n), dtype)
    rows, out = Rows.of(device, kernels, A), device.upload(np.empty(3, dtype))
    kernels.multiply(rows, device.upload(np.arange(1, n + 1, dtype=dtype)), out)
    np.testing.assert_array_equal(device.download(out), [2 + 3.0 * n, 0, 5.0 * n])
    assert rows.nbytes == rows.starts.nbytes + rows.columns.nbytes + rows.values.nbytes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2**16 - 1, 2**16, 2**16 + 1])
@pytest.mark.parametrize("rows", [7, 20_000])
def test_products_of_many_rows_at_the_limit_of_two_byte_columns(gpu, rows, n, dtype):
    A = sp.random(rows, n, 5e-3 if rows < 100 else 1e-3, "csr", dtype, np.random.default_rng(n))
    A = sp.vstack([A, sp.csr_matrix(([3, 4], ([0, 0], [0, n - 1])), (2, n), dtype)]).tocsr()
    require_product(*gpu, compressed(A, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("m", "n", "k", "density"),
    [(40, 40, 12, 0.7), (70, 23, 20, 0.5), (23, 1070, 15, 0.7), (5, 1, 1, 1), (150, 333, 7, 0.05), (333, 150, 7, 0.4)],
)
def test_steps_satisfy_their_relations(way, m, n, k, density, dtype):
    require_relations(*way, random_matrix(m, n, density, dtype, m + n), vector(m), k)


def test_steps_with_long_vectors_satisfy_their_relations(monkeypatch):
    """WebGPU first adds up the partial sums of squares of vectors that have too many for every workgroup to read."""
    chosen = require(backend("gpu_wgpu"), monkeypatch, PACKAGE)
    A = random_matrix(5, 600_000, 0.05, "float32")
    require_relations(chosen.open_device(), chosen.kernels(PACKAGE), A, vector(5), 4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "density"), [(6000, 6000, 0.1), (900, 400, 0.5), (300, 1500, 0.7), (64, 64, 1)])
def test_many_steps_satisfy_their_relations(gpu, m, n, density, dtype):
    """In CUDA C, the first case uses one pass."""
    require_relations(*gpu, random_matrix(m, n, density, dtype), vector(m), 40)


def test_a_wide_matrix_loses_the_left_vectors_and_keeps_the_curve():
    """alpha > beta here: rounding errors of u grow by alpha / beta, about 9, per step."""
    rng = np.random.default_rng(1093)
    A, b = rng.normal(size=(23, 1070)), rng.normal(size=23)
    work = begun(Host(), cpu_numpy, compressed(A, "float64"), b, 15)
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


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize(("m", "n", "density"), [(6000, 6000, 0.1), (2000, 3000, 0.02), (300, 300, 1)])
def test_runs_of_steps_equal_the_reference_and_on_a_gpu_each_other_to_the_bit(any_backend, m, n, density, orthogonal):
    """However they are split, and in every run: the results do not depend on the order of blocks or threads."""
    device, kernels = any_backend.open_device(), any_backend.kernels(PACKAGE)
    runs, dtype = ([12], [1] * 12, [5, 7], [12], [12]), any_backend.dtypes[-1]
    if any_backend.simulated:
        m, n = m // 10, n // 10
    close = 1e-8 if dtype == "float64" else 1e-3
    made = require_equal_runs(device, kernels, random_matrix(m, n, density, dtype), runs, orthogonal, close, close)
    for other in made[1:]:
        for got, same in zip(other, made[0], strict=True):
            if device.kind == "gpu":
                np.testing.assert_array_equal(got, same)
            np.testing.assert_allclose(got, same, rtol=1e-11 if dtype == "float64" else 1e-4, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_pass_equals_two_products(cupy, dtype):
    device, kernels = cupy
    from compute.labs.l_curve import gpu_onepass

    for m, n, density in [(6000, 6000, 0.1), (1000, 2000, 0.9), (3, 1500, 0.9), (4000, 700, 1)]:
        A, b = random_matrix(m, n, density, dtype), np.random.default_rng(5).normal(size=m)
        one, two = (begun(device, kernels, A, b, 10) for _ in range(2))
        assert gpu_onepass.tiles_of(one.A) is not None
        count = min(2, m, n) if m < 10 else 10
        kernels.steps(one, 0, count, True, 0.0)
        kernels.two_products(two, 0, count, True, 0.0)
        for name in ("alpha", "beta", "V"):
            got, truth = (host(device, work, name)[0][:count] for work in (one, two))
            np.testing.assert_allclose(got, truth, rtol=0, atol=1e4 * EPSILON[dtype] * max(1, abs(truth).max()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_exhausted_matrix_leaves_zeros(way, dtype):
    require_zeros_when_exhausted(*way, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "width", "used"),
    [(1, 1, 1), (7, 2501, 5), (70, 333, 69), (1100, 260, 1099), (9, 128, 9), (600, 15_000, 580)],
)
def test_combining_and_projecting_are_products_with_v(way, rows, width, used, dtype):
    require_combination_and_projection(*way, rows, width, used, dtype, 300)


def test_compressing_sums_what_is_stored_twice():
    A = sp.csr_matrix((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    packed = compressed(A, "float32")
    assert packed.nnz == 1
    assert packed[0, 1] == 3
    assert A.nnz == 3


def test_launching_allocates_nothing(cupy):
    import cupy as library

    device, kernels = cupy
    A = random_matrix(2000, 2000, 0.3, "float32")
    work = begun(device, kernels, A, np.ones(2000), 20)
    kernels.steps(work, 0, 4, True, 0.0)
    used = library.get_default_memory_pool().used_bytes()
    kernels.steps(work, 4, 16, True, 0.0)
    kernels.multiply(work.A, work.w, work.u)
    assert library.get_default_memory_pool().used_bytes() == used


@pytest.mark.parametrize("solver", ["stacked", "damped"])
def test_the_baseline_by_cupy_equals_the_one_by_scipy(cupy, solver):
    from compute.labs.l_curve import gpu_baseline

    A, b, _ = make("random_sparse", n=800)
    lambdas = [0.3, 4.0, 60.0]
    on_gpu = baseline.run(gpu_baseline.SOLVERS[solver](A, b), lambdas)
    on_cpu = baseline.run(baseline.SOLVERS[solver](A, b), lambdas)
    for name in ("residual_norm", "solution_norm"):
        np.testing.assert_allclose(on_gpu.column(name), on_cpu.column(name), rtol=1e-3)
    assert abs(on_gpu.column("iterations") - on_cpu.column("iterations")).max() <= 3
