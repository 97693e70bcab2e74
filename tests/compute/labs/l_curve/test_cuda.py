"""The L-curve lab's CUDA C, compiled for the CPU and run by its launching code, against SciPy in float64."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import defaultdict
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from compute.labs.l_curve import gpu_cupy, gpu_launch, gpu_onepass, gpu_tune
from compute.labs.l_curve.bidiagonal import Bidiagonalisation, Rows, compressed
from compute.own.cuda_on_cpu import MOST_SHARED
from tests import cupy_on_cpu
from tests.compute.labs.l_curve.relations import (
    DTYPES,
    EPSILON,
    begun,
    random_matrix,
    require_combination_and_projection,
    require_equal_runs,
    require_product,
    require_relations,
    require_zeros_when_exhausted,
    vector,
)
from tests.cuda_on_cpu import FakeGpu, Library, forget, launched_on_cpu, upload

pytestmark = pytest.mark.extended

POOL = MOST_SHARED  # bytes of shared memory that a block may request here
GPU = FakeGpu(), gpu_cupy


class Kernel:
    """A kernel with CuPy's interface: a launch with more shared memory than last set, by any caller, is an error."""

    def __init__(self, launch, limits, name):
        self.launch, self.limits, self.name = launch, limits, name

    @property
    def max_dynamic_shared_size_bytes(self):
        return self.limits.get(self.name, 0)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes):
        self.limits[self.name] = nbytes

    def __call__(self, grid, block, arguments, *, shared_mem=0):
        assert shared_mem <= min(self.max_dynamic_shared_size_bytes, POOL)
        assert max(grid) > 0
        cupy_on_cpu.Graph.record_or_run(lambda: self.launch(grid, block, arguments, shared_mem=shared_mem))


class Compiled(Library):
    """Compiled .cu files with such kernels, as returned by compile_cuda."""

    def __init__(self):
        super().__init__()
        self.limits = defaultdict(dict)  # of shared memory, by file and definitions

    def __call__(self, path, *, defines):
        module, limits = super().__call__(path, defines=defines), self.limits[path, tuple(sorted(defines.items()))]
        return SimpleNamespace(get_function=lambda name: Kernel(module.get_function(name), limits, name))


class Stream(cupy_on_cpu.Stream):
    """A stream that counts the captures of graphs."""

    captures = 0

    def begin_capture(self):
        Stream.captures += 1
        super().begin_capture()


class Cupy:
    """NumPy in CuPy's place: new arrays have a device, and are full of NaN. free: bytes of free memory."""

    free = 2**40

    def __init__(self):
        memory = SimpleNamespace(free_bytes=lambda: 0)
        self.get_default_memory_pool = lambda: memory
        self.cuda = SimpleNamespace(Device=lambda: SimpleNamespace(mem_info=(self.free, 2**40)), Stream=Stream)

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype):
        return upload(np.full(shape, np.nan, dtype))

    def zeros(self, shape, dtype):
        return upload(np.zeros(shape, dtype))


@pytest.fixture(scope="module")
def library():
    return Compiled()


@pytest.fixture
def on_cpu(library, monkeypatch):
    """Run launched kernels on the CPU; yield a context manager in which the last block runs first."""
    monkeypatch.setitem(sys.modules, "cupy", Cupy())
    for module in (gpu_launch, gpu_onepass):
        monkeypatch.setattr(module, "facts", lambda _: gpu_launch.Facts(3, POOL))
    monkeypatch.setattr(gpu_launch, "THREADS", dict.fromkeys(DTYPES, 96))
    monkeypatch.setattr(gpu_launch, "LINES", 4)

    @contextmanager
    def backwards():
        library.backwards = True
        yield
        library.backwards = False

    with launched_on_cpu(library, gpu_launch, gpu_onepass):
        forget(gpu_cupy)
        yield backwards
    forget(gpu_cupy)


def require_product_in_both_orders(A, backwards):
    got = require_product(*GPU, A, 30)
    with backwards():
        np.testing.assert_array_equal(require_product(*GPU, A, 30), got)


SHAPES = [
    (1, 1, 1), (5, 1, 0.5), (1, 700, 0.9), (40, 33, 0.02), (64, 64, 1), (31, 997, 0.31), (700, 13, 0.3),
    (200, 300, 0.2),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_agree_on_odd_shapes(on_cpu, shape, dtype):
    """Rows at any offset, empty rows, fewer rows than lanes, one column."""
    require_product_in_both_orders(random_matrix(*shape, dtype), on_cpu)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2**16 - 1, 2**16, 2**16 + 1])
def test_products_at_the_limit_of_two_byte_columns(on_cpu, n, dtype):
    A = sp.random(7, n, 3e-3, "lil", dtype, np.random.default_rng(n))
    A[1, 0], A[1, n - 1], A[3, :] = 3, 4, 0
    A = compressed(A.tocsr(), dtype)
    assert gpu_cupy.index_types(n, A.nnz)[1] == (np.uint16 if n <= 2**16 else np.int32)
    require_product_in_both_orders(A, on_cpu)


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


