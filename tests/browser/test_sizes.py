"""From a phone to a 4K screen, and zoomed: no text or control is cut, covered, too small or overlapping.

The picture is the largest plot, and the headline and its sentence are legible. A zoom of 150 or 200 % corresponds to a
window with as many fewer CSS pixels. One page is resized for all tests. The lab is paused after the first size, or its
curve grows at the highest rate, to save CPU time.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from compute.export.link import NAME, packed
from compute.export.scene import Scene
from tests.browser.curve_page import FAST, CurvePage
from tests.browser.lab_page import OPENING, LabPage
from tests.browser.labs import NAMES, TITLES
from tests.browser.layout import LAYOUT, comes, faults, plots, readout_fits, resize, unread

pytestmark = pytest.mark.extended

PHONE, TINY = (390, 844), (320, 240)
SIZES = {
    "laptop": (1280, 720),
    "projector at 150 %": (853, 480),
    "full HD at 200 %": (960, 540),
    "small": (800, 600),
    "full HD": (1920, 1080),
    "4K": (3840, 2160),
    "XGA": (1024, 768),
    "laptop at 150 %": (911, 512),
    "turned phone": (844, 390),
    "phone": PHONE,
}
PRESENTED = ("laptop", "small", "full HD", "projector at 150 %", "full HD at 200 %", "turned phone", "phone")
LARGE, LARGER = 18, 22  # px of the sentence's type at least; in presenter mode from the back row
LOW = 400  # px of height of a window below which the sentence has no room
BACK_ROW = 700  # px of height of a window whose sentence is read from there; a zoomed page has fewer, larger pixels


@pytest.fixture
def at(opened: LabPage):
    """Return at(lab), which shows a lab on the page shared by all tests of this file."""

    def show(lab: str) -> LabPage:
        resize(opened.page, *SIZES["laptop"])
        opened.show_lab(lab)
        opened.until(lambda: len(plots(opened.page)) > 0)
        if lab == "L-curve":
            curve = CurvePage.of(opened.page)
            curve.grow(FAST)
            curve.page.get_by_label("Growth").first.blur()  # a focused slider shows its value in a tip
        opened.transitions()
        return opened

    return show


def first_is_largest(page: Page) -> bool:
    """Return whether the first plot is the largest one, within five per cent."""
    areas = [width * height for width, height in plots(page)]
    return bool(areas) and areas[0] >= 0.95 * max(areas)


def faults_at(page: Page, name: str, least: float) -> dict[str, object]:
    """Resize the window to SIZES[name]; return what is wrong there. least: px of the sentence's type."""
    wrong: dict[str, object] = {}
    resize(page, *SIZES[name])
    if found := faults(page):
        wrong[name] = found
    if not comes(page, lambda: first_is_largest(page)):
        wrong[f"plots, {name}"] = plots(page)
    if SIZES[name][1] >= LOW and not comes(page, lambda: not unread(page, least)):
        wrong[f"unread, {name}"] = unread(page, least)
    return wrong


@pytest.mark.parametrize("lab", TITLES)
def test_nothing_is_cut_and_the_first_plot_is_the_largest(at, lab):
    """No text is covered, small or overlapping, whichever group of controls is open; a phone shows the plot's width."""
    shown = at(lab)
    page = shown.page
    assert faults_at(page, "laptop", LARGE) == {}
    if lab == "Diffusion":
        shown.key(" ")  # otherwise frames use most of the time
        shown.until(lambda: "Paused" in shown.status())
    groups = [button.inner_text().strip() for button in page.locator("nav button[aria-expanded]").all()]
    for group in groups:
        shown.group(group)
        assert faults(page) == [], group
    shown.group(groups[0])
    for name in list(SIZES)[1:]:
        assert faults_at(page, name, LARGE) == {}
    page.get_by_role("toolbar").get_by_role("button").first.wait_for()
    assert comes(page, lambda: plots(page)[0][0] > 0.85 * PHONE[0]), plots(page)


@pytest.mark.parametrize("lab", TITLES)
def test_presenter_mode_cuts_nothing_and_is_legible_from_the_back_row(at, lab):
    shown = at(lab)
    page = shown.page
    shown.key("p")
    page.get_by_role("toolbar").wait_for()
    try:
        for name in PRESENTED:
            back = SIZES[name][1] >= BACK_ROW and SIZES[name] != PHONE
            assert faults_at(page, name, LARGER if back else LARGE) == {}
    finally:
        shown.key("p")
        shown.until(lambda: not page.locator(".bar.presenting").count())


@pytest.mark.parametrize("presenting", [False, True])
def test_the_header_fits_into_each_width_at_which_it_does_not_scroll(at, presenting):
    shown = at("Diffusion")
    page = shown.page
    beyond = "(all) => all.filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.ariaLabel)"
    if presenting:
        shown.key("p")
        page.get_by_role("toolbar").wait_for()
    try:
        for width in (840, 940, 1024, 1100, 1239, 1240, 1279, 1280, 1366):
            resize(page, width, 768)
            found = page.locator("header [role=tab], header button")
            assert found.count() > len(TITLES) + 5
            assert comes(page, lambda found=found: not found.evaluate_all(beyond)), (width, found.evaluate_all(beyond))
    finally:
        if presenting:
            shown.key("p")
            shown.until(lambda: not page.locator(".bar.presenting").count())


