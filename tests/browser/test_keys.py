"""The page's keyboard shortcuts with different focused elements."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect


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


def tab_to(lab, locator):
    """Press Tab until the element or a descendant has the focus, as keyboard users do."""
    for _ in range(80):
        lab.page.keyboard.press("Tab")
        if locator.evaluate("(element) => element.matches(':focus, :focus-within')"):
            return
    raise AssertionError(f"Tab does not lead to {locator}")


CARDS = {
    "h": "[role=dialog]", "Shift+N": "[role=dialog] table", "u": ".system", "e": ".export-card", "k": ".code-card pre",
    "t": ".story", "q": ".audience", "Shift+R": ".race", "p": "[role=toolbar]",
}  # fmt: skip


def test_a_key_opens_and_closes_each_card(lab):
    for key, selector in CARDS.items():
        card = lab.page.locator(selector).first
        lab.key(key)
        expect(card).to_be_visible()
        lab.key(key)
        expect(card).to_be_hidden()


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
    lab.page.get_by_label("Save checkpoint").click()
    lab.group("Field")
    give(lab, "ramp.png", png(64, 64))
    lab.until(lambda: lab.field()["most"] <= 1.0 and lab.page.get_by_text("Your image (ramp.png)").count())
    lab.page.get_by_label("Restore checkpoint").focus()
    plays(lab)
    lab.until(lambda: lab.page.get_by_text("Your image (ramp.png)").count())
    lab.pause()  # waits until the step is constant
    at = lab.step()
    assert at > 0
    lab.page.get_by_label("Restore checkpoint").focus()
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


def test_a_reset_is_undone_and_redone(lab):
    at = lab.step()
    assert at > 0
    lab.key("r")
    lab.until(lambda: lab.step() == 0)
    lab.page.get_by_label("Undo: back to hot spots at step").wait_for()
    lab.page.keyboard.press("Control+z")
    lab.until(lambda: lab.step() == at)
    lab.page.keyboard.press("Control+Shift+z")
    lab.until(lambda: lab.step() == 0)


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
