"""The launching code for several GPUs: kernels on the CPU, streams in any order that their events allow."""

from __future__ import annotations

import numpy as np
import pytest

from compute.display import cpu_numpy as cpu_raster
from compute.labs.diffusion import cpu_numpy, gpu_cupy, gpu_slabs
from compute.labs.diffusion.gpu_slab_device import SlabCamera, SlabDevice
from compute.labs.diffusion.gpu_slab_streams import DIRECT, STAGED
from compute.labs.diffusion.scheme import EDGES
from tests.cuda_on_cpu import launched_on_cpu, upload


def one_gpu(library, field, edges, steps):
    """Return the result of gpu_cupy on one grid."""
    with launched_on_cpu(library, gpu_cupy):
        u, out = upload(field), upload(np.full_like(field, np.nan))
        gpu_cupy.step(u, out, 0.22, edges, steps)
        return np.array(out)


def on_slabs(device, field):
    """Return two grids on the slabs of a device, the first one with this field."""
    u, out = (device.allocate(field.shape, field.dtype) for _ in range(2))
    device.write(field, u)
    return u, out


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize(("dtype", "nx"), [("float32", 132), ("float32", 37), ("float64", 70)])
def test_slabs_on_streams_give_the_bits_of_one_gpu(machine, library, edges, dtype, nx):
    field = np.random.default_rng(nx).normal(size=(79, nx)).astype(dtype)
    for count, ghost, steps in ((2, 8, 31), (3, 8, 17), (2, 16, 48), (3, 8, 1)):
        truth = None
        for seed, peers in ((count, True), (steps, False)):
            cuda = machine(seed, peers)
            truth = one_gpu(library, field, edges, steps) if truth is None else truth
            device = SlabDevice(range(count), ghost)
            assert device.streams.way == (DIRECT if peers else STAGED)
            u, out = on_slabs(device, field)
            gpu_slabs.step(u, out, 0.22, edges, steps)
            np.testing.assert_array_equal(device.download(out), truth, f"{count} slabs, {ghost} ghost rows, {peers}")
            assert not any(queue.works for queue in cuda.queues)


@pytest.mark.parametrize("edges", EDGES)
def test_recorded_graphs_give_the_same_bits(machine, library, edges):
    field = np.random.default_rng(1).normal(size=(52, 20)).astype(np.float32)
    machine(0)
    truth = one_gpu(library, field, edges, 4 * 83)
    device = SlabDevice((0, 1), 16)
    u, out = on_slabs(device, field)
    for _ in range(4):  # from either grid: the first time, and as recorded
        gpu_slabs.step(u, out, 0.22, edges, 83)
        u, out = out, u
    assert [known[1] is not None for known in (*u.graphs.values(), *out.graphs.values())] == [True] * 4
    np.testing.assert_array_equal(device.download(u), truth)


def test_a_new_edge_condition_updates_the_ghost_rows(machine, library):
    field = np.random.default_rng(2).normal(size=(48, 33)).astype(np.float32)
    machine(0)
    device = SlabDevice((0, 1, 2))
    u, out = on_slabs(device, field)
    for edges in ("zero-flux", "periodic", "zero-dirichlet", "periodic"):
        gpu_slabs.step(u, out, 0.22, edges, 5)
        u, out = out, u
        field = one_gpu(library, field, edges, 5)
    np.testing.assert_array_equal(device.download(u), field)


@pytest.mark.parametrize("edges", EDGES)
def test_the_laplacian_on_slabs_equals_that_of_one_grid(machine, edges):
    field = np.random.default_rng(3).normal(size=(50, 21))
    machine(1)
    device = SlabDevice((0, 1, 2))
    u, out = on_slabs(device, field)
    gpu_slabs.laplacian(u, out, edges)
    truth = np.empty_like(field)
    cpu_numpy.laplacian(field, truth, edges)
    np.testing.assert_allclose(device.download(out), truth, atol=4e-14)


def test_a_row_of_pixels_on_two_gpus_waits_for_both(machine):
    field = np.random.default_rng(3).normal(size=(50, 21)).astype(np.float32)
    for seed in range(6):
        machine(seed)
        device = SlabDevice((0, 1, 2))
        u, out = on_slabs(device, field)
        gpu_slabs.laplacian(u, out, "periodic")
        levels = SlabCamera(device).raster(out, None, (8, 8), (-2.0, 2.0), "").levels
        lap, means, truth = device.download(out), np.empty((8, 3), np.float32), np.empty((8, 3), np.uint8)
        cpu_raster.reduce(lap, means, 0, 0, 7)
        cpu_raster.levels(means, truth, -2.0, 2.0)
        assert np.abs(levels.astype(int) - truth).max() <= 1