@pytest.mark.parametrize("presenting", [False, True])
def test_the_plot_of_the_second_panel_fits(at, presenting):
    """It is next to the picture or below it, not larger, and not a strip; on a phone also below the editor."""
    shown = at("Equations")
    page = shown.page
    keys = ("v", "f", "p") if presenting else ("v", "f")
    shown.key("v")
    try:
        assert faults_at(page, "phone", LARGE) == {}
        assert comes(page, lambda: len(plots(page)) == 2)
        for key in keys[1:]:
            shown.key(key)
        shown.until(lambda: page.locator(".bar.presenting").count() == presenting)
        for name in PRESENTED if presenting else SIZES:
            back = presenting and SIZES[name][1] >= BACK_ROW and SIZES[name] != PHONE
            assert faults_at(page, name, LARGER if back else LARGE) == {}
            assert comes(page, lambda: len(plots(page)) == 2), name
            assert comes(page, lambda least=SIZES[name][1] / 8: plots(page)[1][1] >= least), (name, plots(page))
    finally:
        for key in (*keys[1:], "v", "v", "v"):
            shown.key(key)
        shown.until(lambda: not page.locator(".bar.presenting").count())


# How many equations are wider than the text around them.
WIDER = """(equations) => equations.filter((one) =>
  one.getBoundingClientRect().width > one.parentElement.clientWidth).length"""


@pytest.mark.parametrize("lab", TITLES)
def test_the_right_column_needs_no_scroll_bar(at, lab):
    """With every backend compared and the details folded."""
    shown = at(lab)
    page, wrong = shown.page, []
    resize(page, 1440, 900)
    if lab != "Crossover":  # which measures only on request
        column = page.locator(".contextbar .readout").first
        assert comes(page, lambda: re.search("×|as fast", column.locator(".headline").inner_text()))
    for size in ((1440, 900), (1920, 1080)):
        resize(page, *size)
        if not comes(page, lambda: readout_fits(page)):
            wrong.append((size, page.evaluate(LAYOUT)["readout"]))
    assert wrong == []


def test_a_phone_shows_every_tab_button_and_equation(at):
    page = at("Diffusion").page
    resize(page, *PHONE)
    for lab in TITLES:
        tab = page.get_by_role("tab", name=lab)
        assert comes(page, lambda tab=tab: (b := tab.bounding_box())["x"] >= 0 and b["x"] + b["width"] <= PHONE[0]), lab
    assert page.get_by_role("heading", name="Fieldlab", level=1).count() == 1  # for screen readers
    for name in ("Show results", "Hide results", "Show controls", "Hide controls"):
        page.get_by_role("button", name=name).click()
    for lab in TITLES:
        at(lab)
        resize(page, *PHONE)
        page.get_by_role("button", name="About this lab").click()
        paper = page.get_by_role("dialog").filter(has_text=f"About {lab}")
        paper.get_by_text("In a nutshell").wait_for()
        assert paper.get_by_role("math").evaluate_all(WIDER) == 0
        paper.get_by_role("button", name="close").click()
        paper.wait_for(state="detached")


def test_a_page_opened_on_a_phone_has_picture_and_controls_from_the_start(page, server):
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    lab = LabPage(page, server)
    bar = page.get_by_role("toolbar")
    bar.get_by_role("button", name="Pause", exact=True).click()
    lab.until(lambda: "Paused" in lab.status())
    lab.until(lambda: plots(page) and plots(page)[0][0] > 0.85 * PHONE[0])
    page.get_by_role("button", name="Show controls").click()
    page.get_by_role("button", name="Reset to the initial field (R)").click()  # over the picture, which keeps its size
    lab.until(lambda: lab.step() == 0)
    lab.until(lambda: plots(page)[0][0] > 0.85 * PHONE[0])


# The number of colours in a canvas: text and lines have several, an empty one has one.
COLOURS = """(canvas) => { const {width, height} = canvas;
  const data = width && height ? canvas.getContext('2d').getImageData(0, 0, width, height).data : [];
  return new Set(new Uint32Array(data.buffer ?? [])).size; }"""


@pytest.mark.parametrize("size", [PHONE, TINY], ids=["phone", "tiny"])
def test_a_page_that_is_opened_small_draws_each_lab(new_page, server, size):
    page = new_page()
    page.set_viewport_size({"width": size[0], "height": size[1]})
    wrong = {}
    for lab in NAMES:
        page.goto(f"{server.url}?{NAME}={packed(Scene(lab, {}))}")
        page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * OPENING)
        canvas = page.locator("canvas").filter(visible=True).first
        canvas.wait_for()
        if not comes(page, lambda canvas=canvas: canvas.evaluate(COLOURS) > 8):
            wrong[lab] = "nothing is drawn"
        elif not (seen := plots(page)) or min(seen[0]) < 80:
            wrong[lab] = str(seen)
    assert wrong == {}


def test_a_notice_fits_a_phone(new_page, server):
    page = new_page()
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    values = {"ny": 64, "nx": 64, "backend": "cpu_numba"}
    page.goto(f"{server.url}?{NAME}={packed(Scene('diffusion', values, steps=3))}")
    note = page.locator(".MuiAlert-root", has_text="Restored, at step 3.")
    note.wait_for(timeout=1000 * OPENING)
    box = note.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE[0]
