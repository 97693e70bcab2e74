"""The lesson at the top of each view, and that it follows from the points shown."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.labs.crossover.findings import sentence_html
from app.labs.crossover.lessons import at, of_claims, of_roofline, of_time_parts, of_workload, percent, why
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.page.equations import article
from compute.labs.crossover.claims import Conclusion
from compute.labs.crossover.picture import ShownPoint, ShownWay
from compute.measure.statistics import Spread
from compute.ways.catalogue import workload, workloads
from compute.ways.finding import TimeCurve, compare, sides
from compute.ways.roofline import Roof

ADD = workload("add_one")
NUMPY, CUPY = ADD.way("cpu_numpy"), ADD.way("gpu_cupy")
THIN = "\N{NARROW NO-BREAK SPACE}"
FLAT = {10: 3e-6, 100: 3e-6, 1000: 3e-6, 10_000: 3e-6}
STEEP = {n: 1e-8 * n for n in FLAT}


def spread(median):
    return Spread(median, 0.9 * median, 1.1 * median, 9)


def curve(way, times, **more):
    return TimeCurve(way, {n: spread(t) for n, t in times.items()}, **more)


def spot(median, n=1000, **more):
    return ShownPoint(n, "measured", "", 0.0, 1.0, spread(median), **more)


def plain(text):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split(" "))


def lines(host=None, cuda=None):
    """Return a way on the host and one on the GPU with these points, in the form that a view receives."""
    found = [("NumPy", "host", host), ("CuPy", "cuda", cuda)]
    return at(1000, [ShownWay(label, label, device, (one,)) for label, device, one in found if one])


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        (FLAT, "Below, launching costs more than the work."),
        ({n: 3e-7 * n**0.5 for n in FLAT}, ""),  # it crosses, but grows with n throughout: the launch is not the reason
        (dict.fromkeys(FLAT, 1e-9), ""),  # faster everywhere: no n lies below a crossing
        (dict.fromkeys(FLAT, 1.0), f"Launching dominates: n = 1{THIN}000 takes it almost as long."),
    ],
)
def test_a_reason_is_given_only_where_the_curves_show_it(gpu, said):
    assert why(compare(*sides([curve(NUMPY, STEEP), curve(CUPY, gpu)]))) == said


def test_the_best_way_for_small_n_counts_and_the_launch_is_the_reason():
    slow_start = curve(ADD.way("cpu_numba"), {10: 4e-6, 100: 4e-6, 1000: 1e-5, 10_000: 2e-4})
    found = compare(
        *sides([slow_start, curve(NUMPY, {10: 1e-7, 100: 1e-6, 1000: 1e-5, 10_000: 1e-3}), curve(CUPY, FLAT)])
    )
    assert [(one.line.way.name, one.last) for one in found.slow.leaders] == [("cpu_numpy", 100), ("cpu_numba", 10_000)]
    assert why(found) == "Below, launching costs more than the work."


@pytest.mark.parametrize(
    ("host", "cuda", "said"),
    [
        (spot(1e-3), spot(1e-5, launch=9e-6), "Launches take 90.0 % of the time of CuPy: "),
        (spot(1e-3), spot(1e-5, launch=1e-6), "90.0 % of the time of CuPy is work: "),
        (spot(1e-3), spot(1e-5, transfer=9e-5), "Transfers take 90.0 % of the time of CuPy: "),
        (spot(1e-3), None, "All of the time of NumPy is work: "),
    ],
)
def test_what_the_time_is_spent_on_is_said(host, cuda, said):
    assert of_time_parts(lines(host, cuda)).startswith(said)


@pytest.mark.parametrize(
    ("intensity", "percent", "said"),
    [
        (0.1, 80.0, "80.0 % of the limit of memory: only fewer bytes"),
        (10.0, 80.0, "80.0 % of the limit of arithmetic: only fewer operations"),
        (0.1, 5.0, "5.00 % of the limit of memory: the device could be more"),
        (0.1, 150.0, ""),  # served from a cache
        (0.1, float("nan"), ""),
    ],
)
def test_what_limits_the_way_nearest_to_its_roof_is_said(intensity, percent, said):
    roofs = {"host": Roof("host", "float64", 1e11, 1e11)}  # ridge at one operation per byte
    found = of_roofline(lines(spot(1e-3, intensity=intensity, percent=percent)), roofs)
    assert said in found
    assert bool(said) == bool(found)
    assert of_roofline(lines(spot(1e-3, intensity=intensity, percent=percent)), {}) == ""


def test_conclusions_are_counted():
    one = Conclusion("sort", "Sort", "A", "1 s", "", "holds", ("", ""))
    found = [one, replace(one, verdict="does not hold"), replace(one, verdict="undecided")]
    assert of_claims(found).startswith("1 of 3 conclusions of tutorials hold, 1 do not: ")
    assert of_claims([]) == ""


@pytest.fixture
def model():
    values = {"workload": "add_one", "dtype": "float64", "settings": {}, "least": 10, "most": 10_000, "split": False,
              "evict": False, "budget": 1.0}  # fmt: skip
    return SweepViewModel(SimpleNamespace(values=values))


def test_almost_all_of_a_time_is_not_all_of_it():
    assert (percent(1.0), percent(0.9996), percent(0.9)) == ("100 %", "over 99.9 %", "90.0 %")


def test_the_finding_its_reason_and_what_the_workload_teaches_open_the_lab(model):
    model.finding = compare(*sides([curve(NUMPY, STEEP), curve(CUPY, FLAT)]))
    said = plain(sentence_html(model, running=False))
    finding, reason = (
        "CuPy  is faster than  NumPy  from n ≈ 300 on",
        "Below, launching costs more than the work. A GPU reads",
    )
    assert 0 <= said.index(finding) < said.index(reason)
    bar = plain(sentence_html(model, running=False, said=False))  # next to the finding in the presenter's bar
    assert (finding in bar, reason in bar) == (False, True)


def test_before_a_run_the_lesson_is_that_of_the_record(model):
    model.session.values["most"] = 10**8
    said = plain(sentence_html(model, running=False))
    assert re.search(r"recorded \)  is faster than .* Below, launching costs more than the work\. A GPU reads", said)


def test_the_lesson_of_another_view_stands_alone(model):
    said = sentence_html(model, running=False, lesson="1 of 2 held")
    assert "<p class='says'>1 of 2 held</p>" in said
    assert "taught" not in said


@pytest.mark.parametrize("of", workloads(), ids=lambda of: of.name)
def test_what_a_workload_teaches_fits_two_lines(of):
    said = of_workload(of.about)
    assert 20 < len(said) < 180
    assert not set("*`_<") & set(said)  # it is shown as plain text
    assert said in " ".join(of.about.split())
    assert of_workload("A file of one's own.") == ""


@pytest.mark.parametrize("of", workloads(), ids=lambda of: of.name)
def test_every_equation_of_a_workload_is_typeset(of):
    assert article(of.about).count("<math") == of.about.count("```math")
