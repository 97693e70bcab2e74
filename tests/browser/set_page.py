"""Page object of the Mandelbrot lab: reads the picture as numbers and moves the view."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from playwright.sync_api import Error, Page

from app.labs.mandelbrot.bookmarks import HOME
from app.labs.mandelbrot.places import FIELDS
from tests.browser.lab_page import OPENING, PAINTED, SideBar
from tests.browser.serving import Server

MODELS = """
const model = (name) => Bokeh.documents[0].get_model_by_name(name);
const figure = model('mandelbrot picture'), {data} = model('mandelbrot frames');
const {x_range, y_range} = figure;
"""
STATE = f"""() => {{ {MODELS}
  const x = data.x[0], y = data.y[0], dw = data.dw[0], dh = data.dh[0];
  const inside = Bokeh.index.find_one(figure).frame.bbox;
  return {{x, y, dw, dh, margin: [inside.left, inside.top], number: data.number[0], anchor: data.anchor[0],
           origin: data.origin[0], exponent: data.origin[0][2],
           left: x_range.start, right: x_range.end, bottom: y_range.start, top: y_range.end,
           width: figure.frame_width, height: figure.frame_height,
           pixels: data.escape[0].length, inside: data.escape[0].filter((level) => level == 255).length}};
}}"""
TICKS = f"""() => {{ {MODELS}
  return [[figure.below[0], x_range], [figure.left[0], y_range]].map(([axis, range]) => {{
    const {{major}} = axis.ticker.get_ticks(range.start, range.end, range, 0);
    return axis.formatter.doFormat(major, {{loc: 0}});
  }});
}}"""


class SetPage(SideBar):
    """Opens the app in `page`, shows the lab, and waits until its picture is complete."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server
        self.open()
        self.window, self.width = page.viewport_size, self.state()["width"]

    def open(self) -> None:
        """Load the page and wait until the picture is complete."""
        self.page.goto(self.server.url)
        self.page.get_by_role("tab", name="Mandelbrot").click()
        self.page.locator(".numbers").wait_for(timeout=1000 * OPENING)
        self.until(self.complete, OPENING)

    def fresh(self) -> None:
        """Restore the window size and the whole set without loading the page; load it if that fails.

        A test that switches an option on must switch it off.
        """
        try:
            self.tidy()
        except (AssertionError, Error):  # the state that a failed test left
            self.page.set_viewport_size(self.window)
            self.open()

    def tidy(self) -> None:
        """Close a dialog, restore the window size and show the whole set."""
        self.page.mouse.move(0, 0)
        self.page.keyboard.press("Escape")
        if self.page.viewport_size != self.window:
            self.page.set_viewport_size(self.window)
            self.until(lambda: self.state()["width"] == self.width)
        self.key("0")
        self.until(lambda: self.complete() and self.at_home())

    def state(self) -> dict[str, Any]:
        """Return the position of the picture and the ranges of the axes, in the browser's coordinates."""
        return self.page.evaluate(STATE)

    def at_home(self) -> bool:
        """Return whether the axes show the whole set at its initial position."""
        middle = zip(self.point(0.5, 0.5), HOME.center, strict=True)
        return abs(self.zoom() / float(HOME.zoom) - 1) < 1e-6 and all(abs(x - float(home)) < 1e-6 for x, home in middle)

    def complete(self) -> bool:
        """Return whether the picture is complete and covers the axes."""
        return "Complete" in self.status() and self.fits()

    def fits(self) -> bool:
        """Return whether the latest frame covers the axes' ranges within a pixel or two."""
        s = self.state()
        slack = 3 * (s["top"] - s["bottom"]) / s["height"]
        return (
            abs(s["x"] - s["left"]) < slack
            and abs(s["x"] + s["dw"] - s["right"]) < 9 * slack
            and abs(s["y"] - s["bottom"]) < slack
            and abs(s["y"] + s["dh"] - s["top"]) < 9 * slack
        )

    def center(self) -> tuple[Fraction, Fraction]:
        """Return the centre printed below the picture, once both numbers are shown: they follow the first frame."""

        def numbers() -> list[str]:
            """Return both numbers as text; [] while one is missing."""
            lines = [line.split() for line in self.page.locator(".numbers div").all_inner_texts()]
            return [number for _, number in lines] if [len(line) for line in lines] == [2, 2] else []

        re, im = self.until(numbers)
        return Fraction(re), Fraction(im)

    def settled(self) -> tuple[Fraction, Fraction]:
        """Return the centre once it has stopped changing for longer than an update of the text takes."""
        return self.still(self.center)

    def go(self, re: str, im: str, zoom: str, iterations: int) -> None:
        """Go to typed coordinates."""
        self.key("g")
        dialog = self.page.get_by_role("dialog")
        for name, value in zip(FIELDS.values(), (re, im, zoom, str(iterations)), strict=True):
            dialog.get_by_label(name).first.fill(value)
        dialog.get_by_role("button", name="Go").click()

    def zoom(self) -> float:
        """Return the zoom from the axes: 4 / height of the view."""
        s = self.state()
        return 4 / ((s["top"] - s["bottom"]) * 10.0 ** s["exponent"])

    def at(self, fx: float, fy: float) -> tuple[float, float]:
        """Return the page coordinates of a fraction of the picture, measured from its lower left corner."""
        box, s = self.page.locator("canvas").first.bounding_box(), self.state()
        left, top = s["margin"]
        return box["x"] + left + fx * s["width"], box["y"] + top + (1 - fy) * s["height"]

    def point(self, fx: float, fy: float) -> tuple[float, float]:
        """Return the complex number at a fraction of the picture as two float64."""
        s = self.state()
        origin = s["origin"]
        x = s["left"] + fx * (s["right"] - s["left"])
        y = s["bottom"] + fy * (s["top"] - s["bottom"])
        return origin[0] + x * 10 ** origin[2], origin[1] + y * 10 ** origin[2]

    def ticks(self) -> list[list[str]]:
        """Return the tick labels of both axes."""
        return self.page.evaluate(TICKS)

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 8) -> None:
        """Drag from one place on the page to another."""
        self.page.mouse.move(*start)
        self.page.mouse.down()
        for k in range(1, steps + 1):
            self.page.mouse.move(*(a + (b - a) * k / steps for a, b in zip(start, end, strict=True)))
            self.page.evaluate(PAINTED)
        self.page.mouse.up()

    def picture(self) -> bytes:
        """Return the picture's pixels as a PNG."""
        (left, low), (right, high) = self.at(0, 0), self.at(1, 1)
        return self.page.screenshot(clip={"x": left, "y": high, "width": right - left, "height": low - high})
