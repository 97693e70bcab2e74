"""The L-curve lab's Numba-CUDA kernels in Numba's CUDA simulator, in a child process, against SciPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from compute.devices.devices import Host
from compute.labs.l_curve import cpu_numpy
from compute.labs.l_curve.bidiagonal import BidiagonalArrays, compressed
from tests.simulator import simulate

CASES = {  # m, n, density, dtype, steps
    "square": (5, 5, 0.6, "float64", 3),
    "tall": (9, 3, 0.5, "float32", 2),
    "wide": (3, 40, 0.4, "float64", 1),
    "one column": (4, 1, 1.0, "float64", 1),
    "far columns": (2, 2**16 + 1, 1e-4, "float64", 0),
    "two-byte columns": (2, 2**16, 1e-4, "float32", 0),
}
PROGRAM = """
import sys
import numpy as np
from compute.devices.backends import backend
from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Rows, compressed
from tests.compute.labs.l_curve.test_simulator import CASES, system
chosen = backend("gpu_numba")
if chosen.missing:
    sys.exit("gpu_numba: " + chosen.missing)
device, kernels, made = chosen.open_device(), chosen.kernels("compute.labs.l_curve"), {}
kernels.ROWS, kernels.THREADS = 1, 32  # of a block: every thread is one of Python's here
for name, (m, n, density, dtype, steps) in CASES.items():
    A, b, x, y = system(name)
    out = device.upload(np.full(m, np.nan, dtype))
    kernels.multiply(Rows.of(device, kernels, A), device.upload(x), out)
    made[name + " product"] = device.download(out)
    if not steps:
        continue
    work = BidiagonalArrays.of(device, kernels, A, steps)
    device.write(b, work.u)
    kernels.start(work)
    kernels.steps(work, 0, 1, True, 0.0)
    if steps > 1:
        kernels.steps(work, 1, steps - 1, True, 0.0)
    for array in ("V", "u", "alpha", "beta"):
        made[name + " " + array] = device.download(getattr(work, array))
    combined, projected = (device.upload(np.full(size, np.nan, dtype)) for size in (n, steps))
    kernels.combine(work.V, device.upload(y), combined)
    kernels.project(work.V, device.upload(x), projected)
    made[name + " combined"], made[name + " projected"] = device.download(combined), device.download(projected)
work = BidiagonalArrays.of(device, kernels, compressed(np.diag([3.0, 2, 1]), "float64"), 4)
device.write(np.array([1.0, 1, 0]), work.u)
kernels.start(work)
kernels.steps(work, 0, 3, True, 1e-13)
made["used up"] = np.vstack([device.download(work.alpha), device.download(work.beta)])
made["used up V"] = device.download(work.V)
np.savez(sys.argv[1], **made)
"""


def system(name):
    m, n, density, dtype, steps = CASES[name]
    rng = np.random.default_rng(len(name))
    A = sp.random(m, n, density, "lil", np.float64, rng, data_rvs=rng.standard_normal)
    A[0, n - 1], A[m - 1, 0] = 2.0, 1.0
    if m > 4:
        A[2, :] = 0
    b, x, y = rng.normal(size=m), rng.normal(size=n), rng.normal(size=max(steps, 1))
    return compressed(A.tocsr(), dtype), *(vector.astype(dtype) for vector in (b, x, y))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the results of the simulated kernels for all cases."""
    target = tmp_path_factory.mktemp("simulator") / "made.npz"
    simulate(PROGRAM, target)
    return dict(np.load(target))


@pytest.mark.parametrize("name", CASES)
def test_products_equal_scipy(made, name):
    A, _, x, _ = system(name)
    got, small = made[f"{name} product"], {"float32": 2e-6, "float64": 1e-14}[A.dtype.name]
    assert got.dtype == A.dtype
    np.testing.assert_allclose(got, A.astype(float) @ x.astype(float), rtol=small, atol=10 * small)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[-1]])
def test_steps_equal_the_reference(made, name):
    A, b, x, y = system(name)
    steps, small = CASES[name][-1], {"float32": 1e-4, "float64": 1e-11}[A.dtype.name]
    work = BidiagonalArrays.of(Host(), cpu_numpy, A.astype(np.float64), steps)
    work.u[:] = b
    cpu_numpy.start(work)
    cpu_numpy.steps(work, 0, steps, True, 0.0)
    for array in ("V", "u", "alpha", "beta"):
        got = made[f"{name} {array}"]
        assert got.dtype == (A.dtype if array in "Vu" else np.float64)
        np.testing.assert_allclose(got, getattr(work, array), rtol=small, atol=small)
    V = made[f"{name} V"].astype(float)
    np.testing.assert_allclose(made[f"{name} combined"], y.astype(float) @ V[:steps], rtol=0, atol=small)
    np.testing.assert_allclose(made[f"{name} projected"], V[:steps] @ x.astype(float), rtol=0, atol=small)


def test_an_exhausted_matrix_leaves_zeros(made):
    alpha, beta = made["used up"]
    assert (alpha[:2] > 0).all()
    assert not alpha[2:].any()
    assert np.isfinite(beta).all()
    assert not made["used up V"][2:4].any()
