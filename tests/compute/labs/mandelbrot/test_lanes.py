"""The kernel that steps 64 pixels together returns the bits of the kernel that iterates one pixel at a time."""

from __future__ import annotations

import numpy as np
import pytest

from compute.labs.mandelbrot import cpu_numba
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.state import FRESH, LaunchPart, PixelArrays

LANES, REFERENCE = cpu_numba.VARIANTS["block"], cpu_numba.one_pixel_at_a_time
VIEWS = {
    "whole set": (("-0.5", "0.0"), "1.3", (70, 90), 500),
    "seahorses": (("-0.743643887037158", "0.131825904205311"), "3e4", (41, 67), 3000),
    "interior": (("-0.05", "0.0"), "10", (9, 200), 300),
    "all outside": (("6", "7"), "0.3", (20, 30), 100),
    "centres of cycles": (("-1", "0"), "2", (33, 65), 400),  # c = -1 and c = 0 repeat exactly
    "one pixel": (("0.3", "0.5"), "1", (1, 1), 1),
    "one column": (("-0.75", "0.1"), "5", (130, 1), 250),
}


def fresh(view, dtype):
    center, zoom, (ny, nx), _ = VIEWS[view]
    re, im = (axis.astype(dtype) for axis in Place.of(center, zoom, ny, nx).axes())
    count, smooth = np.full((ny, nx), FRESH, np.int32), np.full((ny, nx), np.nan, np.float32)
    z, place, totals = np.zeros((2, ny, nx), dtype), np.zeros((2, 1, 1), np.int32), np.zeros(1024, np.int64)
    return PixelArrays(re, im, z, place, count, smooth, totals)


def assert_same(got, wanted):
    """Check that counts, smooth counts, totals, and z of unfinished pixels are equal in every bit."""
    np.testing.assert_array_equal(got.count, wanted.count)
    np.testing.assert_array_equal(got.smooth.view(np.int32), wanted.smooth.view(np.int32))
    np.testing.assert_array_equal(got.totals, wanted.totals)
    going_on = wanted.count < FRESH
    np.testing.assert_array_equal(got.z[:, going_on], wanted.z[:, going_on])


@pytest.mark.parametrize("shortcuts", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_picture_in_one_launch_or_in_any_parts_has_the_same_bits(view, dtype, shortcuts):
    (ny, _), top = VIEWS[view][2:]
    got, wanted = fresh(view, dtype), fresh(view, dtype)

    def launch(part):
        LANES(got, part)
        REFERENCE(wanted, part)
        assert_same(got, wanted)

    launch(LaunchPart(0, ny, 1, top, top, top, shortcuts, fresh=True))
    assert (wanted.count >= 0).all()
    got, wanted = fresh(view, dtype), fresh(view, dtype)
    rng = np.random.default_rng(1)
    for stride in (8, 3, 1):
        for iterations in (1, 15, 16, 17, 31, 32, 33, 100):
            first, last = sorted(int(edge) for edge in rng.integers(0, -(-ny // stride) + 1, 2))
            limit = int(rng.integers(1, top + 1))
            launch(LaunchPart(first, last, stride, iterations, limit, top, shortcuts))
    while (wanted.count < 0).any():
        launch(LaunchPart(0, ny, 1, 301, top, top, shortcuts))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_julia_set_starts_at_its_pixels(dtype):
    """z_1 is the pixel, also if |z_1| > 2, and c is the same for all pixels."""
    ny, nx, top = 40, 50, 200
    got, wanted = (fresh("whole set", dtype) for _ in range(2))
    z = np.stack(np.meshgrid(np.linspace(-3, 3, nx), np.linspace(-2, 2, ny)))
    pictures = []
    for state in (got, wanted):
        part = LaunchPart(0, ny, 1, top, top, top, shortcuts=True)
        own = PixelArrays(
            np.full(nx, -0.8, dtype), np.full(ny, 0.156, dtype), z.astype(dtype), state.place,
            np.full((ny, nx), FRESH - 1, np.int32), np.full((ny, nx), np.nan, np.float32), state.totals,
        )  # fmt: skip
        (LANES if state is got else REFERENCE)(own, part)
        pictures.append(own)
    assert_same(*pictures)
    assert (pictures[0].count >= 0).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads_and_units(threads, monkeypatch):
    import numba

    if threads > numba.config.NUMBA_NUM_THREADS:
        pytest.skip("one processor")
    (ny, _), top = VIEWS["whole set"][2:]
    wanted = fresh("whole set", "float64")
    part = LaunchPart(0, ny, 1, top, top, top, shortcuts=False, fresh=True)
    REFERENCE(wanted, part)
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        for pixels in (1, 500, 10**6):
            monkeypatch.setattr(cpu_numba, "UNIT", pixels)
            got = fresh("whole set", "float64")
            LANES(got, part)
            assert_same(got, wanted)
    finally:
        numba.set_num_threads(before)
