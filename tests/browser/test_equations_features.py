"""The page's features with the equations lab: an image, undo, exports, the code of the kernels, and a follower."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from compute.labs.equations.presets import presets
from tests.browser.export_page import ExportPage
from tests.browser.lab_page import OPENING
from tests.browser.test_audience import NUMBER, follow, until
from tests.browser.test_equations import EquationsPage

pytestmark = pytest.mark.extended

GRAY_SCOTT = presets()["gray_scott"].text


class FeaturesPage(EquationsPage, ExportPage):
    """The equations lab with its export card."""

    def __init__(self, page, server, folder):
        self.folder = folder
        EquationsPage.__init__(self, page, server)

    def pause(self):
        """Pause, and wait until the last frame is shown."""
        if "Paused" not in self.status():
            self.key(" ")
        self.until(lambda: "Paused" in self.status())
        self.still(self.step)


@pytest.fixture(scope="module")
def opened(lasting, server, tmp_path_factory):
    return FeaturesPage(lasting(), server, tmp_path_factory.mktemp("downloads"))


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    lasting.complain(allowed_errors)


def squares() -> bytes:
    """Return a PNG of black and white squares."""
    rows, columns = np.mgrid[:64, :64] // 16
    file = io.BytesIO()
    Image.fromarray(np.uint8(255 * ((rows + columns) % 2))).save(file, "PNG")
    return file.getvalue()


def test_an_image_becomes_a_wall_and_is_in_the_link_and_undone(lab, new_page, server, tmp_path):
    lab.pause()
    lab.choose("Image as", "Wall (dark pixels)")
    lab.choose_file(lab.page.get_by_text(re.compile(r"Image \[")), "squares.png", squares())
    lab.until(lambda: "wall = 0.5 - image" in lab.text.input_value())
    lab.page.get_by_text("Shown: all of its 64 × 64 pixels").wait_for()
    lab.until(lambda: lab.step() == 0)
    with np.load(numbers(lab)) as saved:
        wall = saved["wall"]
    assert np.array_equal(wall[::-1], squares_of(256))
    link = lab.still(lambda: lab.page.url, 3)
    other = FeaturesPage.of(new_page(), folder=tmp_path, server=server)
    other.page.goto(link)
    other.until(lambda: other.page.get_by_text("Shown: all of its 64 × 64 pixels").count(), OPENING)
    assert "wall = 0.5 - image" in other.text.input_value()
    other.page.close()
    for _ in range(2):  # the image, and the text
        lab.key("Control+z")
    lab.until(lambda: lab.text.input_value() == GRAY_SCOTT)
    lab.until(lambda: lab.step() > 0)


def squares_of(side):
    rows, columns = np.mgrid[:side, :side] // (side // 4)
    return (rows + columns) % 2 == 0


def numbers(lab):
    lab.show("Numbers")
    lab.choose("Format", "NPZ (NumPy)")
    path = lab.download("Save the numbers")
    lab.key("e")
    return path


def test_a_table_and_a_film_over_a_number_of_the_text(lab):
    lab.pause()
    lab.show("Numbers")
    lab.choose("Over", "F")
    lab.fill("Values", "0.02, 0.04")
    lab.fill("Steps of each row", 10)
    assert lab.download("Make the table").read_text(encoding="utf-8").startswith("F,")
    lab.show("Film")
    lab.choose("Film of", "One parameter")
    lab.choose("Parameter", "F")
    lab.choose("Height [pixels]", "360")
    lab.fill("Frames", 3)
    lab.choose("Format", "GIF")
    with Image.open(lab.download("Make the film")) as film:
        assert (film.size, film.n_frames) == ((360, 360), 3)
    lab.key("e")


def test_the_code_of_the_typed_equations_is_shown(lab):
    lab.pause()
    lab.key("k")
    shown = lab.page.locator(".code article")
    expect(shown.first).to_contain_text("Du*lap(u) - u*v^2 + F*(1 - u)")
    lab.key("k")
    lab.page.locator(".code").wait_for(state="hidden")


def test_a_phone_follows_the_equations(lab, new_page):
    lab.key("q")
    lab.page.get_by_role("button", name="Let the room follow").click()
    code = lab.page.locator(".audience .code").inner_text()
    phone = new_page()
    follow(phone, lab, code)
    until(phone, lambda: phone.locator("#lab").inner_text() == "Equations")
    until(phone, lambda: "F (0 to 0.1)" in phone.locator("#values").inner_text())
    before = phone.evaluate(NUMBER)
    lab.key(" ")
    until(phone, lambda: phone.evaluate(NUMBER) > before)
    phone.close()
    lab.page.get_by_role("button", name="End the room").click()
    lab.key("q")
