"""Typed equations in a lecture: a mistake, a wall, a slider, a race, the code in five languages, and a link."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.lab_page import ALL_MODELS, OPENING
from tests.browser.test_equations import GRAY_SCOTT, PICTURES, WRITTEN, EquationsPage

pytestmark = pytest.mark.extended

LANGUAGES = {"NumPy": "np.", "Numba": "prange", "Numba-CUDA": "@cuda.jit", "CUDA C": "__global__", "WebGPU": "@compute"}
GREY = f"""() => {ALL_MODELS}.find((one) => one.name == 'frames' && one.data.show?.length)
  .data.field[0].filter((level) => level == 255).length"""  # pixels of a wall
NUMBER = re.compile(r"k \(0.04 to 0.07\)")  # a slider's name


@pytest.fixture
def elsewhere(browser, allowed_errors):
    """Return another browser's tabs, without the storage and the cache of the others."""
    context = browser.new_context(device_scale_factor=1)
    tabs = Tabs(context)
    yield tabs
    tabs.close()
    context.close()
    tabs.complain(allowed_errors)


def type_with_a_mistake(lab):
    """Type Gray-Scott's equations with a mistake, and mend it."""
    page = lab.page
    lab.text.click()
    page.keyboard.press("Control+A")
    first, *others = GRAY_SCOTT.split("u_t = ", 1)[1].split("\n", 1)
    page.keyboard.type(f"u_t = {first}".replace("lap", "lpa"))
    page.keyboard.insert_text("\n" + others[0])
    page.locator(".fault").get_by_text("did you mean 'lap'?").wait_for()
    lab.mend_lap()
    lab.until(lambda: page.get_by_role("slider", name=NUMBER).count())


def paint_a_wall(lab):
    """Add a wall to the text, and paint a stroke of it."""
    lab.choose("Paint into", "wall (begins again)")
    lab.until(lambda: "wall = 0" in lab.text.input_value())
    lab.until(lambda: lab.page.get_by_role("combobox", name="Paint into", exact=True).inner_text() == "wall")
    lab.run()
    lab.page.get_by_role("button", name="Paint", exact=True).click()
    picture = lab.page.get_by_role("figure", name="Picture: u").first.bounding_box()
    x, y = picture["x"] + 0.35 * picture["width"], picture["y"] + 0.25 * picture["height"]
    lab.page.mouse.move(x, y)
    lab.page.mouse.down()
    lab.page.mouse.move(x + 0.3 * picture["width"], y, steps=5)
    lab.page.mouse.up()
    lab.until(lambda: lab.page.evaluate(GREY) > 100)
    lab.page.get_by_role("button", name="Move", exact=True).click()


def race(lab):
    """Race NumPy and Numba to the end; both get a rank, and their fields agree."""
    page = lab.page
    lab.key("Shift+R")
    page.locator(".race article").first.wait_for(timeout=1000 * OPENING)
    assert page.locator(".race h3").all_inner_texts() == ["NumPy", "Numba"]
    lab.until(lambda: page.locator(".race .badge.shown").count() == 2)
    assert sorted(page.locator(".race .badge").all_inner_texts()) == ["1", "2"]
    lab.until(lambda: "picture agrees" in page.locator(".race").inner_text())
    page.keyboard.press("Escape")
    page.locator(".race article").first.wait_for(state="detached")


def read_the_code(lab):
    """Show the kernel in five languages, with the typed equations as its comment."""
    lab.key("k")
    shown = lab.page.locator(".code article")
    for language, sign in LANGUAGES.items():
        lab.choose("Program", language)
        expect(shown.locator("header")).to_contain_text(language)
        expect(shown).to_contain_text(sign)
        expect(shown).to_contain_text("u_t = Du*lap(u) - u*v^2 + F*(1 - u)")
        expect(shown).to_contain_text("wall_left")
    lab.key("k")


def test_equations_are_typed_painted_raced_read_and_shared_without_loss(lasting, server, elsewhere, allowed_errors):
    lab = EquationsPage(lasting(), server)
    type_with_a_mistake(lab)
    paint_a_wall(lab)
    slider = lab.page.get_by_role("slider", name=NUMBER).first
    slider.focus()
    slider.press("Home")
    lab.until(lambda: slider.input_value() == "0.04")
    race(lab)
    if "Running" in lab.status():
        lab.key(" ")
    lab.until(lambda: "Paused" in lab.status())
    read_the_code(lab)
    text, step = lab.text.input_value(), lab.still(lab.step)
    link = lab.still(lambda: lab.page.url, WRITTEN)
    seen = lab.page.evaluate(PICTURES)
    other = EquationsPage.of(elsewhere(), server=server)
    other.page.goto(link)
    other.until(lambda: other.text.count() and other.text.input_value() == text, OPENING)
    other.until(lambda: other.step() == step)
    moved = other.page.get_by_role("slider", name=NUMBER).first
    other.until(lambda: moved.input_value() == "0.04")
    other.until(lambda: other.page.evaluate(PICTURES) == seen)  # the painted wall and the steps, too
    lasting.complain(allowed_errors)
