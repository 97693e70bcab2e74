"""Direct iteration: counts against exact arithmetic, every backend against NumPy, shortcuts, slices, bad input."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from compute.lab.frames import WAITING
from compute.labs.mandelbrot import Mandelbrot, picture
from compute.labs.mandelbrot.lab import PICTURE_BYTES
from compute.labs.mandelbrot.place import Place, Scaled
from compute.labs.mandelbrot.schedule import Schedule
from compute.labs.mandelbrot.state import LaunchPart

HOME = {"ny": 60, "nx": 80, "max_iterations": 300}
SEAHORSES = {"center": ("-0.7436438870371587", "0.1318259042053120"), "zoom": "3e5", **HOME}
VIEWS = [HOME, SEAHORSES]


def exactly(place, top):
    """Return escape counts in rational arithmetic, without rounding; only for few iterations."""
    spacing = 4 / (place.zoom * place.ny)
    counts = np.empty((place.ny, place.nx), int)
    for i in range(place.ny):
        for j in range(place.nx):
            a = place.re + (j - Fraction(place.nx - 1, 2)) * spacing
            b = place.im + (i - Fraction(place.ny - 1, 2)) * spacing
            x, y, n = Fraction(0), Fraction(0), 0
            while n < top and x * x + y * y <= 4:
                x, y, n = x * x - y * y + a, 2 * x * y + b, n + 1
            counts[i, j] = n
    return counts


def test_counts_equal_exact_arithmetic(make):
    """Row 0 has the lowest imaginary part, and c is a pixel's centre: an asymmetric view checks both."""
    view = {"center": ("-0.3", "0.4"), "zoom": "1.25", "ny": 7, "nx": 12}
    place = Place.of(view["center"], view["zoom"], 7, 12)
    np.testing.assert_array_equal(make(max_iterations=10, **view).counts(), exactly(place, 10))


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("view", [*VIEWS, {"center": ("0.2501", "0"), "zoom": "1e3", "ny": 20, "nx": 20}])
def test_shortcuts_change_no_count_and_save_work(make, view, precision):
    view = {**view, "max_iterations": 3000, "precision": precision}
    on, off = make(**view), make(shortcuts=False, **view)
    np.testing.assert_array_equal(on.counts(), off.counts())
    assert on.iterations <= off.iterations
    if view["ny"] == 60 and "zoom" not in view:
        assert on.iterations < 0.5 * off.iterations


def test_only_the_first_launches_of_an_arithmetic_count_as_first_calls(make):
    first, again = make(**HOME), make(zoom="2", **HOME)
    first.counts()
    assert not again.advance(1).first_call
    again.frame()
    assert not again.status.cold
    assert again.frame().facts["cold"] == 0.0


def test_a_launch_for_few_iterations_covers_every_pixel():
    for stride, few in ((1, True), (8, False)):
        assert LaunchPart(0, 9, stride, 20, 20, 20, shortcuts=False, fresh=True).few is few


