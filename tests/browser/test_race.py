"""Races in Chromium: run, replay and close, while the lab is paused; the choice of lanes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LAPTOP
from tests.browser.lab_page import OPENING
from tests.browser.layout import comes, resize
from tests.browser.test_cards import FOCUSED

pytestmark = pytest.mark.extended

SMALL = ((1000, 560), (800, 600), (844, 390), (390, 844))  # px of windows that are too small for the whole card
# Whether the button is at the bottom of the window, uncovered at its centre, without scrolling.
IN_SIGHT = """(node) => {
  const {x, y, width, height, bottom} = node.getBoundingClientRect();
  return bottom <= innerHeight && bottom > innerHeight - 24 &&
    node.getRootNode().elementFromPoint(x + width / 2, y + height / 2) == node;
}"""


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    lasting.complain(allowed_errors)


def test_a_race_is_run_replayed_and_closed(lab):
    page = lab.page
    page.keyboard.press("Shift+R")
    page.locator(".race article").first.wait_for(timeout=1000 * OPENING)
    names = page.locator(".race h3").all_inner_texts()
    assert names[:2] == ["NumPy", "Numba"]
    recorded = page.locator(".race article.recorded")
    assert recorded.count() == 1  # a recording with the initial grid exists
    assert "H200" in recorded.locator("h3").inner_text()
    resting = lab.still(lab.step)
    lab.until(lambda: page.locator(".race .badge.shown").count() == len(names))
    ranks = sorted(page.locator(".race .badge").all_inner_texts())
    assert ranks == [str(number + 1) for number in range(len(names))]
    lab.until(lambda: "agrees" in page.locator(".race").inner_text())
    assert lab.step() == resting

    try:
        for size in SMALL:
            resize(page, *size)
            slower = page.get_by_role("button", name="Slow motion")
            assert comes(page, lambda slower=slower: slower.evaluate(IN_SIGHT)), size
    finally:
        resize(page, *LAPTOP)
    page.get_by_role("button", name="Slow motion").click()
    lab.until(lambda: "slowed" in page.locator(".race .caption").inner_text())
    lab.key("Shift+R")
    page.locator(".race article").first.wait_for(state="detached")
    lab.until(lambda: "Running" in lab.status() and lab.step() > resting)


def test_lanes_and_a_simulated_time_are_chosen_with_the_keyboard(lab):
    page = lab.page
    lab.key("Shift+R")
    setup = page.locator(".race .setup")
    go = setup.get_by_role("button", name="Race these")
    go.wait_for()
    kernel = setup.get_by_role("checkbox", name="Numba, one-step")
    assert not kernel.is_checked()
    for name in ("Numba", "NumPy"):  # Space toggles a checkbox that was reached with Tab
        setup.get_by_role("checkbox", name=name, exact=True).focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        page.keyboard.press(" ")
    assert go.is_disabled()
    setup.locator(".hint", has_text="Choose 2 to 4 lanes").wait_for()
    kernel.check()
    setup.get_by_role("combobox", name="Finish").select_option("20")
    go.focus()
    page.keyboard.press("Enter")
    page.locator(".race h2", has_text="to t = 20 Δx²/D, 100 steps").wait_for()
    expect(page.locator(".race .setup").get_by_role("button", name="Race these")).to_be_focused()
    page.locator(".race article").first.wait_for(timeout=1000 * OPENING)
    names = page.locator(".race h3").all_inner_texts()
    assert (names[0], "H200" in names[1], len(names)) == ("Numba, one-step", True, 2)
    lab.key("Shift+R")
    page.locator(".race").wait_for(state="hidden")


@pytest.mark.parametrize(("name", "unit", "what"), [("Mandelbrot", "row ", "picture"), ("L-curve", "step ", "curve")])
def test_lanes_race_for_a_complete_result(lab, name, unit, what):
    page = lab.page
    lab.show_lab(name)
    page.get_by_role("button", name=re.compile("^Race:")).click()
    page.locator(".race article").first.wait_for(timeout=2000 * OPENING)
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
