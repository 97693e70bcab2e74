"""The CUDA C of the diffusion lab and the raster, compiled for the CPU and run by its launching code, against NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from compute.labs.diffusion import cpu_numpy, gpu_cupy
from compute.labs.diffusion.scheme import EDGES, launches
from tests.cuda_on_cpu import upload

DTYPES = ("float32", "float64")
FAST = {dtype: set(gpu_cupy.TILINGS[dtype]) | set(gpu_cupy.candidates(dtype)) for dtype in DTYPES}


def run(function, u, *arguments):
    field, out = upload(u), upload(np.full_like(u, np.nan))
    function(field, out, *arguments)
    return np.array(out)


SMALL = [(1, 1), (1, 9), (9, 1), (3, 7), (66, 120)]


@pytest.mark.parametrize("shape", SMALL, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_step_and_the_laplacian_equal_numpy_in_both_orders_of_blocks(on_cpu, shape, dtype):
    u = np.random.default_rng(1).random(shape).astype(dtype)
    for edges, wanted in product(EDGES, ("laplacian", "step")):
        truth = np.empty(shape)
        if wanted == "laplacian":
            cpu_numpy.laplacian(u.astype(np.float64), truth, edges)
            arguments = gpu_cupy.laplacian, u, edges
        else:
            cpu_numpy.step(u.astype(np.float64), truth, 0.2, edges, 1)
            arguments = gpu_cupy.one_step, u, 0.2, edges, 1
        got = run(*arguments)
        np.testing.assert_allclose(got, truth, rtol=0, atol={"float32": 2e-6, "float64": 4e-15}[dtype])
        on_cpu(True)
        np.testing.assert_array_equal(run(*arguments), got)
        on_cpu(False)


@pytest.mark.parametrize("shape", SMALL, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_many_steps_equal_single_steps_to_the_bit_in_both_orders_of_blocks(on_cpu, shape, dtype):
    u = np.random.default_rng(2).normal(size=shape).astype(dtype)
    for edges in EDGES:
        truth = run(gpu_cupy.one_step, u, 0.24, edges, 14)  # one launch of each size: 8, 4, 2
        np.testing.assert_array_equal(run(gpu_cupy.step, u, 0.24, edges, 14), truth)
        on_cpu(True)
        np.testing.assert_array_equal(run(gpu_cupy.step, u, 0.24, edges, 14), truth)
        on_cpu(False)


@pytest.mark.parametrize("kernel", [gpu_cupy.step, gpu_cupy.one_step, gpu_cupy.racing_step])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_infinite_cell_at_one_edge_does_not_affect_the_opposite_edge(on_cpu, dtype, kernel):
    u = np.random.default_rng(2).random((40, 50)).astype(dtype)
    truth = run(kernel, u, 0.2, "zero-dirichlet", 4)
    left, top, bottom = ((20, 0), np.s_[:, 25:]), ((0, 20), np.s_[20:]), ((39, 20), np.s_[:20])
    for spoilt, clean in (left, top, bottom, ((0, 0), np.s_[20:])):
        broken = u.copy()
        broken[spoilt] = np.inf
        made = run(kernel, broken, 0.2, "zero-dirichlet", 4)
        assert not np.isfinite(made[spoilt])
        np.testing.assert_array_equal(made[clean], truth[clean])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_loop_for_inner_strips_gives_the_same_bits(on_cpu, dtype, monkeypatch):
    first = gpu_cupy.candidates(dtype)[-1]
    assert first.inner
    shape = (60, 2 * first.width + 20)  # left, inner and right strip
    u = np.random.default_rng(3).normal(size=shape).astype(dtype)
    monkeypatch.setattr(gpu_cupy, "TUNED", {(0, shape, dtype): first})
    for edges in EDGES:
        truth = run(gpu_cupy.one_step, u, 0.24, edges, 8)
        np.testing.assert_array_equal(run(gpu_cupy.step, u, 0.24, edges, 8), truth)


def test_the_racing_kernel_depends_on_the_order_of_its_blocks(on_cpu):
    u = np.random.default_rng(4).random((64, 64)).astype(np.float32)
    forwards = run(gpu_cupy.racing_step, u, 0.2, "periodic", 1)
    right = run(gpu_cupy.one_step, u, 0.2, "periodic", 1)
    on_cpu(True)
    backwards = run(gpu_cupy.racing_step, u, 0.2, "periodic", 1)
    assert 100 < (forwards != backwards).sum() < 2000
    assert (forwards != right).any()
    assert (forwards == right)[1:15, 1:15].all()  # a block is right inside its tile


@pytest.mark.parametrize("sizes", [(8, 4, 2, 1), (12, 8, 4, 2, 1)])
def test_launches_sum_to_the_steps_and_are_odd_in_number(sizes):
    for steps in range(1, 300):
        plan = launches(steps, sizes)
        assert sum(plan) == steps
        assert len(plan) % 2 == 1
        assert set(plan) <= set(sizes)
        assert len(plan) <= steps // sizes[0] + 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_cut_covers_the_grid_within_the_number_of_warps(dtype):
    for tiling, (ny, nx) in product(FAST[dtype], [(1, 1), (1, 10**6), (10**6, 1), (2000, 2000), (16384, 16384)]):
        warps, rows = tiling.cut(ny, nx, 132)
        strips = -(-nx // tiling.width)
        assert warps % strips == 0
        assert (warps // strips - 1) * rows < ny <= warps // strips * rows
        assert rows <= gpu_cupy.TALL if tiling.inner else warps <= max(132 * tiling.warps, strips)
        assert tiling.warps <= tiling.blocks
