"""Pictures of a field: the reference against plain arithmetic, every backend against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from compute.display import cpu_numpy as reference
from compute.display.camera import Camera, RasterRequest
from compute.lab.frames import NOT_FINITE, Curve, Raster, fit
from compute.labs.diffusion import Diffusion


@pytest.fixture
def camera(device, kernels):
    return Camera(device, kernels)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (33, 65), (1500, 3)], ids=str)
def test_survey_equals_numpy(device, camera, dtype, shape):
    u = np.random.default_rng(1).normal(size=shape).astype(dtype)
    seen = camera.survey(device.upload(u))
    assert (seen.minimum, seen.maximum, seen.nonfinite) == (u.min(), u.max(), 0)
    assert seen.total == pytest.approx(np.sum(u.astype(np.longdouble)), rel=1e-12, abs=1e-10)


def test_survey_ignores_cells_that_are_not_finite(device, camera):
    u = np.array([[np.nan, 2.0, np.inf], [-np.inf, -3.0, 0.5]], np.float32)
    seen = camera.survey(device.upload(u))
    assert (seen.minimum, seen.maximum, seen.total, seen.nonfinite) == (-3.0, 2.0, -0.5, 3)
    nothing = camera.survey(device.upload(np.full((2, 2), np.nan, np.float32)))
    assert (nothing.minimum, nothing.maximum, nothing.total, nothing.nonfinite) == (np.inf, -np.inf, 0, 4)
    assert nothing.limits() == (0.0, 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (33, 65), (300, 257)], ids=str)
def test_a_survey_with_a_mask_equals_numpy_on_the_other_cells(device, kernels, camera, dtype, shape):
    random = np.random.default_rng(3)
    fields = [random.normal(size=shape).astype(dtype) for _ in range(2)]
    mask = (random.random(shape) < 0.4).astype(dtype)
    fields[0].flat[0], fields[0].flat[-1] = np.inf, 1e30
    uploaded, covered = [device.upload(u) for u in fields], device.upload(mask)
    with camera.batch():
        surveys = [camera.queue_survey(u, covered) for u in uploaded]
    for u, held, survey in zip(fields, uploaded, surveys, strict=True):
        seen, rest = survey(), u[(mask < 1) & np.isfinite(u)]
        assert seen.nonfinite == u.size - rest.size
        assert (seen.minimum, seen.maximum) == (rest.min(initial=np.inf), rest.max(initial=-np.inf))
        assert seen.total == pytest.approx(np.sum(rest.astype(np.longdouble)), rel=1e-9, abs=1e-9)
        out = device.allocate(shape, dtype)
        for value in (np.nan, 0.25):
            kernels.exclude(held, covered, value, out)
            np.testing.assert_array_equal(device.download(out), np.where(mask < 1, u, value))


@pytest.mark.parametrize("pixels", [(40, 40), (11, 9), (3, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pixel_outside_a_mask_is_the_mean_of_its_other_cells(device, camera, pixels, dtype):
    random = np.random.default_rng(5)
    u, mask = random.normal(size=(37, 31)).astype(dtype), (random.random((37, 31)) < 0.45).astype(dtype)
    u[20, 20], mask[20, 20] = np.inf, 1
    u[5, 6], mask[5, 6] = np.nan, 0
    request = RasterRequest((2.0, 3.0, 30.0, 36.0), pixels, (-1.5, 1.25), "u")
    with camera.batch():
        wait = camera.queue_raster_outside(device.upload(u), device.upload(mask), request)
    raster, factor = wait(), fit((33, 28), pixels)
    for i, j in np.ndindex(raster.levels.shape):
        part = np.s_[3 + i * factor : 3 + (i + 1) * factor, 2 + j * factor : 2 + (j + 1) * factor]
        rest = u[part][mask[part] == 0]
        if 2 * rest.size < u[part].size or not np.isfinite(rest).all():
            assert raster.levels[i, j] == NOT_FINITE
        else:
            level = (rest.mean(dtype=float) + 1.5) / 2.75 * 254
            assert raster.levels[i, j] == pytest.approx(min(max(level, 0), 254), abs=0.51)


@pytest.mark.parametrize(
    ("shape", "factor", "y0", "x0"),
    [((8, 12), 4, 0, 0), ((9, 13), 4, 0, 0), ((30, 40), 7, 3, 5), ((701, 1303), 37, 5, 9)],
)
def test_a_pixel_is_the_mean_of_its_block(device, kernels, shape, factor, y0, x0):
    u = np.random.default_rng(2).random(shape).astype(np.float32)
    py, px = -(-(shape[0] - y0) // factor), -(-(shape[1] - x0) // factor)
    truth = [[u[i : i + factor, j : j + factor].mean(dtype=np.float64) for j in range(x0, shape[1], factor)]
             for i in range(y0, shape[0], factor)]  # fmt: skip
    out = device.allocate((py, px), np.float32)
    kernels.reduce(device.upload(u), out, y0, x0, factor)
    np.testing.assert_allclose(device.download(out), truth, rtol=1e-6)


@pytest.mark.parametrize(("factor", "limits"), [(1, (-1.3, 2.1)), (3, (-0.5, 0.5)), (40, (0.0, 0.0))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_levels_of_blocks_equal_those_of_their_means(device, kernels, factor, limits, dtype):
    u = np.random.default_rng(4).normal(size=(37, 61)).astype(dtype)
    u[5, 7], u[30, 50] = np.nan, np.inf
    field, (y0, x0) = device.upload(u), (2, 3)
    shape = tuple(-(-(cells - first) // factor) for cells, first in zip(u.shape, (y0, x0), strict=True))
    means = device.allocate(shape, np.float32)
    truth, out = (device.allocate(shape, np.uint8) for _ in range(2))
    kernels.reduce(field, means, y0, x0, factor)
    kernels.levels(means, truth, *limits)
    kernels.block_levels(field, out, y0, x0, factor, *limits)
    np.testing.assert_array_equal(device.download(out), device.download(truth))


def test_levels_saturate_and_mark_values_that_are_not_finite(device, kernels):
    values = np.array([[-1.0, 0.0, 0.5, 1.0, 2.0, np.nan, np.inf, 0.25]], np.float32)
    out = device.allocate(values.shape, np.uint8)
    kernels.levels(device.upload(values), out, 0.0, 1.0)
    assert device.download(out).tolist() == [[0, 0, 127, 254, 254, 255, 255, 64]]
    kernels.levels(device.upload(values), out, 0.5, 0.5)
    assert device.download(out).tolist() == [[0, 0, 127, 254, 254, 255, 255, 0]]


def test_levels_equal_the_reference_on_random_values(device, kernels):
    values = np.random.default_rng(3).normal(size=(50, 70)).astype(np.float32)
    out, truth = device.allocate(values.shape, np.uint8), np.empty(values.shape, np.uint8)
    kernels.levels(device.upload(values), out, -1.3, 2.1)
    reference.levels(values, truth, -1.3, 2.1)
    difference = device.download(out).astype(int) - truth
    assert np.abs(difference).max() <= 1  # a value half-way between two levels may round either way
    assert (difference != 0).mean() < 0.01


def test_requests_of_a_batch_have_separate_buffers(device, kernels, camera):
    """Each copy is made at the end of the batch, after all kernels have been launched."""
    first, second = (np.random.default_rng(seed).normal(size=(7, 9)).astype(np.float32) for seed in (1, 2))
    arrays = device.upload(first), device.upload(second)
    camera.start()
    with camera.batch():
        surveys = [camera.queue_survey(u) for u in arrays]
        windows = [camera.queue_window(u, 0, 0, 7, 9) for u in arrays]
        rasters = [camera.queue_raster(u, RasterRequest(None, (7, 9), (-3.0, 3.0), "u")) for u in arrays]
    assert [survey().maximum for survey in surveys] == [first.max(), second.max()]
    for window, u in zip(windows, (first, second), strict=True):
        np.testing.assert_array_equal(window(), u)
    for raster, u in zip(rasters, arrays, strict=True):
        np.testing.assert_array_equal(raster().levels, camera.raster(u, None, (7, 9), (-3.0, 3.0), "u").levels)
    assert camera.levels_seconds > 0
    assert camera.transfer_seconds > 0


def test_a_window_is_a_copy_in_float64(device, camera):
    u = np.arange(20, dtype=np.float32).reshape(4, 5)
    for y0, x0, height, width in ((1, 2, 2, 3), (2, 1, 1, 4), (0, 0, 1, 5), (3, 4, 1, 1), (0, 2, 4, 1)):
        window = camera.window(device.upload(u), y0, x0, height, width)
        np.testing.assert_array_equal(window, u[y0 : y0 + height, x0 : x0 + width])
        assert window.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(("num", "den"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_gathering_moves_a_picture_by_whole_pixels(device, kernels, num, den, dtype):
    u, fill = (np.arange(7 * 10).reshape(7, 10) - 20).astype(dtype), -1 if dtype is np.int32 else np.nan
    for shape, y0, x0 in [((7, 10), 0, 0), ((9, 3), -3, 4), ((1, 1), 1, 1), ((5, 13), -20, 0), ((6, 11), 3, -7)]:
        truth = np.full(shape, fill, dtype)
        for i, j in np.ndindex(shape):
            (p, odd), (q, even) = divmod(i * num + y0, den), divmod(j * num + x0, den)
            if odd == even == 0 and 0 <= p < 7 and 0 <= q < 10:
                truth[i, j] = u[p, q]
        out = device.upload(np.zeros(shape, dtype))
        kernels.gather(device.upload(u), out, num, den, y0, x0, fill)
        np.testing.assert_array_equal(device.download(out), truth)


def test_a_disc_covers_the_cells_whose_centres_are_inside(device, kernels):
    u = device.upload(np.zeros((9, 11), np.float32))
    kernels.disc(u, 4.5, 0.0, 2.6, 7.0)
    kernels.disc(u, -50.0, 200.0, 3.0, 7.0)
    y, x = np.mgrid[:9, :11] + 0.5
    np.testing.assert_array_equal(device.download(u), 7.0 * (np.hypot(y - 4.5, x) <= 2.6))


def test_the_view_limits_cost_and_extent(device, camera):
    u = device.upload(np.random.default_rng(4).random((100, 200), np.float32))
    whole = camera.raster(u, None, (50, 50), (0.0, 1.0), "u")
    assert (whole.levels.shape, whole.extent) == ((25, 50), (0.0, 0.0, 200.0, 100.0))
    part = camera.raster(u, (10.2, 20.7, 30.0, 40.0), (512, 512), (0.0, 1.0), "u")
    assert (part.levels.shape, part.extent) == ((20, 20), (10.0, 20.0, 30.0, 40.0))
    beyond = camera.raster(u, (-50.0, -50.0, 500.0, 500.0), (512, 512), (0.0, 1.0), "u")
    assert beyond.extent == (0.0, 0.0, 200.0, 100.0)
    for bad in [(300.0, 0.0, 400.0, 10.0), (5.0, 5.0, 5.0, 9.0), (0.0, 0.0, float("nan"), 1.0)]:
        with pytest.raises(ValueError, match="view must be"):
            camera.raster(u, bad, (50, 50), (0.0, 1.0), "u")


@pytest.mark.parametrize(
    ("shape", "pixels", "factor"),
    [((512, 512), (512, 512), 1), ((513, 10), (512, 512), 2), ((8192, 8192), (600, 600), 14), ((1, 9), (600, 600), 1)],
)
def test_fit_is_the_smallest_whole_factor(shape, pixels, factor):
    assert fit(shape, pixels) == factor


def test_a_frame_holds_pictures_curves_facts_and_timing(diffusion):
    lab = diffusion(ny=60, nx=90, preset="single mode")
    lab.advance(4)
    frame = lab.frame(pixels=(30, 45))
    assert {name: type(part) for name, part in frame.parts.items()} == {
        "field": Raster, "laplacian": Raster, "profile": Curve, "exact": Curve}  # fmt: skip
    field = frame.rasters["field"]
    assert field.levels.shape == (30, 45)
    assert field.span == (field.low, field.high)
    assert frame.rasters["laplacian"].low == -frame.rasters["laplacian"].high
    np.testing.assert_allclose(frame.curves["profile"].y, lab.field()[30], rtol=1e-6)
    assert frame.facts["step"] == 4
    assert frame.timing.steps == 4
    assert frame.timing.compute > 0
    assert frame.timing.levels > 0
    assert frame.timing.transfer > 0
    again = lab.frame()
    assert (again.number, again.timing.steps) == (2, 0)
    with pytest.raises(TypeError):
        frame.facts["step"] = 3


def test_fixed_limits_saturate():
    lab = Diffusion(ny=20, nx=20, preset="gaussian")
    lab.update(limits_field=(0.25, 0.5))
    field = lab.frame().rasters["field"]
    assert (field.span, field.levels.min(), field.levels.max()) == ((0.25, 0.5), 0, 254)


def test_a_long_section_is_thinned_for_the_screen():
    lab = Diffusion(ny=2, nx=5000, section_at=0.9)
    profile = lab.frame().curves["profile"]
    assert profile.x.size == 1000
    np.testing.assert_array_equal(profile.y, lab.field()[1, ::5])
