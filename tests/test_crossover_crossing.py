"""Where two curves cross, on curves whose crossing is known by algebra."""

from __future__ import annotations

import pytest

from compute.labs.crossover.crossing import crossing
from compute.timings import Spread

SIZES = [10**k for k in range(1, 8)]


def curve(seconds, spread=0.0):
    """Quartiles `spread` x median above and below."""
    return {n: Spread(t, t * (1 - spread), t * (1 + spread), 9) for n in SIZES for t in [seconds(n)]}


def test_straight_curves_cross_where_algebra_says():
    """1e-9 n and 1e-7 n^(1/2) meet at n = 1e4; 3e-9 n and 1e-7 n^(1/2) at 1e4 / 9: exact, for both are straight."""
    found = crossing(curve(lambda n: 1e-9 * n), curve(lambda n: 1e-7 * n**0.5))
    assert found.n == pytest.approx(1e4)
    assert (found.least, found.most, found.times, found.always) == (10, 10**7, 1, False)
    assert crossing(curve(lambda n: 3e-9 * n), curve(lambda n: 1e-7 * n**0.5)).n == pytest.approx(1e4 / 9)


def test_the_interval_is_that_of_the_quartiles():
    """With +-10 % each the gain (n / 1e4)^(1/2) is off by (1.1 / 0.9) either way: n by its square."""
    found = crossing(curve(lambda n: 1e-9 * n, 0.1), curve(lambda n: 1e-7 * n**0.5, 0.1))
    off = (1.1 / 0.9) ** 2
    assert (found.low, found.n, found.high) == pytest.approx((1e4 / off, 1e4, 1e4 * off))
    assert found.words == "faster from n = 10,000 on (6,694 to 14,938)"


@pytest.mark.parametrize(("factor", "always", "word"), [(2.0, False, "slower"), (0.5, True, "faster")])
def test_curves_that_do_not_cross(factor, always, word):
    found = crossing(curve(lambda n: 1e-9 * n), curve(lambda n: factor * 1e-9 * n))
    assert (found.n, found.low, found.high, found.always, found.times) == (None, None, None, always, 0)
    assert found.words.startswith(f"no crossover in this range: {word} at every n")
    assert "n = 10 to 10,000,000" in found.words


def test_a_crossing_at_the_edge_is_open():
    """A launch of 1e-8 s against 1e-9 n, both +-60 %: the quartiles allow a crossing before the first n."""
    found = crossing(curve(lambda n: 1e-9 * n, 0.6), curve(lambda n: 2e-8, 0.6))
    assert found.n == pytest.approx(20)
    assert found.low is None
    assert "(below 10 to " in found.words


def test_quartiles_that_overlap_throughout_are_said():
    found = crossing(curve(lambda n: 1e-9 * n, 0.2), curve(lambda n: 1.1e-9 * n * (1 + n * 1e-9), 0.2))
    assert found.n is None
    assert found.words.endswith("(within the quartiles it may be the other way)")


def test_of_several_crossings_the_last_counts():
    wave = {10: 0.5, 100: 2.0, 1000: 0.5, 10**4: 2.0, 10**5: 2.0, 10**6: 2.0, 10**7: 2.0}
    found = crossing(curve(lambda n: 1e-9 * n * wave[n]), curve(lambda n: 1e-9 * n))
    assert found.times == 3
    assert found.n == pytest.approx(10**3.5)
    assert found.words.endswith("the curves cross 3 times, this is the last")


def test_a_challenger_that_is_overtaken_again_has_no_crossing():
    found = crossing(curve(lambda n: 1e-9 * n**0.9), curve(lambda n: 1e-10 * n))
    assert (found.n, found.always, found.times) == (None, True, 0)
    found = crossing(curve(lambda n: 1e-9 * n**0.5), curve(lambda n: 1e-10 * n))
    assert (found.n, found.always, found.times) == (None, False, 1)
    assert "slower at the largest n" in found.words


def test_only_common_sizes_count_and_two_are_needed():
    slow, fast = curve(lambda n: 1e-9 * n), curve(lambda n: 1e-7 * n**0.5)
    del slow[10], fast[10**7]
    assert (crossing(slow, fast).least, crossing(slow, fast).most) == (100, 10**6)
    with pytest.raises(ValueError, match="two n at which both were measured, not 1"):
        crossing({10: fast[10], 100: fast[100]}, {10: fast[10], 1000: fast[1000]})
