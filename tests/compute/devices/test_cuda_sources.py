"""Every .cu of the project, without a GPU: compiled without spilling for old to new GPUs, and found by its launcher.

The results of the kernels are tested in the tests of their labs: labs/diffusion/test_cuda.py, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compute.devices.cuda_source import CudaSourceError, check_cuda, source_text
from compute.display import gpu as display
from compute.labs.diffusion import gpu_cupy as diffusion
from compute.labs.diffusion import gpu_slabs
from compute.labs.l_curve import gpu_launch, gpu_onepass
from compute.labs.mandelbrot import gpu_cupy as mandelbrot
from compute.measure import roofs
from tests.cuda_on_cpu import Module, resources_of, upload
from tests.sources import ROOT

pytestmark = pytest.mark.extended

OLDEST, *BETWEEN, NEWEST = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
DTYPES = ("float32", "float64")
REGISTERS = 65536  # per multiprocessor


@dataclass(frozen=True)
class Build:
    """A .cu with its definitions: its kernels with their register limits, and the memory limits besides registers."""

    source: Path
    defines: Mapping[str, Any]
    kernels: Mapping[str, int]
    spilled: int = 0  # bytes per thread, of each kind
    stacked: int = 0
    shared: int = 49152  # bytes per block

    def __str__(self) -> str:
        values = "-".join(map(str, self.defines.values()))
        return f"{self.source.relative_to(ROOT / 'compute')}-{values}"


def builds() -> Iterator[Build]:
    """Yield all launched kernels, each with the limits that its lab relies on."""
    for real in ("float", "double"):
        yield Build(diffusion.SOURCE, {"REAL": real}, dict.fromkeys(("laplacian", "one_step", "racing_step"), 64))
    rasters = (
        "survey", "exclude", "block_means", "block_levels", "to_levels", "copy_window", "fill_disc", "copy_meeting",
    )  # fmt: skip
    for real in ("float", "double", "int"):
        yield Build(display.RASTER_SOURCE, {"REAL": real}, dict.fromkeys(rasters, 64))
    for dtype, size in product(DTYPES, (2000, 16384)):
        tiling = diffusion.tilings((size, size), dtype, 0)[0]
        most = REGISTERS // 32 // (-(-tiling.blocks // 4) * 4)
        yield Build(diffusion.STEPS_SOURCE, tiling.defines(dtype), {"many_steps": most}, stacked=10**9)
        if size == 16384:
            every = {"many_steps": most, "slab_steps": most}
            yield Build(gpu_slabs.SOURCE, tiling.defines(dtype), every, stacked=10**9)
    for dtype in roofs.DTYPES:
        yield Build(roofs.FMA_SOURCE, {"REAL": roofs.REAL[dtype]}, {"fma_chains": 32}, shared=0)  # 64 warps fit
    colours = ("logarithm", "clear", "histogram", "equalise", "mark", "distance", "blend", "resolve")
    yield Build(display.COLOUR_SOURCE, {}, dict.fromkeys(colours, 80))
    yield Build(mandelbrot.INTERIOR_SOURCE, {}, {"multiplier": 80})
    yield from of_the_mandelbrot_lab()
    yield from of_the_l_curve_lab()


def of_the_mandelbrot_lab() -> Iterator[Build]:
    few = {"spilled": 16, "stacked": 16}
    for real in ("float", "double"):
        direct = ("counts_only", "direct", "direct_shortcuts", "few", "few_counts", "pick")
        yield Build(mandelbrot.SOURCE, {"REAL": real}, dict.fromkeys(direct, 128), **few)
        yield Build(mandelbrot.SLOW_SOURCE, {"REAL": real}, dict.fromkeys(("each_step", "additions"), 128), **few)
    yield Build(mandelbrot.DEEP_SOURCE, {}, dict.fromkeys(("perturbed", "far"), 128), **few)
    table = ("first_plain", "merge_plain", "first_far", "merge_far")
    yield Build(mandelbrot.TABLE_SOURCE, {}, dict.fromkeys(table, 128), **few)


def of_the_l_curve_lab() -> Iterator[Build]:
    for dtype, lanes in product(DTYPES, (32, 4, 1)):
        for column, shared in (("u16", 1), ("u16", 0), ("i32", 0)):
            threads = gpu_launch.THREADS[dtype] if shared else gpu_launch.FEW_THREADS
            defines = {"REAL": gpu_launch.REAL[dtype], "THREADS": threads,
                       "COLUMN": column, "LANES": lanes, "SHARED": shared}  # fmt: skip
            yield Build(
                gpu_launch.PRODUCTS_SOURCE, defines, {"recur": REGISTERS // threads}, shared=gpu_launch.STATIC_SHARED
            )
    for dtype in DTYPES:
        vectors = {"squares": 128, "finish": 128, "project": 128, "subtract": 64, "combine": 64, "merge": 64}
        yield Build(gpu_launch.VECTORS_SOURCE, {"REAL": gpu_launch.REAL[dtype], "LINES": gpu_launch.LINES}, vectors)
        for form in gpu_onepass.SHAPES[dtype]:
            most = {"sweep": min(255, 65536 // (form[0] * form[1] * gpu_launch.WARP))}
            # no spilling on the GPUs where it matters most: sm_90, sm_100
            yield Build(gpu_onepass.SOURCE, gpu_onepass.defines(dtype, form), most, 24, 24, gpu_launch.STATIC_SHARED)


BUILDS = list(builds())


# Each for the oldest and the latest GPU, and one in between in turn: neighbouring architectures differ by a few
# registers per source. NVRTC takes two minutes for all of them.
CASES = [(build, each) for build, between in zip(BUILDS, cycle(BETWEEN)) for each in (OLDEST, between, NEWEST)]


@pytest.mark.parametrize(("build", "architecture"), CASES, ids=str)
def test_kernels_compile_within_their_limits_of_registers_and_memory(build, architecture):
    made = resources_of(build.source, build.defines, architecture)
    assert set(made) >= set(build.kernels)
    for name, resources in made.items():
        assert 0 < resources.registers <= build.kernels[name]
        assert max(resources.spill_stores, resources.spill_loads) <= build.spilled
        assert resources.stack <= build.stacked
        assert resources.shared <= build.shared


def test_every_source_is_compiled_here():
    found = (ROOT / "compute").rglob("*.cu")
    assert {build.source for build in BUILDS} == {path for path in found if "__pycache__" not in path.parts}


def test_an_error_names_file_line_and_definition(tmp_path):
    (tmp_path / "part.cuh").write_text("// fine\nint broken = ;\n")
    (tmp_path / "x.cu").write_text('// x\n#include "part.cuh"\n')
    with pytest.raises(CudaSourceError, match=r"(?s)x\.cu with .*'SIZE': 4.*part\.cuh\(2\): error: expected"):
        check_cuda(tmp_path / "x.cu", defines={"SIZE": 4}, architecture="sm_90")
    assert source_text(tmp_path / "x.cu").splitlines()[-1] == '#line 3 "x.cu"'


def test_the_cpu_shows_reads_of_unwritten_shared_memory_as_nan():
    source = """extern "C" __global__ void last(float* a)
    { __shared__ float s[8]; if (blockIdx.x == 0) s[threadIdx.x] = 1; __syncthreads(); a[blockIdx.x] = s[0]; }"""
    a = upload(np.zeros(2, np.float32))
    Module(source, {}).get_function("last")((2,), (8,), (a,))
    np.testing.assert_array_equal(a, [1, np.nan])
