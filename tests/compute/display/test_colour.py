"""Colouring: flat histograms, distances and averages against theory, every backend bit for bit or to its rounding."""

from __future__ import annotations

import inspect
from importlib import import_module

import numpy as np
import pytest

from compute.display import cpu_numpy as reference
from tests.simulator import simulate

SHAPES = [(1, 1), (1, 9), (9, 1), (33, 65), (257, 300)]


def made(device, function, values, dtype, *arguments, shape=None):
    """Return the output of function(values, out, ...) for an output array filled with 77."""
    out = device.upload(np.full(values.shape if shape is None else shape, 77, dtype))
    arguments = [device.upload(a) if isinstance(a, np.ndarray) else a for a in arguments]
    function(device.upload(values), out, *arguments)
    return device.download(out)


def with_holes(shape, seed=1):
    """Return random numbers around 50, of either sign, with some NaN and infinite values."""
    rng = np.random.default_rng(seed)
    values = rng.normal(50, 40, shape).astype(np.float32)
    for hole in (np.nan, np.inf, -np.inf):
        values[rng.random(shape) < 0.05] = hole
    return values


def shares(counts):
    """Return the table of `equalise`: the share of the counted values below each edge."""
    return np.concatenate([[0], np.cumsum(counts) / counts.sum()]).astype(np.float32)


# -- logarithm


