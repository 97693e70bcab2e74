"""Every variant of the direct kernel: correct with any slices, and slow for the stated reason."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from compute.devices.backends import BACKENDS, backend
from compute.devices.webgpu import SOFTWARE
from compute.labs.mandelbrot import Mandelbrot, gpu_cupy
from compute.labs.mandelbrot.scenes import DIFFERENCES, MIX, PACKAGE, REASONS, TOLERANCE
from compute.labs.mandelbrot.state import LaunchPart
from tests.sass import straight_runs

VIEWS = {
    "whole set": {"center": ("-0.6", "0.05"), "zoom": "1.3", "ny": 61, "nx": 83, "max_iterations": 150},
    "filaments": {"center": ("-0.7436", "0.1318"), "zoom": "900", "ny": 40, "nx": 33, "max_iterations": 700},
    "far outside": {"center": ("6", "7"), "zoom": "0.3", "ny": 7, "nx": 5, "max_iterations": 9},
    "one pixel": {"center": ("0.3", "0.5"), "zoom": "1", "ny": 1, "nx": 1, "max_iterations": 1},
}
VARIANTS = {
    "cpu_numpy": ["block"],
    "cpu_numba": ["block", "one pixel at a time", "test each step", "complex z**2"],
    "gpu_numba": ["block", "test each step", "float64 literals", "complex z**2"],
    "gpu_cupy": ["block", "doubling by addition", "test each step"],
    "gpu_wgpu": ["block", "fused"],
}
WAYS = [(backend, variant) for backend, variants in VARIANTS.items() for variant in variants]
KERNELS = [
    pytest.param(*way, dtype, marks=pytest.mark.gpu if backend(way[0]).device == "cuda" else ())
    for way in WAYS
    for dtype in backend(way[0]).dtypes
]


@pytest.fixture(autouse=True)
def software_webgpu(monkeypatch):
    """Allow WebGPU on a software adapter."""
    if backend("gpu_wgpu").missing:
        monkeypatch.setenv(SOFTWARE, "software")


def lab_of(name, variant, view, dtype, **values):
    chosen = backend(name)
    if chosen.missing:
        pytest.skip(f"{name}: {chosen.missing}")
    return Mandelbrot(backend=name, variant=variant, precision=dtype, shortcuts=False, **(VIEWS[view] | values))


@pytest.mark.parametrize(
    ("name", "variant", "dtype", "view"),
    # Among the filaments float32 rounding changes one count in twelve, on any backend.
    [
        pytest.param(*kernel.values, view, marks=kernel.marks)
        for kernel in KERNELS
        for view in VIEWS
        if view != "filaments" or kernel.values[2] == "float64"
    ],
)
def test_counts_and_smooth_counts_are_those_of_numpy(name, variant, dtype, view):
    with closing(lab_of(name, variant, view, dtype)) as lab, closing(lab_of("cpu_numpy", "", view, dtype)) as truth:
        counts, wanted = lab.counts(), truth.counts()
        apart = np.abs(counts.astype(int) - wanted) > 1
        assert apart.mean() <= TOLERANCE[dtype]
        same = counts == wanted
        assert same.mean() > 0.98
        np.testing.assert_allclose(lab.smooth()[same], truth.smooth()[same], rtol=5e-3)
        assert lab.iterations == counts.sum()


@pytest.mark.parametrize("shortcuts", [False, True])
@pytest.mark.parametrize(("name", "variant", "dtype"), KERNELS)
def test_slices_of_any_size_give_the_same_counts(name, variant, dtype, shortcuts):
    with closing(lab_of(name, variant, "whole set", dtype)) as lab:
        truth, top = lab.counts(), lab.max_iterations
        lab.reset()
        kernel = backend(name).kernels(PACKAGE).VARIANTS[variant]
        state, device, turn = lab.state, lab.device, 0
        while (device.download(state.count) < 0).any():
            state.forget_totals(device)
            first, last = ((0, 30), (30, 61))[turn % 2]
            before = device.download(state.count)
            kernel(state, LaunchPart(first, last, 1, (3, 21, 64)[turn % 3], top, top, shortcuts))
            after, (did, left) = device.download(state.count), state.sums(device)
            assert left == (after[first:last] < 0).sum()
            assert shortcuts or did == done(after).sum() - done(before).sum()
            turn += 1
        np.testing.assert_array_equal(device.download(state.count), truth)


def done(counts):
    """Return the iterations of each pixel so far."""
    return np.where(counts < 0, -1 - counts.astype(int), counts)


def test_every_available_kernel_has_its_documented_cost():
    listed = set(WAYS)
    for b in (b for b in BACKENDS if b.has_kernels(PACKAGE)):
        assert b.missing or {(b.name, name) for name in b.kernels(PACKAGE).VARIANTS} == {
            w for w in listed if w[0] == b.name
        }
    assert set(MIX) == {(*way, dtype) for way in listed for dtype in backend(way[0]).dtypes}
    assert {variant for _, variant in listed} == {"block", *REASONS, *DIFFERENCES}


@pytest.mark.parametrize(
    ("source", "kernel", "dtype", "steps", "step"),
    [
        ("SOURCE", "direct", "float32", 128, {"FFMA": 4}),
        ("SOURCE", "direct", "float64", 128, {"DFMA": 3, "integer": 1}),
        ("SLOW_SOURCE", "additions", "float32", 32, {"FFMA": 3, "FADD": 1}),
        ("SLOW_SOURCE", "additions", "float64", 32, {"DFMA": 3, "DADD": 1}),
    ],
)
def test_a_step_of_the_compiled_kernels_has_its_documented_instructions(source, kernel, dtype, steps, step):
    """In the machine code for sm_90: the block's unrolled steps, followed by one test, at most a multiplication."""
    runs = straight_runs(getattr(gpu_cupy, source), kernel, defines={"REAL": gpu_cupy.REAL[dtype]})
    longest = max(runs, key=lambda run: sum(run.values()))
    test = 1 if "FFMA" in step or "DFMA" in step else 0
    for name, count in step.items():
        of_loop = 2 if name == "integer" else 0  # the loop counter
        assert 0 <= longest[name] - steps * count - (test if name.endswith("FMA") else 0) <= of_loop
    assert sum(longest.values()) <= steps * sum(step.values()) + 8


@pytest.mark.parametrize(("dtype", "letter"), [("float32", "F"), ("float64", "D")])
def test_a_test_each_step_triples_the_instructions(dtype, letter):
    runs = straight_runs(gpu_cupy.SLOW_SOURCE, "each_step", defines={"REAL": gpu_cupy.REAL[dtype]})
    loop = next(run for run in runs if (run[f"{letter}MUL"], run[f"{letter}ADD"], run["other"]) == (3, 3, 0))
    assert (loop[f"{letter}FMA"], loop[f"{letter}SETP"], sum(loop.values())) == (2, 1, 12)
