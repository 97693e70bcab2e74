"""The parts of the crossover tab that need no browser: the crossing, the style of each mark, the texts."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bokeh.models import LogAxis, Range1d

from app.labs.crossover.controls import NOTHING_MEASURED, CrossoverControls
from app.labs.crossover.findings import finding_html, sentence_html, verdicts
from app.labs.crossover.labels import WayStyle, duration, quartiles, rate, way_styles
from app.labs.crossover.programs import highlighted, trap_result
from app.labs.crossover.readout import SavedSweep, as_csv, as_json, as_pyperf, as_trace, number, reason
from app.labs.crossover.roofline import MEASURED_WIDTH, RECORDED_WIDTH, RooflinePlot
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.labs.crossover.time_parts import SizeChoice, parts_html, shown_curve, time_parts
from app.labs.crossover.time_plot import (
    TimePlot,
    TimePlotContent,
    cited_columns,
    line_columns,
    named_ends,
    point_columns,
    point_text,
    quartile_columns,
)
from app.labs.crossover.view import CrossoverView
from app.labs.crossover.way_list import list_items, state
from app.page.explain import WORDS
from app.page.theme import LIGHT, letter, type_size
from app.tab.curve_plots import LogWindow
from compute.labs.crossover import Crossover
from compute.labs.crossover.claims import Conclusion
from compute.labs.crossover.picture import ShownPoint, ShownWay, recorded_way, why_above_roof
from compute.labs.crossover.trap import traps
from compute.measure import records
from compute.measure.rates import DISTURBED, Cache, spaced
from compute.measure.statistics import Spread
from compute.ways import recorded, roofline
from compute.ways.catalogue import workload, workloads
from compute.ways.finding import BEST_CPU, BEST_GPU, TimeCurve, compare, sides
from compute.ways.recorded import RecordedCurve, RecordedParts
from compute.ways.roofline import Roof
from compute.ways.workload import Cited, Way
from tests.direct import DirectSession

ADD = workload("add_one")
NUMPY, NUMBA, CUPY = ADD.way("cpu_numpy"), ADD.way("cpu_numba"), ADD.way("gpu_cupy")


def spread(median):
    return Spread(median, 0.9 * median, 1.1 * median, 9)


def line(way, times, **more):
    return TimeCurve(way, {n: spread(t) for n, t in times.items()}, **more)


def plain(text):
    return html.unescape(re.sub(r"<[^>]+>", "", text))


SLOW_START = line(NUMBA, {10: 1e-5, 100: 1e-5, 1000: 1e-5, 10_000: 1e-4})
PROPORTIONAL = line(NUMPY, {10: 1e-7, 100: 1e-6, 1000: 1e-5, 10_000: 1e-4})
FLAT = line(CUPY, {10: 3e-6, 100: 3e-6, 1000: 3e-6, 10_000: 3e-6})


def test_the_uncertainty_of_a_crossing_is_that_of_the_quartiles():
    found = compare(*sides([line(NUMBA, {10: 1e-5, 10_000: 2e-4}), PROPORTIONAL, FLAT]))
    assert found.crossing.n == pytest.approx(300)  # 1e-8 n = 3e-6
    # 300 (0.9 / 1.1)^±1, to two figures
    assert found.uncertainty(spaced) == "by the quartiles 250 to 370; both measured from n = 10 to 10\u202f000"


def test_without_a_gpu_the_fastest_on_the_host_stands_against_the_slowest():
    quick = line(NUMBA, {10: 1e-6, 100: 1e-7})
    found = compare(*sides([PROPORTIONAL, quick]))
    assert found.names == ("Numba", "NumPy")
    assert compare(*sides([])).n == 0
    assert compare(*sides([PROPORTIONAL], "cpu_numpy", BEST_GPU)).ratio is None


def test_no_way_is_compared_with_itself():
    quick = line(NUMBA, {10: 1e-8, 1000: 1e-6})
    for slow, fast in ((BEST_CPU, quick.key), (quick.key, BEST_CPU)):
        found = compare(*sides([PROPORTIONAL, quick, FLAT], slow, fast))
        one, other = (PROPORTIONAL, quick) if slow == BEST_CPU else (quick, PROPORTIONAL)
        assert (found.slow.lines, found.fast.lines) == ((one,), (other,))
    for slow, fast, lines in (
        (BEST_CPU, quick.key, [quick, FLAT]), (quick.key, quick.key, [quick, FLAT]), (BEST_CPU, BEST_CPU, [quick]),
    ):  # fmt: skip
        found = compare(*sides(lines, slow, fast))
        assert (found.n, found.sentence) == (0, "Numba: no other way to compare it with")
    both = compare(*sides([PROPORTIONAL, quick], BEST_CPU, BEST_CPU))
    assert (both.n, both.sentence) == (0, "best CPU way: no other way to compare it with")


def test_full_marks_are_measured_hollow_ones_recorded_and_pale_ones_noisy():
    recorded = line(CUPY, {10: 1e-6}, machine="NVIDIA H200", date="2026-11-21", noisy=frozenset({10}))
    mine = line(NUMPY, {10: 2e-6, 100: 3e-6}, noisy=frozenset({100}))
    empty = line(NUMBA, {})
    figures = [Cited("NumPy", 100, "", 1.0, "a CPU"), Cited("x", 10**9, "", 1.0, "M")]
    picture = TimePlotContent(
        [mine, empty, recorded], way_styles(ADD.ways()), figures, sizes=(10, 1000), chosen=mine.key
    )
    marks = point_columns(picture, LIGHT)
    assert marks["fill"] == [LIGHT["cpu"], LIGHT["cpu"], LIGHT["paper"]]
    assert marks["hue"] == [LIGHT["cpu"], LIGHT["cpu"], LIGHT["gpu"]]
    assert marks["alpha"][0] == 1 > marks["alpha"][1]
    assert "noisy" in marks["words"][1]
    assert "recorded on NVIDIA H200, 2026-11-21" in marks["words"][2]
    assert len(set(zip(marks["marker"], marks["hue"], strict=True))) == 2
    drawn = line_columns(picture, LIGHT)
    assert drawn["key"] == ["cpu_numpy", "gpu_cupy @ NVIDIA H200"]  # a way without a time has no line
    assert drawn["width"][0] > drawn["width"][1]
    assert quartile_columns(picture, LIGHT)["q1"][0] == pytest.approx(1.8e-6)
    assert cited_columns(picture, LIGHT)["name"] == ["NumPy"]  # the other one lies outside the range
    texts = [end.text for end in named_ends(picture, LIGHT)]
    assert texts == [mine.label, f"{recorded.label}, recorded", "NumPy, cited"]


@pytest.mark.parametrize("height", [110, 200, 500])  # px
def test_names_lie_within_the_plot_and_those_that_the_sentence_tells_come_first(height):
    lines = [
        line(way, {10: 1e-6, 100: 1e-4}, machine=f"M{i}", date="2026-11-21") for i in range(4) for way in (CUPY, NUMPY)
    ]
    mine = [line(NUMPY, {10: 1e-6, 100: 2e-4}), line(NUMBA, {10: 2e-6, 100: 1e-4})]
    content = TimePlotContent(
        lines + mine, way_styles(ADD.ways()), [Cited("NumPy", 100, "", 1e-4, "a CPU")],
        compare(*sides(mine, "cpu_numpy", "cpu_numba")), sizes=(10, 1000),
    )  # fmt: skip
    plot = TimePlot(lambda key: None)
    plot.set_theme(False, False)
    plot.resize(700, height)
    plot.show(content)
    inner = plot.inner[1]
    names, places = plot.names.data["text"], [plot.y.part(y) * inner for y in plot.names.data["y"]]
    gap = 1.25 * type_size(False)
    assert len(names) == min(11, max(1, int(inner / gap)))
    assert {"Numba", "NumPy"} <= {*names} or height < 2 * gap
    assert min(places) >= gap / 2 - 0.01
    assert max(places) <= inner - gap / 2 + 0.01
    assert np.diff(sorted(places)).min() >= gap - 0.01


@pytest.mark.parametrize(("width", "longest"), [(326, "Numba"), (700, "on a GPU, NVIDIA H200, cited")])  # px
def test_a_name_is_as_long_as_there_is_room_for(width, longest):
    lines = [line(NUMBA, {10: 1e-6, 1000: 1e-4}, machine="M", date="2026-11-21")]
    cited = [Cited("on a GPU, NVIDIA H200", 1000, "", 1e-6, "a GPU")]
    plot = TimePlot(lambda key: None)
    plot.set_theme(False, False)
    plot.resize(width, 400)
    plot.show(TimePlotContent(lines, way_styles(ADD.ways()), cited, None, sizes=(10, 1000)))
    inner = plot.inner[0]
    ends = [plot.x.part(x) * inner for x in plot.names.data["x"]]
    assert longest in plot.names.data["text"]
    for end, name in zip(ends, plot.names.data["text"], strict=True):
        assert end + letter(False) * len(name) <= inner, name


def test_a_way_that_disagrees_has_no_line_and_says_so():
    values = {"workload": "add_one", "dtype": "float64", "settings": {}, "least": 10, "most": 100, "split": False,
              "evict": False, "budget": 1.0}  # fmt: skip
    model = SweepViewModel(SimpleNamespace(values=values))
    wrong = ShownPoint(10, "disagrees", "differs by 1e-3 <&", 1e-3, 1.0, None)
    right = [ShownPoint(n, "measured", "", 0.0, 1.0, spread(1e-6 * n)) for n in (10, 100)]
    right.append(ShownPoint(1000, "skipped", "too slow", 0.0, 1.0, None))
    model.measured = {"cpu_numba": ShownWay("cpu_numba", "Numba", "host", (wrong,)),
                      "cpu_numpy": ShownWay("cpu_numpy", "NumPy", "host", tuple(right))}  # fmt: skip
    model.lines = [TimeCurve(NUMPY, model.measured["cpu_numpy"].series())]
    said = sentence_html(model, running=False)
    assert "tabindex='0' role='note' aria-label='Numba disagrees: no time: differs by 1e-3 &lt;&amp;'" in said
    assert "aria-label='NumPy skipped at n = 1\u202f000: too slow'" in said
    assert state(model.measured["cpu_numba"]) == ("disagrees", "bad", "differs by 1e-3 <&")
    assert state(model.measured["cpu_numpy"])[0] == "100\u202fµs"
    assert "Numba" not in "".join(point_columns(model.time_plot_content(), LIGHT)["name"])


def test_every_program_is_shown_character_for_character():
    programs = [way for w in workloads() for way in w.ways()]
    programs += [side for trap in traps() for side in (trap.wrong, trap.right)]
    for program in programs:
        assert plain(highlighted(program.source)) == program.source
    assert plain(highlighted("a = 'é\t<b>'  # < &\n\nif a:\n\tb = 1\n")) == "a = 'é\t<b>'  # < &\n\nif a:\n\tb = 1\n"


@dataclass(frozen=True)
class Absent(Way):
    """Way that needs a library which is not installed."""

    @property
    def missing(self):
        return "no such library"


def test_a_reason_and_an_install_line_stand_once_for_all_ways_of_a_library():
    ways = (NUMPY, *(Absent("add_one", CUPY.backend, variant) for variant in ("", "kernel")))
    items = list_items(ways, ["cpu_numpy", "gpu_cupy"], {"cpu_numpy": ("1 ms", "noisy", "why")})
    assert [item["off"] for item in items] == [False, True, True]
    assert [item["on"] for item in items] == [True, False, False]
    assert [item["why"] for item in items] == ["", "", "no such library"]
    assert (items[0]["state"], items[0]["tone"], items[0]["title"]) == ("1 ms", "noisy", f"why. {WORDS['noisy']}")
    assert list_items(ways, [], {"cpu_numpy": ("1 ms", "", "why")})[0]["title"] == "why"


def test_the_parts_of_a_time_add_up_to_it():
    spot = ShownPoint(10, "measured", "", 0.0, 1.0, spread(1e-3), launch=2e-4, transfer=5e-3)
    assert time_parts(spot, "cuda") == pytest.approx((2e-4, 8e-4, 5e-3))
    assert time_parts(spot, "host") == pytest.approx((0.0, 1e-3, 5e-3))
    late = ShownPoint(10, "measured", "", 0.0, 1.0, spread(1e-5), launch=2e-5)
    assert time_parts(late, "cuda") == pytest.approx((1e-5, 0.0, 0.0))  # the host launches while the device waits
    shown = parts_html([ShownWay("a", "<A>", "cuda", (spot,))], 10, transfers=True)
    assert "&lt;A&gt;" in shown
    assert "press Run" in parts_html([], 10, transfers=True)
    for word in ("launch", "in all", "transfers", "memory", "arithmetic", "of the roof"):
        assert re.search(rf"<span class='term' [^>]*data-term='{word}'>{word}</span></th>", shown), word
    assert (spot.launch_bound, late.launch_bound) == (False, True)
    assert ">launch-bound<" not in shown
    assert ">launch-bound<" in parts_html([ShownWay("a", "a", "cuda", (late,))], 10, transfers=False)


def test_a_time_at_a_low_clock_is_marked_in_the_readout_the_details_and_the_tooltip():
    slow = ShownPoint(10, "measured", "", 0.0, 1.0, spread(1e-3), clock_rate=0.17)
    (row,) = re.findall(r"<div class='note'>.*?</div>", parts_html([ShownWay("a", "a", "cuda", (slow,))], 10, True))
    assert plain(row).strip() == "low clock"
    curve = line(NUMPY, {10: 1e-3, 100: 1e-2}, low_clock=frozenset({10}))
    for n, marked in ((10, True), (100, False)):
        assert ("low clock" in point_text(curve, n, curve.series[n])) == marked


def test_what_a_trap_saw_is_said_in_every_case():
    trap = traps()[0]
    key = next(iter(trap.seen))
    assert "Measured: " in trap_result(trap, None, None)
    assert "148" in trap_result(trap, None, ({key: 148.0}, {key: 0.5}))
    assert "KeyError" in trap_result(trap, None, ("KeyError: x", {key: 0.5}))
    gone = SimpleNamespace(missing="no <library>", backend=SimpleNamespace(install="pip install it"))
    assert "Cannot run here: no &lt;library&gt;" in trap_result(trap, gone, None)


def test_a_claim_that_was_not_measured_shows_nothing_of_ours():
    shown = verdicts([Conclusion("sort", "Sort", "A < B", "1 s", "", "not measured yet", ("", ""))])
    assert "A &lt; B" in shown
    assert "recorded" not in shown
    shown = verdicts([Conclusion("sort", "Sort", "A", "1 s", "2 s", "does not hold", ("NVIDIA H200", "2026-11-21"))])
    assert "recorded on NVIDIA H200, 2026-11-21" in shown
    assert "class='verdict fails'" in shown


def test_a_sweep_is_saved_in_four_formats_that_say_the_same():
    lab = Crossover(ways=["cpu_numpy"], most=100, per_decade=1, budget=0.1, backend="cpu_numba")
    lab.run()
    sweep = SavedSweep(lab.snapshot())
    lab.close()
    found = json.loads(as_json(sweep))
    records.check(found, "here")
    medians = {r["size"]: r["median"] for r in found["results"]}
    assert sorted(medians) == [10, 100]
    rows = list(csv.DictReader(io.StringIO(as_csv(sweep))))
    assert {int(row["size"]): float(row["median_s_per_step"]) for row in rows} == medians
    runs = [benchmark["runs"][0]["values"] for benchmark in json.loads(as_pyperf(sweep))["benchmarks"]]
    assert [np.median(values) for values in runs] == pytest.approx([medians[10], medians[100]])
    assert json.loads(as_trace(sweep))["traceEvents"]


def test_an_axis_leaves_room_for_names():
    range_ = Range1d(0, 1)
    window = LogWindow(range_, LogAxis(), 5, room=0.25)
    window.fit(np.array([1.0, 1e4]))
    first, last = np.log10(range_.start), np.log10(range_.end)
    assert (window.shown[1] - window.shown[0]) / (last - first) == pytest.approx(0.75)
    assert window.value(window.part(123.0)) == pytest.approx(123.0)
    assert window.part(range_.end) == pytest.approx(1.0)


def test_the_slider_stays_at_the_largest_n_until_it_is_moved():
    heard = []
    choice = SizeChoice(lambda: heard.append(choice.n))
    choice.offer([10, 100])
    assert (choice.n, heard) == (100, [])
    choice.slider.value = 10
    assert heard == [10]
    choice.offer([10, 100, 1000])
    assert choice.n == 10
    choice.offer([])
    assert choice.n == 0
    choice.offer([10, 300], [10, 1000])  # it begins where both have a time
    assert (choice.n, list(choice.slider.options.values())) == (10, [10, 300, 1000])


def test_times_and_rates_in_words():
    said = [duration(t).replace("\u202f", " ") for t in (12.3, 1e-3, 4.56e-7, 0.0, float("nan"))]
    assert said == ["12.3 s", "1.00 ms", "456 ns", "0 s", "–"]
    with pytest.raises(ValueError, match="must not be negative, not -1"):
        duration(-1.0)
    assert rate(3.2e12, "B/s") == "3.20\u202fTB/s"
    assert rate(float("nan"), "B/s") == "–"
    assert quartiles(Spread.of([2e-6])) == "1 sample"
    assert quartiles(Spread.of([n * 1e-6 for n in range(1, 6)])) == "2.00\u202fµs to 4.00\u202fµs, 5 samples"


def test_a_way_above_the_roof_has_the_reason_in_its_row(monkeypatch):
    """1000 float64 of add_one move 16 kB per call: 16 GB/s under a roof of 10 GB/s."""
    monkeypatch.setattr(roofline, "host_caches", lambda: (Cache("L1", 64_000),))
    facts = {"roof host bandwidth": 10e9, "roof host flops": 1e12, "evict": 0.0}
    frame = SimpleNamespace(facts=facts, notes={"dtype": "float64"})
    fast = ShownPoint(
        1000, "measured", "", 0.0, 1.0, spread(1e-6), intensity=1 / 16, flops=1e9, moved=16e9, percent=160.0
    )

    def shown(point):
        way = ShownWay("cpu_numpy", "NumPy", "host", (point,))
        return parts_html([way], 1000, transfers=True, why=partial(why_above_roof, frame))

    assert "<div class='note'>in cache: 16 kB fit the L1 of 64 kB</div></td>" in shown(fast)
    cells = re.findall(r"<td class='num[^>]*>(.*?)</td>", shown(fast))
    assert [plain(cell) for cell in cells[-3:]] == ["16.0\u202fGB/s", "1.00\u202fGFLOP/s", "160 %"]
    facts["evict"] = 1.0  # a sweep that empties the caches before each call
    assert DISTURBED in shown(fast)
    below = shown(replace(fast, percent=60.0))
    assert ">60 %</td></tr>" in below
    assert "class='note'" not in below
    facts.clear()  # without a measured roof no point lies above it
    assert "class='note'" not in shown(fast)


def test_a_way_that_loses_is_said_to_be_slower_and_why():
    """Numba takes 10 µs at any n up to 1000: the overhead of a call."""
    quick = line(NUMPY, {10: 1e-7, 100: 1e-6, 1000: 1e-5 / 2.6})
    found = compare(*sides([SLOW_START, quick], "cpu_numpy", "cpu_numba"))
    assert "2.6×<small> slower</small></b><span>Numba than NumPy at n = 1" in number(found)
    assert "<p class='reason'>a call by itself dominates: n = 100 takes almost as long</p>" in reason(found)
    assert plain(finding_html(found)) == "Numba is slower than NumPy at every n of both"
    grown = compare(*sides([line(NUMBA, {10: 1e-6, 1000: 1e-4}), PROPORTIONAL], "cpu_numpy", "cpu_numba"))
    assert "its time grows with n, so the cost of a call is not the reason; its limit is not" in reason(grown)
    single = compare(*sides([line(NUMBA, {1000: 1e-4}), PROPORTIONAL], "cpu_numpy", "cpu_numba"))
    assert "<p class='reason'>its limit is not measured</p>" in reason(single)
    assert reason(compare(*sides([SLOW_START, quick], "cpu_numba", "cpu_numpy"))) == ""
    flat = compare(*sides([line(NUMPY, {10: 1e-7, 1000: 1e-6}), FLAT]))
    assert flat.reason_slower() == "launching dominates: n = 100 takes almost as long"


@pytest.fixture
def gpu_curves():
    """Return the curves of a recorded GPU with known parts, rates and roof."""
    parts = {100: RecordedParts(1e-6, 5e-6, 0.5, 40.0)}
    roof = Roof("cuda:0", "float64", 4e12, 3e13)
    about = "NVIDIA <H>", "2026-11-22", "add_one", "gpu_cupy", "CuPy", "float64", {}, False
    rates = {100: (2e9, 1e9)}
    return [RecordedCurve(*about, {100: spread(4e-6)}, "measured", rates=rates, roof=roof, parts=parts)]


def test_a_recorded_gpu_has_hollow_parts_of_its_time(gpu_curves):
    spot = ShownPoint(100, "measured", "", 0.0, 1.0, spread(1e-3))
    host = ShownWay("cpu_numpy", "NumPy", "host", (spot,))
    html = parts_html([host], 100, True, gpu_curves)
    place = "recorded</span> on NVIDIA &lt;H&gt;, 2026-11-22</td></tr>"
    assert html.index("NumPy") < html.index(place) < html.index("<tr class='gpu recorded'><td class='way'>CuPy</td>")
    alone = parts_html([], 100, True, gpu_curves)
    assert "width:11.11%" in alone  # launching is 1 of 9 µs
    assert "width:55.56%" in alone  # transfers are 5 of 9 µs
    assert "press Run" in alone
    assert f">{duration(4e-6)}<" in alone  # total: launching and computing, without transfers
    other = ShownWay("cpu_numpy", "NumPy", "host", (replace(spot, n=30),))
    assert "CuPy" not in parts_html([other], 30, True, gpu_curves)


def test_a_recorded_gpu_is_a_hollow_dot_below_its_own_thin_roof(gpu_curves):
    curve = gpu_curves[0]
    plot, styles = RooflinePlot(), {"gpu_cupy": WayStyle("circle", "●", "solid", "gpu")}
    told = {"recorded": {"gpu_cupy"}, "recorded_roofs": {"cuda"}}
    assert plot.show([shown_curve(curve)], styles, {"cuda": curve.roof}, 100, **told) == 1
    dots, roofs = plot.dots.data, plot.roofs.data
    assert (dots["x"], dots["y"], dots["name"]) == ([0.5], [1e9], ["CuPy, recorded"])
    assert dots["fill"] != dots["hue"]
    assert roofs["width"] == [RECORDED_WIDTH]
    plot.show([shown_curve(curve)], styles, {"cuda": curve.roof}, 100)
    assert plot.dots.data["fill"] == plot.dots.data["hue"]
    assert plot.roofs.data["width"] == [MEASURED_WIDTH]


def test_the_newest_recorded_gpu_stands_in_where_none_was_measured():
    found = recorded.newest_gpu("add_one", "float64", {}, False, (10, 10**8))
    assert {curve.machine for curve in found} == {"NVIDIA H200"}
    assert {curve.way for curve in found} >= {"gpu_cupy", "gpu_numba"}
    for curve in found:
        for point in recorded_way(curve).points:
            moved, flops = curve.rates[point.n]
            assert point.intensity == pytest.approx(flops / moved)
            assert point.percent == pytest.approx(100 * flops / curve.roof.flops_at(point.intensity), rel=0.05)
            assert point.launch > 0


def test_nothing_runs_while_only_recorded_numbers_are_shown():
    """Neither by a button, nor by a key, a link or a story; the buttons are disabled with the reason below them."""
    session = DirectSession(Crossover(workload="add_one"))
    told: list[str] = []
    notices: Any = SimpleNamespace(tell=lambda kind, text: told.append(text))
    controls = CrossoverControls(session, CrossoverView(session, (1200, 800)), notices)
    sweep, shown, view = controls.sweep, controls.compare.recorded, controls.lab_view.traps
    view.chooser.value = "first_call"  # its programs run on the CPU
    assert not view.button.disabled
    controls.keys[" "]()
    assert session.playing
    controls.show_only_recorded(True)
    assert (session.playing, sweep.run.disabled, shown.value) == (False, True, "all")
    assert "switches back" in sweep.panel[-1].object
    assert (view.button.disabled, "nothing is measured" in view._seen.object) == (True, True)
    for run in (controls.keys[" "], controls.keys["r"], partial(session.play, True)):
        run()
        assert (session.playing, told.pop()) == (False, NOTHING_MEASURED)
    controls.show_only_recorded(False)
    assert (sweep.run.disabled, sweep.panel[-1].visible, shown.value) == (False, False, "absent")
    assert (view.button.disabled, "nothing is measured" in view._seen.object) == (False, False)
    controls.keys[" "]()
    assert (session.playing, told) == (True, [])
    session.live.close()
