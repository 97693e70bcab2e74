"""The Mandelbrot lab in Chromium: places, iterations, precision, marks, area, and error messages."""

from __future__ import annotations

import re

import pytest

from app.labs.mandelbrot.bookmarks import HOME, places
from tests.browser.conftest import LAPTOP, PROJECTOR
from tests.browser.lab_page import ALL_MODELS, OPENING
from tests.browser.set_page import SetPage

SEAHORSE = places()["Seahorses 3e5"]
THIN = "\N{NARROW NO-BREAK SPACE}"
GROUPS = ("Place", "Iteration", "Explain", "Display", "Compute")


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


def test_the_comparison_uses_the_displayed_view(lab):
    """Regression: the comparison kept timing the first view, with 1/28 of the iterations of the lesson's scene."""
    headline = lab.page.locator(".readout .headline").first
    sentence = lab.page.locator(".readout .first").first
    for place, words in (("Lesson's scene", "over this computer"), ("Whole set", "over its CPU")):  # larger recordings
        lab.pick(place)
        lab.until(lambda: "Complete" in lab.status(), OPENING)
        lab.until(lambda words=words: words in headline.inner_text(), OPENING)
        lab.still(headline.inner_text, 2.0)
        assert "not comparable" not in sentence.inner_text().lower()


def test_a_key_shows_the_whole_set(lab):
    lab.pick("Seahorse valley")
    lab.until(lambda: lab.shows("40"))
    lab.key("0")
    lab.until(lambda: lab.shows(HOME.zoom))
    state = lab.state()
    assert 0.1 < state["inside"] / state["pixels"] < 0.4  # 1.5 of 2.5 * 2.5 * width / height


@pytest.mark.parametrize("precision", ["float64", "auto"])  # slow in its pixels; slow in its reference orbit
def test_a_long_picture_is_cancelled_by_the_next_move(lab, precision):
    lab.group("Iteration")
    lab.choose("Precision", precision)
    direct, place = precision == "float64", SEAHORSE
    if direct:  # iterate each pixel of the set to the end: shortcuts would skip most
        place = places()["Seahorse valley"]
        lab.page.get_by_label("Shortcuts").first.click()
    lab.go(*place.center, place.zoom, 10**7)
    lab.until(lambda: lab.fact("zoom") == "40" if direct else lab.fact("pixel").endswith("e-8"))
    lab.until(lambda: direct or "reference orbit" in lab.status())
    assert not lab.still(lambda: "Complete" in lab.status(), 1.5)
    lab.key("h")  # the page stays responsive
    lab.page.get_by_role("dialog").get_by_text("the whole set").first.wait_for()
    lab.key("h")
    lab.key("m")  # so does the server
    lab.group("Place")
    lab.page.get_by_label("Remove Mark").click()
    lab.key("Backspace")
    lab.until(lambda: lab.shows(HOME.zoom))
    lab.group("Iteration")
    if direct:
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
    assert lab.still(lab.page.get_by_text("float32 is exhausted").count, 0.5) <= 1  # although its numbers change
    lab.choose("Precision", "auto")
    lab.until(lambda: "exhausted" not in lab.status() and "perturbation" in lab.status())


def test_a_deliberately_slow_kernel_shows_its_reason(lab):
    lab.group("Compute")
    lab.choose("Kernel", "test each step")
    lab.page.get_by_text("compares after each step").wait_for()
    lab.until(lab.complete)
    lab.choose("Kernel", "block")
    lab.page.get_by_text("compares after each step").wait_for(state="detached")
    lab.until(lab.complete)


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
    ("Centre, imaginary part", "NaN", "center[1] must be a decimal number"),
    ("Centre, real part", "9", "center[0] must be from -8 to 8, not 9"),
    ("Zoom (the view is 4 / zoom high)", "0", "zoom must be from 1e-2 to 1e2000, not 0"),
    ("Zoom (the view is 4 / zoom high)", "-1", "zoom must be from 1e-2 to 1e2000, not -1"),
    ("Zoom (the view is 4 / zoom high)", "NaN", "zoom must be a decimal number"),
    ("Maximum iterations", "1e9", "max_iterations must be a whole number from 1 to 100000000, not '1e9'"),
    ("Maximum iterations", "", "max_iterations must be a whole number"),
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


def test_copied_coordinates_can_be_pasted(lab):
    """Regression: three lines were copied, which a single-line field joins to one number."""
    lab.pick("Seahorses 3e5")
    lab.until(lambda: lab.fact("zoom") == "3.0e5")
    lab.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    lab.page.get_by_role("button", name="Copy", exact=True).click()
    copied = lab.page.evaluate("window.copied")
    *center, zoom, most = copied.split(", ")
    assert [float(part) for part in center] == pytest.approx([float(part) for part in SEAHORSE.center], abs=1e-14)
    assert (zoom, most) == (SEAHORSE.zoom, str(SEAHORSE.max_iterations))
    lab.page.evaluate("window.copied = ''")
    lab.pick("Whole set")
    lab.until(lambda: lab.fact("zoom") == "1.5")
    lab.page.get_by_role("button", name="Go to …").click()
    zoom = lab.page.get_by_label("Zoom (the view is 4 / zoom high)")
    zoom.fill(copied)
    lab.until(lambda: zoom.input_value() == SEAHORSE.zoom)
    zoom.press("Enter")
    lab.until(lambda: lab.fact("zoom") == "3.0e5")
    lab.page.get_by_role("button", name="Copy", exact=True).click()
    assert lab.page.evaluate("window.copied") == copied


