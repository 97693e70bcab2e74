"""A series' growth and its interval: the textbook's, or wider for autocorrelated residuals."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from scipy import stats

from app.load.soak import Trend

TIMES = np.arange(60.0)


def test_the_slope_and_its_interval_are_those_of_independent_values():
    """For residuals without positive autocorrelation: scipy's line, Student's interval."""
    values = 3.0 + 0.5 * TIMES + np.random.default_rng(1).permutation(np.linspace(-2, 2, 60))
    line = stats.linregress(TIMES, values)
    residuals = values - line.intercept - line.slope * TIMES
    assert residuals[:-1] @ residuals[1:] <= 0  # otherwise the interval would be slightly wider
    trend, half = Trend.of(TIMES, values), stats.t.ppf(0.975, 58) * line.stderr
    assert trend.slope == pytest.approx(line.slope)
    assert (trend.low, trend.high) == (pytest.approx(line.slope - half), pytest.approx(line.slope + half))


def test_autocorrelated_values_have_a_wider_interval():
    """At most a tenth of 200 autocorrelated series without a trend are judged to grow or fall.

    An interval for independent values misses zero for at least three tenths of them.
    """
    generator, missed, naive = np.random.default_rng(2), 0, 0
    for _ in range(200):
        values = np.zeros(240)
        for at, shock in enumerate(generator.normal(size=239)):
            values[at + 1] = 0.8 * values[at] + shock
        trend, line = Trend.of(np.arange(240.0), values), stats.linregress(np.arange(240.0), values)
        missed += not trend.low <= 0 <= trend.high
        naive += abs(line.slope) > 1.97 * line.stderr
    assert missed <= 0.1 * 200
    assert naive >= 0.3 * 200


def test_constant_values_are_flat_and_rising_ones_grow():
    assert Trend.of(TIMES, np.full(60, 7.0)) == Trend(0.0, 0.0, 0.0)
    uneven = [2.8, 6.0, 10.2, 17.6, 25.6, 28.2, 31.3, 35.0, 37.7, 40.6, 43.1, 45.5, 47.9, 50.5, 53.0, 55.5, 58.9, 62.4]
    constant = Trend.of(uneven, np.full(len(uneven), 13.0))  # the residuals are zero except for rounding of the sums
    assert max(map(abs, (constant.slope, constant.low, constant.high))) < 1e-12
    rising = Trend.of(TIMES, 2.0 * TIMES).times(30)
    assert rising.slope == pytest.approx(60)
    assert (rising.verdict(59), rising.verdict(61)) == ("grows", "flat")


def test_too_few_values_are_undecided():
    for count in range(3):
        trend = Trend.of(TIMES[:count], TIMES[:count])
        assert (trend.low, trend.high, trend.verdict(1.0)) == (-inf, inf, "undecided")
