"""The L-curve lab's CUDA C, compiled for the CPU and run by its launching code, against SciPy in float64."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from compute.devices.devices import Host
from compute.labs.l_curve import cpu_numpy, gpu_cupy, gpu_launch, gpu_onepass, gpu_tune
from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Bidiagonalisation, Rows, compressed
from compute.own.cuda_on_cpu import MOST_SHARED
from tests.cuda_on_cpu import FakeGpu, Module, upload

pytestmark = pytest.mark.extended

DTYPES = ("float32", "float64")
EPSILON = {"float32": 1.2e-7, "float64": 2.2e-16}
POOL = MOST_SHARED  # bytes of shared memory that a block may request here


class Kernel:
    """A kernel with CuPy's interface: a launch with more shared memory than last set, by any caller, is an error."""

    def __init__(self, launch, limits, name):
        self._launch, self._limits, self._name = launch, limits, name

    @property
    def max_dynamic_shared_size_bytes(self):
        return self._limits.get(self._name, 0)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes):
        self._limits[self._name] = nbytes

    def __call__(self, grid, block, arguments, *, shared_mem=0):
        assert shared_mem <= min(self.max_dynamic_shared_size_bytes, POOL)
        assert max(grid) > 0
        self._launch(grid, block, arguments, shared_mem=shared_mem)


class Compiled:
    """A compiled .cu file, as returned by compile_cuda; `backwards`: the last block runs first."""

    backwards = False

    def __init__(self):
        self._made = {}

    def __call__(self, path, *, defines):
        key = path, tuple(sorted(defines.items()))
        if key not in self._made:
            self._made[key] = Module(path, defines), {}
        return _Module(self, *self._made[key])


class _Module:
    def __init__(self, compiled, module, limits):
        self._compiled, self._module, self._limits = compiled, module, limits

    def get_function(self, name):
        launch = self._module.get_function(name)

        def in_order(*arguments, shared_mem):
            self._module.backwards = self._compiled.backwards
            launch(*arguments, shared_mem=shared_mem)

        return Kernel(in_order, self._limits, name)


@pytest.fixture(scope="module")
def library():
    return Compiled()


CACHES = [gpu_launch._product, gpu_launch._vectors, gpu_cupy._scratch, gpu_cupy._sums, gpu_onepass._sweep]


@pytest.fixture
def on_cpu(library, monkeypatch):
    """Run launched kernels on the CPU; yield a context manager in which the last block runs first."""
    for module in (gpu_launch, gpu_onepass):
        monkeypatch.setattr(module, "compile_cuda", library)
        monkeypatch.setattr(module, "facts", lambda _: gpu_launch.Facts(3, POOL))
    monkeypatch.setattr(gpu_onepass, "_free_bytes", lambda: 2**40)
    monkeypatch.setattr(gpu_onepass, "_laid_out", laid_out)
    monkeypatch.setattr(gpu_launch, "THREADS", dict.fromkeys(DTYPES, 96))
    monkeypatch.setattr(gpu_launch, "LINES", 4)
    monkeypatch.setattr(gpu_cupy, "_empty", lambda size, dtype: upload(np.full(size, np.nan, dtype)))
    for cached in CACHES:
        cached.cache_clear()

    @contextmanager
    def backwards():
        library.backwards = True
        yield
        library.backwards = False

    yield backwards
    for cached in CACHES:
        cached.cache_clear()


def laid_out(matrix):
    """Lay out a matrix with NumPy instead of CuPy."""
    arrays = (np.asarray(array) for array in (matrix.starts, matrix.columns, matrix.values))
    made = gpu_onepass.lay_out(np, *arrays, matrix.shape, gpu_onepass._warps(matrix.values.dtype.name))
    return made and replace(made, **{name: upload(getattr(made, name)) for name in ("starts", "columns", "values")})


def random_matrix(m, n, density, dtype, seed=1):
    rng = np.random.default_rng(seed)
    A = sp.random(m, n, density, "csr", np.float64, rng, data_rvs=rng.standard_normal)
    return compressed(A, dtype)


def product(A, x):
    """Return A x from the kernels."""
    out = upload(np.full(A.shape[0], np.nan, A.dtype))
    gpu_cupy.multiply(Rows.of(FakeGpu(), gpu_cupy, A), upload(x), out)
    return np.array(out)


