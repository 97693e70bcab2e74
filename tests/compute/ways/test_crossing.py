"""The crossing of two curves, for curves with an algebraic crossing."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest

from compute.measure.statistics import Spread
from compute.ways.crossing import crossing, with_rounds

SIZES = [10**k for k in range(1, 8)]


def curve(seconds, spread=0.0):
    """Return a curve with quartiles `spread` x median above and below."""
    return {n: Spread(t, t * (1 - spread), t * (1 + spread), 9) for n in SIZES for t in [seconds(n)]}


def test_straight_curves_cross_where_algebra_says():
    """1e-9 n and 1e-7 n^(1/2) cross at n = 1e4; 3e-9 n and 1e-7 n^(1/2) at 1e4 / 9: exact, as both are straight."""
    found = crossing(curve(lambda n: 1e-9 * n), curve(lambda n: 1e-7 * n**0.5))
    assert found.n == pytest.approx(1e4)
    assert (found.least, found.most, found.times, found.always) == (10, 10**7, 1, False)
    assert crossing(curve(lambda n: 3e-9 * n), curve(lambda n: 1e-7 * n**0.5)).n == pytest.approx(1e4 / 9)


def test_the_interval_is_that_of_the_quartiles():
    """With +-10 % each, the gain (n / 1e4)^(1/2) is off by a factor (1.1 / 0.9), and n by its square."""
    found = crossing(curve(lambda n: 1e-9 * n, 0.1), curve(lambda n: 1e-7 * n**0.5, 0.1))
    off = (1.1 / 0.9) ** 2
    assert (found.low, found.n, found.high) == pytest.approx((1e4 / off, 1e4, 1e4 * off))


@pytest.mark.parametrize(("factor", "always"), [(2.0, False), (0.5, True)])
def test_curves_that_do_not_cross(factor, always):
    found = crossing(curve(lambda n: 1e-9 * n), curve(lambda n: factor * 1e-9 * n))
    assert (found.n, found.low, found.high, found.always, found.times) == (None, None, None, always, 0)
    assert (found.least, found.most, found.sure) == (10, 10**7, True)
    with pytest.raises(ValueError, match="do not cross"):
        _ = found.rounded
    overlapping = crossing(curve(lambda n: 1e-9 * n, 0.2), curve(lambda n: 1.1e-9 * n * (1 + n * 1e-9), 0.2))
    assert (overlapping.n, overlapping.sure) == (None, False)


def test_a_crossing_at_the_edge_is_open():
    """A launch of 1e-8 s and 1e-9 n, both +-60 %: the quartiles allow a crossing below the first n."""
    found = crossing(curve(lambda n: 1e-9 * n, 0.6), curve(lambda n: 2e-8, 0.6))
    assert found.n == pytest.approx(20)
    assert found.low is None
    assert found.high > 20


def test_of_several_crossings_the_last_counts():
    wave = {10: 0.5, 100: 2.0, 1000: 0.5, 10**4: 2.0, 10**5: 2.0, 10**6: 2.0, 10**7: 2.0}
    found = crossing(curve(lambda n: 1e-9 * n * wave[n]), curve(lambda n: 1e-9 * n))
    assert found.times == 3
    assert found.n == pytest.approx(10**3.5)
    assert found.between == (1000, 10**4)


@pytest.mark.parametrize(("power", "always", "times"), [(0.9, True, 0), (0.5, False, 1)])
def test_a_challenger_that_is_overtaken_again_has_no_crossing(power, always, times):
    found = crossing(curve(lambda n: 1e-9 * n**power), curve(lambda n: 1e-10 * n))
    assert (found.n, found.always, found.times) == (None, always, times)


def test_only_common_sizes_count_and_two_are_needed():
    slow, fast = curve(lambda n: 1e-9 * n), curve(lambda n: 1e-7 * n**0.5)
    del slow[10], fast[10**7]
    assert (crossing(slow, fast).least, crossing(slow, fast).most) == (100, 10**6)
    with pytest.raises(ValueError, match="two n at which both were measured, not 1"):
        crossing({10: fast[10], 100: fast[100]}, {10: fast[10], 1000: fast[1000]})


def test_a_point_that_only_one_has_counts_against_the_other_s_line():
    """Matches the plot: at n = 1000 only the challenger was measured, above the other's line."""
    slow = curve(lambda n: 1e-6)
    fast = curve(lambda n: 1e-7 if n > 10 else 1e-5)
    assert crossing(slow, fast).between == (10, 100)
    fast[1000] = Spread(2e-6, 2e-6, 2e-6, 9)
    del slow[1000]
    found = crossing(slow, fast)
    assert (found.between, found.times) == ((1000, 10**4), 3)
    assert found.n == pytest.approx(10 ** (3 + log(2) / log(20)))  # 2e-6 to 1e-7 over a decade, through 1e-6