SYSTEMS = [
    (40, 40, 9, 0.7),
    (70, 23, 20, 0.5),
    (23, 107, 12, 0.5),
    (5, 1, 1, 1),
    (150, 333, 7, 0.05),
    (333, 150, 7, 0.4),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k", "density"), SYSTEMS)
def test_steps_satisfy_their_relations(on_cpu, m, n, k, density, dtype):
    require_relations(*GPU, random_matrix(m, n, density, dtype), vector(m), k)


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


def test_an_exhausted_matrix_leaves_zeros(on_cpu):
    require_zeros_when_exhausted(*GPU)


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "width", "used"), [(1, 1, 1), (7, 2500, 5), (70, 333, 69), (1100, 260, 1099), (9, 128, 9)]
)
def test_combining_and_projecting_are_products_with_v(on_cpu, rows, width, used, dtype):
    require_combination_and_projection(*GPU, rows, width, used, dtype, 80)
    with on_cpu():
        require_combination_and_projection(*GPU, rows, width, used, dtype, 80)


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


def test_the_number_of_slices_is_limited_by_the_room(on_cpu):
    kernels = gpu_launch.vectors(upload(np.zeros(1)))
    assert kernels.slices_for(1, 10**6) == gpu_launch.SLICES
    assert kernels.slices_for(1, 15) == kernels.slices_for(10**6, 10**6) == 1
    assert 1 < kernels.slices_for(12, 10**6) <= gpu_launch.SLICES


@pytest.mark.parametrize(("mean", "lanes"), [(0.1, 1), (8, 1), (8.1, 2), (25, 4), (129, 32), (1500, 32)])
def test_lanes_follow_the_mean_length_of_a_row(mean, lanes):
    assert gpu_launch.lanes_for(mean) == lanes


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_the_layout_keeps_every_entry_in_the_columns_of_its_warp(warps, dtype):
    A = random_matrix(37, 301, 0.5, dtype)
    made = gpu_onepass.lay_out(np, A.indptr, A.indices.astype(np.uint16), A.data, A.shape, warps)
    again, wide, vector = np.zeros(A.shape, dtype), -(-301 // warps), 16 // np.dtype(dtype).itemsize
    for row in range(37):
        for warp in range(warps):
            part = slice(*(8 * made.starts[row * warps + warp + at] for at in (0, 1)))
            columns = made.columns[part].astype(int)
            values = made.values[part].reshape(8 // vector, -1, vector).transpose(1, 0, 2).ravel()
            real = columns < 301
            lane = np.arange(columns.size) // 8
            np.testing.assert_array_equal(columns[~real], (301 + 32 * warp + lane)[~real])  # separate for each lane
            assert not values[~real].any()
            assert (columns[real] // wide == warp).all()
            assert 0 <= columns.size - real.sum() < 8
            assert columns.size <= 8 * 32
            again[row, columns[real]] += values[real]
    np.testing.assert_array_equal(again, A.toarray())


def test_the_layout_avoids_bank_conflicts():
    """Conflicts of the tutorial's rows: 2.95 in column order, 1.40 as laid out; the minimum is 1.38."""
    A = random_matrix(40, 15_000, 0.1, "float32")
    made = gpu_onepass.lay_out(np, A.indptr, A.indices.astype(np.uint16), A.data, A.shape, 8)
    degrees = []
    for begin, end in zip(made.starts[:-1], made.starts[1:], strict=True):
        lanes = made.columns[8 * begin : 8 * end].reshape(-1, 8).astype(int)
        for together in lanes.T:
            real = together[together < 15_000]
            degrees.append(np.bincount(real % 32).max(initial=0))
    assert np.mean(degrees) < 1.45
    assert made.values.size < 1.03 * A.nnz


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
    work = begun(*GPU, A, vector(9), 2)
    run = SimpleNamespace(work=work, kernels=gpu_cupy, dtype=A.dtype)
    run.share = Bidiagonalisation.share.fget(run)
    assert run.share == (0.5 if once else 1.0)
    of_A, of_T = 6 * A.nnz + 8 * (9 + 1), 6 * A.nnz + 8 * (1500 + 1)
    read = of_A if once else of_A + of_T
    assert 2 * Bidiagonalisation.bytes_per_product.fget(run) == read + 2 * 4 * (9 + 1500)


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
    passes = [f"pass {form}" for form in few["FORMS"]]
    for words in ("n = 70, 490 non-zeros", "product, 64 threads", *passes, "merge of 3 sums"):
        assert words in said
    assert said.count("8 steps") == 4
    assert (dict(gpu_onepass.SHAPES), dict(gpu_launch.THREADS)) == before
