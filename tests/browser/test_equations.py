"""The equations lab in Chromium: a text is typed, its mistake found and mended, and its picture moves."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Locator

from compute.labs.equations.presets import presets
from tests.browser.lab_page import ALL_MODELS, OPENING, PATIENCE, SideBar

GRAY_SCOTT, HEAT = (presets()[name].text for name in ("gray_scott", "heat"))
PICTURES = f"""() => {{
  const source = {ALL_MODELS}.find((one) => one.name == 'frames' && one.data.show?.length);
  const sum = (name) => Array.from(source.data[name][0]).reduce((all, one) => (31 * all + one) % 1000003, 7);
  return source ? [sum('field'), sum('show')] : null;
}}"""
CURVE = f"""() => {{
  const figure = {ALL_MODELS}.find((one) => one.type == 'Figure' && /^Plot: .* against (x|y|t)\\b/.test(
    one.html_attributes['aria-label'] ?? '') && one.visible);
  const column = figure?.renderers[0].data_source.data;
  return figure ? [figure.html_attributes['aria-label'], ...Object.values(column).map((each) => each.length)] : null;
}}"""
WRITTEN = 3.0  # s after which the address holds the state: it is written every 2 s at most
PLACE = "(area) => area.value.slice(area.selectionStart, area.selectionStart + 3)"


class EquationsPage(SideBar):
    """A tab with the equations lab."""

    def __init__(self, page, server):
        self.page, self.server = page, server
        self.open(server.url)

    def open(self, url: str) -> None:
        """Load an address and wait for the lab's first steps."""
        self.page.goto(url)
        self.show_lab("Equations")
        self.until(lambda: self.step() > 0, OPENING)

    def step(self) -> int:
        """Return the step in the status bar, -1 without one."""
        found = re.search(r"step ([\d ]+)", self.status().replace("\N{NO-BREAK SPACE}", " "))
        return int(found[1].replace(" ", "")) if found else -1

    def mend_lap(self) -> None:
        """Go to the error in the text, which is "lpa", replace it by "lap" and apply the text."""
        self.page.get_by_role("button", name="Go to the error").click()
        self.until(lambda: self.text.evaluate(PLACE) == "lpa")
        for _ in "lpa":
            self.page.keyboard.press("Delete")
        self.page.keyboard.type("lap")
        self.page.keyboard.press("Control+Enter")
        self.page.locator(".fault").wait_for(state="hidden")

    def run(self) -> None:
        """Run the lab, and wait for its next step."""
        before = self.step()
        if "Paused" in self.status():
            self.key(" ")
        self.until(lambda: self.step() > before)

    @property
    def text(self) -> Locator:
        """The text area of the editor."""
        return self.page.get_by_label("Equations", exact=True).and_(self.page.locator("textarea"))


@pytest.fixture(scope="module")
def opened(lasting, server):
    return EquationsPage(lasting(), server)


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    lasting.complain(allowed_errors)


def test_a_mistake_is_shown_with_its_place_and_mended_while_the_lab_runs(lab):
    page = lab.page
    page.get_by_role("button", name="Load Heat").click()
    lab.until(lambda: lab.text.input_value() == HEAT)
    page.get_by_role("slider", name=re.compile(r"D \(0 to 1\)")).first.wait_for()
    lab.text.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(GRAY_SCOTT.replace("Dv*lap(v)", "Dv*lpa(v)"))
    fault = page.locator(".fault")
    fault.get_by_text("Line 2, column 10").wait_for()
    assert "did you mean 'lap'?" in fault.inner_text()
    before = lab.step()
    lab.until(lambda: lab.step() > before)  # the previous equations run on
    assert page.get_by_role("slider", name=re.compile(r"D \(0 to 1\)")).count()
    lab.mend_lap()
    page.get_by_role("slider", name=re.compile(r"k \(0.04 to 0.07\)")).first.wait_for()
    page.get_by_role("heading", name="u*v^2").wait_for()
    first = lab.until(lambda: page.evaluate(PICTURES))
    lab.until(lambda: page.evaluate(PICTURES) != first)
    assert lab.text.input_value() == GRAY_SCOTT


def test_numpy_computes_a_new_text_until_numba_is_compiled(lab):
    """Both are announced: screen readers read the notes."""
    unique = time.time_ns() % 10**9 / 1e9
    lab.text.click()
    lab.page.keyboard.press("Control+A")
    lab.page.keyboard.insert_text(GRAY_SCOTT.replace("- u*v^2", f"- (1 + {unique:.9f}e-9)*u*v^2"))
    lab.page.keyboard.press("Control+Enter")
    notes = lab.page.get_by_role("alert")
    notes.get_by_text("NumPy computes while Numba compiles …").wait_for()
    assert "computed by" in lab.status()
    first = lab.step()
    lab.until(lambda: lab.step() > first)  # NumPy's steps
    notes.get_by_text("Numba is compiled and computes.").wait_for(timeout=1000 * PATIENCE)
    assert notes.get_by_text("NumPy computes").count() == 0
    lab.until(lambda: "computed by" not in lab.status())
    before = lab.step()
    lab.until(lambda: lab.step() > before)
    assert before > first


