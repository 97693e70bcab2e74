"""Stories in Chromium: steps by the keys of a remote control, with the lecturer's changes in between."""

from __future__ import annotations

import re
from html import unescape

import pytest

from compute.lab.lab import control_label
from compute.stories import own_folder, stories_in
from tests.browser.lab_page import DEEP, LabPage
from tests.browser.layout import comes, faults, plots, resize

pytestmark = pytest.mark.extended

STORIES = stories_in((own_folder(),)).stories
AREAS = {
    "picture": "main",
    "controls": ".sidebar",
    "readout": ".contextbar",
    "status": ".status",
    "labs": "[role=tablist]",
}
# Whether the ring is inside the window, around the horizontal centre of its target and overlapping it vertically.
POINTS = f"""([area, label]) => {{ {DEEP}
  const ring = document.querySelector('.story-ring');
  const box = (node) => node.getBoundingClientRect();
  const targets = all.filter((node) => box(node).width && !node.closest('.story') && (area ? node.matches(area) :
    node.getAttribute('aria-label') == label || !node.children.length && node.textContent.trim() == label));
  if (!ring || ring.style.display == 'none') return false;
  const {{ left, top, right, bottom }} = box(ring);
  return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight && targets.some((node) => {{
    const at = box(node), x = (at.left + at.right) / 2;
    return left <= x && x <= right && at.top < bottom && at.bottom > top;
  }});
}}"""


PHONE, TURNED = (390, 844), (844, 390)
ONE_A_LAB = (
    *(
        "The chequerboard at r = 1/4",
        "Where float64 ends",
        "The L-curve's corner, and when it lies",
        "When a GPU is not faster",
    ),
    "Through a wall",
)
RING = "document.querySelector('.story-ring').style.display"
LOOKED_AT = 0.7  # s within which the page locates a step's target


@pytest.fixture
def teller(opened: LabPage, lasting, allowed_errors):
    """Yield the shared tab with the list of stories next to the running diffusion lab."""
    lab = opened
    lab.page.get_by_role("tab", name="Diffusion").click()
    lab.until(lambda: lab.step() >= 0)

    def running() -> bool:
        """Return whether the lab runs; the end of an earlier test's story may pause it once more."""
        if lab.still(lambda: "Paused" in lab.status(), 0.5):
            lab.key(" ")
            lab.page.wait_for_timeout(2000)  # ms
        return "Running" in lab.status() and lab.step() > 0  # not the first step of a story

    lab.until(running)
    story = lab.list_stories()
    yield lab
    if story.is_visible():
        lab.key("t")
        story.wait_for(state="hidden")
    lasting.complain(allowed_errors)


def begin(lab, title):
    lab.page.locator(".story button", has_text=title).click()
    lab.page.locator(".story .text").wait_for()


def title(lab):
    """Return the heading of the step, with plain spaces."""
    return " ".join(lab.page.locator(".story h3").inner_text().split())


def left(lab):
    """Return whether the page reports that the state has left the step."""
    return lab.page.locator(".story button.away").count() == 1


def test_a_step_is_restored_after_the_lecturers_changes(teller):
    lab, page = teller, teller.page
    begin(lab, "The chequerboard")
    lab.until(lambda: "Paused" in lab.status() and lab.step() == 0)
    lab.until(lambda: title(lab) == "A bump with a chequerboard on it")
    lab.until(lambda: lab.field()["pixels"] == 256**2)

    page.keyboard.press("PageDown")
    lab.until(lambda: "Running" in lab.status() and lab.fact("r") == 0.25 and lab.step() > 20)
    lab.until(lambda: title(lab) == "r = 1/4: it never fades")
    page.locator(".story-ring").wait_for()  # around the slider
    assert not left(lab)

    lab.ratio(0)
    lab.until(lambda: left(lab))
    lab.key("b")
    lab.until(lambda: lab.fact("r") == 0.25 and not left(lab))
    lab.until(lambda: title(lab) == "r = 1/4: it never fades")

    page.keyboard.press("PageUp")
    lab.until(lambda: "Paused" in lab.status() and lab.fact("r") == 0.2 and lab.step() == 0)


def test_a_story_shows_its_lab_and_returns_the_keys_when_it_is_closed(teller):
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
    before = lab.fact("zoom")
    lab.key("+")  # keys are processed in order
    lab.until(lambda: lab.fact("zoom") > before)
    assert "1.0e14" not in lab.still(lab.status, 0.5)


def heading(step):
    """Return the heading of a step's text, with plain spaces."""
    return " ".join(unescape(re.sub("<[^>]+>", "", re.search("<h3>(.*?)</h3>", step.html)[1])).split())


def shows(lab, step):
    """Wait until the step's text and its lab are shown."""
    lab.until(lambda: title(lab) == heading(step))
    lab.page.locator("[role=tab][aria-selected=true]", has_text=step.scene.kind.TITLE).wait_for()


@pytest.mark.parametrize("size", [PHONE, TURNED], ids=["upright", "turned"])
def test_a_phone_shows_a_story_next_to_its_picture(teller, size):
    """One story of each lab."""
    lab, page = teller, teller.page
    usual, wrong = page.viewport_size, {}
    resize(page, *size)
    try:
        chosen = [story for story in STORIES if story.title in ONE_A_LAB]
        assert {story.lab for story in chosen} == {story.lab for story in STORIES}
        for story in chosen:
            begin(lab, story.title)
            shows(lab, story.steps[0])
            if not comes(page, lambda: plots(page) and min(plots(page)[0]) >= 200):
                wrong[story.title, "picture"] = plots(page)
            if found := faults(page):
                wrong[story.title] = found
            page.locator(".story").get_by_role("button", name="All stories").click()
            page.locator(".story li").first.wait_for()
    finally:
        resize(page, usual["width"], usual["height"])
    assert wrong == {}


def test_a_closed_side_bar_has_no_ring(teller):
    """Parts of a closed side bar, left of the window, report themselves as visible."""
    lab, page = teller, teller.page
    usual = page.viewport_size
    resize(page, *PHONE)
    try:
        begin(lab, "Why a GPU is faster")
        lab.until(lambda: page.evaluate(RING) == "block")  # around the measurement
        page.keyboard.press("ArrowRight")  # to a step that points at a list in the side bar
        assert comes(page, lambda: title(lab).startswith("NumPy"))
        lab.until(lambda: lab.still(lambda: page.evaluate(RING), 3 * LOOKED_AT) == "none")
    finally:
        resize(page, usual["width"], usual["height"])


def test_every_step_of_every_story_shows_its_lab_and_rings_its_target(teller):
    lab, page = teller, teller.page
    for story in STORIES:
        begin(lab, story.title)
        for number, step in enumerate(story.steps):
            if number:
                page.keyboard.press("PageDown")
            shows(lab, step)
            area = AREAS.get(step.points, "")
            target = [area, "" if area else control_label(step.scene.kind, step.points, step.scene.values)]
            lab.until(lambda target=target: page.evaluate(POINTS, target))
            assert not lab.still(lambda: left(lab), 0.6)
            assert "stopped" not in lab.status()
        page.locator(".story").get_by_role("button", name="All stories").click()
        page.locator(".story li").first.wait_for()