def test_frames_become_finer_and_are_right(make):
    view = {**HOME, "max_iterations": 9000}
    lab, truth = make(**view), make(**view).counts()
    strides, progress, waited = [], [0.0], False
    while not lab.finished:
        lab.advance()
        frame = lab.frame(pixels=(60, 80))
        strides.append(int(frame.facts["stride"]))
        progress.append(frame.facts["progress"])
        known = lab.device.download(lab.state.count)
        np.testing.assert_array_equal(known[known >= 0], truth[known >= 0])
        levels = frame.rasters["escape"].levels
        assert levels.shape == (-(-60 // strides[-1]), -(-80 // strides[-1]))
        shown = known[:: strides[-1], :: strides[-1]]
        assert frame.rasters["escape"].waiting == (not lab.finished)
        if not lab.finished:  # waiting pixels differ from those in the set
            np.testing.assert_array_equal(levels == WAITING, shown < 0)
            np.testing.assert_array_equal(levels == 255, shown == 9000)
            assert frame.facts["waiting"] == pytest.approx((shown < 0).mean())
            assert frame.facts["inside"] == pytest.approx((shown == 9000).mean())
            waited = waited or bool((shown < 0).any())
    assert waited or lab.device.kind == "gpu"  # a GPU's launches complete a whole pass before a frame
    assert set(strides) <= {8, 4, 2, 1}
    assert strides == sorted(strides, reverse=True)
    assert progress == sorted(progress)
    assert frame.facts["finished"] == 1
    np.testing.assert_array_equal(levels == 255, truth == 9000)
    assert lab.advance().compute == 0


def test_a_coarse_raster_covers_its_pixels():
    lab = Mandelbrot(**HOME)
    while lab.painting.schedule.stride != 4:
        lab.painting.schedule.did(lab.painting.schedule.part(10**9), 0)
    raster = lab.frame(view=(20.0, 10.0, 40.0, 30.0)).rasters["escape"]
    assert raster.extent == (18.5, 6.5, 42.5, 30.5)  # samples 5 … 10 and 2 … 7, each 4 wide around its pixel's middle
    assert picture.coarse((0.0, 0.0, 80.0, 60.0), 1) == (0.0, 0.0, 80.0, 60.0)


def test_a_schedule_visits_every_pixel_and_returns_to_unfinished_ones():
    schedule, seen, full = Schedule(37, 21, 50_000, shortcuts=True), np.zeros((37, 21), int), []
    while not schedule.finished:
        part = schedule.part(40_000)
        assert part.iterations <= part.limit <= 50_000
        seen[part.first * part.stride : (part.last - 1) * part.stride + 1 : part.stride, :: part.stride] = part.limit
        full.append(part.limit)
        schedule.did(part, 1 if len(full) == 1 else 0)
    assert (seen == 50_000).all()
    assert full == sorted(full)
    assert sorted(set(full)) == [4096, 32768, 50_000]
    assert Schedule(8, 8, 10, shortcuts=True).part(1).iterations == 10


def test_a_pass_is_repeated_until_no_pixel_is_left():
    schedule = Schedule(16, 16, 4096, shortcuts=True)
    first = schedule.part(4 * 256)
    assert (first.stride, first.iterations, first.last) == (8, 256, 2)
    schedule.did(first, 3)
    assert schedule.part(4 * 256) == first
    assert schedule.stride == 0
    schedule.did(first, 0)
    assert (schedule.stride, schedule.part(4 * 256).stride) == (8, 4)


def test_a_part_writes_its_own_pixels_only(make):
    lab = make(**HOME)
    lab.state.forget_totals(lab.device)
    lab.kernels.direct(lab.state, LaunchPart(2, 9, 4, 300, 300, 300, shortcuts=False))
    touched = np.zeros((60, 80), bool)
    touched[8:36:4, ::4] = True
    np.testing.assert_array_equal(lab.device.download(lab.state.count) >= 0, touched)


def test_predicted_bytes_are_close_to_the_allocated_ones():
    sides = {"ny": 1000, "nx": 800, "max_iterations": 50, "backend": "cpu_numpy"}
    tracemalloc.start()
    try:
        lab = Mandelbrot(**sides)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    def predicted(**values):
        return Mandelbrot.predicted_bytes(**lab.values() | values) - PICTURE_BYTES

    assert held <= predicted() <= 2.2 * held
    assert predicted(ny=10_000) > 9 * predicted()
    assert predicted(samples=4) > 1.9 * predicted()


def test_another_view_restarts_and_an_exhausted_precision_is_reported():
    lab = Mandelbrot(**HOME)
    lab.counts()
    lab.update(zoom="1e6")
    assert lab.iterations == 0
    assert not lab.finished
    assert not lab.exhausted
    lab.update(precision="float32")
    assert lab.exhausted
    assert lab.counts().shape == (60, 80)
    lab.update(ny=10, precision="float64", zoom="1")
    assert lab.counts().shape == (10, 80)
    assert not lab.exhausted


def test_a_finished_picture_is_restored_elsewhere():
    lab = Mandelbrot(**HOME)
    lab.advance()
    other = Mandelbrot(backend="cpu_numpy", **HOME)
    other.restore(lab.snapshot())
    assert not other.finished or lab.finished
    truth = lab.counts()
    snapshot = lab.snapshot()
    assert np.isfinite(snapshot["smooth"]).all()  # an engine keeps finite states only
    other.restore(snapshot)
    assert other.finished
    np.testing.assert_array_equal(other.counts(), truth)
    np.testing.assert_array_equal(other.smooth(), lab.smooth())
    assert other.iterations == lab.iterations
    with pytest.raises(ValueError, match="shape"):
        Mandelbrot(ny=5, nx=5).restore(lab.snapshot())


def test_pixel_positions_equal_exact_arithmetic():
    place = Place.of(("-1.7598171308048478136108", "0.3"), "1e12", 50, 70)
    re, im = place.axes()
    spacing = 4 / (place.zoom * 50)
    assert re.tolist() == [float(place.re + (j - Fraction(69, 2)) * spacing) for j in range(70)]
    assert im[0] < im[-1]
    assert im[25] == float(place.im + spacing / 2)
    assert Scaled.of(Fraction(-3, 2**2000)) == Scaled(-0.75, -1998)
    assert Scaled.of(Fraction(0)) == Scaled(0.0, 0)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"center": ("-0.75", "zero")}, r"center\[1\] must be a decimal number .* not 'zero'"),
        ({"center": ("nan", "0")}, r"center\[0\] must be a decimal number"),
        ({"center": ("0", "9")}, r"center\[1\] must be from -8 to 8, not 9"),
        ({"center": (0.5, "0")}, r"center\[0\] must be a decimal number as a string, not 0\.5"),
        ({"center": ("0." + "1" * 10**6, "0")}, "at most 4200 characters, not 1000002"),
        ({"center": ("1e-99999", "0")}, r"center\[0\] must be 0 or lie between"),
        ({"center": ("0",)}, "center"),
        ({"zoom": "0"}, "zoom must be from 1e-2 to 1e2000, not 0"),
        ({"zoom": "1e2001"}, "zoom must be from 1e-2 to 1e2000, not 1e2001"),
        ({"zoom": "1e999999999"}, "zoom must be a decimal number"),
        ({"zoom": ""}, "zoom must be a decimal number"),
        ({"zoom": "１"}, "zoom must be a decimal number"),
        ({"zoom": 2.0}, "zoom"),
        ({"max_iterations": 10**9}, "max_iterations' must be at most 100000000, not 1000000000"),
        ({"max_iterations": 1e6}, "max_iterations"),
        ({"ny": 0}, "ny' must be at least 1"),
        ({"nx": 10**6}, "nx' must be at most 16384"),
        ({"precision": "float16"}, "precision"),
        ({"limits": (3.0, 1.0)}, "limits must be two finite numbers"),
    ],
)
def test_invalid_values_are_refused_by_name_without_a_change(values, words):
    lab = Mandelbrot(ny=8, nx=8)
    before = lab.values()
    with pytest.raises(ValueError, match=words):
        lab.update(**values)
    assert lab.values() == before
    with pytest.raises(ValueError, match=words):
        Mandelbrot(**{"ny": 8, "nx": 8, **values})