def test_typed_text_and_a_moved_slider_are_in_the_link(lab, page):
    typed = GRAY_SCOTT.replace("show = u*v^2", "show = u - v")
    lab.text.click()
    lab.page.keyboard.press("Control+A")
    lab.page.keyboard.insert_text(typed)  # applied after a pause
    lab.page.get_by_role("heading", name="u - v").wait_for()
    slider = lab.page.get_by_role("slider", name=re.compile(r"k \(0.04 to 0.07\)")).first
    slider.focus()
    slider.press("End")
    lab.until(lambda: slider.input_value() == "0.07")
    lab.key(" ")
    lab.until(lambda: "Paused" in lab.status())
    link = lab.still(lambda: lab.page.url, 3)
    other = EquationsPage.of(page)
    page.goto(link)
    other.until(lambda: other.text.count() and other.text.input_value() == typed, OPENING)
    moved = page.get_by_role("slider", name=re.compile(r"k \(0.04 to 0.07\)")).first
    other.until(lambda: moved.input_value() == "0.07")


def test_about_a_preset_has_its_equation_and_its_source(lab):
    lab.page.get_by_role("button", name="About Gray–Scott").click()
    dialog = lab.page.get_by_role("dialog")
    dialog.get_by_text("Pearson").wait_for()
    assert dialog.locator("math").count()
    dialog.get_by_role("button", name="Load").click()
    dialog.wait_for(state="hidden")
    lab.until(lambda: lab.text.input_value() == GRAY_SCOTT)


def test_the_editor_gives_way_to_typeset_equations(lab):
    lab.key("f")
    lab.text.wait_for(state="hidden")
    lab.page.locator(".typed math:visible").first.wait_for()
    lab.key("f")
    lab.text.wait_for()


def test_the_second_panel_shows_a_profile_a_value_over_time_and_an_integral(lab):
    page = lab.page
    lab.run()
    lab.key("v")
    lab.until(lambda: page.evaluate(CURVE) == ["Plot: u against x [cells]", 256, 256])
    picture = page.get_by_role("figure", name="Picture: u").first
    box = picture.bounding_box()
    at = box["x"] + 0.6 * box["width"], box["y"] + 0.3 * box["height"]
    before = page.locator("h2", has_text="u along row").inner_text()
    page.mouse.click(*at)
    lab.until(lambda: page.locator("h2", has_text="u along row").inner_text() != before)
    lab.group("Display")
    lab.choose("Section", "Column, along y")
    lab.until(lambda: page.evaluate(CURVE) == ["Plot: u against y [cells]", 256, 256])
    lab.choose("Plotted quantity", "v")
    page.locator("h2", has_text="v along column").wait_for()
    lab.choose("Second panel", "Value at the probe")
    page.locator("h2", has_text="v at cell (").wait_for()
    first = lab.until(lambda: (found := page.evaluate(CURVE)) and found[1])
    lab.until(lambda: page.evaluate(CURVE)[1] > first)
    lab.key("v")
    page.locator("h2", has_text="Integral of v [v·length²]").wait_for()
    lab.until(lambda: page.evaluate(CURVE)[0] == "Plot: Σ v Δx Δy against t")
    lab.key("v")
    page.get_by_role("heading", name="u*v^2").wait_for()
    lab.group("Field", "Physics")


def test_settings_are_written_into_the_text_and_undone_by_back(lab):
    page = lab.page
    page.get_by_role("button", name="Load Heat").click()
    lab.until(lambda: lab.text.input_value() == HEAT)
    lab.run()
    lab.key(" ")
    lab.until(lambda: "Paused" in lab.status())
    step = lab.still(lab.step)
    page.get_by_text(re.compile(r"Stable up to about 1\.25")).wait_for()
    lab.choose("Edges", "periodic")
    lab.until(lambda: lab.text.input_value() == HEAT.replace("edges: zero-flux", "edges: periodic"))
    lab.type("Time step", "1.5")
    lab.until(lambda: lab.text.input_value() == HEAT.replace("edges: zero-flux", "edges: periodic") + "dt = 1.5\n")
    page.get_by_text("Unstable: above its bound").wait_for()
    lab.type("Time step", "1e8")
    page.get_by_text("dt = 1e+08 is outside").wait_for()
    lab.still(lambda: page.url, WRITTEN)
    lab.group("Compute")
    lab.choose("Scheme", "Runge–Kutta 3")
    lab.until(lambda: "scheme: rk3" in lab.text.input_value())
    assert lab.step() == step  # the fields are kept
    lab.still(lambda: page.url, WRITTEN)
    page.go_back()
    lab.until(lambda: "scheme: rk3" not in lab.text.input_value(), OPENING)
    lab.until(lambda: "dt = 1.5" in lab.text.input_value(), OPENING)
    lab.group("Field", "Physics")
