"""The readout's texts and bars: claims that the measurements support, and claims that they must not contain."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from app.readout import readout_html as html
from app.readout.readout_html import LONGEST, SHORTEST, chart, time_place
from compute.labs.diffusion.benchmark import CITED, RATE
from compute.labs.l_curve.comparison import RATE as CURVES
from compute.measure import report
from compute.measure import verdict as verdicts
from compute.measure.agreement import Agreement
from compute.measure.rates import Cache, Rate
from compute.measure.rules import Chart, Fact
from compute.measure.statistics import Measurement, SpeedUp
from compute.measure.timing import Timing
from compute.measure.verdict import UNKNOWN, Standing, Variant, judge, why_slower


def standing(name, seconds, difference=5e-8, first=0.3):
    timings = [Timing(name, "", 1, 10_000, compute=first, first_call=True)]
    timings += [Timing(name, "", 10, 10_000, compute=10 * seconds * (1 + 0.001 * k)) for k in range(9)]
    agreement = Agreement(difference, 1e-6, f"differs by {difference:.1e}", "how <it> was found")
    return Standing(Variant(name), Measurement.of(timings) if agreement.agrees else None, agreement)


def with_regions(one, regions):
    """Return a standing with a last timing that entered that many parallel regions per step."""
    return replace(one, timings=(Timing(one.variant.backend, "", 1, 10_000, compute=1.0, regions=regions),))


def verdict(*standings):
    return judge(standings[0].variant, standings[1].variant, standings)


def test_results_that_disagree_show_no_time():
    standings = standing("gpu_cupy", 1e-6, difference=1e-2), standing("cpu_numba", 5e-5)
    wrong, right = html.ways(standings).split("<div class='way ")[1:]
    assert "results disagree" in wrong
    assert "track" not in wrong
    assert "track" in right
    blocks = html.details(standings, RATE, "float32", html.Roofs())
    assert blocks.count("a step") == 1


def test_a_note_is_shown_as_text():
    noted = replace(Standing(Variant("cpu_numba"), None, None), note="needs <b>9</b> GiB")
    assert "needs &lt;b&gt;9&lt;/b&gt; GiB" in html.ways([noted])


def test_the_details_of_a_way_are_its_median_count_rates_and_share_of_the_roof():
    way = standing("cpu_numpy", 1e-4)
    text = html.details([way], RATE, "float32", html.Roofs({"cpu": 1.6e9}))
    for part in ("100&nbsp;µs a step", "n&nbsp;9", "9\N{NARROW NO-BREAK SPACE}960&nbsp;steps/s", "50&nbsp;%"):
        assert part in text, part
    assert "noisy" not in text
    assert "300" not in text
    assert "First call: NumPy 300&nbsp;ms" in html.first_calls([way])
    wild = [Timing("cpu_numpy", "", 1, 100, compute=value) for value in (1, 2, 3, 4, 5, 6)]
    text = html.details([replace(way, measurement=Measurement.of(wild))], RATE, "float32", html.Roofs())
    assert "noisy" in text
    assert "%&nbsp;of copy" not in text  # without a roof
    assert html.first_calls([Standing(Variant("cpu_numpy"), None, None)]) == ""


def test_recorded_figures_are_hollow_and_dated_and_cited_ones_hatched():
    figure = replace(CITED[0], machine="NVIDIA <H200>", date="2026-01-02", cited="")
    text = html.others([figure, *CITED])
    assert "NVIDIA &lt;H200&gt;" in text
    assert "recorded 2026-01-02" in text
    assert "<i class='recorded'" in text
    assert "<i class='cited'" in text
    assert "<i class='measured'" not in text


def test_a_figure_of_other_work_says_what_is_different():
    """Edges, dtype and size are named; the same work adds no text."""
    here = html.ComputedCase(2000, 2000, "float64", "periodic")
    assert "2000², float64, periodic</span></p>" in html.others(CITED, here)
    for other in (here._replace(case="zero-flux"), here._replace(dtype="float32"), here._replace(nx=512)):
        assert f"2000², float64, periodic; other work than here: {other.words}" in html.others(CITED, other)
    assert "other work" not in html.others(CITED)


@pytest.mark.parametrize(("launch", "bound"), [(0.89, False), (0.9, True), (2.0, True), (math.nan, False)])
def test_where_launching_takes_as_long_the_time_is_called_launch_bound(launch, bound):
    timings = [Timing("gpu_cupy", "T-step", 8, 10_000, launch=launch * 8e-6, compute=8e-6) for _ in range(9)]
    measured = Measurement.of(timings)
    right = Agreement(0, 1e-6, "equal", "")
    text = html.details([Standing(Variant("gpu_cupy", "T-step"), measured, right)], RATE, "float32", html.Roofs())
    assert (">launch-bound<" in text) is bound
    assert (">launch-bound<" in html.parts(measured, "gpu", 30.0)) is bound


def test_bytes_are_those_of_the_passes_through_memory():
    """T-step makes 8 steps per pass: 24 steps are three passes of 8 bytes a cell, in 24 µs: 10 GB/s of 20."""
    timings = tuple(Timing("gpu_cupy", "T-step", 24, 10_000, compute=24e-6) for _ in range(9))
    right = Agreement(0, 1e-6, "equal", "")
    way = Standing(Variant("gpu_cupy", "T-step"), Measurement.of(timings), right, "", timings)
    text = html.details([way], RATE, "float32", html.Roofs({"gpu": 20e9}))
    assert "10.0&nbsp;GB/s, 50&nbsp;% of copy" in re.sub("<[^>]+>", "", text)


@pytest.mark.parametrize(("share", "said"), [(1.0, "20.0&nbsp;GB/s, 100"), (0.5, "10.0&nbsp;GB/s, 50")])
def test_bytes_are_those_that_one_reading_for_two_products_takes(share, said):
    """An L-curve's step with 10 000 non-zeros of 6 bytes in 3 µs."""
    timings = tuple(Timing("gpu_cupy", "", 1, 10_000, compute=3e-6, share=share) for _ in range(9))
    way = Standing(Variant("gpu_cupy"), Measurement.of(timings), Agreement(0, 1e-6, "equal", ""), "", timings)
    text = html.details([way], CURVES, "float32", html.Roofs({"gpu": 20e9}))
    assert f"{said}&nbsp;% of copy" in re.sub("<[^>]+>", "", text)


