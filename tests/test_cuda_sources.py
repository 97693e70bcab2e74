"""The .cu files without a GPU: compiled for every architecture, and run on the CPU by the code that launches them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from compute import cuda_source
from compute.bench import fma
from compute.colour import gpu_cupy as colour
from compute.cuda_source import CudaSourceError, check_cuda, source_text
from compute.labs.diffusion import cpu_numpy, gpu_cupy, gpu_steps
from compute.labs.diffusion.edges import EDGES
from compute.labs.l_curve import gpu_onepass, gpu_products, gpu_vectors
from compute.labs.mandelbrot import gpu_cupy as mandelbrot
from compute.labs.mandelbrot import gpu_deep, gpu_table
from compute.labs.mandelbrot.interior import gpu_cupy as interior
from compute.raster import cpu_numpy as raster_reference
from compute.raster import gpu_cupy as raster
from tests.cuda_on_cpu import Module, upload

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
DTYPES = ("float32", "float64")
ROOT = Path(__file__).parent.parent
FAST = {dtype: set(gpu_steps.TILINGS[dtype]) | set(gpu_steps.candidates(dtype)) for dtype in DTYPES}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("source", "dtype"), list(product((gpu_cupy.SOURCE, raster.SOURCE), DTYPES)), ids=str)
def test_compiles_without_spills(source, dtype, architecture):
    made = check_cuda(source, defines={"REAL": gpu_steps.REAL[dtype]}, architecture=architecture)
    assert made.cubin.startswith(b"\x7fELF")
    assert len(made.resources) >= 3
    for resources in made.resources.values():
        assert 0 < resources.registers <= 64
        assert (resources.spill_stores, resources.spill_loads, resources.stack) == (0, 0, 0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_many_step_kernel_keeps_its_rows_in_registers(dtype, architecture):
    for tiling in gpu_steps.tilings((2000, 2000), dtype, 0)[:1] + gpu_steps.tilings((16384, 16384), dtype, 0)[:1]:
        made = check_cuda(gpu_steps.SOURCE, defines=tiling.defines(dtype), architecture=architecture)
        kernel = made.resources["many_steps"]
        assert kernel.registers <= 65536 // 32 // (-(-tiling.blocks // 4) * 4)
        assert (kernel.spill_stores, kernel.spill_loads) == (0, 0)


def test_every_source_is_compiled_here():
    elsewhere = {colour.SOURCE, interior.SOURCE}  # test_colour_sources.py
    elsewhere |= {gpu_onepass.SOURCE, gpu_products.SOURCE, gpu_vectors.SOURCE}  # test_l_curve_sources.py
    elsewhere |= {
        mandelbrot.SOURCE,
        mandelbrot.SLOW_SOURCE,
        gpu_deep.SOURCE,
        gpu_table.SOURCE,
    }  # test_mandelbrot_sources.py
    assert set((ROOT / "compute").rglob("*.cu")) - elsewhere == {
        gpu_cupy.SOURCE,
        gpu_steps.SOURCE,
        raster.SOURCE,
        fma.SOURCE,
    }


def test_an_error_names_file_line_and_definition(tmp_path):
    (tmp_path / "part.cuh").write_text("// fine\nint broken = ;\n")
    (tmp_path / "x.cu").write_text('// x\n#include "part.cuh"\n')
    with pytest.raises(CudaSourceError, match=r"(?s)x\.cu with .*'SIZE': 4.*part\.cuh\(2\): error: expected"):
        check_cuda(tmp_path / "x.cu", defines={"SIZE": 4}, architecture="sm_90")
    assert source_text(tmp_path / "x.cu").splitlines()[-1] == '#line 3 "x.cu"'


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compiled sources, shared by the tests of this file."""
    folder, made = tmp_path_factory.mktemp("cuda"), {}

    def compile_cuda(path, *, defines):
        key = path, tuple(defines.items())
        if key not in made:
            made[key] = Module(path, defines, folder)
        return made[key]

    compile_cuda.made = made
    return compile_cuda


@pytest.fixture
def on_cpu(library, monkeypatch):
    """Lets the launching code run its kernels here; call it with True to run the last block first."""
    caches = [gpu_steps.launcher, gpu_cupy._sweep, raster._kernel]
    for module in (gpu_steps, gpu_cupy, raster):
        monkeypatch.setattr(module, "compile_cuda", library)
    monkeypatch.setattr(gpu_steps, "multiprocessors", lambda _: 1)
    for cached in caches:
        cached.cache_clear()

    def order(backwards):
        for module in library.made.values():
            module.backwards = backwards

    yield order
    order(False)
    for cached in caches:
        cached.cache_clear()


def run(function, u, *arguments):
    field, out = upload(u), upload(np.full_like(u, np.nan))
    function(field, out, *arguments)
    return np.array(out)


SMALL = [(1, 1), (1, 9), (9, 1), (3, 7), (66, 120)]


