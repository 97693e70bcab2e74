"""Diffusion on several GPUs equals the result of one GPU bit for bit; also with several slabs on one GPU."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from compute.devices.backends import backend
from compute.devices.devices import devices_name
from compute.devices.gpu_devices import Cuda
from compute.labs.diffusion import Diffusion, gpu_cupy
from compute.labs.diffusion.scheme import EDGES

pytestmark = pytest.mark.gpu

DTYPES = ("float32", "float64")
PLACES = [(0, 0), (0, 0, 0), "all"]  # two and three slabs on the first GPU, and all GPUs if there are several
SHAPES = [(97, 211), (130, 264), (257, 1003), (1500, 130), (1201, 2048)]


@pytest.fixture
def cupy():
    chosen = backend("gpu_cupy")
    if chosen.missing:
        pytest.skip(f"{chosen.name}: {chosen.missing}")


def opened(place, ghost=0, staged=False):
    """Return the device of these GPUs; skip the test if there are too few."""
    from compute.labs.diffusion.gpu_slab_device import SlabDevice

    if place == "all":
        if Cuda.count() < 2:
            pytest.skip(f"needs 2 GPUs; CuPy finds {Cuda.count()}")
        place = range(Cuda.count())
    return SlabDevice(place, ghost, staged)


def on_one(field, edges, steps):
    device = Cuda(0)
    u, out = device.upload(field), device.allocate(field.shape, field.dtype)
    for each in steps:
        gpu_cupy.step(u, out, 0.23, edges, each)
        u, out = out, u
    return device.download(u)


def on_slabs(device, field, edges, steps):
    from compute.labs.diffusion import gpu_slabs

    u, out = (device.allocate(field.shape, field.dtype) for _ in range(2))
    device.write(field, u)
    for each in steps:
        gpu_slabs.step(u, out, 0.23, edges, each)
        u, out = out, u
    return device.download(u)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(("edges", "dtype"), list(product(EDGES, DTYPES)))
def test_slabs_give_the_bits_of_one_gpu(cupy, place, staged, edges, dtype):
    for shape, ghost in product(SHAPES, (0, 8, 32)):
        device = opened(place, ghost, staged)
        if shape[0] < len(device.gpus) * max(ghost, 8):
            continue
        field = np.random.default_rng(shape[1]).normal(size=shape).astype(dtype)
        steps = (1, 7, 8, 25, 400, 400, 400, 400)
        np.testing.assert_array_equal(on_slabs(device, field, edges, steps), on_one(field, edges, steps))


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_slabs_with_a_loop_for_inner_strips_give_the_bits_of_one_gpu(cupy, place, dtype):
    device = opened(place)
    rows = gpu_cupy.LARGE[dtype] // 8192 * len(device.gpus)
    field = np.random.default_rng(5).random((251, 8192)).astype(dtype)
    field = np.tile(field, (-(-rows // 251), 1))[:rows]
    steps = (8, 25, 64)
    np.testing.assert_array_equal(on_slabs(device, field, "periodic", steps), on_one(field, "periodic", steps))


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("edges", EDGES)
def test_the_laplacian_on_slabs_is_that_of_one_gpu(cupy, place, edges):
    from compute.labs.diffusion import gpu_slabs

    device, one = opened(place), Cuda(0)
    field = np.random.default_rng(6).normal(size=(203, 311)).astype(np.float32)
    u, out = (device.allocate(field.shape, field.dtype) for _ in range(2))
    device.write(field, u)
    gpu_slabs.laplacian(u, out, edges)
    truth = one.allocate(field.shape, field.dtype)
    gpu_cupy.laplacian(one.upload(field), truth, edges)
    np.testing.assert_array_equal(device.download(out), one.download(truth))


@pytest.mark.parametrize("edges", EDGES)
def test_the_lab_shows_on_several_gpus_what_it_shows_on_one(cupy, edges):
    if Cuda.count() < 2:
        pytest.skip(f"needs 2 GPUs; CuPy finds {Cuda.count()}")
    common = {"backend": "gpu_cupy", "ny": 331, "nx": 256, "preset": "noise", "edges": edges}
    one = Diffusion(**common)
    several = Diffusion(devices=devices_name(range(Cuda.count())), **common)
    for lab in (one, several):
        lab.advance(43)
        lab.act("paint", points=[(50.0, 100.0), (100.0, 220.0)], value=2.0, radius=9.0)
        lab.advance(200)
    for view, pixels in ((None, (64, 64)), (None, (331, 256)), ((17, 40, 200, 301), (50, 50))):
        first, second = one.frame(view, pixels), several.frame(view, pixels)
        for name in ("field", "laplacian"):
            np.testing.assert_array_equal(second.rasters[name].levels, first.rasters[name].levels)
        for name, value in first.facts.items():
            assert second.facts[name] == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), name
    np.testing.assert_array_equal(several.field(), one.field())
    np.testing.assert_array_equal(several.laplacian(), one.laplacian())
