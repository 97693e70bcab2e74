"""WebGPU: counts equal to NumPy's in float32, and views that need float64, which another backend computes."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from compute.devices.backends import backend, best_of_host
from compute.devices.webgpu import WebGpu
from compute.labs.mandelbrot import Mandelbrot, cpu_numpy
from compute.labs.mandelbrot.benchmark import BENCHMARK
from compute.labs.mandelbrot.comparison import RULES
from compute.labs.mandelbrot.scenes import SCENES
from compute.labs.mandelbrot.state import LINE, SLOTS, LaunchPart
from compute.measure.race import Race, RaceError, Racer
from compute.measure.verdict import Variant
from tests.conftest import require

WGPU = backend("gpu_wgpu")
VIEWS = {
    "whole set": {"ny": 61, "nx": 83, "max_iterations": 300},
    "seahorses": {"center": ("-0.7436", "0.1318"), "zoom": "90", "ny": 40, "nx": 33, "max_iterations": 5000},
    "the lesson's, few iterations": {"ny": 37, "nx": 70, "max_iterations": 23},
    "far outside": {"center": ("6", "7"), "zoom": "0.3", "ny": 7, "nx": 5, "max_iterations": 9},
    "one pixel": {"center": ("0.3", "0.5"), "zoom": "1", "ny": 1, "nx": 1, "max_iterations": 1},
    "one row": {"center": ("-0.5", "0.6"), "zoom": "20", "ny": 1, "nx": 301, "max_iterations": 17},
}
DEEP = {"center": ("-0.7436438870371587", "0.1318259042053120"), "zoom": "1e6"}
SMALL = {"ny": 24, "nx": 32, "max_iterations": 400}


@pytest.fixture(autouse=True)
def software(monkeypatch):
    """Allow a software adapter if there is no GPU."""
    require(WGPU, monkeypatch)


@pytest.fixture
def make():
    """Return a function that makes labs, on WebGPU by default; close them afterwards."""
    labs = []

    def lab(**values):
        labs.append(Mandelbrot(**{"backend": "gpu_wgpu", **values}))
        return labs[-1]

    yield lab
    for each in labs:
        each.close()


@pytest.mark.parametrize("shortcuts", [True, False])
@pytest.mark.parametrize("view", VIEWS)
def test_counts_equal_those_of_numpy_in_float32(make, view, shortcuts):
    same = {**VIEWS[view], "shortcuts": shortcuts, "precision": "float32"}
    lab, fused, truth = make(**same), make(variant="fused", **same), make(**same, backend="cpu_numpy")
    counts = truth.counts()
    np.testing.assert_array_equal(lab.counts(), counts)
    np.testing.assert_allclose(lab.smooth(), truth.smooth(), rtol=1e-4, atol=1e-5)
    assert (fused.counts() != counts).mean() <= 0.1  # 0.06 on an H200 in the Seahorse valley
    assert lab.iterations <= truth.iterations
    if not shortcuts:
        assert lab.iterations == counts.sum()
        lab.reset()
        lab.state.forget_totals(lab.device)
        top = lab.max_iterations
        lab.kernels.counts_only(lab.state, LaunchPart(0, lab.ny, 1, top, top, top, shortcuts=False))
        np.testing.assert_array_equal(lab.device.download(lab.state.count), counts)


def test_parts_leave_the_state_of_numpy(make):
    """Any stride, rows and budget: counts, z and totals, which are carried into their upper words."""
    same = {"ny": 37, "nx": 29, "max_iterations": 90, "precision": "float32", "shortcuts": False}
    lab, truth = make(**same), make(**same, backend="cpu_numpy")
    almost = np.zeros(SLOTS * LINE, np.int64)
    almost[::LINE] = 2**32 - 3
    for stride, first, last, iterations, limit in (
        (8, 0, 5, 7, 40),
        (8, 1, 4, 64, 40),
        (3, 2, 11, 33, 90),
        (1, 0, 37, 90, 90),
    ):
        part = LaunchPart(first, last, stride, iterations, limit, 90, shortcuts=False)
        truth.state.forget_totals(truth.device)
        lab.device.write(almost, lab.state.totals)
        lab.kernels.direct(lab.state, part)
        cpu_numpy.direct(truth.state, part)
        done, left = lab.state.sums(lab.device)
        assert (done - int(almost.sum()), left) == truth.state.sums(truth.device)
        counts = lab.device.download(lab.state.count)
        np.testing.assert_array_equal(counts, truth.state.count)
        begun = counts < -1
        np.testing.assert_array_equal(lab.device.download(lab.state.z)[:, begun], truth.state.z[:, begun])
    assert (counts >= 0).all()


def test_a_view_that_needs_float64_is_computed_on_the_host_and_says_so(make):
    lab, host = make(**SMALL), best_of_host()
    assert (lab.computing, lab.device.kind) == (WGPU, "gpu")
    lab.counts()
    assert lab.frame().notes["computed_by"] == ""
    for zoom in ("1e6", "1e20"):
        lab.update(**DEEP | {"zoom": zoom})
        assert (lab.computing, lab.backend, lab.device.name) == (host, "gpu_wgpu", "host")
        truth = make(**SMALL | DEEP | {"zoom": zoom, "backend": host.name})
        np.testing.assert_array_equal(lab.counts(), truth.counts())
        frame = lab.frame()
        assert frame.notes["computed_by"] == host.label
        assert frame.timing.backend == host.name
    lab.update(center=("-0.75", "0"), zoom="1")
    assert (lab.computing, lab.device.kind) == (WGPU, "gpu")
    np.testing.assert_array_equal(lab.counts(), make(**SMALL, precision="float32", backend="cpu_numpy").counts())
    assert lab.frame().notes["computed_by"] == ""


def test_a_deep_view_keeps_its_kernel_for_later(make):
    lab = make(**SMALL | DEEP, variant="fused")
    lab.counts()
    assert lab.painting.task.variant == ""
    lab.update(zoom="2", center=("-0.75", "0"))
    lab.advance()
    assert lab.painting.task.variant == "fused"


@pytest.mark.parametrize("precision", ["float64", "perturbation"])
def test_a_precision_that_it_lacks_is_refused(make, precision):
    lab = make(**SMALL)
    for refused in (lambda: lab.update(precision=precision), lambda: make(**SMALL, precision=precision)):
        with pytest.raises(ValueError, match=f"precision must be auto or float32 for gpu_wgpu, not '{precision}'"):
            refused()
    lab.update(precision="float32", **DEEP)
    assert lab.computing == WGPU  # on request also where its pixels are too coarse
    assert lab.counts().shape == (24, 32)


@pytest.mark.parametrize("view", [{}, DEEP])
def test_snapshots_move_between_backends(make, view):
    lab, other = make(**SMALL, **view), make(**SMALL, **view, backend="cpu_numpy")
    counts = lab.counts()
    other.restore(lab.snapshot())
    np.testing.assert_array_equal(other.counts(), counts)
    again = make(**SMALL, **view)
    again.restore(other.snapshot())
    np.testing.assert_array_equal(again.counts(), counts)
    escaped = counts < 400
    np.testing.assert_array_equal(again.smooth()[escaped], lab.smooth()[escaped])
    again.update(backend="cpu_numba")
    again.update(backend="gpu_wgpu", ny=20)
    assert again.counts().shape == (20, 32)


def test_the_interior_is_coloured_by_the_host(make):
    view = SMALL | {"colouring": "interior", "center": ("-0.1", "0"), "zoom": "40"}
    labs = make(**view), make(**view, backend=best_of_host().name, precision="float32")
    levels = []
    for lab in labs:
        lab.counts()
        levels.append(lab.frame().rasters["escape"].levels.astype(int))
    assert np.abs(levels[0] - levels[1]).max() <= 1
    assert labs[0].frame().notes["computed_by"] == f"{best_of_host().label} (interior)"


def test_it_is_compared_raced_and_timed_in_float32_only(make):
    live = make(**SMALL).values()
    assert RULES.refusal(Variant("gpu_wgpu"), live) == ""
    assert RULES.own(Variant("cpu_numba"), live) == {"precision": "float32"}
    assert RULES.refusal(Variant("gpu_wgpu"), live | DEEP) == "has no float64"
    assert RULES.refusal(Variant("cpu_numba"), live | DEEP) == ""
    raced = BENCHMARK.raced_values(live, [WGPU, backend("cpu_numba")])
    assert raced["precision"] == "float32"
    assert BENCHMARK.refusal(WGPU, raced) == ""
    assert BENCHMARK.raced_values(live, [backend("cpu_numba")]) == live
    assert "no float64" in BENCHMARK.refusal(WGPU, live | {"backend": "cpu_numba"} | DEEP)
    for scene in BENCHMARK.cases({"scenes": ()}, ("float32", "float64"), gpu=True):
        assert bool(BENCHMARK.variants(WGPU, scene)) == (scene.dtype == "float32")
    assert "block, counts only" in BENCHMARK.variants(
        WGPU, BENCHMARK.cases({"scenes": ("lesson",)}, ("float32",), True)[0]
    )
    assert SCENES["lesson"].dtype == "float64"


def test_a_race_of_a_picture_that_needs_float64_leaves_it_out(monkeypatch):
    monkeypatch.setattr(WebGpu, "simulated", staticmethod(lambda: ""))
    race = Race(Mandelbrot, SMALL | DEEP, (Racer("cpu_numba"), Racer("gpu_wgpu")))
    with pytest.raises(RaceError, match="fewer than 2 lanes can be timed: WebGPU: has no float64"):
        race.run(lambda *_: None)


def test_the_comparison_measures_pictures(make):
    with closing(make(**SMALL)) as lab:
        target = BENCHMARK.target(lab)
        target.begin(1)
        timing = target.advance(1)
        while timing.steps < 1:
            timing = target.advance(1)
        assert timing.backend == "gpu_wgpu"
        assert target.result().shape == (24, 32)