def test_a_rounded_crossing_names_no_n_at_which_the_challenger_was_slower():
    """The medians cross at 10 040, rounded to two figures 10 000, where the challenger was measured slower."""
    slow = {10**4: Spread(1.0, 1.0, 1.0, 9), 10**5: Spread(1.0, 1.0, 1.0, 9)}
    gain = log(10**5 / 10_040) / log(10_040 / 10**4)
    fast = {10**4: Spread(1.001, 1.0, 1.1, 9), 10**5: Spread(1.001**-gain, 0.1, 1.0, 9)}
    found = crossing(slow, fast)
    assert found.n == pytest.approx(10_040)
    assert found.rounded == 10_040
    far = {10**4: Spread(2.0, 2.0, 2.0, 9), 10**5: Spread(0.5, 0.5, 0.5, 9)}
    assert crossing(slow, far).n == pytest.approx(31_623, rel=1e-4)
    assert crossing(slow, far).rounded == 32_000


# -- a machine that is slower for seconds, with a simulated clock

LAUNCH, PER_NUMBER, LESS = 5e-6, 1e-9, 1e-10  # seconds: of a launch, of a number for each way
CROSS = LAUNCH / (PER_NUMBER - LESS)
DRIFT, SCATTER, KEPT = 0.2, 0.03, 0.6  # of a round, of a sample, share of a round's drift that the next one keeps


def drifting(rng, rounds):
    """Yield samples of two ways by n, on a machine whose speed drifts over more than a round."""
    for launch, slope in ((0.0, PER_NUMBER), (LAUNCH, LESS)):
        moods = [rng.normal() * DRIFT]
        while len(moods) < rounds:
            moods.append(KEPT * moods[-1] + sqrt(1 - KEPT**2) * DRIFT * rng.normal())
        yield {
            n: [(launch + slope * n) * exp(mood + SCATTER * rng.normal()) for mood in moods]
            for n in (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
        }


def test_rounds_show_the_spread_from_run_to_run():
    def holds(found):
        return (found.low is None or found.low <= CROSS) and (found.high is None or found.high >= CROSS)

    rng, runs = np.random.default_rng(1), 60
    narrow = wide = 0
    for _ in range(runs):
        slow, fast = drifting(rng, 10)
        found = crossing(*({n: Spread.of(samples) for n, samples in one.items()} for one in (slow, fast)))
        allowed = with_rounds(found, slow, fast)
        narrow += holds(found)
        wide += holds(allowed)
        assert allowed.n == found.n
    assert wide >= 0.9 * runs
    assert narrow < wide


def test_rounds_that_agree_leave_the_interval_as_it_is():
    slow = {n: [PER_NUMBER * n] * 6 for n in (100, 1000, 10_000, 100_000)}
    fast = {n: [LAUNCH + LESS * n] * 6 for n in slow}
    found = crossing(*({n: Spread.of(samples) for n, samples in one.items()} for one in (slow, fast)))
    allowed = with_rounds(found, slow, fast)
    assert (allowed.low, allowed.high) == pytest.approx((found.low, found.high))
    assert allowed.by == "the quartiles and 6 rounds"


def test_a_round_without_a_crossing_opens_the_interval():
    slow = {n: [1e-6 * n, 1e-6 * n, 1e-6 * n, 1e-9 * n] for n in (1, 10, 100)}
    fast = {n: [5e-6] * 4 for n in slow}
    found = crossing(*({n: Spread.of(samples[:3]) for n, samples in one.items()} for one in (slow, fast)))
    assert with_rounds(found, slow, fast).high is None
    few = {n: samples[:3] for n, samples in slow.items()}
    assert with_rounds(found, few, fast) == found  # too few rounds change nothing