def test_the_stacked_bar_leaves_out_what_was_not_measured():
    frames = [Timing("cpu_numpy", "", 1, 100, launch=0.0, compute=3e-3, levels=1e-3) for _ in range(3)]
    text = html.parts(Measurement.of(frames), "cpu", 30.0)
    assert "width:75.00%" in text
    assert "width:25.00%" in text
    assert "delivery" not in text.split("<ul")[1]
    assert "no frame yet" in html.parts(None, "cpu", 0.0)
    assert "no step yet" in html.parts(Measurement.of([Timing("cpu_numpy", "", 0, 100)]), "cpu", 0.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1.5, "1.50&nbsp;s"), (0.0123, "12.3&nbsp;ms"), (4.2e-6, "4.20&nbsp;µs"), (0.0, "0&nbsp;µs"), (math.nan, "–")],
)
def test_times_have_three_figures_and_a_unit(seconds, words):
    assert html.duration(seconds) == words


@pytest.mark.parametrize(
    ("place", "low", "high"), [(html.rate_place, html.LOWEST, html.HIGHEST), (time_place, SHORTEST, LONGEST)]
)
def test_bars_are_logarithmic_and_never_longer_than_their_track(place, low, high):
    assert place(low / 10) == place(low) == 0
    assert place(high) == place(100 * high) == 100
    assert place(math.sqrt(low * high)) == pytest.approx(50)


PICTURES = Rate("Giter/s", "iterations", "picture", "fma", "instructions", lambda _: 4.0)


def test_a_lab_counts_in_its_own_unit_against_its_own_roof():
    text = html.details([standing("cpu_numpy", 1e-3)], PICTURES, "float64", html.Roofs({"cpu": 4e8}))
    assert "1.00&nbsp;ms a picture" in text
    assert "996&nbsp;pictures/s" in text
    assert "0.0398&nbsp;Ginstr/s" in re.sub("<[^>]+>", "", text)  # 10 000 iterations of 4 instructions in 1.004 ms
    assert "10&nbsp;% of FMA" in text


@pytest.mark.parametrize(
    ("value", "kind", "says"),
    [
        (3e9, "rate", "3.00&nbsp;Giter/s"),
        (25.4, "percent", "25&nbsp;%"),
        (2.54, "percent", "2.5&nbsp;%"),
        (0.2, "seconds", "200&nbsp;ms"),
        (67_950_000.0, "count", "68.0·10⁶"),
        (4321.0, "count", "4\N{NARROW NO-BREAK SPACE}321"),
        ("3 <FMA>", "text", "3 &lt;FMA&gt;"),
    ],
)
def test_facts_are_lines_with_their_unit(value, kind, says):
    text = html.facts([Fact("Some <thing>", value, kind, "all 'about' it")], PICTURES)
    assert f"<b>{says}</b>" in text
    assert "Some &lt;thing&gt;" in text
    assert "aria-label='Some &lt;thing&gt;: all &#x27;about&#x27; it'" in text


