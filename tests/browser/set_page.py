"""A tab with the Mandelbrot lab in it, as a test uses it: the picture in numbers, and the hand on it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from playwright.sync_api import Error, Page

from app.labs.mandelbrot.bookmarks import HOME
from app.labs.mandelbrot.places import FIELDS
from tests.browser.lab_page import OPENING, SideBar
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
# Every frame that arrives: its number, when it was painted, and the height of what it shows in the complex plane.
LISTEN = f"""() => {{ {MODELS}
  const heard = Boolean(window.frames_seen);
  window.frames_seen = [];
  if (heard) return;
  const source = model('mandelbrot frames');
  source.properties.data.change.connect(() => requestAnimationFrame(() => {{
    const {{data}} = source, {{channel}} = window;
    const {{port1, port2}} = new MessageChannel();
    const entry = {{number: data.number[0], height: data.dh[0] * 10 ** data.origin[0][2]}};
    port1.onmessage = () => window.frames_seen.push({{...entry, at: performance.now()}});
    port2.postMessage(0);
  }}));
}}"""


class SetPage(SideBar):
    """Opens the app in `page`, shows the lab, and waits until its picture is complete."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server
        self.open()
        self.window, self.width = page.viewport_size, self.state()["width"]

    def open(self) -> None:
        """Load the page."""
        self.page.goto(self.server.url)
        self.page.get_by_role("tab", name="Mandelbrot").click()
        self.page.locator(".numbers").wait_for(timeout=1000 * OPENING)
        self.until(self.complete, OPENING)

    def fresh(self) -> None:
        """The window and the whole set as they were at first, without loading the page; it is loaded if that fails.

        A test that switches something on must switch it off.
        """
        try:
            self.tidy()
        except (AssertionError, Error):  # of a test that failed
            self.page.set_viewport_size(self.window)
            self.open()

    def tidy(self) -> None:
        """Close a dialog, give the window its size, go home."""
        self.page.mouse.move(0, 0)
        self.page.keyboard.press("Escape")
        if self.page.viewport_size != self.window:
            self.page.set_viewport_size(self.window)
            self.until(lambda: self.state()["width"] == self.width)
        self.key("0")
        self.until(lambda: self.complete() and self.at_home())

    def state(self) -> dict[str, Any]:
        """Where the picture lies and what the axes show, in the browser's numbers."""
        return self.page.evaluate(STATE)

    def at_home(self) -> bool:
        """Whether the axes show the whole set, where it lies at first."""
        middle = zip(self.point(0.5, 0.5), HOME.center, strict=True)
        return abs(self.zoom() / float(HOME.zoom) - 1) < 1e-6 and all(abs(x - float(home)) < 1e-6 for x, home in middle)

    def complete(self) -> bool:
        """Whether the picture that is shown is that of the axes, and nothing is left to do."""
        return "Complete" in self.status() and self.fits()

    def fits(self) -> bool:
        """Whether the newest frame covers what the axes show, to a pixel or two."""
        s = self.state()
        slack = 3 * (s["top"] - s["bottom"]) / s["height"]
        return (
            abs(s["x"] - s["left"]) < slack
            and abs(s["x"] + s["dw"] - s["right"]) < 9 * slack
            and abs(s["y"] - s["bottom"]) < slack
            and abs(s["y"] + s["dh"] - s["top"]) < 9 * slack
        )

    def center(self) -> tuple[Fraction, Fraction]:
        """What the page says below the picture, once it says both numbers: they come after the first frame."""
        re, im = self.until(self._center_in_words)
        return Fraction(re), Fraction(im)

    def _center_in_words(self) -> list[str]:
        """Both numbers as they are written; empty while one is missing."""
        lines = [line.split() for line in self.page.locator(".numbers div").all_inner_texts()]
        return [number for _, number in lines] if [len(line) for line in lines] == [2, 2] else []

    def settled(self) -> tuple[Fraction, Fraction]:
        """The centre, once it has not changed for as long as the page takes to say it again."""
        return self.still(self.center)

    def go(self, re: str, im: str, zoom: str, iterations: int) -> None:
        """To typed coordinates."""
        self.key("g")
        dialog = self.page.get_by_role("dialog")
        for name, value in zip(FIELDS.values(), (re, im, zoom, str(iterations)), strict=True):
            dialog.get_by_label(name).first.fill(value)
        dialog.get_by_role("button", name="Go").click()

    def zoom(self) -> float:
        """The height of the whole plane's view over that of this one, from the axes."""
        s = self.state()
        return 4 / ((s["top"] - s["bottom"]) * 10.0 ** s["exponent"])

    def at(self, fx: float, fy: float) -> tuple[float, float]:
        """The place on the page of a fraction of the picture, from its lower left corner."""
        box, s = self.page.locator("canvas").first.bounding_box(), self.state()
        left, top = s["margin"]
        return box["x"] + left + fx * s["width"], box["y"] + top + (1 - fy) * s["height"]

    def point(self, fx: float, fy: float) -> tuple[float, float]:
        """The complex number there, in float64."""
        s = self.state()
        origin = s["origin"]
        x = s["left"] + fx * (s["right"] - s["left"])
        y = s["bottom"] + fy * (s["top"] - s["bottom"])
        return origin[0] + x * 10 ** origin[2], origin[1] + y * 10 ** origin[2]

    def ticks(self) -> list[list[str]]:
        """The labels of both axes."""
        return self.page.evaluate(TICKS)

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 8) -> None:
        """Drag from one place on the page to another."""
        self.page.mouse.move(*start)
        self.page.mouse.down()
        for k in range(1, steps + 1):
            self.page.mouse.move(*(a + (b - a) * k / steps for a, b in zip(start, end, strict=True)))
            self.page.wait_for_timeout(16)
        self.page.mouse.up()

    def listen(self) -> None:
        """Note every frame from now on."""
        self.page.evaluate(LISTEN)

    def heard(self, below: float = 100.0) -> list[dict[str, float]]:
        """The frames since `listen` that are lower than `below`: number, height, and when they were painted (ms)."""
        frames = self.page.evaluate("window.frames_seen")
        return [frame for frame in frames if frame["number"] > 0 and frame["height"] < below]

    def picture(self) -> bytes:
        """The picture's pixels as a PNG."""
        (left, low), (right, high) = self.at(0, 0), self.at(1, 1)
        return self.page.screenshot(clip={"x": left, "y": high, "width": right - left, "height": low - high})
