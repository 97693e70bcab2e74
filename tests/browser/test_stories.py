"""A story in a real Chromium: its steps by a remote's keys, and a lecturer who plays in between."""

from __future__ import annotations

import pytest

from tests.browser.lab_page import LabPage


@pytest.fixture
def teller(opened: LabPage, lasting, allowed_errors):
    """The list of stories in the tab that all tests of this file share, beside the diffusion lab, which runs."""
    lab, story = opened, opened.page.locator(".story")
    lab.page.get_by_role("tab", name="Diffusion").click()
    lab.until(lambda: lab.step() >= 0)
    if "Paused" in lab.status():
        lab.key(" ")
    lab.until(lambda: "Running" in lab.status() and lab.step() > 0)  # no story's first step
    lab.key("t")
    story.locator("li, .text").first.wait_for()
    if story.locator(".text").count():  # that of the test before
        story.get_by_role("button", name="All stories").click()
    story.locator("li").first.wait_for()
    yield lab
    if story.is_visible():
        lab.key("t")
        story.wait_for(state="hidden")
    lasting.complain(allowed_errors)


def begin(lab, title):
    lab.page.locator(".story button", has_text=title).click()
    lab.page.locator(".story .text").wait_for()


def told(lab):
    """The heading of the step, with plain spaces."""
    return " ".join(lab.page.locator(".story h3").inner_text().split())


def left(lab):
    """Whether the page says that the step was left."""
    return lab.page.locator(".story button.away").count() == 1


def test_a_story_leads_and_the_lecturer_plays_in_between(teller):
    lab, page = teller, teller.page
    begin(lab, "The chequerboard")
    lab.until(lambda: "Paused" in lab.status() and lab.step() == 0)
    lab.until(lambda: told(lab) == "A bump with a chequerboard on it")
    lab.until(lambda: lab.field()["pixels"] == 256**2)

    page.keyboard.press("PageDown")
    lab.until(lambda: "Running" in lab.status() and lab.fact("r") == 0.25 and lab.step() > 20)
    lab.until(lambda: told(lab) == "r = 1/4: it never fades")
    page.locator(".story-ring").wait_for()  # round the slider
    assert not left(lab)

    lab.ratio(0)
    lab.until(lambda: left(lab))
    lab.key("b")
    lab.until(lambda: lab.fact("r") == 0.25 and not left(lab))
    lab.until(lambda: told(lab) == "r = 1/4: it never fades")

    page.keyboard.press("PageUp")
    lab.until(lambda: "Paused" in lab.status() and lab.fact("r") == 0.2 and lab.step() == 0)


def test_a_step_leaves_what_the_story_does_not_name(teller):
    lab = teller
    begin(lab, "The chequerboard")
    lab.until(lambda: "Paused" in lab.status() and lab.step() == 0)
    lab.group("Compute")
    lab.choose("Number type", "float64")
    lab.until(lambda: lab.settings()["Number type"] == "float64")
    lab.key("ArrowRight")
    lab.until(lambda: lab.fact("r") == 0.25 and lab.step() > 0)
    assert lab.settings()["Number type"] == "float64"
    lab.key("b")  # the whole state
    lab.until(lambda: lab.settings()["Number type"] == "float32")


def test_a_story_about_another_lab_shows_it_and_keys_are_the_labs_again_when_it_is_closed(teller):
    lab, page = teller, teller.page
    begin(lab, "Where float64 ends")
    lab.until(lambda: "zoom 1.0 pixel" in lab.status())
    lab.until(lambda: "Complete" in lab.status())
    page.keyboard.press("ArrowRight")
    lab.until(lambda: "zoom 1.0e14" in lab.status() and "float64 exhausted" in lab.status())
    lab.key("t")
    page.locator(".story").wait_for(state="hidden")
    page.keyboard.press("0")
    lab.until(lambda: "exhausted" not in lab.status() and "1.0e14" not in lab.status())
    page.keyboard.press("PageDown")
    page.wait_for_timeout(500)
    assert "1.0e14" not in lab.status()
