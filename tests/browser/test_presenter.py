"""Presenter mode: the bar of main controls, keys, freeze, spotlight, pen, full screen and clock."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.lab_page import LabPage
from tests.browser.layout import plots

pytestmark = pytest.mark.extended


@pytest.fixture
def stage(lab: LabPage):
    """Yield the diffusion lab in presenter mode, paused at step 0."""
    lab.pause_at_start()
    lab.key("p")
    lab.page.get_by_role("toolbar").wait_for()
    lab.until(lambda: not lab.page.locator(".contextbar").is_visible())
    yield lab
    lab.key("p")
    lab.page.get_by_role("toolbar").wait_for(state="hidden")
    lab.until(lambda: lab.page.locator(".contextbar").is_visible())


def pressed(stage: LabPage, word: str) -> bool:
    """Return whether this toggle button of the bar is on."""
    return stage.page.get_by_role("button", name=word, exact=True).get_attribute("aria-pressed") == "true"


def test_buttons_and_keys_run_step_and_reset(stage):
    stage.page.get_by_role("toolbar").get_by_role("button", name="Step", exact=True).click()
    stage.until(lambda: stage.step() == 1)
    stage.key("s")
    stage.until(lambda: stage.step() == 2)
    stage.page.keyboard.press(" ")
    stage.page.get_by_role("toolbar").get_by_role("button", name="Pause", exact=True).wait_for()
    stage.until(lambda: stage.step() > 10)
    stage.page.get_by_role("toolbar").get_by_role("button", name="Pause", exact=True).click()
    stage.page.get_by_role("toolbar").get_by_role("button", name="Run", exact=True).wait_for()
    stage.page.keyboard.press("r")
    stage.until(lambda: stage.step() == 0)


def test_the_button_of_a_bar_names_its_action(lab):
    page = lab.page
    for words in ("Hide results", "Show results"):
        button = page.get_by_role("button", name=words, exact=True)
        button.hover()
        page.get_by_role("tooltip").get_by_text(words, exact=True).wait_for()
        button.click()
    page.get_by_role("button", name="Hide results", exact=True).wait_for()
    page.mouse.move(640, 400)


def test_the_slider_of_the_bar_sets_the_chosen_parameter(stage):
    bar = stage.page.get_by_role("toolbar")
    slider = bar.get_by_role("slider")
    before = float(slider.input_value())
    slider.focus()
    stage.page.keyboard.press("ArrowLeft")
    stage.until(lambda: stage.fact("r") == pytest.approx(before - 0.005))
    stage.until(lambda: f"{before - 0.005:.3f}" in bar.inner_text())
    stage.page.keyboard.press("ArrowRight")
    stage.until(lambda: stage.fact("r") == pytest.approx(before))
    bar.get_by_role("combobox").select_option(label="Steps per frame")
    stage.until(lambda: "20" in bar.locator("output").inner_text())
    bar.get_by_role("combobox").select_option(index=0)
    stage.until(lambda: float(slider.input_value()) == before)


def pixels(stage: LabPage) -> np.ndarray:
    """Return the pixels of the first plot on the screen, not of its canvases."""
    clip = stage.page.locator(".bk-Figure").first.bounding_box()
    return np.asarray(Image.open(io.BytesIO(stage.page.screenshot(clip=clip))).convert("RGB"), float)


def test_a_frozen_picture_looks_the_same_while_the_lab_continues(stage):
    """Regression: the copy of a plot's transparent upper canvas had an opaque background, so that it was all white."""
    before = np.frombuffer(stage.still(lambda: pixels(stage).tobytes(), 1.0), float)
    assert before.std() > 10  # there is a picture
    stage.key("z")
    copies = stage.page.locator(".ice canvas")
    stage.until(lambda: pressed(stage, "Freeze") and copies.count() >= 4)
    stage.until(lambda: np.abs(pixels(stage).ravel() - before).mean() < 1.0)
    first, shown = copies.first.evaluate("(canvas) => canvas.toDataURL()"), stage.field()["number"]
    stage.key("s")
    stage.until(lambda: stage.step() == 1 and stage.field()["number"] > shown)
    assert stage.still(lambda: copies.first.evaluate("(canvas) => canvas.toDataURL()"), 0.3) == first
    stage.key("z")
    stage.until(lambda: copies.count() == 0 and not pressed(stage, "Freeze"))


def test_the_pen_draws_over_the_picture_and_is_wiped(stage):
    stage.key("d")
    stage.until(lambda: pressed(stage, "Pen"))
    mouse, paper = stage.page.mouse, stage.page.locator("canvas.paper")
    mouse.move(300, 300)
    mouse.down()
    mouse.move(400, 340, steps=5)
    mouse.up()
    inked = "(canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v)"
    stage.until(lambda: paper.evaluate(inked))
    assert stage.step() == 0
    stage.key("x")
    stage.until(lambda: not paper.evaluate(inked))
    stage.key("d")
    stage.until(lambda: not pressed(stage, "Pen"))


def test_the_spotlight_follows_the_pointer(stage):
    stage.key("v")
    veil = stage.page.locator(".veil")
    veil.wait_for()
    stage.page.mouse.move(500, 357)
    place = "(veil) => [veil.style.getPropertyValue('--x'), veil.style.getPropertyValue('--y')]"
    stage.until(lambda: veil.evaluate(place) == ["500px", "300px"])
    stage.key("v")
    veil.wait_for(state="hidden")


def test_plots_use_the_space_of_a_hidden_bar(stage):
    before = min(height for _, height in stage.still(lambda: plots(stage.page)))
    stage.key(".")
    stage.page.get_by_role("toolbar").wait_for(state="hidden")
    stage.until(lambda: min(height for _, height in plots(stage.page)) > before)
    stage.key(".")
    stage.page.get_by_role("toolbar").wait_for()
    stage.until(lambda: min(height for _, height in plots(stage.page)) == before)


FULL_SCREEN = """() => {
  window.screens = [];
  document.documentElement.requestFullscreen = async () => { screens.push('entered'); };
  document.exitFullscreen = async () => { screens.push('left'); };
}"""
FILLED = """(filled) => Object.defineProperty(
  document, 'fullscreenElement', {value: filled ? document.body : null, configurable: true})"""


def test_the_mode_enters_and_leaves_full_screen(stage):
    page, bar = stage.page, stage.page.get_by_role("toolbar")
    page.evaluate(FULL_SCREEN)
    for filled, screens in ((False, []), (True, ["entered", "left"])):
        page.evaluate(FILLED, filled)
        stage.key("p")
        bar.wait_for(state="hidden")
        assert page.evaluate("window.screens") == screens
        page.evaluate(FILLED, False)
        stage.key("p")
        bar.wait_for()
    page.evaluate("delete document.documentElement.requestFullscreen")


def test_the_clock_shows_the_time_and_the_duration_of_the_mode(stage):
    clock = stage.page.locator(".bar time.clock")
    now = stage.page.evaluate("new Date().toTimeString().slice(0, 3)")
    expect(clock).to_have_text(re.compile(rf"^{now}\d\d\s+\d+:\d\d$"))
    stage.key("p")
    stage.page.get_by_role("toolbar").wait_for(state="hidden")
    stage.key("p")
    expect(clock).to_have_text(re.compile(r"\s0:0[1-9]$"))  # counted from the last begin, once a second
