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


def lines(*points):
    """Return the first of these points as one of NumPy, the second as one of CuPy, in the form that a view receives."""
    devices = ("NumPy", "host"), ("CuPy", "cuda")
    found = [ShownWay(label, label, device, (one,)) for (label, device), one in zip(devices, points, strict=False)]
    return at(1000, found)


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        (FLAT, "Below, launching costs more than the work."),
        ({n: 3e-7 * n**0.5 for n in FLAT}, ""),  # it crosses, but grows with n throughout: the launch is not the reason
        (dict.fromkeys(FLAT, 1e-9), ""),  # faster everywhere: no n lies below a crossing
        (dict.fromkeys(FLAT, 1.0), f"Launching dominates: n = 1{THIN}000 takes almost as long."),
    ],
)
def test_a_reason_is_given_only_where_the_curves_show_it(gpu, said):
    assert why(compare(*sides([curve(NUMPY, STEEP), curve(CUPY, gpu)]))) == said


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ((spot(1e-3), spot(1e-5, launch=9e-6)), "Launches take 90.0 % of the time of CuPy: "),
        ((spot(1e-3), spot(1e-5, launch=1e-6)), "90.0 % of the time of CuPy is work: "),
        ((spot(1e-3), spot(1e-5, transfer=9e-5)), "Transfers take 90.0 % of the time of CuPy: "),
        ((spot(1e-3),), "All of the time of NumPy is work: "),
    ],
)
def test_what_the_time_is_spent_on_is_said(points, said):
    assert of_time_parts(lines(*points)).startswith(said)


@pytest.mark.parametrize(
    ("intensity", "percent", "said"),
    [
        (0.1, 80.0, "80.0 % of the limit of memory: only fewer bytes"),
        (10.0, 80.0, "80.0 % of the limit of arithmetic: only fewer operations"),
        (0.1, 5.0, "5.00 % of the limit of memory: the device could be more"),
        (0.1, 150.0, ""),  # served from a cache
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
    finding = "CuPy  is faster than  NumPy  from n ≈ 300 on"
    reason = "Below, launching costs more than the work. A GPU reads"
    said = plain(sentence_html(model, running=False))
    assert 0 <= said.index(finding) < said.index(reason)
    bar = plain(sentence_html(model, running=False, said=False))  # next to the finding in the presenter's bar
    assert (finding in bar, reason in bar) == (False, True)


def test_before_a_run_the_lesson_is_that_of_the_record(model):
    model.session.values["most"] = 10**8
    said = plain(sentence_html(model, running=False))
    assert re.search(r"recorded \)  is faster than .* Below, launching costs more than the work\. A GPU reads", said)


@pytest.mark.parametrize("of", workloads(), ids=lambda of: of.name)
def test_what_a_workload_teaches_fits_two_lines_and_its_equations_are_typeset(of):
    said = of_workload(of.about)
    assert 20 < len(said) < 180
    assert not set("*`_<") & set(said)  # it is shown as plain text
    assert said in " ".join(of.about.split())
    assert article(of.about).count("<math") == of.about.count("```math")
