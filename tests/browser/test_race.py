"""Races in Chromium: run, replay, queue and close, while the lab is paused."""

from __future__ import annotations

import pytest

from tests.browser.conftest import LAPTOP
from tests.browser.lab_page import OPENING, LabPage
from tests.browser.layout import comes, resize

pytestmark = pytest.mark.extended

SMALL = ((1000, 560), (800, 600), (844, 390), (390, 844))  # px of windows that are too small for the whole card
# Whether the button is at the bottom of the window, uncovered at its centre, without scrolling.
IN_SIGHT = """(node) => {
  const {x, y, width, height, bottom} = node.getBoundingClientRect();
  return bottom <= innerHeight && bottom > innerHeight - 24 &&
    node.getRootNode().elementFromPoint(x + width / 2, y + height / 2) == node;
}"""

# Resolve after `times` changes of the element's content.
CHANGED = """(node, times) => new Promise((done) =>
  new MutationObserver(() => --times || done()).observe(node, {childList: true, subtree: true}))"""
HAS_FOCUS = "(node) => node.getRootNode().activeElement === node"


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


def test_a_slow_press_during_a_race_works_and_keeps_the_focus(lab):
    page = lab.page
    page.keyboard.press("Shift+R")
    page.locator(".race [role=status]").wait_for()
    choice = page.locator(".race .choices button").nth(1)
    box = choice.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.locator(".race").evaluate(CHANGED, 3)  # while the progress is updated
    page.mouse.up()
    page.locator(".race .choices button:nth-child(2).on").wait_for()
    close = page.get_by_role("button", name="Close the race")
    close.focus()
    page.locator(".race article").first.wait_for(timeout=1000 * OPENING)
    assert close.evaluate(HAS_FOCUS)
    page.keyboard.press("Enter")
    page.locator(".race").wait_for(state="hidden")


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
    assert page.locator(".race .setup").get_by_role("button", name="Race these").evaluate(HAS_FOCUS)
    page.locator(".race article").first.wait_for(timeout=1000 * OPENING)
    names = page.locator(".race h3").all_inner_texts()
    assert (names[0], "H200" in names[1], len(names)) == ("Numba, one-step", True, 2)
    for box in ("Numba, one-step", "NumPy", "Numba"):  # the initial choice, for the next test
        setup.get_by_role("checkbox", name=box, exact=True).set_checked(box != "Numba, one-step")
    go.click()
    page.locator(".race [role=status], .race article").first.wait_for()
    lab.key("Shift+R")
    page.locator(".race").wait_for(state="hidden")


def test_a_race_is_queued_behind_another_page_s_while_its_lab_continues(lab, new_page, server):
    other = LabPage(new_page(), server)
    other.until(lambda: "Running" in other.status())
    lab.key("Shift+R")
    lab.page.get_by_role("button", name="10\u202f000 steps").click()
    lab.page.locator(".race [role=status]", has_text="against its own clock").wait_for()
    other.key("Shift+R")
    other.page.get_by_role("button", name="1\u202f000 steps").click()  # no earlier test has raced this
    waits = other.page.get_by_text("Waiting: 1 race before this one")
    waits.wait_for()
    other.steps_on()
    lab.key("Shift+R")
    waits.wait_for(state="hidden", timeout=1000 * OPENING)
    other.still(other.step)
