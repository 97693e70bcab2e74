"""The crossover lab in Chromium: live sweeps, recorded curves, programs, roofline, traps and claims."""

from __future__ import annotations

import re
from itertools import pairwise
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from app.labs.crossover.lessons import of_workload
from app.page.theme import DARK, LIGHT
from compute.labs.crossover.claims import conclusions
from compute.labs.crossover.trap import traps
from compute.measure import records
from compute.ways.catalogue import workload, workloads
from tests.browser.conftest import LAPTOP, PROJECTOR
from tests.browser.crossover_page import CrossoverPage, plant
from tests.browser.serving import serve

SETUP = Path(__file__).with_name("crossover_setup.py")
RECORDED = {100: 1.0, 1000: 1e-4, 10_000: 1e-9}  # s per call, an impossible curve that crosses every other one
PLOT_SIZE = """(() => {
  const plot = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('roofline plot'));
  const {width, height} = plot.el.getBoundingClientRect();
  return [width, height];
})()"""
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


def live_sweep(lab):
    """Run a sweep and return the marks after each change; a browser that paints few changes needs a longer budget."""
    lab.watch()
    lab.page.get_by_role("button", name="Run", exact=True).click()
    lab.until(lambda: "Complete" in lab.status())
    grown = lab.grown()
    for budget in ("10", "50"):
        if len({tuple(times) for times in grown}) > 3:
            break
        lab.group("Measure")
        lab.type("Sampling budget  [s]", budget)
        lab.watch()
        lab.key("r")
        lab.until(lab.grown)
        lab.until(lambda: lab.still(lambda: ("Complete" in lab.status(), len(lab.grown())))[0])
        grown = lab.grown()
        fewer = [i for i, (before, now) in enumerate(pairwise(grown), 1) if len(now) < len(before)]
        grown = grown[max(fewer, default=0) :]  # changes since the restart
    return grown


def test_a_sweep_is_drawn_live_with_the_crossing_of_the_curves(lab):
    grown = live_sweep(lab)
    assert len({tuple(times) for times in grown}) > 3  # marks appear, and move while the medians converge
    assert [len(times) for times in grown] == sorted(len(times) for times in grown)
    ways = {}
    for dot in lab.still(lambda: lab.dots(full=True)):
        ways.setdefault(dot["key"], {})[dot["n"]] = dot["seconds"]
    best = min(ways.values(), key=lambda series: series[10_000])  # the way that is compared
    assert sorted(best) == [100, 200, 500, 1000, 2000, 5000, 10_000]
    gains = [log(best[n]) - np.interp(log(n), [log(k) for k in RECORDED], [log(t) for t in RECORDED.values()])
             for n in best]  # fmt: skip
    (n0, g0), (n1, g1) = [p for p in pairwise(zip(best, gains, strict=True)) if p[0][1] <= 0 < p[1][1]][-1]
    crossing = exp(log(n0) + log(n1 / n0) * -g0 / (g1 - g0))  # linear interpolation in log-log
    marked = """Bokeh.documents[0].get_model_by_name('crossover plot').center
      .filter((m) => m.type == 'Span').map((m) => [m.visible, m.location])[0]"""
    lab.until(lambda: lab.page.evaluate(marked) == [True, pytest.approx(crossing)])
    sentence = r"JAX \(recorded\) is faster than (NumPy|Numba) from n ≈ ([\d ]+) on"
    found = lab.until(lambda: re.search(sentence, lab.says()))
    assert float(found[2].replace(" ", "")) == pytest.approx(crossing, rel=0.06)  # two figures are shown
    ratio = best[10_000] / RECORDED[10_000]
    headline = lab.page.locator(".readout .headline b")  # rewritten every second
    estimate = float(f"{ratio:.2g}")  # two figures are shown without an interval
    lab.until(lambda: float(re.sub(r"[\s×≈]", "", headline.text_content())) == pytest.approx(estimate, rel=0.01))
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


def test_any_pair_can_be_compared(lab):
    measured(lab)
    lab.group("Compare")
    lab.choose("From which n is", "NumPy")
    lab.choose("faster than", "Numba")
    lab.until(lambda: re.search("NumPy is (faster|slower) than Numba", lab.says()))
    lab.choose("From which n is", "Best GPU way")
    lab.choose("faster than", "Best CPU way")
    lab.until(lambda: "JAX (recorded) is faster" in lab.says())
    lab.choose("Recorded curves", "none")
    lab.until(lambda: lab.dots(full=False) == [])
    lab.choose("Recorded curves", "of missing implementations")
    lab.until(lambda: len(lab.dots(full=False)) == len(RECORDED))


def test_measurements_are_saved_as_a_record(lab, tmp_path):
    measured(lab)
    path = tmp_path / "record.json"
    lab.key("e")
    lab.page.get_by_role("button", name="Timings", exact=True).first.click()
    for _ in range(2):  # a second download has the same content
        path.unlink(missing_ok=True)
        with lab.page.expect_download() as download:
            lab.page.get_by_role("button", name=re.compile("^JSON: ")).click()
        download.value.save_as(path)
    lab.key("e")
    saved = {(r["way"], r["size"]): r["median"] for r in records.load(path)["results"] if r["status"] == "measured"}
    assert saved == {(dot["key"], dot["n"]): pytest.approx(dot["seconds"]) for dot in lab.dots(full=True)}


