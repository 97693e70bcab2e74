"""WebGPU: counts equal to NumPy's in float32 and in sums of two float32 numbers, and views that need float64, which
another backend computes.
"""

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
SEAHORSE = "-0.7436438870371587", "0.1318259042053120"
DEEP = {"center": SEAHORSE, "zoom": "1e12"}
DOUBLE_SINGLE = {
    "2^-16": ({"center": SEAHORSE, "zoom": "1e4", "ny": 24, "nx": 37, "max_iterations": 500}, 0.01),
    "2^-20": ({"center": SEAHORSE, "zoom": "1e5", "ny": 40, "nx": 33, "max_iterations": 1500}, 0.02),
    "few iterations": ({"center": ("-1.4", "0"), "zoom": "1e5", "ny": 21, "nx": 35, "max_iterations": 60}, 0.0),
    "inside": ({"center": ("-0.1", "0.1"), "zoom": "1e5", "ny": 9, "nx": 8, "max_iterations": 300}, 0.0),
}  # views of a pixel spacing, and the share of counts that may differ from float64's by more than 1
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


def two_sum(a, b):
    """Return the sum and its rounding error (Knuth), of float32 arrays."""
    total = a + b
    from_b = total - a
    return total, (a - (total - from_b)) + (b - from_b)


def product(a, b):
    """Return the product of float32 arrays and its rounding error: float64 holds the product exactly."""
    rounded = a * b
    return rounded, (a.astype(np.float64) * b - rounded).astype(np.float32)


def double_single_counts(place, most):
    """Return the counts (ny, nx) of z^2 + c in sums of two float32 numbers, rounded after every operation."""
    parts = [(axis.astype(np.float32), (axis - axis.astype(np.float32)).astype(np.float32)) for axis in place.axes()]
    (ah, al), (bh, bl) = parts[0], [part[:, None] for part in parts[1]]
    counts = np.full((place.ny, place.nx), most)
    xh, xl, yh, yl = np.zeros((4, place.ny, place.nx), np.float32)
    with np.errstate(all="ignore"):
        for n in range(1, most + 1):
            (xx, xxe), (yy, yye), (xy, xye) = product(xh, xh), product(yh, yh), product(xh, yh)
            squares = (xxe + 2 * xh * xl) - (yye + 2 * yh * yl)
            cross = 2 * (xye + (xh * yl + xl * yh))
            total, first = two_sum(xx, -yy)
            total, second = two_sum(total, ah)
            rest = ((first + squares) + second) + al
            xh = total + rest
            xl = rest - (xh - total)
            total, first = two_sum(2 * xy, bh)
            rest = (first + cross) + bl
            yh = total + rest
            yl = rest - (yh - total)
            counts[(counts == most) & ~(xh * xh + yh * yh <= 4)] = n
    return counts


@pytest.mark.parametrize("view", DOUBLE_SINGLE)
def test_double_single_counts_are_those_of_its_roundings_and_nearly_those_of_float64(make, view):
    values, share = DOUBLE_SINGLE[view]
    for shortcuts in (True, False):
        lab = make(**values, shortcuts=shortcuts)
        counts = lab.counts()
        assert (lab.computing, lab.painting.name, lab.device.kind) == (WGPU, "double-single", "gpu")
        np.testing.assert_array_equal(counts, double_single_counts(lab.place, lab.max_iterations))
    truth = make(**values, backend="cpu_numpy", precision="float64")
    right = truth.counts()
    assert (np.abs(counts - right) > 1).mean() <= share
    same = counts == right
    assert np.isclose(lab.smooth()[same], truth.smooth()[same], rtol=1e-3, atol=1e-3).mean() >= 1 - share
    notes = lab.frame().notes
    assert (notes["precision"], notes["computed_by"], notes["warning"]) == ("double-single", "", "")


def test_unfinished_double_single_pixels_continue_and_move_with_the_view(make):
    values = DOUBLE_SINGLE["2^-20"][0] | {"shortcuts": False, "reuse": True}
    lab = make(**values)
    while not lab.painting.schedule.stride:
        lab.painting.advance(2**18)
    before, z = (lab.device.download(each) for each in (lab.state.count, lab.state.z))
    step = lab.place.step
    lab.update(center=(str(float(lab.place.re + 5 * step)), lab.center[1]))
    assert lab.painting.reused > 0.8
    moved, there = lab.device.download(lab.state.z)[:, :, :-5], before[:, 5:] < -1
    assert z.shape[0] == 4
    assert there.any()
    np.testing.assert_array_equal(moved[:, there], z[:, :, 5:][:, there])
    while not lab.finished:
        lab.painting.advance(2**18)  # in many launches
    assert (np.abs(lab.counts() - double_single_counts(lab.place, lab.max_iterations)) > 1).mean() < 0.01


def test_a_gpu_that_does_not_round_exactly_leaves_such_views_to_the_host(make, monkeypatch):
    monkeypatch.setattr(WebGpu, "exact", staticmethod(lambda index=0: False))
    lab = make(**DOUBLE_SINGLE["2^-20"][0])
    assert (lab.computing, lab.device.name) == (best_of_host(), "host")


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
    for zoom in ("1e12", "1e20"):
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


@pytest.mark.parametrize("zoom", ["1e6", "1e12"])
def test_a_deep_view_keeps_its_kernel_for_later(make, zoom):
    lab = make(**SMALL | DEEP | {"zoom": zoom}, variant="fused")
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


@pytest.mark.parametrize("view", [{}, DOUBLE_SINGLE["2^-20"][0], DEEP])
def test_snapshots_move_between_backends(make, view):
    lab, other = make(**SMALL | view), make(**SMALL | view, backend="cpu_numpy")
    counts = lab.counts()
    other.restore(lab.snapshot())
    np.testing.assert_array_equal(other.counts(), counts)
    again = make(**SMALL | view)
    again.restore(other.snapshot())
    np.testing.assert_array_equal(again.counts(), counts)
    escaped = counts < lab.max_iterations
    np.testing.assert_array_equal(again.smooth()[escaped], lab.smooth()[escaped])
    again.update(backend="cpu_numba")
    again.update(backend="gpu_wgpu", ny=20)
    assert again.counts().shape == (20, lab.nx)


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
