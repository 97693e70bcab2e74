"""Axis tick labels, as formatted in a browser."""

from __future__ import annotations

from app.page.theme import SHORT_NUMBER

TICKS = {
    (0, 100, 200): ["0", "100", "200"],
    (500, 1000, 1500, 2000): ["500", "1000", "1500", "2000"],  # not 1k, 2k, 2k
    (739.8, 740, 740.2): ["739.8", "740", "740.2"],  # not 740 three times
    (0.0002, 0.0004, 0.0006000000000000001): ["0.0002", "0.0004", "0.0006"],
    (-0.00004, 0, 0.00002): ["-4×10⁻⁵", "0", "2×10⁻⁵"],  # not -0.00004, which is wider than its space
    (-4e12, -2e12, 0, 2e12): ["-4×10¹²", "-2×10¹²", "0", "2×10¹²"],  # not -4000000000000
    (5e6, 1e7, 1.5e7): ["5×10⁶", "1×10⁷", "1.5×10⁷"],
    (200000, 400000): ["200000", "400000"],
    (0.00005, 0.0001): ["0.00005", "0.0001"],
    (-0.30000000000000004, 0, 0.1): ["-0.3", "0", "0.1"],
    (1e15, 1e15 + 1): ["1000000000000000", "1000000000000000"],  # the precision of a double
    (0.123456,): ["0.123"],
}


def test_ticks_have_as_few_digits_as_distinguish_them(page):
    page.goto("about:blank")
    script = f"(ticks) => ticks.map((tick, index) => {{ {SHORT_NUMBER} }})"
    assert {ticks: page.evaluate(script, list(ticks)) for ticks in TICKS} == TICKS
