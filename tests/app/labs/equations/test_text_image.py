"""An uploaded image becomes an initial value or the wall of the text."""

from __future__ import annotations

import numpy as np
import pytest

from compute.labs.equations.presets import presets
from tests.app.labs.equations.test_tab import Tab
from tests.direct import read
from tests.hostile_files import png, rows

LEVELS = np.linspace(0, 255, 32).astype(np.uint8)[None].repeat(24, 0)
IMAGE = png(32, 24, rows(LEVELS))
HEAT = presets()["heat"].text


class ImageTab(Tab):
    """A tab into which files are uploaded."""

    @property
    def image(self):
        return self.controls.image

    def give(self, name="ramp.png", data=IMAGE):
        """Upload a file as the browser sends it."""
        field = self.image.upload.field
        field.field._update_file(name, "image/png", data)
        read(field)
        self.see()

    def field(self):
        """Return the label of the file field and the text shown below it."""
        upload = self.image.upload.field
        return upload.field.label, upload.words.object if upload.words.visible else ""


def test_an_image_replaces_the_chosen_initial_value():
    tab = ImageTab()
    assert list(tab.image.target.options) == ["Initial value of u", "Initial value of v", "Wall (dark pixels)"]
    tab.image.target.value = "v"
    assert "image" not in tab.lab.text
    tab.give()
    text = presets()["gray_scott"].text.replace("v(0) = 0.25*spot + 0.01*abs(noise(1))", "v(0) = image")
    assert tab.lab.text == tab.view.editor.text == tab.view.editor.field.value_input == text
    np.testing.assert_allclose(tab.lab.field("v"), LEVELS / 255, rtol=1e-6)
    assert tab.field()[0] == "Image: ramp.png"
    assert "all of its 32 × 24 pixels, in grey, as 32 × 24 cells" in tab.field()[1]
    tab.image.target.value = "wall"
    tab.see()
    assert "wall = 0.5 - image\n" in tab.lab.text
    assert np.array_equal(tab.lab.field("wall"), LEVELS < 127.5)
    assert tab.told == []


def test_a_text_that_uses_the_image_is_left_as_it_is():
    tab = ImageTab()
    text = HEAT.replace("u(0) = ", "u(0) = 2*image #")
    tab.type(text)
    assert "which is 0 until you choose one" in tab.field()[1]
    tab.give()
    assert tab.lab.text == text
    np.testing.assert_allclose(tab.lab.field(), 2 * (LEVELS / 255), rtol=1e-6)
    assert tab.field()[0] == "Image: ramp.png"
    tab.pick("heat")
    assert tab.field() == (tab.image.upload.field._label, "")
    tab.type(text)  # the lab has kept the image
    assert tab.field()[0] == "Image: ramp.png"
    assert tab.told == []


@pytest.mark.parametrize("data", [b"no image", png(2**16, 1)])
def test_a_refused_file_changes_nothing(data):
    tab = ImageTab()
    before = tab.lab.text
    tab.give("bad.png", data)
    assert tab.field()[0] == "Rejected: bad.png"
    assert "image must" in tab.field()[1]
    assert tab.lab.text == before


def test_a_text_without_room_for_the_image_is_kept():
    tab = ImageTab()
    text = f"{HEAT.replace('u(0) = ', 'u(0) = x # ')}\n#{'x' * 5000}"[:3999]
    tab.type(text.replace("u(0) = x # ", "# "))
    before = tab.lab.text
    tab.give()
    assert tab.field()[0] == "Rejected: ramp.png"
    assert "image cannot be used in this text: the text must have" in tab.field()[1]
    assert tab.lab.text == before
