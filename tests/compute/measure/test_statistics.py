"""Statistics compared with the standard library, and the structure of measurements; no speed is asserted."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from compute.measure.statistics import COVERAGE, FEW, Measurement, SpeedUp, Spread, Window, median_interval, settled
from compute.measure.timing import PARTS, Timing

seconds = st.lists(st.floats(1e-7, 10.0), min_size=2, max_size=60)
many_seconds = st.lists(st.floats(1e-7, 10.0), min_size=6, max_size=60)


def timing(compute, steps=1, **values):
    return Timing("cpu_numpy", "one-step", steps, 100, compute=compute, **values)


@given(seconds)
def test_spread_is_that_of_the_statistics_module(samples):
    spread = Spread.of(samples)
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    assert (spread.q1, spread.median, spread.q3) == pytest.approx((q1, median, q3))
    assert spread.median == pytest.approx(statistics.median(samples))
    assert spread.n == len(samples)


def test_spread_leaves_out_what_was_not_measured():
    assert Spread.of([1.0, math.nan, 3.0, math.inf]) == Spread(2.0, 1.5, 2.5, 2)
    nothing = Spread.of([])
    assert nothing.n == 0
    assert math.isnan(nothing.median)
    assert nothing.noisy


def test_noisy_means_a_wide_middle_half_or_too_few():
    assert not Spread(1.0, 0.97, 1.03, FEW).noisy
    assert Spread(1.0, 0.97, 1.03, FEW - 1).noisy
    assert Spread(1.0, 0.9, 1.1, 100).noisy


@given(many_seconds, many_seconds)
def test_speed_up_lies_within_its_interval_and_turns_over(slow, fast):
    there, back = SpeedUp.of(Spread.of(slow), Spread.of(fast)), SpeedUp.of(Spread.of(fast), Spread.of(slow))
    assert there.ratio == pytest.approx(statistics.median(slow) / statistics.median(fast))
    assert there.low <= there.ratio * (1 + 1e-12)
    assert there.ratio <= there.high * (1 + 1e-12)
    assert (back.ratio, back.low, back.high) == pytest.approx((1 / there.ratio, 1 / there.high, 1 / there.low))


# -- confidence intervals

SHAPES = {  # noise around 1, and its median
    "normal": (lambda random, size: 1 + 0.05 * random.standard_normal(size), 1.0),
    "log-normal": (lambda random, size: np.exp(0.3 * random.standard_normal(size)), 1.0),
    # a tenth of the samples takes 3 times as long: the median is the 5/9 quantile of the normal distribution
    "outliers": (
        lambda random, size: np.where(random.random(size) < 0.1, 3.0, 1.0) * (1 + 0.03 * random.standard_normal(size)),
        1 + 0.03 * statistics.NormalDist().inv_cdf(5 / 9),
    ),
}
RUNS, COUNTS = 800, (6, 7, 9, 12, 20, 35, 50)


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_cover_the_true_median_and_ratio_as_often_as_stated_and_shrink(shape):
    """95 % of 800 runs are 760, with a standard deviation of 6; the ratio's interval is slightly too wide."""
    noise, true = SHAPES[shape]
    random = np.random.default_rng(7)
    widths = []
    for count in COUNTS:
        slow, fast = (2 * noise(random, (RUNS, count)), noise(random, (RUNS, count)))
        spreads = [(Spread.of(one), Spread.of(other)) for one, other in zip(slow, fast, strict=True)]
        held = np.mean([one.low <= 2 * true <= one.high for one, _ in spreads])
        assert held == pytest.approx(COVERAGE, abs=0.03), (shape, count)
        ratios = [SpeedUp.of(*pair) for pair in spreads]
        held = np.mean([ratio.low <= 2 <= ratio.high for ratio in ratios])
        assert COVERAGE - 0.02 <= held <= 0.995, (shape, count)
        widths.append(np.median([math.log(ratio.high / ratio.low) for ratio in ratios]))
    assert sorted(widths, reverse=True) == widths
    assert widths[-1] < widths[0] * math.sqrt(COUNTS[0] / COUNTS[-1]) * 1.5


@pytest.mark.parametrize("count", [2, 5])
def test_too_few_samples_give_no_interval(count):
    spread = Spread.of([1.0 + 0.01 * number for number in range(count)])
    assert not spread.bounded
    ratio = SpeedUp.of(spread, Spread.of([1.0] * 50))
    assert (ratio.bounded, ratio.undecided, ratio.noisy) == (False, False, True)
    assert ratio.ratio == pytest.approx(spread.median)
    assert SpeedUp(1.1, 0.9, 1.3, noisy=False).undecided
    assert not SpeedUp(1.1, 1.05, 1.2, noisy=False).undecided


@pytest.mark.parametrize("count", range(6, 51))
def test_the_interval_lies_between_the_order_statistics_that_bracket_its_coverage(count):
    """The coverage of [x(k), x(n + 1 - k)] is a binomial probability, here from scipy."""
    low, high = median_interval(range(count, 0, -1))
    assert low + high == pytest.approx(count + 1)

    def coverage(depth):
        return 1 - 2 * binom.cdf(depth - 1, count, 0.5)

    depth = math.floor(low)
    assert coverage(depth + 1) < COVERAGE <= coverage(depth) + 1e-12


def test_the_first_call_is_not_part_of_the_median():
    measurement = Measurement.of([timing(9.0, first_call=True), *(timing(10 * s, steps=10) for s in (1.0, 2.0, 6.0))])
    assert (measurement.step.median, measurement.step.n, measurement.first_call) == (2.0, 3, 9.0)
    assert (measurement.steps_per_second, measurement.cells_per_second) == (0.5, 50)
    alone = Measurement.of([timing(9.0, first_call=True)])
    assert alone.step.n == 0
    assert math.isnan(alone.cells_per_second)


def test_parts_are_medians_of_frames_and_absent_ones_are_nan():
    parts = Measurement.of([timing(1.0, transfer=0.25), timing(3.0, transfer=0.75), timing(2.0)]).parts
    assert set(parts) == set(PARTS)
    assert parts["compute"] == 2.0
    assert parts["transfer"] == 0.5
    assert math.isnan(parts["delivery"])


def test_mixed_timings_are_refused():
    with pytest.raises(ValueError, match="one backend, variant and grid"):
        Measurement.of([timing(1.0), replace(timing(1.0), cells=5)])
    with pytest.raises(ValueError, match="one backend, variant and grid"):
        Measurement.of([])


def test_window_keeps_the_newest_and_its_first_call_until_the_way_changes():
    window = Window(length=3)
    assert window.measurement() is None
    window.add(timing(9.0, first_call=True))
    for value in (1.0, 2.0, 3.0, 4.0):
        window.add(timing(value))
    measurement = window.measurement()
    assert (measurement.step.n, measurement.step.median, measurement.first_call) == (3, 3.0, 9.0)
    window.add(replace(timing(5.0), backend="cpu_numba"))
    assert (window.measurement().backend, window.measurement().step.n) == ("cpu_numba", 1)


def test_samples_settle_when_enough_of_them_agree():
    generator = np.random.default_rng(1)
    steady = list(1 + 0.001 * generator.random(12))
    assert settled(steady)
    assert not settled(steady[:5])
    assert not settled([1.0] * 8 + [2.0] * 6)
    wild = [1.0, 2.0, 3.0] * 20
    assert not settled(wild[:18])  # noisy samples must be three times as many
    assert settled(wild)
