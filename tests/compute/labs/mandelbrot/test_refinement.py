"""Refinements of a finished picture, and pictures at the pointer: samples, area, orbit, Julia set, colours."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.refinement import moved

SMALL = {"ny": 45, "nx": 70, "zoom": "1.5", "max_iterations": 200}
KNOWN_AREA = 1.50640, 1.53121  # rigorous bounds of the set's area


@pytest.fixture
def lab(any_backend):
    lab = Mandelbrot(backend=any_backend.name, **SMALL)
    yield lab
    lab.close()


def work(lab):
    """Advance until the lab rests."""
    for _ in range(10_000):
        if lab.status.resting:
            return
        lab.advance()
    raise AssertionError("it never rests")


def test_samples_are_spread_over_the_pixel():
    place = Place.of(("0", "0"), "1", 40, 40)
    spots = [moved(place, k) for k in range(64)]
    offsets = np.array([[float(part / place.step) for part in (p.re, p.im)] for p in spots])
    assert np.abs(offsets).max() <= 0.5
    quarters = np.floor(offsets * 2).astype(int)
    assert {tuple(q) for q in quarters} == {(-1, -1), (-1, 0), (0, -1), (0, 0)}
    assert np.abs(offsets.mean(axis=0)).max() < 0.02


def test_supersampling_is_the_geometric_mean_of_moved_pictures(lab):
    lab.update(samples=4)
    counts = lab.counts()
    work(lab)
    frame = lab.frame()
    assert frame.facts["samples"] == 4
    single = []
    for k in range(4):
        spot = moved(lab.place, k) if k else lab.place
        other = Mandelbrot(backend="cpu_numpy", **SMALL)
        other.painting.begin(other.painting.task.__class__(spot, other.painting.task.arithmetic, 200, True))
        while not other.finished:
            other.painting.advance(2**40)
        single.append(other.painting.state.smooth)
    stack = np.array(single, np.float64)
    hits = np.isfinite(stack).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.exp(np.nansum(np.log(stack), axis=0) / hits)
    mean[2 * hits < 4] = np.nan
    got = lab.device.download(lab.picture.supersampled.smooth)
    close = np.isclose(got, mean, rtol=1e-3, equal_nan=True)
    assert close.mean() > 0.995  # a GPU fuses multiply and add
    np.testing.assert_array_equal(lab.counts(), counts)  # the picture itself is unchanged


def test_a_new_view_restarts_with_one_sample(lab):
    lab.update(samples=2)
    work(lab)
    lab.update(zoom="3")
    assert lab.frame().facts["samples"] == 1
    work(lab)
    assert lab.frame().facts["samples"] == 2


def test_the_area_is_right_within_its_error(lab):
    """After 200 iterations some points remain that escape later: they are counted on a fine grid."""
    lab.update(area=True)
    while lab.frame().facts["area_passes"] < 12:
        lab.advance()
    facts = lab.frame().facts
    fine = Mandelbrot(center=("-0.75", "0.625"), zoom="3.2", ny=2000, nx=4000, max_iterations=200)
    truth = 2 * 2.5 * 1.25 * np.mean(fine.counts() == 200)
    assert abs(facts["area"] - truth) < 5 * facts["area_error"]
    assert 0 < facts["area_error"] < 0.002
    assert KNOWN_AREA[0] < facts["area"] < KNOWN_AREA[1] + 0.1


def staying(iterations, side=1 / 512):
    """Return the area of all c with |z_1| to |z_n| <= 2, counted over the disc |c| <= 2, which contains them."""
    x, y = np.arange(-2 + side / 2, 2, side), np.arange(side / 2, 2, side)
    c = x + 1j * y[:, None]
    z, stays = c, np.abs(c) <= 2
    for _ in range(iterations - 1):
        z = np.where(stays, z * z + c, 0)
        stays &= np.abs(z) <= 2
    return 2 * side**2 * np.count_nonzero(stays)


@pytest.mark.parametrize("iterations", [1, 2, 3, 4, 5, 6])
def test_the_area_after_few_iterations_is_complete(iterations):
    """After one iteration it is the disc |c| <= 2, of area 4π; after six it is within -2 … 0.5 and 0 … 1.25."""
    truth = 4 * np.pi if iterations == 1 else staying(iterations)
    lab = Mandelbrot(backend="cpu_numpy", area=True, **SMALL | {"max_iterations": iterations})
    while lab.frame().facts["area_passes"] < 16:
        lab.advance()
    facts = lab.frame().facts
    assert abs(facts["area"] - truth) < 5 * facts["area_error"] + 1e-5
    assert 0 < facts["area_error"] < 0.01


def test_the_orbit_is_that_of_the_point_under_the_pointer(lab):
    lab.update(pointer=(0.25, 0.75), orbit_length=12)
    frame = lab.frame()
    c = complex(-0.75 - 0.25 * 70 * 4 / 1.5 / 45, 0.25 * 4 / 1.5)
    assert complex(frame.facts["pointer_re"], frame.facts["pointer_im"]) == pytest.approx(c)
    orbit = frame.curves["orbit"]
    z, expected = 0j, [0j]
    while abs(z) <= 2 and len(expected) <= 12:
        z = z * z + c
        expected.append(z)
    np.testing.assert_allclose(orbit.x + 1j * orbit.y, expected, rtol=1e-12)


def test_the_orbit_of_a_deep_view_is_exact():
    """At 1e40 float64 cannot distinguish the pixels; the orbit of 1e-40 from -2 leaves -2, 2, 2, … late."""
    lab = Mandelbrot(center=("-1.9999999999999999999999999999999999999999", "0"), zoom="1e38", ny=8, nx=8)
    lab.update(pointer=(0.5, 0.5), orbit_length=200)
    orbit = lab.frame().curves["orbit"]
    distance, number = float(Fraction(2) + lab.place.re), 0
    while 4**number * distance < 0.1:  # z_n = 2 - e_n with e_{n+1} ~ 4 e_n, so that |z - 2| ~ 1e-40 4^n
        number += 1
    assert abs(orbit.x[number // 2] - 2) < 1e-12
    assert abs(orbit.x[number + 3] - 2) > 0.1


def test_the_julia_set_is_that_of_the_pointer(lab):
    lab.update(pointer=(0.5, 0.5), julia=True)  # c = -0.75
    raster = lab.frame().rasters["julia"]
    assert raster.extent == (-2, -2, 2, 2)
    side = raster.levels.shape[0]
    for row, column in ((side // 2, side // 2), (side // 2, side - 3), (side // 2 + 20, side // 2 - 7), (3, 3)):
        z = complex(*((k + 0.5) / side * 4 - 2 for k in (column, row)))
        for _ in range(256):
            z = z * z - 0.75 if abs(z) <= 2 else z
        assert (raster.levels[row, column] == 255) == (abs(z) <= 2)


def test_recolouring_computes_no_iterations(lab):
    lab.counts()
    done = lab.iterations
    frames = {}
    for colouring in ("histogram", "smooth", "distance"):
        for scale in ("log", "linear"):
            lab.update(colouring=colouring, scale=scale)
            assert lab.status.resting
            frames[colouring, scale] = lab.frame().rasters["escape"].levels
    assert lab.iterations == done
    inside = lab.counts() == 200
    for levels in frames.values():
        np.testing.assert_array_equal(levels == 255, inside)
    for one, other in (("histogram", "smooth"), ("smooth", "distance")):
        assert (frames[one, "log"] != frames[other, "log"]).mean() > 0.3
    np.testing.assert_allclose(frames["histogram", "log"], frames["histogram", "linear"], atol=3)


def test_the_histogram_is_flat_once_equalised_and_counts_every_pixel(lab):
    counts = lab.counts()
    frame = lab.frame()
    histogram, cumulative = frame.curves["histogram"], frame.curves["cumulative"]
    assert histogram.y.sum() == (counts < 200).sum()
    assert cumulative.y[-1] == pytest.approx(1)
    assert (np.diff(histogram.x) > 0).all()
    smooth = lab.smooth()[counts < 200]
    for share in (0.2, 0.5, 0.9):
        edge = np.interp(share, cumulative.y, cumulative.x)
        assert np.mean(smooth <= edge) == pytest.approx(share, abs=0.05)


def test_the_interior_shows_the_multiplier(lab):
    """In the main cardioid it is 1 - sqrt(1 - 4c)."""
    lab.update(colouring="interior", center=("-0.1", "0"), zoom="40")
    lab.counts()
    raster = lab.frame().rasters["escape"]
    re, im = lab.place.axes()
    c = re[None, :] + 1j * im[:, None]
    np.testing.assert_allclose(raster.levels / 254, np.abs(1 - np.sqrt(1 - 4 * c)), atol=3e-3)


def test_an_exhausted_precision_is_reported():
    lab = Mandelbrot(center=("-0.743643887037158704752191506114774", "0.1318259042053119704931320"), zoom="1e9",
                     precision="float32", ny=16, nx=16)  # fmt: skip
    assert "float32 is exhausted" in lab.frame().notes["warning"]
    lab.update(precision="auto")
    assert lab.frame().notes["warning"] == ""
    lab.update(colouring="interior", zoom="1e20")
    assert "float64" in lab.frame().notes["warning"]


def test_pixels_far_outside_do_not_count_as_inside():
    """At |c| = 200 the smooth count is negative, and has no logarithm."""
    lab = Mandelbrot(zoom="1e-2", ny=40, nx=40, samples=4, max_iterations=50)
    work(lab)
    frame = lab.frame()
    assert frame.facts["minimum"] < 0
    assert frame.facts["inside"] <= 1 / 400
    assert (frame.rasters["escape"].levels == 255).sum() <= 4
