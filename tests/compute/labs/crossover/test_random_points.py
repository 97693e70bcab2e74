"""The random points of the Numba ways: uniform, uncorrelated, reproducible by seed, and π within its error."""

from __future__ import annotations

from math import pi, sqrt

import numba
import numpy as np
import pytest

from compute.labs.crossover.workloads import mandelbrot_area
from compute.labs.crossover.workloads.mandelbrot_area import cpu as area
from compute.labs.crossover.workloads.monte_carlo_pi import cpu as points

SEEDS = (0, 1, 2, 3, 20, 2**31 - 1)
N = 1 << 18
SURE = 5.0  # standard deviations: exceeded by chance once in 1.7 million


@numba.njit
def _drawn(n, seed):
    out = np.empty((2, n))
    for i in range(n):
        bits = points.random_bits(seed, np.uint64(i))
        out[0, i], out[1, i] = (bits >> np.uint64(33)) * 2.0**-31, (bits & points.LOW) * 2.0**-31
    return out


def drawn(n, seed):
    return _drawn(n, points.stream(seed))


def estimate(n, seed):
    out = np.empty(1)
    points.estimate_numba(n, seed, out)
    return out[0]


def test_the_bits_are_those_of_splitmix64():
    """The reference sequence of seed 1234567, from the test of Java's SplittableRandom and of Vigna's splitmix64.c."""
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert [points.random_bits(np.uint64(1234567), np.uint64(i + 1)) for i in range(5)] == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_points_are_uniform_and_uncorrelated_with_neighbours_and_neighbouring_seeds(seed):
    """Chi squared over 16 x 16 boxes has 255 degrees of freedom."""
    counts, _, _ = np.histogram2d(*drawn(N, seed), bins=16, range=((0, 1), (0, 1)))
    chi2 = ((counts - N / 256) ** 2 / (N / 256)).sum()
    assert abs(chi2 - 255) < SURE * sqrt(2 * 255)
    x, y = drawn(N, seed) - 0.5
    other = drawn(N, seed + 1)[0] - 0.5
    for a, b in ((x, y), (x[1:], x[:-1]), (x[1:], y[:-1]), (x[16:], x[:-16]), (x, other), (x[1:], other[:-1])):
        assert abs((a * b).mean() * 12) < SURE / sqrt(N)


def test_streams_of_different_seeds_share_no_numbers():
    bits = [{points.random_bits(points.stream(seed), np.uint64(i)) for i in range(2000)} for seed in range(20)]
    assert len(set.union(*bits)) == 20 * 2000


def test_pi_lies_within_its_standard_error_for_many_seeds():
    """Every estimate is within 5 standard errors, and their scatter is as large as expected by chance."""
    error = 4 * sqrt(pi / 4 * (1 - pi / 4) / N)
    off = np.array([estimate(N, seed) - pi for seed in range(60)]) / error
    assert np.abs(off).max() < SURE
    assert abs(off.mean()) < SURE / sqrt(60)
    assert 0.5 < off.std() < 1.6


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_the_estimate_counts_exactly_the_points_that_are_drawn(n):
    x, y = drawn(n, 20)
    assert estimate(n, 20) == 4 * np.count_nonzero(x * x + y * y < 1) / n


@pytest.mark.parametrize("way", [points.estimate_numba, area.area_numba])
def test_the_result_depends_on_the_seed_and_not_on_the_threads(way):
    before, found = numba.get_num_threads(), []
    try:
        for threads in dict.fromkeys((1, before)):
            numba.set_num_threads(threads)
            out = np.empty(1)
            way(10_001, 3, out)
            found.append(out[0])
    finally:
        numba.set_num_threads(before)
    assert len(set(found)) == 1
    other = np.empty(1)
    way(10_001, 4, other)
    assert other[0] != found[0]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 20_000])
def test_the_area_is_that_of_the_same_points_followed_one_by_one(n):
    x, y = drawn(n, 5)
    x, y = mandelbrot_area.LEFT + mandelbrot_area.WIDTH * x, mandelbrot_area.HEIGHT * y
    a, b = np.zeros(n), np.zeros(n)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(mandelbrot_area.ITERATIONS):
            a, b = a * a - b * b + x, 2 * a * b + y
        stays = a * a + b * b <= 4
    out = np.empty(1)
    area.area_numba(n, 5, out)
    hits = out[0] * n / mandelbrot_area.BOX
    assert abs(hits - np.count_nonzero(stays)) < 2.5  # rounding of c may decide at the edge
