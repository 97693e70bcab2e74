"""Races for a complete result: the picture of the Mandelbrot lab, the curve of the L-curve lab."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab_page import OPENING, LabPage
from tests.browser.test_cards import FOCUSED

pytestmark = pytest.mark.extended

SLOW = 2 * OPENING  # s: each lane times several pictures, also NumPy's, on shared cores


@pytest.fixture(scope="module")
def opened(lasting, server):
    return LabPage(lasting(), server)


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    lasting.complain(allowed_errors)


@pytest.mark.parametrize(("name", "unit", "what"), [("Mandelbrot", "row ", "picture"), ("L-curve", "step ", "curve")])
def test_lanes_race_for_a_complete_result(lab, name, unit, what):
    page = lab.page
    lab.show_lab(name)
    page.get_by_role("button", name=re.compile("^Race:")).click()
    page.locator(".race article").first.wait_for(timeout=1000 * SLOW)
    names = page.locator(".race h3").all_inner_texts()
    lab.until(lambda: page.locator(".race .badge.shown").count() == len(names))
    assert {"NumPy", "Numba"} <= set(names)
    said = page.locator(".race").inner_text()
    assert f"{what} agrees" in said
    assert page.locator(".race .count").first.inner_text().startswith(unit)
    assert page.locator(".race img").first.evaluate("image => image.naturalWidth") > 0
    page.keyboard.press("Escape")
    page.locator(".race article").first.wait_for(state="detached")
    lab.until(lambda: (page.evaluate(FOCUSED) or {"name": ""})["name"].startswith("Race:"))  # focus returns
