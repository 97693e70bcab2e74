"""Stories in Chromium: steps by the keys of a remote control, with the lecturer's changes in between."""

from __future__ import annotations

import re
from html import unescape

import pytest

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


NARROW = (800, 600)
PHONE, TURNED = (390, 844), (844, 390)
ONE_A_LAB = ("The chequerboard", "Where float64 ends", "The L-curve's corner", "When a GPU is not faster")
LEAST = {PHONE: (0.85 * PHONE[0], 200), TURNED: (200, 200)}  # px of width and height of the main picture
MOST = {PHONE: (1.0, 0.45), TURNED: (0.45, 1.0)}  # largest share of the window's width and height for a story
# Boxes in px of the page's first plot, the story and its text; the number of its buttons, and the elements that cover
# some of them; whether the text scrolls, and its tabIndex.
LAYOUT = f"""() => {{ {DEEP}
  const box = (node) => {{
    const {{left, top, right, bottom}} = node.getBoundingClientRect();
    return [left, top, right, bottom];
  }};
  const visible = (node) => node.checkVisibility({{ visibilityProperty: true }});
  const seen = (test) => all.filter((node) => node.matches(test) && visible(node));
  const inColumn = (node) => {{ for (let one = node; one; one = one.parentElement ?? one.getRootNode().host)
    if (one.classList.contains('contextbar')) return true;
    return false; }};
  const picture = seen('.bk-Figure').find((node) => node.getBoundingClientRect().width > 2 && !inColumn(node));
  const story = seen('.story')[0], deepest = (x, y) => {{
    let node = document.elementFromPoint(x, y);
    for (let inner; node?.shadowRoot && (inner = node.shadowRoot.elementFromPoint(x, y)) && inner !== node;)
      node = inner;
    return node;
  }};
  const free = (node) => {{ const [left, top, right, bottom] = box(node);
    return [[left + 4, top + 4], [right - 4, bottom - 4]].every(([x, y]) => node.contains(deepest(x, y))); }};
  const buttons = [...story.querySelectorAll('header button, nav button')];
  const text = story.querySelector('.text');
  const covered = buttons.filter((one) => !free(one)).map((one) => {{      // by what, such as a note, which goes
    const [left, top] = box(one);
    return deepest(left + 4, top + 4)?.outerHTML.slice(0, 99);
  }});
  return {{picture: picture ? box(picture) : null, story: box(story), covered, buttons: buttons.length, text: box(text),
    scrolls: text.scrollHeight > text.clientHeight + 1, tab: text.tabIndex}};
}}"""
RING = "document.querySelector('.story-ring').style.display"
LOOKED_AT = 0.7  # s within which the page locates a step's target
IN_BAR = """() => { const ring = document.querySelector('.story-ring');
  return ring.style.display == 'block' && ring.getBoundingClientRect().bottom > innerHeight - 60; }"""
COUNT_SCROLLS = """() => { const before = Element.prototype.scrollIntoView;
  window.scrolls = 0;
  Element.prototype.scrollIntoView = function (...given) { window.scrolls++; before.apply(this, given); }; }"""


@pytest.fixture
def teller(opened: LabPage, lasting, allowed_errors):
    """Yield the shared tab with the list of stories next to the running diffusion lab."""
    lab, story = opened, opened.page.locator(".story")
    lab.page.get_by_role("tab", name="Diffusion").click()
    lab.until(lambda: lab.step() >= 0)
    if "Paused" in lab.status():
        lab.key(" ")
    lab.until(lambda: "Running" in lab.status() and lab.step() > 0)  # not the first step of a story
    lab.key("t")
    story.locator("li, .text").first.wait_for()
    if story.locator(".text").count():  # the story of the previous test
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


