"""Typed equations on a real GPU: CUDA C equals NumPy bit for bit, Numba-CUDA, which fuses products, nearly."""

from __future__ import annotations

import numpy as np
import pytest

from compute.devices.backends import backend
from compute.devices.devices import Host
from compute.labs.equations import cpu_numpy, gpu_cupy, gpu_numba
from tests.compute.labs.equations.test_forms import ALL, BOUND, LARGER, ROUNDED, TILED, advanced, program, tiled

pytestmark = pytest.mark.gpu


def opened(name):
    chosen = backend(name)
    if chosen.missing:
        pytest.skip(f"{chosen.name}: {chosen.missing}")
    return chosen.open_device()


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", ALL | TILED)
def test_cuda_c_equals_numpy(name, dtype):
    device, made = opened("gpu_cupy"), program((ALL | TILED)[name])
    bound = 20 * BOUND[dtype] if name in ROUNDED or "sin" in made.system.text else 0.0
    steps = 9  # a launch of several steps, and single ones
    for shape in [*LARGER, (515, 1030)]:
        truth = advanced(cpu_numpy.step, Host(), made, shape, dtype, steps)
        for step in (gpu_cupy.step, gpu_cupy.one_step):
            for field, array in advanced(step, device, made, shape, dtype, steps).items():
                np.testing.assert_allclose(array, truth[field], rtol=0, atol=bound, err_msg=f"{field} {shape}")


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", ALL)
def test_numba_cuda_nearly_equals_numpy(name, dtype):
    device, made = opened("gpu_numba"), program(ALL[name])
    for shape in LARGER:
        truth = advanced(cpu_numpy.step, Host(), made, shape, dtype)
        for field, array in advanced(gpu_numba.step, device, made, shape, dtype).items():
            scale = max(1.0, float(np.abs(truth[field]).max()))
            np.testing.assert_allclose(array, truth[field], rtol=0, atol=20 * BOUND[dtype] * scale, err_msg=f"{shape}")


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", tiled())
def test_many_launches_of_several_steps_equal_single_steps(name, dtype):
    device, made = opened("gpu_cupy"), program((ALL | TILED)[name])
    for shape in ((2048, 2048), (1000, 1537)):
        single = advanced(gpu_cupy.one_step, device, made, shape, dtype, 101)
        several = advanced(gpu_cupy.step, device, made, shape, dtype, 101)
        for field, array in several.items():
            np.testing.assert_array_equal(array, single[field], err_msg=f"{field} {shape}")
