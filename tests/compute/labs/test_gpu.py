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
def test_one_step_and_the_laplacian_equal_numpy(gpu, shape, edges, dtype):
    device, kernels, _ = gpu
    u = np.random.default_rng(1).random(shape).astype(dtype)
    small = {"float32": 1e-6, "float64": 1e-15}[dtype]
    for variant in (v for name, v in kernels.VARIANTS.items() if name != "racing"):
        truth = np.empty(shape)
        cpu_numpy.step(u.astype(np.float64), truth, 0.23, edges, 1)
        np.testing.assert_allclose(run(device, variant, u, 0.23, edges, 1), truth, rtol=0, atol=small)
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


def test_one_step_does_not_change_its_input(gpu):
    device, kernels, _ = gpu
    u = np.random.default_rng(5).random((70, 90)).astype(np.float32)
    for variant in kernels.VARIANTS.values():
        field = device.upload(u)
        variant(field, device.allocate(u.shape, u.dtype), 0.2, "periodic", 1)
        np.testing.assert_array_equal(device.download(field), u)


def test_a_constant_field_stays_to_the_bit(gpu):
    device, kernels, _ = gpu
    u = np.full((123, 321), 0.7, np.float32)
    for variant in kernels.VARIANTS.values():
        np.testing.assert_array_equal(run(device, variant, u, 0.25, "zero-flux", 30), u)


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
    arrays = [device.upload(host) for host in first]
    waiting = [device.fetch(array) for array in arrays]
    second = [host[::-1].copy() for host in first]
    for host, array in zip(second, arrays, strict=True):
        device.write(host, array)
    later = [device.fetch(array) for array in arrays]
    taken = [wait() for wait in waiting[::-1]][::-1]
    again = [device.fetch(array) for array in arrays]  # reuses the buffers of the first fetch
    got = [*taken, *(wait() for wait in (*later, *again))]
    for copy, truth in zip(got, [*first, *second, *second], strict=True):
        assert copy.dtype == truth.dtype
        np.testing.assert_array_equal(copy, truth)


def test_a_strided_array_is_copied(cupy):
    device, _ = cupy
    host = np.random.default_rng(4).random((30, 50))
    np.testing.assert_array_equal(device.fetch(device.upload(host)[:, ::2])(), host[:, ::2])


def test_copies_requested_together_are_independent_of_later_writes(gpu):
    device, _, _ = gpu
    random = np.random.default_rng(5)
    kinds = [((97, 211), np.uint8), ((1,), np.float64), ((3, 7), "f4"), ((4,), np.float64)]
    hosts = [(255 * random.random(shape)).astype(dtype) for shape, dtype in kinds]
    for _ in range(3):
        arrays = [device.upload(host) for host in hosts]
        arrive = device.fetch_all(arrays)
        for array in arrays:
            device.write(np.zeros(array.shape, array.dtype), array)
        for copy, host in zip(arrive(), hosts, strict=True):
            assert copy.dtype == host.dtype
            np.testing.assert_array_equal(copy, host)


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


def pictured(name, u, table):
    """Apply each display kernel to u with the arrays of a backend; return the results in the order of the calls."""
    chosen = backend(name)
    if chosen.missing:
        pytest.skip(f"{name}: {chosen.missing}")
    device, display = chosen.open_device(), chosen.display()
    field, made = device.upload(u), []

    def new(shape, dtype):
        made.append(device.upload(np.zeros(shape, dtype)))
        return made[-1]

    display.survey(field, device.allocate((1024, 4), np.float64), new(4, np.float64))
    display.reduce(field, means := new((43, 87), np.float32), 5, 7, 6)
    display.levels(means, new(means.shape, np.uint8), -1.0, 2.0)
    display.window(field, new((9, 33), np.float64), 3, 40)
    display.gather(field, new((130, 500), u.dtype), 2, 1, -3, 8, np.nan)
    display.logarithm(means, new(means.shape, np.float32))
    display.histogram(means, new(3000, np.int64), -1.0, 2.0)
    display.equalise(means, new(means.shape, np.uint8), -1.0, 2.0, device.upload(table))
    counts = np.random.default_rng(2).integers(-1, 9, (263, 529)).astype(np.int32)
    display.mark(device.upload(counts), made[-1], 5, 7, 6, 1)
    display.distance(means, new(means.shape, np.float32))
    display.blend(means, sums := new(means.shape, np.float32), hits := new(means.shape, np.int32))
    display.resolve(sums, hits, 1, new(means.shape, np.float32))
    display.disc(field, 100.2, 90.7, 31.5, 9.0)
    return [device.download(array) for array in (*made, field)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_display_kernels_give_the_same_bits_for_cupy_and_numba_arrays(dtype):
    u = np.random.default_rng(7).normal(0.5, 1, (263, 529)).astype(dtype)
    u[::50, ::31] = np.nan
    table = np.linspace(0, 1, 301, dtype=np.float32) ** 2
    for cupys, numbas in zip(*(pictured(name, u, table) for name in ("gpu_cupy", "gpu_numba")), strict=True):
        np.testing.assert_array_equal(cupys, numbas)