def test_a_step_keeps_values_that_the_story_does_not_set(teller):
    lab = teller
    begin(lab, "The chequerboard")
    lab.until(lambda: "Paused" in lab.status() and lab.step() == 0)
    lab.group("Compute")
    lab.choose("Number type", "float64")
    lab.until(lambda: lab.settings()["Number type"] == "float64")
    lab.key("ArrowRight")
    lab.until(lambda: lab.fact("r") == 0.25 and lab.step() > 0)
    assert lab.settings()["Number type"] == "float64"
    lab.key("b")  # restores the whole state
    lab.until(lambda: lab.settings()["Number type"] == "float32")


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


def test_a_control_in_the_fixed_bar_is_not_scrolled_to_repeatedly(teller):
    """The bar is fixed: once the control is visible, scrolling has no effect."""
    lab, page = teller, teller.page
    size = page.viewport_size
    resize(page, *NARROW)  # small enough for the controls to be in the bar
    try:
        begin(lab, "The chequerboard")  # its first step points at r
        lab.until(lambda: page.evaluate(IN_BAR))
        lab.still(lambda: page.evaluate("scrollY"), LOOKED_AT)
        page.evaluate(COUNT_SCROLLS)
        assert lab.still(lambda: page.evaluate("window.scrolls"), 3 * LOOKED_AT) == 0
    finally:
        resize(page, size["width"], size["height"])


def apart(one, other):
    """Return whether two boxes (left, top, right, bottom) do not overlap."""
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def wrong_beside_the_picture(page, size):
    """Return the failed conditions for reading a story next to its picture in a window of `size`; [] if all are met."""
    now, (wide, high) = page.evaluate(LAYOUT), size
    picture, story = now["picture"], now["story"]
    if picture is None:
        return ["no picture"]
    inside = [0 <= x <= wide and 0 <= y <= high for x, y in (picture[:2], picture[2:], story[:2], story[2:])]
    least, most = LEAST[size], MOST[size]
    large = all(picture[i + 2] - picture[i] >= least[i] for i in (0, 1))
    small = all(story[i + 2] - story[i] <= most[i] * size[i] + 1 for i in (0, 1))
    found = {
        "apart": apart(picture, story),
        "in the window": all(inside),
        "a large picture": large,
        "a small story": small,
        "buttons": now["buttons"] == 5 and not now["covered"],
        "three lines of text": now["text"][3] - now["text"][1] >= 66,
        "scrolled by the keyboard": not now["scrolls"] or now["tab"] == 0,
    }
    return [f"not {name}: {now}" for name, fine in found.items() if not fine]


@pytest.mark.parametrize("size", [PHONE, TURNED], ids=["upright", "turned"])
def test_a_phone_shows_a_story_next_to_its_picture(teller, size):
    lab, page = teller, teller.page
    usual, wrong = page.viewport_size, {}
    resize(page, *size)
    try:
        for story in (one for one in STORIES if one.title in ONE_A_LAB):
            begin(lab, story.title)
            for number, step in enumerate(story.steps[:2]):
                shows(lab, step)
                lab.still(lambda: plots(page), 0.6)  # the step's view may follow its text
                if not comes(page, lambda: not wrong_beside_the_picture(page, size)):
                    wrong[story.title, number] = wrong_beside_the_picture(page, size)
                if found := faults(page):
                    wrong[story.title, number, "page"] = found
                page.keyboard.press("ArrowRight")
            page.locator(".story").get_by_role("button", name="All stories").click()
            page.locator(".story li").first.wait_for()
        page.locator(".story").get_by_role("button", name="Close the story").click()
        page.locator(".story").wait_for(state="hidden")
        assert comes(page, lambda: not page.locator(".contextbar").is_visible())
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
            target = [area, "" if area else step.scene.kind.param[step.points].label]
            lab.until(lambda target=target: page.evaluate(POINTS, target))
            assert not lab.still(lambda: left(lab), 0.6)
            assert "stopped" not in lab.status()
        page.locator(".story").get_by_role("button", name="All stories").click()
        page.locator(".story li").first.wait_for()
