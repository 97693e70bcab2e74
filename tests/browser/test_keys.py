"""The page's keyboard shortcuts with different focused elements."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from tests.browser.lab_page import PAINTED, LabPage
from tests.browser.test_diffusion import DRAGGED

BACK, CHECKPOINT = "Restore checkpoint", "Save checkpoint"


@pytest.fixture
def lab(lab):
    lab.pause()
    return lab


def png(width, height):
    file = io.BytesIO()
    Image.fromarray(np.uint8(np.tile(np.linspace(0, 255, width), (height, 1)))).save(file, "PNG")
    return file.getvalue()


def give(lab, name, data):
    lab.choose_file(lab.page.locator("label").filter(has=lab.page.locator("input[type=file]")), name, data)


def plays(lab):
    """Press Space twice: the paused lab runs, then pauses."""
    before = lab.step()
    lab.page.keyboard.press("Space")
    lab.until(lambda: "Running" in lab.status() and lab.step() > before)
    lab.page.keyboard.press("Space")
    lab.until(lambda: "Paused" in lab.status())


HAS_FOCUS = """(element) => {
  let node = document.activeElement;
  while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
  return node == element || element.contains(node);
}"""


def tab_to(lab, locator):
    """Press Tab until the element or a descendant has the focus, as keyboard users do."""
    for _ in range(80):
        lab.page.keyboard.press("Tab")
        if locator.evaluate(HAS_FOCUS):
            return
    raise AssertionError(f"Tab does not lead to {locator}")


def test_a_dialog_keeps_space(lab):
    lab.key("h")
    dialog = lab.page.get_by_role("dialog").filter(has_text="Keys and pointer")
    dialog.wait_for()
    dialog.get_by_role("button").first.focus()
    lab.page.keyboard.press("Space")
    dialog.wait_for(state="hidden")
    assert lab.still(lambda: "Paused" in lab.status(), 1)


def test_a_held_key_counts_once(lab):
    at = lab.step()
    lab.page.evaluate("document.activeElement?.blur?.()")
    lab.page.keyboard.down("s")
    for _ in range(4):
        lab.page.keyboard.down("s")  # Playwright marks these as repeated
    lab.page.keyboard.up("s")
    lab.key("s")  # keys are processed in order
    lab.until(lambda: lab.step() >= at + 2)
    assert lab.still(lab.step, 0.5) == at + 2


def test_space_runs_and_pauses_while_a_button_has_the_focus_and_enter_presses_it(lab):
    """Regression: after "Restore checkpoint", Space repeated that button and discarded an image."""
    lab.page.get_by_label(CHECKPOINT).click()
    lab.group("Field")
    give(lab, "ramp.png", png(64, 64))
    lab.until(lambda: lab.field()["most"] <= 1.0 and lab.page.get_by_text("Your image (ramp.png)").count())
    lab.page.get_by_label(BACK).focus()
    plays(lab)
    lab.until(lambda: lab.page.get_by_text("Your image (ramp.png)").count())
    lab.pause()  # waits until the step is constant
    at = lab.step()
    assert at > 0
    lab.page.get_by_label(BACK).focus()
    lab.page.keyboard.press("Enter")
    lab.until(lambda: lab.page.get_by_text("Your image (ramp.png)").count() == 0)
    lab.page.keyboard.press("Control+z")
    lab.until(lambda: lab.page.get_by_text("Your image (ramp.png)").count())
    lab.until(lambda: lab.step() == at)


def test_space_toggles_a_switch_after_tab_but_not_after_a_click(lab):
    lab.group("Display")
    switch = lab.page.get_by_label("Reverse palettes").first
    switch.click()
    assert switch.is_checked()
    plays(lab)
    assert switch.is_checked()
    tab_to(lab, switch)
    lab.page.keyboard.press("Space")
    lab.until(lambda: not switch.is_checked())
    assert lab.still(lambda: "Paused" in lab.status(), 1)


def test_space_opens_a_list_after_tab_but_not_after_a_click(lab):
    lab.choose("Initial field", "ring")
    plays(lab)
    assert lab.page.locator("ul[role=listbox], ul[role=menu]").count() == 0
    tab_to(lab, lab.page.get_by_role("combobox", name="Initial field", exact=True))
    lab.page.keyboard.press("Space")  # Space opens a list focused with Tab
    lab.page.get_by_role("menuitem", name="gaussian", exact=True).wait_for()
    at = lab.step()
    lab.page.keyboard.press("s")  # letters select an entry
    lab.page.keyboard.press("Escape")
    lab.page.get_by_role("menuitem").first.wait_for(state="detached")
    assert lab.still(lambda: (lab.step(), "Paused" in lab.status()), 1) == (at, True)
    lab.choose("Initial field", "hot spots")


def test_a_slider_handles_arrow_keys_but_not_space(lab):
    thumb = lab.page.get_by_role("slider", name="r = D Δt / Δx²").first
    thumb.focus()
    lab.page.keyboard.press("ArrowLeft")
    lab.until(lambda: lab.fact("r") == 0.195)
    plays(lab)
    thumb.focus()
    lab.page.keyboard.press("ArrowRight")
    lab.until(lambda: lab.fact("r") == 0.2)


def test_a_text_field_handles_every_key(lab):
    lab.choose("Initial field", "text")
    field = lab.page.get_by_label("Text", exact=True).first
    field.click()
    lab.page.keyboard.press("End")
    lab.page.keyboard.type(" rs")
    assert field.input_value() == "Fieldlab rs"
    lab.page.keyboard.press("Control+z")
    assert field.input_value() != "Fieldlab rs"  # the field's undo
    assert lab.still(lambda: "Paused" in lab.status(), 1)
    lab.choose("Initial field", "hot spots")


def test_a_reset_and_strokes_are_undone_and_redone(page, server):
    lab = LabPage(page, server)
    lab.pause()
    rested = lab.step()
    lab.page.keyboard.press("Space")
    lab.until(lambda: "Running" in lab.status() and lab.step() > rested)
    lab.pause()
    at = lab.step()
    assert lab.page.get_by_label("Undo (Ctrl+Z): nothing to undo").is_disabled()
    lab.key("r")
    lab.until(lambda: lab.step() == 0)
    lab.page.get_by_label("Undo: back to hot spots at step").wait_for()
    lab.page.keyboard.press("Control+z")
    lab.until(lambda: lab.step() == at)
    lab.page.keyboard.press("Control+Shift+z")
    lab.until(lambda: lab.step() == 0)
    plain = lab.at_rest()["mean"]
    lab.group("Field")
    lab.page.get_by_role("button", name="Paint", exact=True).click()
    box = lab.page.locator(".bk-Figure").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    lab.until(lambda: lab.page.evaluate(DRAGGED) is None)
    means = [plain]
    for down in (0, 40):  # two strokes of several requests each
        lab.page.mouse.move(x, y + down)
        lab.page.mouse.down()
        for right in range(0, 90, 10):
            lab.page.mouse.move(x + right, y + down)
            lab.page.evaluate(PAINTED)
        lab.page.mouse.up()
        lab.until(lambda: lab.field()["mean"] > means[-1])
        means.append(lab.still(lab.field, 4.0)["mean"])  # a busy machine may pause within a stroke, too
    for mean in (means[1], plain):
        lab.page.keyboard.press("Control+z")
        lab.until(lambda mean=mean: lab.field()["mean"] == mean)
    lab.page.keyboard.press("Control+Shift+z")
    lab.until(lambda: lab.field()["mean"] == means[1])


def test_a_rejected_file_is_reported_with_the_reason(lab):
    lab.group("Field")
    give(lab, "notimg.png", b"not a picture at all")
    lab.page.get_by_role("alert").get_by_text("image must be a PNG or JPEG file").wait_for()
    lab.page.get_by_text("Rejected: notimg.png").wait_for()
    assert lab.page.get_by_text("Uploaded").count() == 0  # the browser's check mark
    give(lab, "wide.png", png(128, 64))
    lab.page.get_by_text("Image: wide.png").wait_for()
    lab.page.get_by_text("the middle 64 × 64 of 128 × 64 pixels").wait_for()
    image = lab.at_rest()["mean"]
    lab.key("s")
    lab.until(lambda: lab.step() == 1)
    lab.key("r")
    lab.until(lambda: lab.step() == 0)
    lab.until(lambda: lab.field()["mean"] == pytest.approx(image, abs=1e-3))
    lab.until(lambda: lab.page.get_by_text("Your image (wide.png)").count())
