"""The crossover lab in Chromium: live sweeps, recorded curves, programs, roofline, traps and claims."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.labs.crossover.lessons import of_workload
from compute.labs.crossover.claims import conclusions
from compute.labs.crossover.trap import traps
from compute.ways.catalogue import workload, workloads
from tests.browser.crossover_page import MODEL, CrossoverPage, plant
from tests.browser.layout import faults
from tests.browser.serving import serve

SETUP = Path(__file__).with_name("crossover_setup.py")
RECORDED = {100: 1.0, 1000: 1e-4, 10_000: 1e-9}  # s per call, an impossible curve that crosses every other one
PLOT_SIZE = """(() => {
  const plot = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('roofline plot'));
  const {width, height} = plot.el.getBoundingClientRect();
  return [width, height];
})()"""
# Record the number of filled marks at each change of the data.
WATCH = f"""() => {{ {MODEL}
  const source = model('crossover dots');
  window.grown = [];
  source.properties.data.change.connect(() =>
    grown.push(source.data.fill.filter((fill, i) => fill == source.data.hue[i]).length));
}}"""
VIEWS = ("Crossover", "Programs", "Roofline", "Traps", "Claims checked")


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    plant(folder, "gpu_jax", RECORDED)
    with serve(folder, ("--setup", str(SETUP)), {"FIELDLAB_PLANTED": str(folder)}) as server:
        yield server


@pytest.fixture(scope="module")
def opened(planted, lasting):
    page = CrossoverPage(lasting(), planted)
    page.type("n from", "100")
    page.type("to", "10000")
    page.group("Measure")
    page.type("Sampling budget  [s]", "2")
    page.type("Longest call  [s]", "60")  # otherwise a pause of 0.2 s makes the sweep skip larger n
    page.choose("Points", "3 n per decade")
    page.group("Workload")
    return page


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    opened.page.keyboard.press("Escape")  # a menu that a failed test left open
    opened.turn("Crossover")
    opened.shows("Crossover")
    opened.group("Workload")
    yield opened
    lasting.complain(allowed_errors)


def measured(lab):
    """Run the sweep unless results exist, and wait until the status is Complete."""
    if not lab.dots(full=True):
        lab.page.get_by_role("button", name="Run", exact=True).click()
    lab.until(lambda: "Complete" in lab.status())


def test_nothing_runs_without_a_request_and_recorded_curves_are_hollow(lab):
    assert "Not run yet: press Run" in lab.still(lab.status, 0.5)
    assert lab.dots(full=True) == []
    assert lab.page.evaluate("Bokeh.documents[0].get_model_by_name('crossover plot').below[0].axis_label") == (
        "n [elements]")  # fmt: skip
    recorded = {(n, seconds, "gpu_jax @ NVIDIA H200") for n, seconds in RECORDED.items()}
    lab.until(lambda: {(dot["n"], dot["seconds"], dot["key"]) for dot in lab.dots()} == recorded)
    lab.until(lambda: "recorded on NVIDIA H200, 2026-11-20" in lab.says())
    names = "Array.from(Bokeh.documents[0].get_model_by_name('crossover names').data.text)"
    lab.until(lambda: lab.page.evaluate(names) == ["JAX, recorded"])


def test_a_missing_implementation_is_grey_with_its_install_command(lab):
    lab.group("Ways")
    missing = workload("add_one").way("gpu_jax")
    item = lab.page.locator("li.off").filter(has_text="JAX")
    assert item.get_by_role("checkbox").is_disabled()
    item.locator("summary").click()
    lab.until(lambda: item.locator(".why div").inner_text().split("\n") == [missing.missing, missing.backend.install])
    assert lab.page.locator("li:not(.off)").filter(has_text="NumPy").get_by_role("checkbox").is_checked()


def test_a_sweep_is_drawn_live_with_the_crossing_of_the_curves(lab):
    """The sentence, its numbers and the crossing are those of tests/app/labs/crossover/test_finding.py."""
    lab.page.evaluate(WATCH)
    lab.page.get_by_role("button", name="Run", exact=True).click()
    lab.until(lambda: "Complete" in lab.status())
    grown = lab.page.evaluate("window.grown")
    assert grown[0] < grown[-1]  # the marks do not appear all at once
    assert grown == sorted(grown)
    measured = {dot["n"] for dot in lab.still(lambda: lab.dots(full=True))}
    assert sorted(measured) == [100, 200, 500, 1000, 2000, 5000, 10_000]
    marked = """Bokeh.documents[0].get_model_by_name('crossover plot').center
      .filter((m) => m.type == 'Span').map((m) => [m.visible, m.location])[0]"""
    lab.until(lambda: lab.page.evaluate(marked)[0])
    sentence = r"JAX \(recorded\) is faster than (NumPy|Numba) from n ≈ ([\d ]+) on"
    found = lab.until(lambda: re.search(sentence, lab.says()))
    lab.until(lambda: lab.page.evaluate(marked)[1] == pytest.approx(float(found[2].replace(" ", "")), rel=0.06))
    headline = lab.page.locator(".readout .headline b")  # rewritten every second
    lab.until(lambda: lab.page.locator(".readout i.recorded").count() == 1)
    shown = "b => [getComputedStyle(b).color, parseFloat(getComputedStyle(b).webkitTextStrokeWidth)]"
    lab.until(lambda: headline.evaluate(shown) == ["rgba(0, 0, 0, 0)", 1.5])  # hollow like the recorded curve


def test_a_tap_on_a_line_shows_the_program_of_its_way(lab):
    measured(lab)
    lab.tap("cpu_numpy")
    lab.page.get_by_label("Program", exact=True).get_by_text("NumPy").wait_for()
    shown = lab.page.locator(".program pre:visible")
    lab.until(lambda: shown.count() == 1 and "    a += 1" in shown.first.inner_text())
    program = shown.first.inner_text()
    assert "prange" not in program  # which only the Numba way of the same file uses
    lab.choose("Compare with", "JAX")
    lab.until(lambda: shown.count() == 2 and "@jax.jit" in shown.last.inner_text())
    assert shown.first.inner_text() == program


def test_another_pair_and_no_recorded_curves_are_chosen(lab):
    measured(lab)
    lab.group("Compare")
    lab.choose("From which n is", "NumPy")
    lab.choose("faster than", "Numba")
    lab.until(lambda: re.search("NumPy is (faster|slower) than Numba", lab.says()))
    lab.choose("From which n is", "Best GPU way")
    lab.choose("faster than", "Best CPU way")
    lab.choose("Recorded curves", "none")
    lab.until(lambda: lab.dots(full=False) == [])
    lab.choose("Recorded curves", "of missing implementations")
    lab.until(lambda: len(lab.dots(full=False)) == len(RECORDED))


def test_measurements_are_saved_as_a_record(lab):
    measured(lab)
    lab.key("e")
    lab.page.get_by_role("button", name="Timings", exact=True).first.click()
    with lab.page.expect_download() as download:
        lab.page.get_by_role("button", name=re.compile("^JSON: ")).click()
    lab.key("e")
    results = json.loads(download.value.path().read_text(encoding="utf-8"))["results"]
    saved = {(r["way"], r["size"]): r["median"] for r in results if r["status"] == "measured"}
    assert saved == {(dot["key"], dot["n"]): pytest.approx(dot["seconds"]) for dot in lab.dots(full=True)}


def test_each_key_shows_a_view(lab):
    lab.until(lambda: of_workload(workload("add_one").about) in lab.says())
    for key, view in enumerate(VIEWS, start=1):
        lab.key(str(key))
        lab.shows(view)
    assert lab.page.locator(".held article").count() == len(conclusions())


def test_the_roofline_shows_the_parts_of_the_time_and_each_way(lab):
    measured(lab)
    lab.turn("Roofline")
    row = lab.page.locator(".split tr").filter(has_text="NumPy")
    row.locator("i.compute").wait_for()
    assert re.search(r"\d %$", row.locator("td").last.inner_text())
    dots = """['x', 'y'].map((c) => Array.from(
      Bokeh.documents[0].get_model_by_name('roofline dots')?.data[c] ?? []))"""
    x, y = lab.until(lambda: len((found := lab.page.evaluate(dots))[0]) == 2 and found)
    assert x == pytest.approx([1 / 16] * 2)  # one addition for 8 bytes read and 8 written
    times = [dot["seconds"] for dot in lab.dots(full=True) if dot["n"] == 10_000]
    assert sorted(y) == pytest.approx(sorted(10_000 / seconds for seconds in times))


def test_a_phone_scrolls_to_the_last_row_below_the_roofline(lab):
    measured(lab)
    lab.turn("Crossover")
    with lab.sized((390, 844)):
        lab.page.get_by_role("toolbar").get_by_role("button").first.wait_for()  # the bottom bar has its space
        lab.turn("Roofline")
        lab.until(lambda: (size := lab.page.evaluate(PLOT_SIZE)) and 0 < size[0] <= 390 and size[1] >= 200)
        last = lab.page.locator(".split tr").last
        last.click(trial=True)  # scrolls the row into view and fails if the row is covered
        box = last.bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 390


def test_a_change_of_settings_stops_the_sweep_and_starts_none(lab):
    lab.key("r")
    lab.until(lambda: "Running" in lab.status())
    lab.choose("Number type", "float32")
    lab.until(lambda: "Not run yet" in lab.status() and "float32" in lab.status())
    assert lab.still(lambda: ("Not run yet" in lab.status(), lab.dots()), 3) == (True, [])
    lab.until(lambda: "recorded curves are of float64" in lab.says())
    lab.choose("Number type", "float64")
    lab.until(lambda: len(lab.dots()) == len(RECORDED))


def test_a_trap_shows_both_programs_and_runs_them(lab):
    lab.key("4")
    lab.choose("Trap", "Timing the first call")
    lab.page.get_by_role("button", name="Run both").click()
    for side in ("wrong", "right"):
        lab.page.locator(f".seen tr td.{side}").last.wait_for()
    trap = next(trap for trap in traps() if trap.name == "first_call")
    assert lab.page.locator(".program.wrong pre").text_content() == trap.wrong.source
    assert lab.page.locator(".program.right pre").text_content() == trap.right.source


def test_a_wrong_n_is_refused_next_to_its_field(lab):
    words = lab.page.locator("nav").first.get_by_text("n must be from 1 to 100000000 for add_one, not 0")
    lab.type("n from", "0")
    words.wait_for()
    lab.type("n from", "100")
    words.wait_for(state="detached")


def test_another_workload_has_its_own_implementations_and_settings(lab):
    lab.choose("Workload", "Histogram")
    lab.page.get_by_label("Bins").wait_for()
    lab.group("Ways")
    lab.page.locator("li label .name").filter(has_text="private").wait_for()
    ways = [way.label for way in next(w for w in workloads() if w.name == "histogram").ways()]
    lab.until(lambda: lab.page.locator("li label .name").all_inner_texts() == ways)
    lab.group("Workload")
    lab.choose("Workload", "Add one")
    lab.until(lambda: "add_one" in lab.status())
    lab.type("n from", "100")
    lab.type("to", "10000")
    lab.until(lambda: len(lab.dots()) == len(RECORDED))


def test_no_view_is_cut_or_has_small_text(lab):
    for view in VIEWS:
        lab.turn(view)
        lab.shows(view)
        lab.fits_the_window()
        assert faults(lab.page) == []