@pytest.mark.parametrize("shape", SMALL, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_step_and_the_laplacian_equal_numpy_in_both_block_orders(on_cpu, shape, dtype):
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
def test_many_steps_equal_single_steps_bit_for_bit_in_both_block_orders(on_cpu, shape, dtype):
    u = np.random.default_rng(2).normal(size=shape).astype(dtype)
    for edges in EDGES:
        truth = run(gpu_cupy.one_step, u, 0.24, edges, 14)  # a launch of each size: 8, 4, 2
        np.testing.assert_array_equal(run(gpu_cupy.step, u, 0.24, edges, 14), truth)
        on_cpu(True)
        np.testing.assert_array_equal(run(gpu_cupy.step, u, 0.24, edges, 14), truth)
        on_cpu(False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_loop_for_inner_strips_gives_the_same_bits(on_cpu, dtype, monkeypatch):
    first = gpu_steps.candidates(dtype)[-1]
    assert first.inner
    shape = (60, 2 * first.width + 20)  # left, inner and right strip
    u = np.random.default_rng(3).normal(size=shape).astype(dtype)
    monkeypatch.setattr(gpu_steps, "_TUNED", {(0, shape, dtype): first})
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
    assert (forwards == right)[1:15, 1:15].all()  # inside its tile a block is right


@pytest.mark.parametrize("sizes", [(8, 4, 2, 1), (12, 8, 4, 2, 1)])
def test_launches_add_up_and_are_odd_in_number(sizes):
    for steps in range(1, 300):
        plan = gpu_steps.launches(steps, sizes)
        assert sum(plan) == steps
        assert len(plan) % 2 == 1
        assert set(plan) <= set(sizes)
        assert len(plan) <= steps // sizes[0] + 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_cut_covers_the_grid_with_the_warps_there_are(dtype):
    for tiling, (ny, nx) in product(FAST[dtype], [(1, 1), (1, 10**6), (10**6, 1), (2000, 2000), (16384, 16384)]):
        warps, rows = tiling.cut(ny, nx, 132)
        strips = -(-nx // tiling.width)
        assert warps % strips == 0
        assert (warps // strips - 1) * rows < ny <= warps // strips * rows
        assert warps <= max(132 * tiling.warps, strips) or rows == gpu_steps.TALL
        assert tiling.warps <= tiling.blocks


@pytest.mark.parametrize("dtype", DTYPES)
def test_raster_kernels_equal_the_reference_in_both_block_orders(on_cpu, dtype):
    u = np.random.default_rng(5).normal(size=(45, 70)).astype(dtype)
    u[3, 4], u[40, 60] = np.nan, np.inf
    truth, means, levels = np.empty(4), np.empty((7, 10), np.float32), np.empty((7, 10), np.uint8)
    raster_reference.survey(u, truth, truth)
    raster_reference.reduce(u, means, 2, 1, 7)
    raster_reference.levels(means, levels, -0.5, 0.4)
    for backwards in (False, True):
        seen, got, made = (upload(np.zeros_like(like)) for like in (truth, means, levels))
        for _ in range(2):  # the first round compiles, the second has the order wanted
            raster.survey(upload(u), upload(np.zeros(raster_reference.WORK_SHAPE)), seen)
            raster.reduce(upload(u), got, 2, 1, 7)
            raster.levels(got, made, -0.5, 0.4)
            on_cpu(backwards)
        np.testing.assert_allclose(seen, truth, rtol=1e-12)
        np.testing.assert_allclose(got, means, rtol=1e-6)
        np.testing.assert_array_equal(made, levels)


def test_disc_and_window_equal_the_reference(on_cpu):
    for y, x, radius in [(4.5, 0.0, 2.6), (20.0, 30.0, 7.0), (-50.0, 200.0, 3.0), (0.0, 0.0, 0.2)]:
        u, truth = upload(np.zeros((23, 31))), np.zeros((23, 31))
        raster.disc(u, y, x, radius, 7.0)
        raster_reference.disc(truth, y, x, radius, 7.0)
        np.testing.assert_array_equal(u, truth)
    u, out = np.random.default_rng(6).random((9, 8)).astype(np.float32), upload(np.zeros((3, 4)))
    raster.window(upload(u), out, 2, 3)
    np.testing.assert_array_equal(out, u[2:5, 3:7])


def test_a_barrier_that_some_threads_never_reach_is_found(tmp_path):
    (tmp_path / "x.cu").write_text(
        'extern "C" __global__ void half(float* a)\n'
        "{ if (threadIdx.x < 7) __shfl_up_sync(~0u, a[0], 1); else __syncthreads(); }\n"
    )
    code = (
        "import numpy as np, pathlib, sys\nfrom tests.cuda_on_cpu import Module, upload\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "Module(folder / 'x.cu', {}, folder).get_function('half')((1,), (32,), (upload(np.zeros(1, 'f4')),))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode != 0
    assert "waits for threads that never arrive" in done.stderr


def test_shared_memory_that_nobody_wrote_is_not_a_number(tmp_path):
    (tmp_path / "x.cu").write_text(
        'extern "C" __global__ void last(float* a)\n'
        "{ __shared__ float s[8]; if (blockIdx.x == 0) s[threadIdx.x] = 1; __syncthreads(); a[blockIdx.x] = s[0]; }\n"
    )
    a = upload(np.zeros(2, np.float32))
    Module(tmp_path / "x.cu", {}, tmp_path).get_function("last")((2,), (8,), (a,))
    np.testing.assert_array_equal(a, [1, np.nan])


def test_compile_cuda_is_what_the_launchers_use():
    for name in ("compute.labs.diffusion.gpu_steps", "compute.labs.diffusion.gpu_cupy", "compute.raster.gpu_cupy"):
        assert importlib.import_module(name).compile_cuda is cuda_source.compile_cuda