def test_unknown_facts_are_left_out():
    lines = [Fact("a", math.nan, "rate"), Fact("b", 1.0, "count")]
    assert ">a<" not in html.facts(lines, PICTURES)
    assert ">b<" in html.facts(lines, PICTURES)
    assert html.facts(lines[:1], PICTURES) == ""


def race(**changes):
    ways = [standing("cpu_numba", 0.1), standing("cpu_numpy", 0.9)]
    recorded = replace(CITED[0], machine="a <GPU>", date="2026-01-02", cited="", variant="fast", step=5e-5)
    cited = replace(CITED[0], variant="Python", step=24.0, cited="a lesson", backend="cpu_numpy")
    variants = tuple(way.variant for way in ways)
    what = Chart("A <scene>", variants, {variants[1]: "one <step> at a time"}, (recorded, cited))
    return replace(what, **changes), ways


def test_a_chart_has_the_shortest_time_first_and_each_reason():
    text = chart(*race(), "picture")
    places = [text.index(name) for name in ("Numba-CUDA, fast", "Numba,", "NumPy,", "Python, cited")]
    assert places == sorted(places)
    assert "A &lt;scene&gt;" in text
    assert "one &lt;step&gt; at a time" in text
    assert "Hollow: recorded on a &lt;GPU&gt;, 2026-01-02. Hatched: cited. a lesson." in text
    assert re.findall(r"<i class=.(\w+)", text) == ["recorded", "measured", "measured", "cited"]
    assert re.findall(r"<div class='race (\w+)'", text) == ["gpu", "cpu", "cpu", "cpu"]


def test_a_chart_has_no_bar_for_what_is_wrong_or_not_measured():
    what, (right, _) = race(figures=())
    wrong = standing("cpu_numpy", 1e-6, difference=1.0)
    text = chart(what, [right, wrong], "picture")
    assert text.count("<i class='measured'") == 1
    assert "results disagree" in text
    waiting = replace(right, measurement=None)
    assert "measuring" in chart(what, [waiting], "picture")
    assert "takes &lt;long&gt;" in chart(what, [replace(waiting, note="takes <long>")], "picture")
    outsider = standing("gpu_cupy", 1.0)
    assert "CUDA C" not in chart(what, [right, outsider], "picture")


# -- slower ways, and values above a roof


@pytest.mark.parametrize(
    ("ratio", "number", "interval"),
    [
        (104.0, "<b>104×</b>", "93.6 to 114×"),
        (0.382, "<b class='slower'>2.62×<small> slower</small></b>", "2.38 to 2.91× slower"),
        (0.96, "<b class='words'>About as fast</b>", "1.16× slower to 1.06× faster"),
    ],
)
def test_a_factor_is_bold_only_where_its_interval_excludes_1(ratio, number, interval):
    speed = SpeedUp(ratio, ratio * 0.9, ratio * 1.1, noisy=False)
    assert html.factor(speed) == number
    assert html.allowed(speed) == interval


@pytest.mark.parametrize(
    ("ratio", "number", "names"),
    [
        (46.8, "<b class='estimate'><small>≈</small>47×</b>", "A over B"),
        (0.4, "<b class='slower estimate'><small>≈</small>2.5×<small> slower</small></b>", "A than B"),
        (1.01, "<b class='words'>About as fast</b>", "A and B"),
    ],
)
def test_a_factor_without_an_interval_is_an_estimate(ratio, number, names):
    estimate = SpeedUp(ratio, math.nan, math.nan, noisy=True)
    assert html.factor(estimate) == number
    assert html.compared(estimate, "A", "B") == names