def agrees(A, backwards):
    x = np.random.default_rng(2).normal(size=A.shape[1]).astype(A.dtype)
    truth, size = A.astype(np.float64) @ x.astype(np.float64), abs(A.astype(np.float64)) @ abs(x.astype(np.float64))
    got = product(A, x)
    assert got.dtype == A.dtype
    np.testing.assert_array_less(abs(got - truth), 30 * EPSILON[A.dtype.name] * size + 1e-300)
    with backwards():
        np.testing.assert_array_equal(product(A, x), got)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("m", "n", "density"),
    [
        (1, 1, 1),
        (5, 1, 0.5),
        (1, 700, 0.9),
        (40, 33, 0.02),
        (64, 64, 1),
        (31, 997, 0.31),
        (700, 13, 0.3),
        (200, 300, 0.2),
    ],
)
def test_products_agree_on_odd_shapes(on_cpu, m, n, density, dtype):
    """Rows at any offset, empty rows, fewer rows than lanes, one column."""
    agrees(random_matrix(m, n, density, dtype), on_cpu)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2**16 - 1, 2**16, 2**16 + 1])
def test_products_around_the_reach_of_a_two_byte_column(on_cpu, n, dtype):
    A = sp.random(7, n, 3e-3, "lil", dtype, np.random.default_rng(n))
    A[1, 0], A[1, n - 1], A[3, :] = 3, 4, 0
    A = compressed(A.tocsr(), dtype)
    assert gpu_cupy.index_types(n, A.nnz)[1] == (np.uint16 if n <= 2**16 else np.int32)
    agrees(A, on_cpu)


def test_a_narrow_matrix_leaves_a_wide_one_its_shared_memory(on_cpu, monkeypatch):
    """Both share the compiled kernel, and its limit of shared memory."""
    monkeypatch.setattr(gpu_onepass, "BUSY", 0)
    wide, narrow = (random_matrix(40, n, 0.9, "float32") for n in (300, 150))  # equal numbers of lanes
    works = [begun(gpu_cupy, FakeGpu(), A, vector(40), 4) for A in (wide, narrow)]
    assert all(gpu_launch.product(work.A).shared for work in works)
    for work in (*works, works[0]):
        gpu_cupy.steps(work, 0, 2, True, 0.0)
        gpu_cupy.two_products(work, 2, 2, True, 0.0)
        assert (work.alpha[:4] > 0).all()


def begun(kernels, device, A, b, most):
    work = BidiagonalArrays.of(device, kernels, A, most)
    work.u[:] = b
    kernels.start(work)
    return work


def vector(m, seed=3):
    return np.random.default_rng(seed).normal(size=m)


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
def test_steps_keep_the_relations_that_define_them(on_cpu, m, n, k, density, dtype):
    """A V = U B with V orthonormal, computed in float64; each u is that of a run with one more step."""
    A, b = random_matrix(m, n, density, dtype), vector(m)
    work = begun(gpu_cupy, FakeGpu(), A, b, k)
    U = [work.u.astype(np.float64)]
    for j in range(k):
        gpu_cupy.steps(work, j, 1, True, 0.0)
        U.append(work.u.astype(np.float64))
    U, V = np.array(U).T, work.V[:k].astype(np.float64)
    B = np.zeros((k + 1, k))
    B[range(k), range(k)], B[range(1, k + 1), range(k)] = work.alpha[:k], work.beta[1:]
    A = A.toarray().astype(np.float64)
    assert work.beta[0] == pytest.approx(np.linalg.norm(b.astype(dtype)), rel=4 * EPSILON[dtype])
    assert np.linalg.norm(A @ V.T - U @ B, 2) <= 60 * EPSILON[dtype] * np.linalg.norm(A, 2)
    assert np.linalg.norm(V @ V.T - np.eye(k), 2) <= 60 * EPSILON[dtype]
    np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1, rtol=30 * EPSILON[dtype])


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize(("m", "n", "density"), [(333, 150, 0.4), (150, 333, 0.05), (64, 64, 1)])
def test_runs_of_steps_equal_the_reference_and_each_other_to_the_bit(on_cpu, m, n, density, orthogonal):
    """In one run or several, and in any order of blocks."""
    A, b, k = random_matrix(m, n, density, "float64"), vector(m), 5
    reference = begun(cpu_numpy, Host(), A, b, k)
    cpu_numpy.steps(reference, 0, k, orthogonal, 0.0)
    made = []
    for runs in ([k], [1] * k, [2, 3]):
        made.append(begun(gpu_cupy, FakeGpu(), A, b, k))
        for at, count in zip(np.cumsum([0, *runs]), runs, strict=False):
            gpu_cupy.steps(made[-1], int(at), count, orthogonal, 0.0)
    with on_cpu():
        made.append(begun(gpu_cupy, FakeGpu(), A, b, k))
        gpu_cupy.steps(made[-1], 0, k, orthogonal, 0.0)
    for name in ("alpha", "beta", "V", "u"):
        np.testing.assert_allclose(getattr(made[0], name), getattr(reference, name), rtol=1e-9, atol=1e-11)
        for other in made[1:]:
            np.testing.assert_array_equal(getattr(other, name), getattr(made[0], name))


