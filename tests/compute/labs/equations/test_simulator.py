"""The Numba-CUDA form in Numba's CUDA simulator on the CPU: small grids, in a separate process."""

from __future__ import annotations

from tests.simulator import simulate

PROGRAM = """
import numpy as np
from compute.devices.backends import backend
from compute.devices.devices import Host
from compute.labs.equations import cpu_numpy, gpu_numba
from tests.compute.labs.equations.test_forms import ALL, BOUND, ROUNDED, advanced, program
chosen = backend("gpu_numba")
assert not chosen.missing, chosen.missing
device = chosen.open_device()
nested = "where(u < 0.5, where(v < u, 2*u, v - (1 - u)), where(u > v, -u, 3)) - (-where(v < 0.5, u, -v))*(u - v)^2"
ALL |= {"nested": f"u_t = step(u - v) - {nested}; v_t = -(-u) - min(u, max(v, -0.5))*(u + v)"}
for name, text in ALL.items():
    for shape, dtype in (((1, 1), "float32"), ((1, 3), "float64"), ((4, 3), "float32")):
        truth = advanced(cpu_numpy.step, Host(), program(text), shape, dtype)
        made = advanced(gpu_numba.step, device, program(text), shape, dtype)
        for field, array in made.items():
            bound = BOUND[dtype] if name in ROUNDED else 0
            np.testing.assert_allclose(array, truth[field], rtol=0, atol=bound, err_msg=f"{name} {field} {shape}")
"""


def test_numba_cuda_equals_numpy():
    simulate(PROGRAM)
