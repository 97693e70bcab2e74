"""The L-curve lab's Numba-CUDA kernels in Numba's CUDA simulator, in a child process: their defining relations."""

from __future__ import annotations

from tests.simulator import simulate

PROGRAM = """
import numpy as np
from compute.devices.backends import backend
from tests.compute.labs.l_curve import relations, test_kernels
chosen = backend("gpu_numba")
assert not chosen.missing, chosen.missing
gpu = chosen.open_device(), chosen.kernels("compute.labs.l_curve")
gpu[1].ROWS, gpu[1].THREADS = 1, 32  # of a block: every thread is one of Python's here
for m, n, density, dtype, steps in [
    (5, 5, 0.6, "float64", 3), (9, 3, 0.5, "float32", 2), (3, 40, 0.4, "float64", 1), (4, 1, 1.0, "float64", 1)
]:
    A, small = relations.random_matrix(m, n, density, dtype), {"float32": 1e-4, "float64": 1e-11}[dtype]
    relations.require_product(*gpu, A)
    relations.require_equal_runs(*gpu, A, ([1, steps - 1] if steps > 1 else [1],), True, small, small)
    relations.require_combination_and_projection(*gpu, steps + 1, n, steps, dtype, 300)
for n, dtype in ((2**16, "float32"), (2**16 + 1, "float64")):
    test_kernels.test_products_at_the_limit_of_two_byte_columns(gpu, n, dtype)
relations.require_zeros_when_exhausted(*gpu)
"""


def test_numba_cuda_satisfies_the_relations_of_the_kernels():
    simulate(PROGRAM)