def test_a_matrix_that_is_used_up_leaves_zeros(on_cpu):
    """b contains two singular vectors: the third step yields zero, in the middle of a run."""
    A = compressed(np.diag([3.0, 2, 1, 1]), "float64")
    work = begun(gpu_cupy, FakeGpu(), A, [1.0, 1, 0, 0], 6)
    gpu_cupy.steps(work, 0, 6, True, 1e-13)
    assert (work.alpha[:2] > 0).all()
    assert not work.alpha[2:].any()
    assert not work.V[2:].any()
    assert np.isfinite(work.beta).all()
    assert not work.u.any()


def test_nothing_but_the_contract_s_arrays_is_written(on_cpu):
    A, b = random_matrix(50, 40, 0.3, "float32"), vector(50)
    work = begun(gpu_cupy, FakeGpu(), A, b, 8)
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
    rng = np.random.default_rng(5)
    V, y, x = (rng.normal(size=shape).astype(dtype) for shape in ((rows, width), used, width))
    for _ in on_cpu_orders(on_cpu):
        out, back = upload(np.full(width, np.nan, dtype)), upload(np.full(used, np.nan, dtype))
        gpu_cupy.combine(upload(V), upload(y), out)
        gpu_cupy.project(upload(V), upload(x), back)
        small = 8 * EPSILON[dtype]
        np.testing.assert_allclose(out, y.astype(float) @ V[:used], rtol=0, atol=small * max(5, used**0.5) * 4)
        np.testing.assert_allclose(back, V[:used].astype(float) @ x, rtol=0, atol=small * max(5, width**0.5) * 4)


def on_cpu_orders(on_cpu):
    """Yield twice: with the blocks in order, and in reverse order."""
    yield None
    with on_cpu():
        yield None


@pytest.mark.parametrize("slices", [1, 2, 8])
@pytest.mark.parametrize("width", [1, 31, 1000, 2052])
def test_a_projection_may_be_cut_into_slices(on_cpu, width, slices):
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


def test_slices_are_as_many_as_there_is_room_for_at_most(on_cpu):
    kernels = gpu_launch.vectors(upload(np.zeros(1)))
    assert kernels.slices_for(1, 10**6) == gpu_launch.SLICES
    assert kernels.slices_for(1, 15) == kernels.slices_for(10**6, 10**6) == 1
    assert 1 < kernels.slices_for(12, 10**6) <= gpu_launch.SLICES


@pytest.mark.parametrize(("mean", "lanes"), [(0.1, 1), (8, 1), (8.1, 2), (25, 4), (129, 32), (1500, 32)])
def test_lanes_by_the_mean_length_of_a_row(mean, lanes):
    assert gpu_launch.lanes_for(mean) == lanes


