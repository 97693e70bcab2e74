"""The Mandelbrot lab in Chromium: places, iterations, precision, marks, area, and error messages."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from app.labs.mandelbrot.bookmarks import HOME, places
from tests.browser.lab_page import ALL_MODELS, OPENING
from tests.browser.set_page import SetPage

SEAHORSE = places()["Seahorses 3e5"]


class MandelbrotPage(SetPage):
    """The picture with the lab's side bar."""

    def pick(self, title: str) -> None:
        """Choose a bookmark."""
        self.group("Place")
        self.page.get_by_label(f"Go to {title}", exact=True).click()

    def fact(self, name: str) -> str:
        """Return the value of `name` in the status bar; "" if it is absent."""
        found = re.search(rf"{name} (\S+)", self.status())
        return found[1] if found else ""

    def shows(self, zoom: str) -> bool:
        """Return whether the complete picture has this zoom."""
        return self.complete() and self.fact("zoom") == zoom


@pytest.fixture(scope="module")
def opened(lasting, server):
    return MandelbrotPage(lasting(), server)


def test_steps_back_and_forward_again(opened, lasting, allowed_errors):
    """The first test in this tab, because it needs an empty history."""
    lab = opened
    back, forward = (lab.page.get_by_role("button", name=name) for name in ("Previous view", "Next view"))
    assert back.is_disabled()
    zooms = ["1.5"]
    for title, zoom in (("Elephant valley", "200"), ("Triple spirals", "600")):
        lab.pick(title)
        lab.until(lambda zoom=zoom: lab.fact("zoom") == zoom)
        zooms.append(zoom)
    lab.key("Backspace")
    lab.until(lambda: lab.fact("zoom") == zooms[1])
    back.click()
    lab.until(lambda: lab.fact("zoom") == zooms[0])
    lab.until(back.is_disabled)
    lab.key("Shift+Backspace")
    lab.until(lambda: lab.fact("zoom") == zooms[1])
    forward.click()
    lab.until(lambda: lab.fact("zoom") == zooms[2])
    lasting.complain(allowed_errors)


def test_a_long_picture_is_cancelled_by_the_next_move(lab):
    lab.group("Iteration")
    lab.choose("Precision", "float64")
    place = places()["Seahorse valley"]
    lab.page.get_by_label("Shortcuts").first.click()  # iterate each pixel of the set to the end
    lab.go(*place.center, place.zoom, 10**7)
    lab.until(lambda: lab.fact("zoom") == place.zoom)
    assert not lab.still(lambda: "Complete" in lab.status(), 1.5)
    lab.key("m")  # page and server stay responsive
    lab.group("Place")
    lab.page.get_by_label("Remove Mark").click()
    lab.key("Backspace")
    lab.until(lambda: lab.shows(HOME.zoom))
    lab.group("Iteration")
    lab.page.get_by_label("Shortcuts").first.click()
    lab.choose("Precision", "auto")


# The names of the plots that are painted within 2.5 s.
PAINTS = f"""() => new Promise((done) => {{
  const painted = [], plots = {ALL_MODELS}.filter((one) => one.type == 'Figure');
  for (const plot of plots) Bokeh.index.find_one(plot)?.repainted.connect(() => painted.push(plot.name));
  setTimeout(() => done(painted), 2500);
}})"""


def test_a_complete_picture_is_not_painted_again(lab):
    """The time plot, which scrolls to the left, has no name."""
    lab.until(lambda: set(lab.page.evaluate(PAINTS)) <= {None})


def test_an_exhausted_precision_is_reported_once(lab):
    lab.group("Iteration")
    lab.choose("Precision", "float32")
    lab.go("-0.75", "0.1", "1e8", 1000)
    lab.page.get_by_text("float32 is exhausted").wait_for()
    lab.until(lambda: "float32 exhausted" in lab.status())
    for _ in range(4):
        zoom = lab.zoom()
        lab.key("+")
        lab.until(lambda zoom=zoom: lab.zoom() > zoom)
    assert lab.page.get_by_text("float32 is exhausted").count() <= 1  # although its numbers change
    lab.choose("Precision", "auto")
    lab.until(lambda: "exhausted" not in lab.status() and "perturbation" in lab.status())


def test_a_bookmark_leads_to_5e113(lab):
    lab.pick("Zoom 5e113")
    lab.until(lambda: "reference orbit" in lab.status() or lab.fact("zoom") == "5.0e113")
    lab.until(lambda: lab.shows("5.0e113"), OPENING)
    lab.until(lambda: "precision perturbation" in lab.status())
    re_part, im_part = lab.settled()
    assert abs(im_part) < abs(re_part) < 2
    assert re_part.denominator > 10**100  # all digits


REFUSED = [
    ("Centre, real part", "abc", "center[0] must be a decimal number"),
    ("Zoom (the view is 4 / zoom high)", "0", "zoom must be from 1e-2 to 1e2000, not 0"),
    ("Maximum iterations", "1e9", "max_iterations must be a whole number from 1 to 100000000, not '1e9'"),
]