def test_the_lesson_is_shown_first_and_each_key_shows_a_view(lab):
    taught = of_workload(workload("add_one").about)
    lab.until(lambda: taught in lab.says())
    chosen = lab.page.locator("[aria-pressed=true]").filter(visible=True)
    for key, view in enumerate(VIEWS, start=1):
        lab.key(str(key))
        lab.shows(view)
        lab.until(lambda view=view: view in chosen.all_inner_texts())
    lab.key("6")
    lab.shows(VIEWS[-1])


def test_the_roofline_shows_the_parts_of_the_time_and_the_nearest_roof(lab):
    measured(lab)
    lab.turn("Roofline")
    row = lab.page.locator(".split tr").filter(has_text="NumPy")
    row.locator("i.compute").wait_for()
    assert row.locator("i").count() == 1  # the host launches no kernels
    assert re.search(r"\d %$", row.locator("td").last.inner_text())
    lab.until(lambda: len(lab.page.evaluate(
        "Array.from(Bokeh.documents[0].get_model_by_name('roofline dots')?.data.x ?? [])")) == 2)  # fmt: skip
    x, y = lab.page.evaluate("""['x', 'y'].map((c) => Array.from(
      Bokeh.documents[0].get_model_by_name('roofline dots').data[c]))""")
    assert x == pytest.approx([1 / 16] * 2)  # one addition for 8 bytes read and 8 written
    times = {dot["key"]: dot["seconds"] for dot in lab.dots(full=True) if dot["n"] == 10_000}
    assert sorted(y) == pytest.approx(sorted(10_000 / seconds for seconds in times.values()))
    lab.until(lambda: "is work" in lab.says() or "of the time of" in lab.says())


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


def test_the_claims_are_listed_below_the_workloads_description(lab):
    lab.turn("Claims checked")
    lab.page.get_by_text("The lesson.").wait_for()
    lab.page.locator(".held article").first.wait_for()
    assert lab.page.locator(".held article").count() == len(conclusions())
    lab.until(lambda: "conclusions of tutorials hold" in lab.says())


def test_a_change_of_settings_stops_the_sweep_and_starts_none(lab):
    lab.watch()
    lab.key("r")
    lab.until(lab.grown)
    lab.choose("Number type", "float32")
    lab.until(lambda: "Not run yet" in lab.status() and "float32" in lab.status())
    state = lab.still(lambda: ("Not run yet" in lab.status(), "done 0 %" in lab.status(), lab.dots()), 3)
    assert state == (True, True, [])
    lab.until(lambda: "recorded curves are of float64" in lab.says())
    lab.choose("Number type", "float64")
    lab.until(lambda: len(lab.dots()) == len(RECORDED))
    lab.key(" ")
    lab.until(lambda: lab.dots(full=True))
    lab.key(" ")
    lab.until(lambda: "Paused" in lab.status() or "Complete" in lab.status())


def test_a_trap_shows_both_programs_and_runs_them(lab):
    lab.key("4")
    lab.choose("Trap", "Timing the first call")
    row = lab.page.locator(".seen tr").last

    def times():
        cells = [row.locator(f"td.{side}").all_text_contents() for side in ("wrong", "right")]
        return [float(re.sub(r"\s", "", words[0])) for words in cells if words]

    for _ in range(3):  # a machine that stalls during the sum reverses the order
        before = times()
        lab.page.get_by_role("button", name="Run both").click()
        wrong, right = lab.until(lambda before=before: len(now := times()) == 2 and now != before and now)
        if wrong > right > 0:
            break
    assert wrong > right > 0  # a compilation takes longer than a sum
    trap = next(trap for trap in traps() if trap.name == "first_call")
    assert lab.page.locator(".program.wrong pre").text_content() == trap.wrong.source
    assert lab.page.locator(".program.right pre").text_content() == trap.right.source
    lab.page.get_by_text("What you see.").wait_for()


def test_a_wrong_n_is_refused_next_to_its_field(lab):
    for label, text, words in (
        ("n from", "0", "n must be from 1 to 100000000 for add_one, not 0"),
        ("n from", "20000", "least must be"),
        ("to", "1e12", "n must be from 1 to 100000000 for add_one"),
        ("to", "many", "must be a whole number, not 'many'"),
    ):
        lab.type(label, text)
        lab.page.locator("nav").first.get_by_text(words).wait_for()
        lab.type(label, {"n from": "100", "to": "10000"}[label])
        lab.page.locator("nav").first.get_by_text(words).wait_for(state="detached")


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


@pytest.mark.parametrize("size", [LAPTOP, PROJECTOR])
def test_nothing_overflows_and_no_text_is_small(lab, size):
    with lab.sized(size):
        for view in VIEWS:
            lab.turn(view)
            lab.shows(view)
            lab.fits_the_window()
            lab.until(lambda: lab.smallest()[0] > 13.5)  # 14, but heights are rounded


def test_marks_have_the_colours_of_the_scheme(lab):
    hues = "Array.from(Bokeh.documents[0].get_model_by_name('crossover dots').data.hue)"
    assert set(lab.page.evaluate(hues)) <= {LIGHT["cpu"], LIGHT["gpu"]}
    lab.page.get_by_label("Toggle theme").click()
    lab.until(lambda: set(lab.page.evaluate(hues)) <= {DARK["cpu"], DARK["gpu"]})
    lab.page.get_by_label("Toggle theme").click()
    lab.until(lambda: LIGHT["gpu"] in lab.page.evaluate(hues))
