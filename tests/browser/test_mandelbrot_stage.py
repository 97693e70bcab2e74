"""Moving the Mandelbrot picture in Chromium: exact, at any depth."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from compute.labs.mandelbrot.views import VIEWS
from tests.browser.lab_page import PAINTED
from tests.browser.set_page import MODELS, SetPage

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def opened(lasting, server):
    return SetPage(lasting(), server)


def test_a_drag_moves_the_picture_by_as_many_pixels(lab):
    before, state = lab.settled(), lab.state()
    start = lab.at(0.5, 0.5)
    lab.drag(start, (start[0] + 60, start[1] - 35))
    lab.until(lambda: lab.center() != before and lab.complete())
    after = lab.settled()
    pixel = (state["top"] - state["bottom"]) / state["height"] * 10.0 ** state["exponent"]
    moved = [float(b - a) / pixel for a, b in zip(before, after, strict=True)]
    assert moved == pytest.approx([-60, -35], abs=1e-3)


def test_the_wheel_zooms_at_the_pointer(lab):
    place = 0.3, 0.65
    before, zoom = lab.point(*place), lab.zoom()
    lab.page.mouse.move(*lab.at(*place))
    for _ in range(8):
        lab.page.mouse.wheel(0, -100)
        lab.page.evaluate(PAINTED)
    lab.until(lambda: lab.zoom() > 3.99 * zoom)
    assert lab.zoom() == pytest.approx(4 * zoom, rel=1e-9)
    assert lab.point(*place) == pytest.approx(before, abs=2e-2 / zoom)  # the position on the page is a whole pixel
    lab.until(lab.complete)
    assert lab.point(*place) == pytest.approx(before, abs=2e-2 / zoom)
    lab.page.mouse.wheel(0, 100)
    lab.until(lambda: lab.zoom() < 3.9 * zoom)


def test_a_box_and_a_double_click_zoom_in(lab):
    zoom = lab.zoom()
    corner = lab.point(0.6, 0.6)
    lab.page.keyboard.down("Shift")
    lab.drag(lab.at(0.6, 0.6), lab.at(0.8, 0.8))
    lab.page.keyboard.up("Shift")
    lab.until(lambda: lab.zoom() > 4.5 * zoom)
    assert lab.zoom() == pytest.approx(5 * zoom, rel=0.03)
    assert lab.point(0, 0) == pytest.approx(corner, abs=0.05 / zoom)
    lab.until(lab.complete)
    zoom, place = lab.zoom(), lab.point(0.25, 0.75)
    lab.page.mouse.dblclick(*lab.at(0.25, 0.75))
    lab.until(lambda: lab.zoom() > 1.9 * zoom)
    assert lab.zoom() == pytest.approx(2 * zoom, rel=1e-9)
    lab.until(lab.complete)
    assert lab.point(0.25, 0.75) == pytest.approx(place, abs=0.05 / zoom)


ORBIT = f"""() => {{ {MODELS}
  const orbit = model('mandelbrot orbit').data;
  return Array.from(orbit.x).map((x, k) => [x, orbit.y[k]]);
}}"""


def test_the_orbit_of_the_point_under_the_pointer_is_drawn(lab):
    lab.key("o")
    lab.page.mouse.move(*lab.at(0.5, 0.5))
    c, z, expected = complex(*lab.point(0.5, 0.5)), 0j, []
    for _ in range(6):
        expected.append(z)
        z = z * z + c
    re, im, exponent = lab.page.evaluate(f"() => {{ {MODELS} return data.origin[0]; }}")
    unit = 10**exponent

    def drawn():
        return [complex(re + x * unit, im + y * unit) for x, y in lab.page.evaluate(ORBIT)[:6]]

    lab.until(lambda: drawn() == pytest.approx(expected, abs=0.02))  # it may begin at the previous pointer position
    before = lab.page.evaluate(ORBIT)
    lab.page.mouse.move(*lab.at(0.65, 0.55))
    lab.until(lambda: lab.page.evaluate(ORBIT) != before)
    lab.key("o")
    lab.until(lambda: lab.page.evaluate(ORBIT) == [])


INSET = f"() => {{ {MODELS} return model('julia picture').visible; }}"
JULIA = f"() => {{ {MODELS} return Array.from(model('mandelbrot julia').data.julia[0]).join(); }}"


def test_the_julia_set_follows_the_pointer(lab):
    lab.key("j")
    lab.page.mouse.move(*lab.at(0.3, 0.5))
    lab.until(lambda: len(lab.page.evaluate(JULIA)) > 1000)
    lab.still(lambda: lab.page.evaluate(JULIA))
    before, number = lab.page.evaluate(JULIA), lab.state()["number"]
    lab.page.mouse.move(*lab.at(0.42, 0.6))
    lab.until(lambda: lab.page.evaluate(JULIA) != before)
    assert lab.state()["number"] == number  # the large picture is unchanged, so it is not sent again
    lab.key("j")
    lab.until(lambda: not lab.page.evaluate(INSET))


TRAFFIC = """() => { window.received = 0; window.sent = 0;
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (...a) {
    if (!this.counted) { this.counted = true; this.addEventListener('message', () => { window.received += 1; }); }
    window.sent += 1;
    return send.apply(this, a);
  };
}"""


def test_the_palette_turns_without_any_message(lab):
    lab.page.mouse.move(0, 0)
    lab.until(lab.complete)
    lab.page.evaluate(TRAFFIC)
    still = [lab.picture() for _ in range(2)]
    assert difference(*still) < 0.5
    lab.key("c")
    lab.until(lambda: difference(lab.picture(), still[0]) > 3)
    lab.still(lambda: lab.page.evaluate("window.sent"))  # the messages of the key press have been sent
    number = lab.state()["number"]

    def turns_in_silence():
        """Return whether no message is sent; once a minute the time plot's labels change, and a plot sends its size."""
        lab.page.evaluate("window.sent = 0")
        first = lab.picture()
        lab.until(lambda: difference(lab.picture(), first) > 3)
        return lab.page.evaluate("window.sent") == 0

    lab.until(turns_in_silence)
    assert lab.state()["number"] == number
    inside = np.asarray(Image.open(io.BytesIO(lab.picture())).convert("RGB"))
    assert (inside == 0).all(axis=2).mean() > 0.05  # the set stays black
    lab.key("c")
    lab.until(lambda: difference(lab.picture(), still[0]) < 0.5)  # the colours that links, files and followers have


def difference(one: bytes, other: bytes) -> float:
    """Return the mean difference of two pictures in grey levels."""
    a, b = (np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(float) for data in (one, other))
    return float(np.abs(a - b).mean())


@pytest.mark.parametrize(("name", "depth"), [("e14", 14), ("dive e1007", 1007)])
def test_ticks_differ_from_each_other_at_any_depth(lab, name, depth):
    view = VIEWS[name]
    lab.go(*view.center, view.zoom, view.max_iterations)
    lab.until(lambda: lab.state()["exponent"] < -depth + 2)

    def differ():
        return all(
            len(set(axis)) == len(axis) >= 2
            and any(f"e-{near}" in word for word in axis for near in (depth - 1, depth, depth + 1))
            for axis in lab.ticks()
        )

    lab.until(differ)
    lab.until(lambda: len(lab.page.locator(".numbers").inner_text()) > 2 * depth)
