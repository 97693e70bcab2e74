"""A page opened in a small window shows the picture of each lab, like a page that is made small later."""

from __future__ import annotations

import pytest

from compute.export.link import NAME, packed
from compute.export.scene import Scene
from tests.browser.lab_page import DEEP, OPENING
from tests.browser.labs import NAMES, TITLES
from tests.browser.layout import comes, faults, faults_now, plots

pytestmark = pytest.mark.extended

PHONE, TINY = (390, 844), (320, 240)
ZOOMED = (853, 480)  # a projector of 1280 x 720 at 150 %
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


def test_each_lab_starts_when_its_tab_is_chosen_in_a_small_window(new_page, server):
    """A later tab's lab is built for the actual window; a page's first lab is built for a default size and adapts."""
    page = new_page()
    page.set_viewport_size({"width": ZOOMED[0], "height": ZOOMED[1]})
    page.goto(server.url)
    page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * OPENING)
    for title in ("Mandelbrot", "L-curve", "Diffusion"):
        page.get_by_role("tab", name=title).click()
        words = page.locator(".plot-words").filter(has_text=title)
        assert comes(page, lambda words=words: words.count() > 0), title


# Put the longest possible text into the bar and return the bar's height in px.
SAY = f"""(words) => {{ {DEEP}
  all.find((node) => node.matches('.bar .said')).innerHTML = words;
  return all.find((node) => node.matches('.bar')).getBoundingClientRect().height; }}"""
SLOWER = (
    "<div class='headline cpu'><b class='slower'>3.33×<small> slower</small></b><span>Numba than NumPy</span></div>"
)
TURNED, ONE_LINE = (844, 390), 60  # px: a rotated phone, and the greatest height of a bar of one line


def test_a_rotated_phone_shows_every_lab_completely(new_page, server):
    """Also in presenter mode, whose bar has two lines; otherwise it has one, whatever its text."""
    page, wrong = new_page(), {}
    page.set_viewport_size({"width": TURNED[0], "height": TURNED[1]})
    page.goto(server.url)
    page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * OPENING)
    for title in TITLES:
        page.get_by_role("tab", name=title).click()
        page.locator(f"[role=tab][aria-selected=true]:has-text('{title}')").wait_for()
        assert comes(page, lambda title=title: page.locator(".plot-words").filter(has_text=title).count() > 0)
        if found := faults(page):
            wrong[title] = found
        if (high := page.evaluate(SAY, SLOWER)) > ONE_LINE:
            wrong[title, "bar"] = high
        if found := faults_now(page):
            wrong[title, "slower"] = found
        page.evaluate("document.activeElement?.blur?.()")
        page.keyboard.press("p")
        page.get_by_role("toolbar").get_by_role("button", name="Freeze").wait_for()
        if found := faults(page):
            wrong[title, "presented"] = found
        page.keyboard.press("p")
        page.get_by_role("toolbar").get_by_role("button", name="Freeze").wait_for(state="hidden")
    assert wrong == {}
