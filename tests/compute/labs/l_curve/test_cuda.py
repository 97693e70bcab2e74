"""The L-curve lab's CUDA C, compiled for the CPU and run by its launching code, against SciPy in float64."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from compute.labs.l_curve import gpu_cupy, gpu_launch, gpu_onepass, gpu_tune
from compute.labs.l_curve.bidiagonal import Bidiagonalisation, Rows
from tests.compute.labs.l_curve.conftest import GPU, Cupy, Stream
from tests.compute.labs.l_curve.relations import (
    DTYPES,
    EPSILON,
    begun,
    random_matrix,
    require_equal_runs,
    vector,
)
from tests.cuda_on_cpu import FakeGpu, upload

pytestmark = pytest.mark.extended


def test_a_narrow_matrix_does_not_reduce_the_shared_memory_of_a_wide_one(on_cpu, monkeypatch):
    """Both share the compiled kernel, and its limit of shared memory."""
    monkeypatch.setattr(gpu_onepass, "BUSY", 0)
    wide, narrow = (random_matrix(40, n, 0.9, "float32") for n in (300, 150))  # equal numbers of lanes
    works = [begun(*GPU, A, vector(40), 4) for A in (wide, narrow)]
    assert all(gpu_launch.product(work.A).shared for work in works)
    for work in (*works, works[0]):
        gpu_cupy.steps(work, 0, 2, True, 0.0)
        gpu_cupy.two_products(work, 2, 2, True, 0.0)
        assert (work.alpha[:4] > 0).all()


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize(("m", "n", "density"), [(333, 150, 0.4), (150, 333, 0.05), (64, 64, 1)])
def test_runs_of_steps_equal_the_reference_and_each_other_to_the_bit(on_cpu, m, n, density, orthogonal):
    """In one run or several, and in any order of blocks."""
    A = random_matrix(m, n, density, "float64")
    made = require_equal_runs(*GPU, A, ([5], [1] * 5, [2, 3]), orthogonal, 1e-9, 1e-11)
    with on_cpu():
        made += require_equal_runs(*GPU, A, ([5],), orthogonal, 1e-9, 1e-11)
    for other in made[1:]:
        for got, same in zip(other, made[0], strict=True):
            np.testing.assert_array_equal(got, same)


def test_steps_write_only_their_own_parts_of_the_arrays(on_cpu):
    A, b = random_matrix(50, 40, 0.3, "float32"), vector(50)
    work = begun(*GPU, A, b, 8)
    gpu_cupy.steps(work, 0, 5, True, 0.0)
    assert (work.V[6:] == 7).all()
    assert not work.alpha[6:].any()
    assert not work.beta[6:].any()
    before = work.V[:6].copy(), work.alpha.copy()
    gpu_cupy.steps(work, 5, 1, True, 0.0)
    np.testing.assert_array_equal(work.V[:6], before[0])
    np.testing.assert_array_equal(work.alpha[:6], before[1][:6])


@pytest.mark.parametrize("slices", [1, 2, 8])
@pytest.mark.parametrize("width", [1, 31, 1000, 2052])
def test_a_projection_in_slices_equals_the_product(on_cpu, width, slices):
    rng = np.random.default_rng(6)
    V, w = rng.normal(size=(10, width)), rng.normal(size=width)
    parts, made = upload(np.full((10, slices), np.nan)), upload(np.full(1024, np.nan))
    kernels = gpu_launch.vectors(made)
    kernels.project(upload(V), 10, upload(w), parts, slices)
    np.testing.assert_allclose(parts.sum(axis=1), V @ w, rtol=0, atol=1e-12)
    left = upload(w)
    blocks = kernels.subtract(upload(V), 10, parts, slices, left, made)
    truth = w - (V @ w) @ V
    np.testing.assert_allclose(left, truth, rtol=0, atol=1e-11)
    assert made[:blocks].sum() == pytest.approx((truth**2).sum())
    assert np.isnan(made[blocks:]).all()


@pytest.mark.parametrize("shape", [(1, 2, 1, 2), (2, 2, 2, 2), (1, 2, 4, 4), (1, 1, 8, 2), (2, 4, 2, 6)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_pass_equals_two_products(on_cpu, monkeypatch, shape, dtype):
    """In both orders of the blocks and split into runs; with empty rows, and with fewer rows than blocks process."""
    monkeypatch.setattr(gpu_onepass, "SHAPES", dict.fromkeys(DTYPES, (shape,)))
    monkeypatch.setattr(gpu_onepass, "BUSY", 0)
    for m, n, density in [(41, 57, 0.4), (5, 90, 0.9), (1, 1, 1)][: 3 if shape[1] == 2 else 1]:
        A, b, k = random_matrix(m, n, density, dtype, seed=m), vector(m), min(m, n, 3) - 1
        made = [begun(*GPU, A, b, k + 1) for _ in range(4)]
        assert gpu_onepass.tiles_of(made[0].A) is not None
        gpu_cupy.two_products(made[0], 0, k + 1, True, 0.0)
        gpu_cupy.steps(made[1], 0, k + 1, True, 0.0)
        for j in range(k + 1):
            gpu_cupy.steps(made[2], j, 1, True, 0.0)
        with on_cpu():
            gpu_cupy.steps(made[3], 0, k + 1, True, 0.0)
        used = k + 1 if k + 1 < min(m, n) else k  # the last alpha of an exhausted matrix is a rounding error
        for name in ("alpha", "beta", "V"):
            one, two = (getattr(work, name)[: used + 1] for work in made[1::-1])
            np.testing.assert_allclose(one, two, rtol=0, atol=3e3 * EPSILON[dtype] * max(1, abs(two).max()))
            for other in made[2:]:
                np.testing.assert_array_equal(getattr(other, name), getattr(made[1], name))


@pytest.mark.parametrize("steps", [gpu_cupy.steps, gpu_cupy.two_products])
def test_repeated_blocks_of_steps_run_as_graphs_with_the_same_bits(on_cpu, monkeypatch, steps):
    monkeypatch.setattr(Stream, "captures", 0)
    monkeypatch.setattr(gpu_cupy, "GRAPHS", 2)
    A, b = random_matrix(90, 80, 0.3, "float32"), vector(90)
    plain, work = (begun(*GPU, A, b, 70) for _ in range(2))
    steps(plain, 0, 66, True, 0.0)
    for turn, tiny in enumerate((0.0, 0.0, 1e9)):
        work.u[:] = b
        gpu_cupy.start(work)
        steps(work, 0, 3, True, tiny)
        steps(work, 3, 63, True, tiny)
        assert Stream.captures == (0, 2, 2)[turn]  # of the three whole blocks from 16 on
        if turn < 2:
            for name in ("alpha", "beta", "V", "u"):
                np.testing.assert_array_equal(getattr(work, name)[:67], getattr(plain, name)[:67])
    assert work.alpha[16] == work.alpha[40] == 0  # a graph uses the current value of tiny


def test_a_row_too_long_for_its_segments_uses_two_products(on_cpu, monkeypatch):
    monkeypatch.setattr(gpu_onepass, "SHAPES", dict.fromkeys(DTYPES, ((1, 1, 1, 2),)))
    A = random_matrix(3, 300, 1, "float32")
    assert gpu_onepass.lay_out(np, A.indptr, A.indices.astype(np.uint16), A.data, A.shape, 1) is None
    work = begun(*GPU, A, vector(3), 2)
    assert gpu_onepass.tiles_of(work.A) is None
    gpu_cupy.steps(work, 0, 2, True, 0.0)
    assert (work.alpha[:2] > 0).all()


def test_one_pass_is_used_only_where_it_is_faster_and_fits(on_cpu, monkeypatch):
    def used(A):
        return gpu_onepass.tiles_of(Rows.of(*GPU, A)) is not None

    assert used(random_matrix(9, 1500, 0.5, "float32"))
    assert not used(random_matrix(9, 1500, 0.3, "float32"))
    monkeypatch.setattr(gpu_onepass, "facts", lambda _: gpu_launch.Facts(132, 232_448))  # an H200
    assert used(random_matrix(2, 28_000, 0.04, "float32"))
    assert not used(random_matrix(2, 30_000, 0.04, "float32"))
    assert not used(random_matrix(2, 15_000, 0.1, "float64"))
    monkeypatch.setattr(Cupy, "free", 1000)
    assert not used(random_matrix(2, 28_000, 0.04, "float32"))


@pytest.mark.parametrize(("density", "once"), [(0.5, True), (0.3, False)])  # 512 entries per row are enough
def test_one_pass_counts_the_bytes_of_the_matrix_once(on_cpu, density, once):
    """Per product: 6 bytes an entry, 8 a row; one pass reads A once for two products, otherwise A and T are read."""
    A = random_matrix(9, 1500, density, "float32")
    run = Bidiagonalisation(*GPU, A, 2, True)
    assert run.share == (0.5 if once else 1.0)
    of_A, of_T = 6 * A.nnz + 8 * (9 + 1), 6 * A.nnz + 8 * (1500 + 1)
    read = of_A if once else of_A + of_T
    assert 2 * run.bytes_per_product == read + 2 * 4 * (9 + 1500)


def test_a_laid_out_matrix_is_freed_with_the_matrix(on_cpu):
    work = begun(*GPU, random_matrix(9, 1500, 0.5, "float32"), vector(9), 2)
    tiles = weakref.ref(gpu_onepass.tiles_of(work.A))
    assert tiles() is not None
    del work
    gc.collect()
    assert tiles() is None


def test_tuning_times_every_form_and_restores_the_settings(on_cpu, monkeypatch, capsys):
    few = {"FORMS": ((2, 2, 2, 2), (1, 1, 1, 4)), "THREADS": (64,), "STEPS": (8,), "LAUNCHES": 1, "ROUNDS": 1}
    for name, value in few.items():
        monkeypatch.setattr(gpu_tune, name, value)
    monkeypatch.setattr(gpu_tune, "backend", lambda name: SimpleNamespace(open_device=FakeGpu))
    monkeypatch.setattr(gpu_onepass, "BUSY", 0)
    monkeypatch.setattr("sys.argv", ["gpu_tune", "70"])
    copied = SimpleNamespace(rate=SimpleNamespace(median=3e9))
    monkeypatch.setattr("compute.measure.roofs.copy_bandwidth", lambda device: copied)
    before = dict(gpu_onepass.SHAPES), dict(gpu_launch.THREADS)
    gpu_tune.main()
    said = capsys.readouterr().out
    for words in ("product, 64 threads", *(f"pass {form}" for form in few["FORMS"]), "merge of 3 sums"):
        assert words in said
    assert (dict(gpu_onepass.SHAPES), dict(gpu_launch.THREADS)) == before