def test_a_slower_way_of_the_cpu_has_the_reason_that_the_figures_support(monkeypatch):
    monkeypatch.setattr(verdicts, "cpu_count", lambda: 16)
    slow = verdict(standing("cpu_numba", 2e-5), standing("cpu_numpy", 1e-5))
    assert why_slower(slow, 1e-5) == "too small for 16 threads: starting them takes 50 % of a step"
    assert why_slower(slow, 1e-6) == (  # which does not explain the difference
        "starting its threads takes only 5 % of a step, so its loops are slower; the cause was not measured"
    )
    little = verdict(standing("cpu_numba", 1.2e-5), standing("cpu_numpy", 1e-5))
    assert why_slower(little, 2.9e-6) == (  # 24 % of it; the rest is 9.1 us, less than the other's 10 us
        "starting its threads takes only 24 % of a step; what takes the rest is not measured"
    )
    assert why_slower(slow, math.nan) == "why was not measured, as starting its threads was not timed"
    often = verdict(with_regions(standing("cpu_numba", 2e-5), 4.0), standing("cpu_numpy", 1e-5))
    assert why_slower(often, 4e-6) == "too small for 16 threads: starting them 4 times takes 80 % of a step"
    seldom = verdict(with_regions(standing("cpu_numba", 2e-5), 1 / 12), standing("cpu_numpy", 1e-5))
    assert why_slower(seldom, 1e-5).startswith("starting its threads takes only 4 % of a step")
    alone = verdict(with_regions(standing("cpu_numba", 2e-5), 0.0), standing("cpu_numpy", 1e-5))
    assert why_slower(alone, 1e-5) == "on 1 thread its loops are slower; the cause was not measured"
    assert html.named(alone.standings[0]) == "Numba, 1 thread"
    assert html.named(often.standings[0]) == "Numba, 16 threads"
    assert why_slower(verdict(standing("cpu_numba", 1e-6), standing("cpu_numpy", 1e-5)), 1e-5) == ""
    monkeypatch.setattr(verdicts, "cpu_count", lambda: 1)
    assert why_slower(slow, 1e-5) == "on 1 thread its loops are slower; the cause was not measured"


@pytest.mark.parametrize(
    ("launch", "cpu", "says"),
    [
        (9e-6, 1e-6, "launching takes 90 % of its time: too small for a GPU"),
        (1e-9, 1e-6, f"launching takes less than 1 % of its time, so its kernels are slower; {UNKNOWN}"),
        (4e-6, 8e-6, "launching takes only 40 % of its time; what takes the rest is not measured"),
        (4e-6, 5e-6, f"launching takes only 40 % of its time, so its kernels are slower; {UNKNOWN}"),
        (math.nan, 1e-6, "why was not measured, as its launches were not timed"),
    ],
)
def test_a_gpu_that_is_slower_has_its_launches_said(launch, cpu, says):
    timings = [Timing("gpu_cupy", "", 1, 100, launch=launch, compute=1e-5) for _ in range(9)]
    gpu = Standing(Variant("gpu_cupy"), Measurement.of(timings), Agreement(1e-8, 1e-6, "", ""))
    assert why_slower(verdict(gpu, standing("cpu_numba", cpu)), 1e-9) == says


CACHES = {"cpu": (Cache("L2", 2 * 10**6), Cache("L3", 33 * 10**6))}


@pytest.mark.parametrize("roof", [1e8, 1.7e9, math.nan])
@pytest.mark.parametrize("held", [1e5, 1e7, 1e9, math.nan])
@pytest.mark.parametrize(("caches", "rate"), [(CACHES, RATE), ({}, PICTURES)])
def test_a_share_above_a_hundred_percent_has_the_reason_beside_it(roof, held, caches, rate):
    text = html.details([standing("cpu_numpy", 1e-4)], rate, "float32", html.Roofs({"cpu": roof}, caches, held))
    shares = re.findall(r"(\d[\d.]*)&nbsp;% of \w+(?: \(([^)]+)\))?", text)
    assert len(shares) == math.isfinite(roof)
    for share, why in shares:
        assert (float(share) > 100) == bool(why)
        if why and caches and held <= 33e6:
            fits = "100 kB fit the L2 of 2 MB" if held < 2e6 else "10 MB fit the L3 of 33 MB"
            assert why == f"in cache: {fits}"


def test_a_fact_above_its_roof_has_the_reason_beside_it():
    facts = [Fact("Part of the roof", 134.0, "percent"), Fact("Part of another", 99.0, "percent")]
    above, below = html.facts(facts, RATE, html.Roofs({}, CACHES, 3e5)).split("<li")[2:0:-1][::-1]
    assert "(in cache: 300 kB fit the L2 of 2 MB)" in above
    assert "(" not in below


def test_a_bench_says_a_slow_down_as_one():
    assert report._ratio(SpeedUp(0.25, 0.225, 0.275, noisy=False)) == "4 slower (3.636 - 4.444)"
