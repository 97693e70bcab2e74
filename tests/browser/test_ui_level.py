"""`?ui=` in Chromium: the visible parts of the page, the address, and the notice for other values."""

from __future__ import annotations

import pytest

from compute.export.link import NAME, packed
from compute.export.scene import Scene
from tests.browser.lab_page import OPENING, PATIENCE
from tests.browser.layout import comes, faults, plots

pytestmark = pytest.mark.extended

FRAME = (640, 400)


@pytest.fixture(scope="module")
def framed(lasting, server):
    """Return show(level, lab), which opens the page at the size of a frame in a slide."""
    page = lasting()
    page.set_viewport_size({"width": FRAME[0], "height": FRAME[1]})

    def show(level, lab=""):
        scene = f"&{NAME}={packed(Scene(lab, {}))}" if lab else ""
        page.goto(f"{server.url}?ui={level}{scene}")
        page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * OPENING)
        page.wait_for_function("Bokeh.documents[0].is_idle", timeout=1000 * PATIENCE)
        return page

    return show


def shows(page, name):
    """Return whether a button of the page's header is visible."""
    return page.get_by_role("button", name=name).first.is_visible()


@pytest.mark.parametrize("lab", ["diffusion", "l_curve"])
def test_minimal_shows_one_picture_and_its_controls(framed, lab):
    page = framed("minimal", lab)
    assert comes(page, lambda: len(plots(page)) == 1)
    bar = page.get_by_role("toolbar", name="Controls of the lab")
    bar.wait_for()
    assert bar.get_by_role("slider").is_visible()
    assert comes(page, lambda: page.locator(".bar .headline").inner_text() != "")
    assert not shows(page, "About this lab")
    assert page.get_by_role("tab").count() == 0 or not page.get_by_role("tab").first.is_visible()
    assert faults(page) == []
    assert f"ui=minimal&{NAME}=" in comes_to(page, f"{NAME}=")


def comes_to(page, part):
    """Return the page's query string, once it contains `part`."""
    assert comes(page, lambda: part in page.evaluate("location.search"))
    return page.evaluate("location.search")


@pytest.mark.parametrize("lab", ["", "crossover"])
def test_none_shows_the_picture_only(framed, lab):
    page = framed("none", lab)
    assert comes(page, lambda: len(plots(page)) == 1 and plots(page)[0][1] > 0.8 * FRAME[1])
    assert not shows(page, "About this lab")
    assert not page.get_by_role("toolbar", name="Controls of the lab").is_visible()
    assert not page.locator(".status").first.is_visible()
    assert faults(page) == []


def test_presenter_mode_works_within_a_frame(framed):
    page = framed("none")
    bar = page.get_by_role("toolbar", name="Controls of the lab")
    page.keyboard.press("p")
    bar.wait_for()
    page.keyboard.press("p")
    bar.wait_for(state="hidden")
    assert not shows(page, "About this lab")


def test_another_value_shows_everything_and_the_possible_values(framed):
    page = framed("tiny")
    page.get_by_text("ui must be one of none, minimal, full, not 'tiny'").first.wait_for()
    assert "ui=" not in comes_to(page, f"{NAME}=").replace("?ui=tiny", "")