def test_wrong_coordinates_are_refused_next_to_the_field(lab):
    before = lab.settled(), lab.zoom()
    for field, text, words in REFUSED:
        lab.key("g")
        dialog = lab.page.get_by_role("dialog")
        dialog.get_by_label(field, exact=True).fill(text)
        dialog.get_by_role("button", name="Go").click()
        dialog.get_by_text(words).wait_for()
        lab.page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
    assert (lab.settled(), lab.zoom()) == before


def test_the_coordinates_dialog_opens_while_the_side_bar_is_closed(lab):
    """Regression: part of the closed side bar, the dialog was hidden, and covered the header's buttons."""
    lab.page.get_by_role("button", name="Hide controls").click()
    try:
        lab.key("g")
        dialog = lab.page.get_by_role("dialog").filter(has_text="Go to coordinates")
        dialog.wait_for(timeout=20_000)
        lab.page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
    finally:
        lab.page.get_by_role("button", name="Show controls").click()


def test_wrong_iterations_are_refused_below_the_field(lab):
    lab.group("Iteration")
    typed = "Maximum iterations, typed"
    field = lab.page.get_by_label(typed)
    lab.until(lambda: field.input_value() == f"1{THIN}000")
    for text in ("1e9", "0", "NaN", "many"):
        lab.type(typed, text)
        lab.page.get_by_text(f"max_iterations must be a whole number from 1 to 100000000, not '{text}'").wait_for()
        assert "iterations 1 000" in lab.status()
    lab.type(typed, "3e3")
    lab.until(lambda: lab.complete() and "iterations 3 000" in lab.status())
    lab.until(lambda: lab.page.get_by_text("must be a whole number").count() == 0)
    lab.until(lambda: field.input_value() == f"3{THIN}000")


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


def test_marks_lead_back_and_a_double_click_removes_only_one_of_them(lab):
    lab.pick("Triple spirals")
    lab.until(lambda: lab.shows("600"))
    lab.key("m")
    lab.page.get_by_label("Go to Mark").wait_for()
    lab.key("0")
    lab.until(lambda: lab.fact("zoom") == HOME.zoom)
    lab.page.get_by_label("Go to Mark").click()
    lab.until(lambda: lab.fact("zoom") == "600")
    marks = lab.page.get_by_label("Remove Mark")
    for count in (2, 3):
        lab.key("m")
        lab.until(lambda count=count: marks.count() == count)
    words = [marks.nth(place).get_attribute("title") for place in range(3)]
    marks.first.dblclick()
    lab.until(lambda: marks.count() < 3)
    titles = "(marks) => marks.map((mark) => mark.getAttribute('title'))"
    assert lab.still(lambda: marks.evaluate_all(titles)) == words[1:]  # a second mark would be removed by now
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


def test_a_paused_picture_continues_with_the_next_move(lab):
    lab.key(" ")
    lab.until(lambda: "Paused" in lab.status())
    lab.pick("Elephant valley")
    lab.until(lambda: lab.shows("200"))


def test_the_view_is_kept_while_another_lab_is_shown(lab):
    lab.pick("Triple spirals")
    lab.until(lambda: lab.shows("600"))
    lab.page.get_by_role("tab", name="Diffusion").click()
    lab.until(lambda: lab.fact("step") not in ("", "0"))
    lab.page.get_by_role("tab", name="Mandelbrot").click()
    lab.until(lambda: lab.fact("zoom") == "600")
    lab.pick("Whole set")
    lab.until(lambda: lab.shows(HOME.zoom))


def test_the_lessons_scene_has_the_lessons_size(lab):
    lab.pick("Lesson's scene")
    lab.until(lambda: lab.fact("pixel") == "5.0e-4")  # 1 of 2000 rows

    def of_the_lesson():
        state = lab.state()
        return state["width"] / state["height"] == pytest.approx(1.5, abs=0.01)

    lab.until(lambda: lab.complete() and of_the_lesson())
    lab.pick("Whole set")
    lab.until(lambda: lab.shows(HOME.zoom) and not of_the_lesson())


@pytest.mark.parametrize("size", [LAPTOP, PROJECTOR])
def test_nothing_overflows(lab, size):
    with lab.sized(size):
        lab.until(lambda: lab.state()["width"] > 0.3 * size[0])
        for name in GROUPS:
            lab.group(name)
            lab.fits_the_window()
        lab.go(*places()["Zoom 5e113"].center, "5e113", 1000)  # the longest text in the status bar
        lab.until(lambda: lab.fact("zoom") == "5.0e113")
        lab.fits_the_window()
