"""Pinch zoom: a picture zooms by the ratio of the finger distances, about the point between the fingers."""

from __future__ import annotations

import pytest

from tests.browser.lab_page import ALL_MODELS, PAINTED, LabPage

pytestmark = pytest.mark.extended

# The figure that draws this column of pixels: its ranges, and the position of its frame on the page.
FRAME = f"""(column) => {{
  const draws = (model) => model.type == 'Figure' && model.renderers.some((one) => one.glyph?.image?.field == column);
  const figure = {ALL_MODELS}.find(draws);
  const view = Bokeh.index.find_one(figure), {{left, top}} = view.el.getBoundingClientRect();
  const {{x_range, y_range}} = figure, {{bbox}} = view.frame;
  return {{x0: x_range.start, x1: x_range.end, y0: y_range.start, y1: y_range.end,
          left: left + bbox.left, top: top + bbox.top, width: bbox.width, height: bbox.height}};
}}"""


class Fingers:
    """Two fingers on the page, dispatched as touch events through the DevTools protocol."""

    def __init__(self, page) -> None:
        self.page, self.devtools = page, page.context.new_cdp_session(page)
        self.devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})

    def send(self, kind, points) -> None:
        touches = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
        self.devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    def pinch(self, x, y, begin, end, steps=10) -> None:
        """Move both fingers from `begin` to `end` px on either side of (x, y)."""
        self.send("touchStart", [(x - begin, y), (x + begin, y)])
        for step in range(1, steps + 1):
            apart = begin + (end - begin) * step / steps
            self.send("touchMove", [(x - apart, y), (x + apart, y)])
            self.page.evaluate(PAINTED)
        self.send("touchEnd", [])
        self.devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": False})


def under(frame, x, y):
    """Return the picture coordinates at (x, y) of the page, and the px per unit."""
    right, up = (x - frame["left"]) / frame["width"], 1 - (y - frame["top"]) / frame["height"]
    place = frame["x0"] + right * (frame["x1"] - frame["x0"]), frame["y0"] + up * (frame["y1"] - frame["y0"])
    return place, frame["width"] / (frame["x1"] - frame["x0"])


@pytest.mark.parametrize(("lab_name", "column"), [("Diffusion", "field"), ("Mandelbrot", "escape")])
def test_a_pinch_zooms_about_the_fingers(page, server, lab_name, column):
    lab = LabPage(page, server)
    if lab_name != "Diffusion":
        lab.show_lab(lab_name)
    for begin, end in ((20, 50), (50, 30)):
        frame = lab.still(lambda: page.evaluate(FRAME, column))
        x, y = frame["left"] + 0.6 * frame["width"], frame["top"] + 0.35 * frame["height"]
        place, grown = under(frame, x, y)
        Fingers(page).pinch(x, y, begin, end)
        then = lab.still(lambda: page.evaluate(FRAME, column))
        found, grew = under(then, x, y)
        assert grew / grown == pytest.approx(end / begin, rel=0.03)
        assert found == pytest.approx(place, abs=3 / grown)  # px
