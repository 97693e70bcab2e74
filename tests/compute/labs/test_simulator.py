"""The diffusion lab's Numba-CUDA kernels in Numba's CUDA simulator on the CPU: small grids, in a separate process."""

from __future__ import annotations

from tests.simulator import simulate

PROGRAM = """
from itertools import product
import numpy as np
from compute.devices.backends import backend
from compute.labs.diffusion import cpu_numpy
from compute.labs.diffusion.scheme import EDGES
chosen = backend("gpu_numba")
assert not chosen.missing, chosen.missing
device, kernels = chosen.open_device(), chosen.kernels("compute.labs.diffusion")

def run(function, u, *arguments):
    field, out = device.upload(u), device.upload(np.full_like(u, np.nan))
    function(field, out, *arguments)
    return device.download(out), device.download(field)

SHAPES = [(1, 1), (1, 9), (9, 1), (3, 7), (5, 34)]
CASES = [(shape, edges, "float32", 1 + i % 2) for i, (shape, edges) in enumerate(product(SHAPES, EDGES))]
CASES += [((3, 35), "periodic", "float64", 2), ((34, 3), "zero-flux", "float64", 1)]
for shape, edges, dtype, steps in CASES:
    u, truth, small = np.random.default_rng(1).random(shape).astype(dtype), np.empty(shape), np.finfo(dtype).eps * 16
    cpu_numpy.step(u.astype(float), truth, 0.23, edges, steps)
    got, field = run(kernels.VARIANTS["tile"], u, 0.23, edges, steps)
    assert got.dtype == dtype
    assert steps > 1 or np.array_equal(field, u)
    np.testing.assert_allclose(got, truth, rtol=0, atol=small, err_msg=f"{shape} {edges}")
    cpu_numpy.laplacian(u.astype(float), truth, edges)
    np.testing.assert_allclose(run(kernels.laplacian, u, edges)[0], truth, rtol=0, atol=8 * small)

u, truth = np.random.default_rng(51).random((4, 20)).astype(np.float32), np.empty((4, 20))
cpu_numpy.step(u.astype(float), truth, 0.23, "zero-flux", 1)
wrong = abs(run(kernels.VARIANTS["racing"], u, 0.23, "zero-flux", 1)[0] - truth) > 1e-6
assert wrong[:, 16].any()  # the second block reads cells written by the first
assert not wrong[:, :15].any()
"""


def test_the_kernels_equal_numpy_and_the_racing_one_races():
    simulate(PROGRAM)
