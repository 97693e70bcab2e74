"""A lab without custom parts: pictures of its rasters, controls generated from its parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.lab_page import LabPage
from tests.browser.serving import serve

pytestmark = pytest.mark.extended

SETUP = Path(__file__).with_name("plain_setup.py")


@pytest.fixture
def lab(page, tmp_path):
    with serve(tmp_path, ("--setup", str(SETUP))) as server:
        yield LabPage(page, server)
        page.close()


def test_a_lab_without_custom_parts_is_shown_and_controlled(lab):
    lab.page.get_by_text("Laplacian", exact=True).wait_for()  # the heading of a picture, from the raster's name
    lab.until(lambda: lab.field()["most"] > lab.field()["least"])
    lab.page.get_by_role("slider", name="r = D Δt / Δx²").first.focus()
    lab.page.keyboard.press("Home")  # with r = 0 each step leaves the field unchanged
    slider = lab.page.get_by_role("slider", name="r = D Δt / Δx²").first
    lab.until(lambda: float(lab.still(slider.input_value, 0.3)) == 0)  # s: longer than Panel's slider throttle of 50 ms
    lab.group("Field")
    lab.choose("Initial field", "noise")
    sharp = lab.until(lambda: (f := lab.field())["rough"] > 0.01 and f)
    lab.group("Compute")
    lab.choose("Number type", "float64")
    lab.steps_on(100)
    assert lab.field()["rough"] == pytest.approx(sharp["rough"], rel=1e-3)  # with r = 0.2 it falls to a tenth
    lab.key(" ")
    lab.until(lambda: "Paused" in lab.status())