def test_the_logarithm_of_powers_of_two_is_whole(device):
    values = np.array([[2.0**k for k in range(-126, 128)]], np.float32)
    got = made(device, device.kernels.logarithm, values, np.float32)[0]
    np.testing.assert_allclose(got, range(-126, 128), rtol=1.2e-7, atol=0)  # a GPU may miss the last digit


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_logarithm_of_positive_numbers_only(device, shape):
    values = with_holes(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        truth = np.where(values > 0, np.log(values.astype(np.longdouble)) / np.log(np.longdouble(2)), np.nan)
    got = made(device, device.kernels.logarithm, values, np.float32)
    np.testing.assert_allclose(got, truth.astype(float), rtol=3e-7, atol=1e-6)


# -- histogram and equalising


@pytest.mark.parametrize("bins", [1, 7, 2048, 5000])
def test_a_histogram_counts_each_value_in_its_bin(device, bins):
    rng = np.random.default_rng(2)
    k = rng.integers(
        -3, bins + 4, (123, 201)
    )  # edges and middles of bins, inside and out, are whole numbers and halves
    values = np.where(rng.random(k.shape) < 0.5, k, k + 0.5).astype(np.float32)
    values[::7, ::5] = np.nan
    values[3, 3:5] = np.inf, -np.inf
    inside = values[(values >= 0) & (values <= bins)]
    truth = np.bincount(np.minimum(inside.astype(int), bins - 1), minlength=bins)
    got = made(device, device.kernels.histogram, values, np.int64, 0.0, float(bins), shape=(bins,))
    np.testing.assert_array_equal(got, truth)
    assert got[-1] > truth[0] / 2  # `high` itself is counted


def test_a_histogram_agrees_with_numpys(device):
    values = with_holes((257, 300))
    got = made(device, device.kernels.histogram, values, np.int64, -20.3, 111.7, shape=(500,))
    truth, _ = np.histogram(values[np.isfinite(values)].astype(float), 500, (-20.3, 111.7))
    np.testing.assert_array_equal(got, truth)


def test_a_histogram_of_one_value(device):
    values = np.array([[3.0, 3.0, np.nan, 4.0, 2.0, np.inf]], np.float32)
    assert made(device, device.kernels.histogram, values, np.int64, 3.0, 3.0, shape=(4,)).tolist() == [2, 0, 0, 0]
    empty = np.full((3, 3), np.nan, np.float32)
    assert made(device, device.kernels.histogram, empty, np.int64, 0.0, 1.0, shape=(4,)).tolist() == [0] * 4


@pytest.mark.parametrize("spread", ["exponential", "cauchy"])
def test_equalising_makes_the_histogram_flat_to_the_bin(device, spread):
    values = getattr(np.random.default_rng(3), f"standard_{spread}")((300, 400)).astype(np.float32)
    low, high = float(np.percentile(values, 0.5)), float(np.percentile(values, 99.5))
    counts = made(device, device.kernels.histogram, values, np.int64, low, high, shape=(2048,))
    got = made(device, device.kernels.equalise, values, np.uint8, low, high, shares(counts))
    inside = (values >= low) & (values <= high)
    below = np.cumsum(np.bincount(got[inside], minlength=255)) / counts.sum()
    truth = np.minimum((np.arange(255) + 0.5) / 254, 1)  # level <= l where the share is below (l + 1/2) / 254
    assert np.abs(below - truth).max() <= counts.max() / counts.sum()
    order = np.argsort(values, axis=None)
    assert (np.diff(got.ravel()[order].astype(int)) >= 0).all()
    assert set(got[values < low]) == {0}
    assert set(got[values > high]) == {254}


def test_equalising_interpolates_saturates_and_marks_nan(device):
    table = np.array([0.0, 0.5, 1.0, 1.0], np.float32)
    values = np.array([[-1, 0, 1, 2, 3, 4, 6, 9, np.nan, np.inf, -np.inf]], np.float32)
    truth = [0, 0, 64, 127, 191, 254, 254, 254, 255, 255, 255]  # 63.5 and 190.5 are rounded up
    assert made(device, device.kernels.equalise, values, np.uint8, 0.0, 6.0, table).tolist() == [truth]
    truth = [0, 0, 127, 254, 254, 254, 254, 254, 255, 255, 255]
    assert made(device, device.kernels.equalise, values, np.uint8, 1.0, 1.0, table).tolist() == [truth]


# -- pixels not computed yet


def test_pending_pixels_differ_from_those_without_a_value(device):
    counts = device.upload(np.array([[5, -1, 7, -300], [1000, 1000, -1, 3]], np.int32))
    out = device.upload(np.array([[3, 255, 254, 255], [255, 255, 255, 253]], np.uint8))
    device.kernels.mark(counts, out, 0, 0, 1, 1)
    assert device.download(out).tolist() == [[3, 254, 253, 254], [255, 255, 254, 253]]


@pytest.mark.parametrize(("stride", "factor", "y0", "x0"), [(1, 1, 0, 0), (1, 3, 2, 5), (4, 1, 1, 2), (8, 2, 0, 1)])
def test_blocks_of_samples_are_marked_by_their_own_pixels_alone(device, stride, factor, y0, x0):
    rng = np.random.default_rng(5)
    counts = rng.integers(-1, 40, (67, 131)).astype(np.int32)  # one in forty waits
    rows, columns = -(-67 // stride), -(-131 // stride)
    shape = -(-(rows - y0) // factor), -(-(columns - x0) // factor)
    levels = rng.choice(np.array([0, 7, 253, 254, 255], np.uint8), shape)
    truth = levels.copy()
    for i, j in np.ndindex(shape):
        block = [
            counts[r * stride, c * stride]
            for r in range(y0 + i * factor, min(y0 + (i + 1) * factor, rows))
            for c in range(x0 + j * factor, min(x0 + (j + 1) * factor, columns))
        ]
        waits = min(block) < 0
        truth[i, j] = {254: 253, 255: 254 if waits else 255}.get(int(levels[i, j]), levels[i, j])
    out = device.upload(levels)
    device.kernels.mark(device.upload(counts), out, y0, x0, factor, stride)
    np.testing.assert_array_equal(device.download(out), truth)


# -- distance


def test_a_plane_has_its_slope_everywhere_edges_included(device):
    y, x = np.mgrid[:33, :65]
    values = (3 * x - 4 * y + 500).astype(np.float32)
    got = made(device, device.kernels.distance, values, np.float32)
    np.testing.assert_allclose(got, 1 / (5 * np.log(2)), rtol=1e-6)


def test_a_potential_that_grows_with_the_distance_gives_the_distance(device):
    y, x = np.mgrid[-40:41, -60:61]
    far = np.hypot(x, y)
    values = np.full(far.shape, np.nan, np.float32)
    values[far > 0] = 100 - np.log2(far[far > 0])  # G = 2^(1 - nu) ln 2 is proportional to the distance from (0, 0)
    got = made(device, device.kernels.distance, values, np.float32)
    inner = (far > 3) & (abs(x) < 60) & (abs(y) < 40)
    np.testing.assert_allclose(got[inner], far[inner], rtol=0.04)
    np.testing.assert_allclose(got[inner & (far > 20)], far[inner & (far > 20)], rtol=1e-3)
    assert np.isnan(got[40, 60])


def test_distance_beside_holes_and_without_neighbours(device):
    values = np.full((5, 7), np.nan, np.float32)
    values[2, 1:4] = 10, 12, 16  # one row: differences along it only
    values[0, 6] = 5
    values[4, 5], values[4, 6] = 8, np.inf
    got = made(device, device.kernels.distance, values, np.float32)
    np.testing.assert_allclose(got[2, 1:4] * np.log(2), [1 / 2, 1 / 3, 1 / 4], rtol=1e-6)
    got[2, 1:4] = np.nan
    assert np.isnan(got).all()
    assert np.isnan(made(device, device.kernels.distance, np.ones((1, 1), np.float32), np.float32)).all()


def test_an_unresolved_slope_counts_as_half_the_last_digit(device):
    for value in (0.25, 1.0, 2.0**20):
        got = made(device, device.kernels.distance, np.full((4, 5), value, np.float32), np.float32)
        np.testing.assert_allclose(got, 2**24 / max(value, 1) / np.log(2), rtol=1e-6)


# -- averages


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_samples_are_averaged_by_their_logarithms(device, shape):
    samples = [with_holes(shape, seed) for seed in range(5)]
    sums, hits = device.upload(np.zeros(shape, np.float32)), device.upload(np.zeros(shape, np.int32))
    for values in samples:
        device.kernels.blend(device.upload(values), sums, hits)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log([np.where(np.isfinite(v) & (v > 0), v, np.nan) for v in samples], dtype=np.float64)
    count = np.isfinite(logs).sum(0)
    np.testing.assert_array_equal(device.download(hits), count)
    np.testing.assert_allclose(device.download(sums), np.nansum(logs, 0), rtol=1e-6, atol=1e-6)
    got = device.upload(np.zeros(shape, np.float32))
    device.kernels.resolve(sums, hits, 5, got)
    truth = np.where(count >= 3, np.exp(np.nansum(logs, 0) / np.maximum(count, 1)), np.nan)
    np.testing.assert_allclose(device.download(got), truth, rtol=3e-6)


def test_half_the_samples_are_enough_and_none_are_not(device):
    hits = np.array([[0, 1, 2, 4]], np.int32)
    logs = (np.log(8) * hits).astype(np.float32)
    for samples, truth in [(0, [np.nan, 8, 8, 8]), (2, [np.nan, 8, 8, 8]), (3, [np.nan, np.nan, 8, 8]),
                           (4, [np.nan, np.nan, 8, 8]), (9, [np.nan] * 4)]:  # fmt: skip
        out = device.upload(np.zeros(hits.shape, np.float32))
        device.kernels.resolve(device.upload(logs), device.upload(hits), samples, out)
        np.testing.assert_allclose(device.download(out), [truth], rtol=1e-6)


# -- backends


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_backend_agrees_with_numpy(device, shape):
    values = with_holes(shape, 7)
    for name in ("logarithm", "distance"):
        truth = np.full(shape, 77, np.float32)
        getattr(reference, name)(values, truth)
        got = made(device, getattr(device.kernels, name), values, np.float32)
        assert got.dtype == np.float32
        if device.exact:
            np.testing.assert_array_equal(got, truth, name)
        np.testing.assert_allclose(got, truth, rtol=1e-6, atol=1e-6, err_msg=name)
    counts = np.empty(2048, np.int64)
    reference.histogram(values, counts, -10.0, 120.0)
    got = made(device, device.kernels.histogram, values, np.int64, -10.0, 120.0, shape=(2048,))
    if "float64" in device.dtypes:
        np.testing.assert_array_equal(got, counts)
    else:  # a value close to the edge of a bin may be counted in the next one
        assert got.sum() == counts.sum()
        assert np.abs(np.cumsum(got - counts)).max() <= 2
    table, levels = np.linspace(0, 1, 2049, dtype=np.float32) ** 2, np.empty(shape, np.uint8)
    reference.equalise(values, levels, -10.0, 120.0, table)
    got = made(device, device.kernels.equalise, values, np.uint8, -10.0, 120.0, table).astype(int)
    assert np.abs(got - levels).max() <= (0 if device.exact else 1)
    assert np.mean(got != levels) < 1e-3


def test_every_backend_has_the_same_functions():
    """Names and arguments are compared; types differ."""
    described = []
    for name in ("cpu_numpy", "cpu_numba", "gpu", "simulated"):
        functions = inspect.getmembers(import_module(f"compute.display.{name}"), inspect.isfunction)
        own = [f for name, f in functions if f.__module__.startswith("compute.display.") and f.__doc__]
        described.append({f.__name__: list(inspect.signature(f).parameters) for f in own if f.__name__[0] != "_"})
    assert described[0]
    assert described[1:] == [described[0]] * 3


SIMULATED = """
from compute.devices.backends import backend
from tests.compute.display import test_colour as colours
chosen = backend("gpu_numba")
assert not chosen.missing, chosen.missing
device = chosen.open_device()
device.kernels = chosen.display()
colours.test_a_histogram_of_one_value(device)
colours.test_pending_pixels_differ_from_those_without_a_value(device)
"""


def test_the_display_works_in_numba_s_simulator():
    simulate(SIMULATED)