@pytest.mark.parametrize("shape", [(1, 2, 1, 2), (2, 2, 2, 2), (1, 2, 4, 4), (1, 1, 8, 2), (2, 4, 2, 6)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_pass_equals_two_products(on_cpu, monkeypatch, shape, dtype):
    """In both orders of the blocks and split into runs; with empty rows, and with fewer rows than blocks process."""
    monkeypatch.setattr(gpu_onepass, "SHAPES", dict.fromkeys(DTYPES, (shape,)))
    monkeypatch.setattr(gpu_onepass, "BUSY", 0)
    for m, n, density in [(41, 57, 0.4), (5, 90, 0.9), (1, 1, 1)][: 3 if shape[1] == 2 else 1]:
        A, b, k = random_matrix(m, n, density, dtype, seed=m), vector(m), min(m, n, 3) - 1
        made = [begun(gpu_cupy, FakeGpu(), A, b, k + 1) for _ in range(4)]
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


class Recorded:
    """A graph that repeats the recorded launches."""

    def __init__(self, launches):
        self.launch = launches


@pytest.mark.parametrize("steps", [gpu_cupy.steps, gpu_cupy.two_products])
def test_blocks_of_steps_come_from_graphs_the_second_time_and_give_the_same_bits(on_cpu, monkeypatch, steps):
    recorded = []
    monkeypatch.setattr(gpu_cupy, "_record", lambda launches: recorded.append(launches) or Recorded(launches))
    monkeypatch.setattr(gpu_cupy, "GRAPHS", 2)
    A, b = random_matrix(90, 80, 0.3, "float32"), vector(90)
    plain, work = (begun(gpu_cupy, FakeGpu(), A, b, 70) for _ in range(2))
    steps(plain, 0, 66, True, 0.0)
    for turn, tiny in enumerate((0.0, 0.0, 1e9)):
        work.u[:] = b
        gpu_cupy.start(work)
        steps(work, 0, 3, True, tiny)
        steps(work, 3, 63, True, tiny)
        assert len(recorded) == (0, 2, 2)[turn]  # of the three whole blocks from 16 on
        if turn < 2:
            for name in ("alpha", "beta", "V", "u"):
                np.testing.assert_array_equal(getattr(work, name)[:67], getattr(plain, name)[:67])
    assert work.alpha[16] == work.alpha[40] == 0  # a graph uses the current value of tiny


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_laying_out_keeps_every_entry_in_its_warp_s_columns(warps, dtype):
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


def test_laid_out_entries_that_are_used_together_lie_in_different_banks():
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


def test_a_row_too_long_for_its_segments_is_left_to_two_products(on_cpu, monkeypatch):
    monkeypatch.setattr(gpu_onepass, "SHAPES", dict.fromkeys(DTYPES, ((1, 1, 1, 2),)))
    A = random_matrix(3, 300, 1, "float32")
    assert gpu_onepass.lay_out(np, A.indptr, A.indices.astype(np.uint16), A.data, A.shape, 1) is None
    work = begun(gpu_cupy, FakeGpu(), A, vector(3), 2)
    assert gpu_onepass.tiles_of(work.A) is None
    gpu_cupy.steps(work, 0, 2, True, 0.0)
    assert (work.alpha[:2] > 0).all()


def test_one_pass_only_where_it_pays_and_fits(on_cpu, monkeypatch):
    def pays(A):
        return gpu_onepass._pays(Rows.of(FakeGpu(), gpu_cupy, A))

    assert pays(random_matrix(9, 1500, 0.5, "float32"))
    assert not pays(random_matrix(9, 1500, 0.3, "float32"))
    monkeypatch.setattr(gpu_onepass, "facts", lambda _: gpu_launch.Facts(132, 232_448))  # an H200
    assert pays(random_matrix(2, 28_000, 0.1, "float32"))
    assert not pays(random_matrix(2, 30_000, 0.1, "float32"))
    assert not pays(random_matrix(2, 15_000, 0.1, "float64"))
    monkeypatch.setattr(gpu_onepass, "_free_bytes", lambda: 1000)
    assert not pays(random_matrix(2, 28_000, 0.1, "float32"))


@pytest.mark.parametrize(("density", "once"), [(0.5, True), (0.3, False)])  # 512 entries per row are enough
def test_the_bytes_of_a_step_in_one_pass_have_the_matrix_once(on_cpu, density, once):
    """Per product: 6 bytes an entry, 8 a row; one pass reads A once for two products, otherwise A and T are read."""
    A = random_matrix(9, 1500, density, "float32")
    work = begun(gpu_cupy, FakeGpu(), A, vector(9), 2)
    run = SimpleNamespace(work=work, kernels=gpu_cupy, dtype=A.dtype)
    run.share = Bidiagonalisation.share.fget(run)
    assert run.share == (0.5 if once else 1.0)
    of_A, of_T = 6 * A.nnz + 8 * (9 + 1), 6 * A.nnz + 8 * (1500 + 1)
    read = of_A if once else of_A + of_T
    assert 2 * Bidiagonalisation.bytes_per_product.fget(run) == read + 2 * 4 * (9 + 1500)


def test_what_is_laid_out_goes_with_the_matrix(on_cpu):
    work = begun(gpu_cupy, FakeGpu(), random_matrix(9, 1500, 0.5, "float32"), vector(9), 2)
    held = len(gpu_onepass._tiles)
    del work
    gc.collect()
    assert len(gpu_onepass._tiles) == held - 1


def test_tuning_tells_the_time_of_every_form_and_leaves_all_as_it_was(on_cpu, monkeypatch, capsys):
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
    for words in (
        "n = 70, 490 non-zeros",
        "product, 64 threads",
        "pass (2, 2, 2, 2)",
        "pass (1, 1, 1, 4)",
        "merge of 3 sums",
    ):
        assert words in said
    assert said.count("8 steps") == 4
    after = dict(gpu_onepass.SHAPES), dict(gpu_launch.THREADS)
    assert after == before
