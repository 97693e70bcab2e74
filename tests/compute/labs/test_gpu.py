"""The kernels on a real GPU: against NumPy in float64, against the exact modes, and bit for bit against each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from compute.devices.backends import backend
from compute.display import cpu_numpy as raster_reference
from compute.labs.diffusion import cpu_numpy, gpu_cupy
from compute.labs.diffusion.scheme import EDGES

pytestmark = pytest.mark.gpu

SHAPES = [(1, 1), (1, 2), (1, 300), (300, 1), (3, 7), (97, 211), (130, 264), (257, 1003), (1500, 130)]
DTYPES = ("float32", "float64")
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}  # relative L2 after 1000 steps


@pytest.fixture(params=["gpu_cupy", "gpu_numba"])
def gpu(request):
    """Device, diffusion and raster kernels of one backend; skipped with the reason if it is missing."""
    chosen = backend(request.param)
    if chosen.missing:
        pytest.skip(f"{chosen.name}: {chosen.missing}")
    return chosen.open_device(), chosen.kernels("compute.labs.diffusion"), chosen.display()


@pytest.fixture
def cupy(gpu):
    device, kernels, _ = gpu
    if "one-step" not in kernels.VARIANTS:
        pytest.skip("for the CUDA C kernels only")
    return device, kernels


def run(device, function, u, *arguments):
    """Apply `function` to the host array u; return its output array, initially full of NaN."""
    out = device.upload(np.full_like(u, np.nan))
    function(device.upload(u), out, *arguments)
    return device.download(out)


def relative(value, truth):
    return np.linalg.norm(value - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("edges", "dtype"), list(product(EDGES, DTYPES)))
def test_one_step_and_the_laplacian_equal_numpy_and_keep_their_input(gpu, shape, edges, dtype):
    device, kernels, _ = gpu
    u = np.random.default_rng(1).random(shape).astype(dtype)
    small, truth = {"float32": 1e-6, "float64": 1e-15}[dtype], np.empty(shape)
    for name, variant in kernels.VARIANTS.items():
        field, out = device.upload(u), device.upload(np.full_like(u, np.nan))
        variant(field, out, 0.23, edges, 1)
        np.testing.assert_array_equal(device.download(field), u)
        if name != "racing":
            cpu_numpy.step(u.astype(np.float64), truth, 0.23, edges, 1)
            np.testing.assert_allclose(device.download(out), truth, rtol=0, atol=small)
    cpu_numpy.laplacian(u.astype(np.float64), truth, edges)
    np.testing.assert_allclose(run(device, kernels.laplacian, u, edges), truth, rtol=0, atol=8 * small)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("edges", "dtype"), list(product(EDGES, DTYPES)))
def test_many_steps_a_launch_equal_single_steps_bit_for_bit(cupy, shape, edges, dtype):
    device, kernels = cupy
    u = np.random.default_rng(2).normal(size=shape).astype(dtype)
    for steps in (1, 2, 3, 4, 7, 8, 15, 25, 64):
        many = run(device, kernels.step, u, 0.24, edges, steps)
        np.testing.assert_array_equal(many, run(device, kernels.one_step, u, 0.24, edges, steps))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_tiling_gives_the_same_bits(cupy, dtype, monkeypatch):
    device, kernels = cupy
    shape = (1201, 1500)
    u = np.random.default_rng(3).normal(size=shape).astype(dtype)
    for edges in EDGES:
        truth = run(device, kernels.one_step, u, 0.2, edges, 24)
        for tiling, warps in product(gpu_cupy.candidates(dtype), (1, 5)):
            monkeypatch.setitem(gpu_cupy.TUNED, (device.index, shape, dtype), replace(tiling, warps=warps))
            np.testing.assert_array_equal(run(device, kernels.step, u, 0.2, edges, 24), truth)


def test_tuning_chooses_a_candidate_and_changes_no_bit(cupy, monkeypatch):
    device, kernels = cupy
    monkeypatch.setattr(gpu_cupy, "TUNED", {})
    u = np.random.default_rng(4).random((500, 700)).astype(np.float32)
    before = run(device, kernels.step, u, 0.2, "periodic", 50)
    assert gpu_cupy.tune(device, 500, 700, "float32", repeat=2) in gpu_cupy.candidates("float32")
    assert len(gpu_cupy.TUNED) == 1
    np.testing.assert_array_equal(run(device, kernels.step, u, 0.2, "periodic", 50), before)


def test_the_racing_kernel_is_near_but_wrong(gpu):
    device, kernels, _ = gpu
    u = np.random.default_rng(6).random((1024, 1024))
    truth = np.empty_like(u)
    cpu_numpy.step(u.copy(), truth, 0.2, "periodic", 1)
    error = relative(run(device, kernels.VARIANTS["racing"], u, 0.2, "periodic", 1), truth)
    assert 1e-6 < error < 0.1


def test_launching_allocates_nothing(cupy):
    import cupy as library

    device, kernels = cupy
    u, out = (device.upload(np.ones((300, 300), np.float32)) for _ in range(2))
    kernels.step(u, out, 0.2, "periodic", 25)
    used = library.get_default_memory_pool().used_bytes()
    kernels.step(u, out, 0.2, "periodic", 25)
    kernels.laplacian(u, out, "periodic")
    assert library.get_default_memory_pool().used_bytes() == used


def test_copies_to_the_host_are_separate_and_of_the_time_of_their_request(gpu):
    device, _, _ = gpu
    random = np.random.default_rng(3)
    kinds = [((97, 211), np.uint8), ((4,), np.float64), ((1, 1), np.float64), ((97, 211), np.uint8), ((1, 3), "f4")]
    first = [(255 * random.random(shape)).astype(dtype) for shape, dtype in kinds]
    second = [host[::-1].copy() for host in first]
    arrays = [device.upload(host) for host in first]
    waiting, together = [device.fetch(array) for array in arrays], device.fetch_all(arrays)
    for host, array in zip(second, arrays, strict=True):
        device.write(host, array)
    later = [device.fetch(array) for array in arrays]
    taken = [wait() for wait in waiting[::-1]][::-1]
    again = [device.fetch(array) for array in arrays]  # reuses the buffers of the first fetch
    got = [*taken, *together(), *(wait() for wait in (*later, *again))]
    for copy, truth in zip(got, [*first, *first, *second, *second], strict=True):
        assert copy.dtype == truth.dtype
        np.testing.assert_array_equal(copy, truth)


def test_a_strided_array_is_copied(cupy):
    device, _ = cupy
    host = np.random.default_rng(4).random((30, 50))
    np.testing.assert_array_equal(device.fetch(device.upload(host)[:, ::2])(), host[:, ::2])


def test_a_stopwatch_keeps_its_time_when_its_events_are_used_again(cupy):
    device, kernels = cupy
    u, out = (device.upload(np.ones((300, 300), np.float32)) for _ in range(2))
    with device.stopwatch() as first:
        kernels.step(u, out, 0.2, "periodic", 80)
    with device.stopwatch() as second:
        pass
    both = first.seconds(), second.seconds()
    assert min(both) > 0
    assert (first.seconds(), second.seconds()) == both
    del first
    with device.stopwatch() as third:
        kernels.step(u, out, 0.2, "periodic", 80)
    assert third.seconds() > 0
    assert second.seconds() == both[1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_survey_of_a_large_field_with_holes(gpu, dtype):
    device, _, raster = gpu
    u = np.random.default_rng(7).normal(size=(1501, 1303)).astype(dtype)
    u[::100, ::90] = np.nan
    u[7, 7] = -np.inf
    truth, out = np.empty(4), device.allocate((4,), np.float64)
    raster_reference.survey(u, truth, truth)
    work = device.allocate(raster_reference.WORK_SHAPE, np.float64)
    totals = []
    for _ in range(3):
        raster.survey(device.upload(u), work, out)
        got = device.download(out)
        np.testing.assert_array_equal(got[[0, 1, 3]], truth[[0, 1, 3]])
        totals.append(got[2])
    assert totals[0] == pytest.approx(truth[2], rel=1e-9)
    assert len(set(totals)) == 1  # the summation order is fixed
