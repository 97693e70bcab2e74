"""A page opened in a small window shows the picture of each lab, like a page that is made small later."""

from __future__ import annotations

import pytest

from compute.export.link import NAME, packed
from compute.export.scene import Scene
from tests.browser.lab_page import OPENING
from tests.browser.labs import NAMES
from tests.browser.layout import comes, plots

pytestmark = pytest.mark.extended

PHONE, TINY = (390, 844), (320, 240)
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