WAITS = """() => {
  const models = Bokeh.documents[0], {data} = models.get_model_by_name('mandelbrot frames');
  const glyph = models.get_model_by_name('mandelbrot picture').renderers.find((one) => one.glyph.color_mapper).glyph;
  const last = glyph.color_mapper.palette.at(-1);
  const line = getComputedStyle(document.documentElement).getPropertyValue('--line').trim();
  return [Boolean(data.waiting[0]), data.escape[0].every((level) => level === 254), last === line];
}"""


def test_pixels_that_are_not_computed_yet_have_a_colour_of_the_page(lab):
    lab.pick("Dive 1e323")  # no pixel escapes within the iterations of the first passes
    lab.until(lambda: lab.page.evaluate(WAITS) == [True, True, True])
    lab.until(lambda: "Complete" in lab.status())
    lab.until(lambda: lab.page.evaluate(WAITS) == [False, False, False])
    lab.pick("Whole set")
    lab.until(lambda: "Complete" in lab.status())


def test_copied_coordinates_can_be_pasted_into_one_field(lab):
    lab.pick("Seahorses 3e5")
    lab.until(lambda: lab.fact("zoom") == "3.0e5")
    lab.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    lab.page.get_by_role("button", name="Copy", exact=True).click()
    copied = lab.page.evaluate("window.copied")
    *center, zoom, most = copied.split(", ")
    assert [float(part) for part in center] == pytest.approx([float(part) for part in SEAHORSE.center], abs=1e-14)
    assert (zoom, most) == (SEAHORSE.zoom, str(SEAHORSE.max_iterations))
    lab.pick("Whole set")
    lab.until(lambda: lab.fact("zoom") == "1.5")
    lab.page.get_by_role("button", name="Go to …").click()
    field = lab.page.get_by_label("Zoom (the view is 4 / zoom high)")
    field.fill(copied)
    expect(field).to_have_value(SEAHORSE.zoom)
    field.press("Enter")
    lab.until(lambda: lab.fact("zoom") == "3.0e5")


def test_wrong_coordinates_are_refused_next_to_the_field(lab):
    """The dialog opens although it is a part of the side bar, which is closed."""
    before = lab.settled(), lab.zoom()
    lab.page.get_by_role("button", name="Hide controls").click()
    for field, text, words in REFUSED:
        lab.key("g")
        dialog = lab.page.get_by_role("dialog").filter(has_text="Go to coordinates")
        dialog.get_by_label(field, exact=True).fill(text)
        dialog.get_by_role("button", name="Go").click()
        dialog.get_by_text(words).wait_for()
        lab.page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
    lab.page.get_by_role("button", name="Show controls").click()
    assert (lab.settled(), lab.zoom()) == before


def test_iterations_are_typed_and_wrong_ones_refused_below_the_field(lab):
    lab.group("Iteration")
    typed = "Maximum iterations, typed"
    lab.type(typed, "many")
    lab.page.get_by_text("max_iterations must be a whole number from 1 to 100000000, not 'many'").wait_for()
    assert "iterations 1 000" in lab.status()
    lab.type(typed, "3e3")
    lab.until(lambda: lab.complete() and "iterations 3 000" in lab.status())
    lab.until(lambda: lab.page.get_by_text("must be a whole number").count() == 0)
    expect(lab.page.get_by_label(typed)).to_have_value("3\N{NARROW NO-BREAK SPACE}000")


def test_arrow_keys_move_the_view_unless_a_slider_has_the_focus(lab):
    lab.until(lab.complete)
    before = lab.settled()
    lab.key("ArrowRight")
    lab.until(lambda: lab.center() != before)
    moved = lab.settled()
    assert moved[0] > before[0]
    assert moved[1] == before[1]
    lab.group("Iteration")
    lab.page.get_by_label("Maximum iterations").first.focus()
    lab.page.keyboard.press("ArrowRight")
    lab.until(lambda: "iterations 1 100" in lab.status())
    assert lab.settled() == moved


def test_a_double_click_removes_only_one_of_the_marks(lab):
    lab.pick("Triple spirals")
    lab.until(lambda: lab.shows("600"))
    marks = lab.page.get_by_label("Remove Mark")
    for count in (1, 2, 3):
        lab.key("m")
        lab.until(lambda count=count: marks.count() == count)
    marks.first.dblclick()
    lab.until(lambda: marks.count() < 3)
    assert lab.still(marks.count) == 2  # a second mark would be removed by now
    for left in (1, 0):  # the focus is on the next mark
        lab.page.keyboard.press("Enter")
        lab.until(lambda left=left: marks.count() == left)


def test_the_area_is_shown_with_its_error_in_its_group_and_in_the_status_bar(lab):
    lab.group("Place")
    assert "area" not in lab.status()
    lab.key("a")
    lab.until(lambda: re.search(r"area of the set 1\.\d{5} ± 0\.\d{5}", lab.status()))
    text = lab.page.locator(".area")
    assert text.count() == 0  # the text in the closed group does not exist
    lab.fits_the_window()
    lab.group("Explain")
    lab.until(lambda: "±" in text.inner_text())
    mean, error = (float(part) for part in re.findall(r"\d\.\d+", text.inner_text())[:2])
    assert abs(mean - 1.52) < 0.1 + 4 * error  # 1000 iterations count a little more than the set
    assert "1.50640 to 1.53121" in text.inner_text()
    lab.page.get_by_text("Area", exact=True).first.click()
    text.wait_for(state="hidden")
    lab.until(lambda: "area" not in lab.status())
