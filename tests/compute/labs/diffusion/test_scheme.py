"""Theory first: exact modes, invariants, symmetry. Then every backend against the float64 reference."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compute.labs.diffusion import Diffusion, cpu_numba, scheme
from compute.labs.diffusion.cpu_numpy import laplacian, step
from compute.labs.diffusion.scheme import EDGES

SHAPES = [(1, 1), (1, 9), (9, 1), (2, 2), (3, 7), (65, 130), (128, 96)]
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}  # relative L2 after 1000 steps


def relative(value, truth):
    return np.linalg.norm(value.astype(np.float64) - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("ny", "nx", "p", "q"), [(131, 201, 2, 1), (65, 130, 3, 2), (1, 200, 5, 0), (77, 3, 1, 4), (64, 64, 1, 1)]
)
def test_a_single_mode_shrinks_by_its_factor(diffusion, edges, dtype, ny, nx, p, q):
    """The expected values are computed here from sines, not by the lab."""
    q = max(q, 1) if edges == "zero-dirichlet" else q
    theta = {"zero-flux": (np.pi / nx, np.pi / ny), "periodic": (2 * np.pi / nx, 2 * np.pi / ny)}.get(
        edges, (np.pi / (nx + 1), np.pi / (ny + 1))
    )
    i, j = np.arange(ny)[:, None], np.arange(nx)
    shift = {"zero-flux": 0.5, "periodic": 0.0}.get(edges, 1.0)
    wave = np.sin if edges == "zero-dirichlet" else np.cos
    start = wave(theta[1] * q * (i + shift)) * wave(theta[0] * p * (j + shift))
    g = 1 - 4 * 0.2 * (np.sin(theta[0] * p / 2) ** 2 + np.sin(theta[1] * q / 2) ** 2)
    # until a tenth is left: below that, the rounding errors of the start dominate, because they decay more slowly
    steps = max(1, min(1000, int(np.log(0.1) / np.log(abs(g)))))
    lab = diffusion(ny=ny, nx=nx, r=0.2, edges=edges, dtype=dtype)
    lab.load(start)
    lab.advance(steps)
    assert relative(lab.field(), g**steps * start) <= TOLERANCE[dtype]


@pytest.mark.parametrize("edges", EDGES)
def test_the_live_exact_solution_equals_the_field(edges):
    lab = Diffusion(ny=40, nx=60, edges=edges, preset="single mode", mode_p=2, mode_q=3, dtype="float64")
    lab.advance(50)
    lab.update(r=0.1)
    lab.advance(50)
    assert relative(lab.field(), lab.exact()) < 1e-12
    assert lab.frame().facts["exact_error"] < 1e-12
    lab.paint([(5, 5)], 1.0, 2.0)
    assert lab.exact() is None


@pytest.mark.parametrize(("edges", "dtype"), list(product(EDGES, ["float32", "float64"])))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_backend_equals_the_reference(diffusion, edges, dtype, shape):
    u = np.random.default_rng(7).random(shape)
    for steps in (1, 2, 5, 33):
        truth = np.empty(shape)
        step(u.copy(), truth, 0.23, edges, steps)
        lab = diffusion(ny=shape[0], nx=shape[1], r=0.23, edges=edges, dtype=dtype)
        lab.load(u)
        lab.advance(steps)
        error = np.linalg.norm(lab.field() - truth) / np.linalg.norm(u)  # relative to the start: 1 x 1 decays to zero
        assert error < {"float32": 1e-6, "float64": 1e-14}[dtype]


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_laplacian_equals_a_sum_over_padded_neighbours(diffusion, any_backend, edges, shape):
    dtype = np.dtype(any_backend.dtypes[-1])
    u = np.random.default_rng(8).random(shape).astype(dtype).astype(float)
    if edges == "zero-dirichlet":
        padded = np.pad(u, 1)
    else:
        padded = np.pad(u, 1, mode="wrap" if edges == "periodic" else "symmetric")
    truth = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * u
    lab = diffusion(ny=shape[0], nx=shape[1], edges=edges, dtype=dtype.name)
    lab.load(u)
    np.testing.assert_allclose(lab.laplacian(), truth, atol=5 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(lab.field(), u)


def test_a_constant_is_a_fixed_point_bit_for_bit(diffusion):
    for edges in ("zero-flux", "periodic"):
        lab = diffusion(ny=33, nx=50, r=0.25, edges=edges)
        lab.load(np.full((33, 50), 0.3))
        before = lab.field()
        lab.advance(100)
        np.testing.assert_array_equal(lab.field(), before)


def test_maximum_principle_and_conservation(diffusion):
    u = np.random.default_rng(10).random((64, 80)).astype(np.float32)
    for edges in EDGES:
        lab = diffusion(ny=64, nx=80, r=0.25, edges=edges)
        lab.load(u)
        start = lab.frame().facts["heat"]
        lab.advance(1000)
        after = lab.frame().facts
        assert min(u.min(), 0) <= after["minimum"] <= after["maximum"] <= u.max()
        if edges != "zero-dirichlet":
            assert abs(after["heat"] - start) <= 3e-7 * start
            assert after["heat_drift"] == pytest.approx((after["heat"] - start) / start)
        else:
            assert after["heat"] < 0.9 * start


def test_flips_commute_with_stepping(diffusion, any_backend):
    dtype = any_backend.dtypes[-1]
    u = np.random.default_rng(11).random((31, 52)).astype(dtype)
    plain, flipped = (diffusion(ny=31, nx=52, dtype=dtype) for _ in range(2))
    plain.load(u)
    flipped.load(u[::-1, ::-1])
    for lab in (plain, flipped):
        lab.advance(20)
    np.testing.assert_allclose(flipped.field()[::-1, ::-1], plain.field(), rtol=500 * np.finfo(dtype).eps)


@given(shape=st.tuples(st.integers(1, 20), st.integers(1, 20)), edges=st.sampled_from(EDGES), steps=st.integers(1, 26))
@settings(max_examples=60, deadline=None)
def test_numba_equals_numpy_bit_for_bit(shape, edges, steps):
    u = np.random.default_rng(12).random(shape).astype(np.float32)
    ours, reference = np.empty_like(u), np.empty_like(u)
    step(u.copy(), reference, 0.2, edges, steps)
    for kernel in cpu_numba.VARIANTS.values():
        kernel(u.copy(), ours, 0.2, edges, steps)
        np.testing.assert_array_equal(ours, reference)
    cpu_numba.laplacian(u, ours, edges)
    laplacian(u, reference, edges)
    np.testing.assert_array_equal(ours, reference)


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(70, 1100), (33, 513), (150, 64)], ids=str)
def test_results_do_not_depend_on_tiles(monkeypatch, shape, dtype, edges):
    """At the borders of tiles, in rows and columns, after passes of maximum length."""
    monkeypatch.setattr(cpu_numba, "TILE_BYTES", 2**16)
    height, width = cpu_numba.tile_shape(shape, np.dtype(dtype).itemsize, 2)
    assert height < shape[0] or width < shape[1]
    u = np.random.default_rng(13).random(shape).astype(dtype)
    for steps in (cpu_numba.MOST_STEPS, 2 * cpu_numba.MOST_STEPS + 1):
        ours, reference = np.empty_like(u), np.empty_like(u)
        cpu_numba.step(u.copy(), ours, 0.2, edges, steps)
        step(u.copy(), reference, 0.2, edges, steps)
        np.testing.assert_array_equal(ours, reference)


@pytest.mark.parametrize("spoilt", [(20, 0), (20, 49), (0, 20), (39, 20), (0, 0)], ids=str)
def test_an_infinite_cell_at_one_edge_does_not_affect_the_opposite_edge(any_backend, spoilt):
    """A zero ghost cell is zero, not some cell times 0."""
    u = np.random.default_rng(14).random((40, 50)).astype(np.float32)
    broken = u.copy()
    broken[spoilt] = np.inf
    i, j = np.indices(u.shape)
    clean = np.maximum(np.abs(i - spoilt[0]), np.abs(j - spoilt[1])) > 9
    device, kernels = any_backend.open_device(), any_backend.kernels("compute.labs.diffusion")
    for kernel in (kernel for name, kernel in kernels.VARIANTS.items() if name not in scheme.WRONG_VARIANTS):
        made = []
        for field in (u, broken):
            out = device.allocate(u.shape, u.dtype)
            with np.errstate(invalid="ignore"):
                kernel(device.upload(field), out, 0.2, "zero-dirichlet", 9)
            made.append(device.download(out))
        assert not np.isfinite(made[1][spoilt])
        np.testing.assert_array_equal(made[1][clean], made[0][clean])
