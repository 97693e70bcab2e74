"""The finding against a brute-force evaluation of the points: no curve of the plot contradicts its sentence."""

from __future__ import annotations

import html
import math
import re
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.labs.crossover import findings
from app.labs.crossover.findings import both_times, finding_html, sentence_html
from app.labs.crossover.readout import details, readout_html
from app.labs.crossover.sweep_view_model import SweepViewModel
from compute.lab.frames import Frame
from compute.labs.crossover import Crossover, panels
from compute.measure.rates import Cache
from compute.measure.statistics import Spread
from compute.measure.timing import Timing
from compute.ways.catalogue import workload
from compute.ways.finding import BEST_CPU, BEST_GPU, TimeCurve, compare, sides
from tests.examples import examples

ADD = workload("add_one")
WAYS = {way.name: way for way in ADD.ways()}
SIZES = [10, 32, 100, 316, 1000, 3162, 10_000, 31_623, 100_000, 10**6, 10**7]
TIMES = [1e-7, 3e-7, 1e-6, 1.01e-6, 3e-6, 1e-5, 3e-5, 1e-4, 1e-2]  # a few values, so that ties and near misses occur
PLACES = [("", ""), ("H200", "2026-11-21"), ("A40", "2025-01-01")]  # (machine, date): measured here, and two records
LARGE = r"([\d,]+)"
SAYS = {
    "no": re.compile("(.+) and (.+): no n at which both were measured"),
    "one": re.compile(f"(.+) is (faster than|slower than|as fast as) (.+) at n = {LARGE}, the only one of both"),
    "from": re.compile(f"(.+) is faster than (.+) from n ≈ {LARGE} on"),
    "always": re.compile("(.+) is faster than (.+) at every n of both"),
    "last": re.compile(f"(.+) is (slower than|as fast as) (.+) at n = {LARGE}, the largest of both"),
    "never": re.compile("(.+) is (slower|not faster) than (.+) at every n of both"),
}
TO, ON = re.compile(f"(.+) up to n = {LARGE}"), re.compile(f"(.+) from n = {LARGE} on")
PARTS = re.compile(r", (?!kernel)(?=[A-Z])")  # between ways of a list; "CuPy, kernel" is one name


def number(text):
    return int(text.replace(",", ""))


def curve(way, times, machine="", date="", width=0.1):
    return TimeCurve(WAYS[way], {n: Spread(t, t * (1 - width), t * (1 + width), 9) for n, t in times.items()},
                machine=machine, date=date)  # fmt: skip


@st.composite
def plots(draw):
    """Draw some ways with gaps in their sizes, each measured here, recorded on one of two machines, or both."""
    found = []
    for way in draw(st.lists(st.sampled_from(sorted(WAYS)), min_size=1, max_size=6, unique=True)):
        for machine, date in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=2, unique=True)):
            times = draw(st.dictionaries(st.sampled_from(SIZES), st.sampled_from(TIMES), max_size=8))
            found.append(curve(way, times, machine, date, draw(st.sampled_from([0.0, 0.05, 0.5]))))
    return found


def candidates(lines, kind):
    """Return the curves that compete for the best of a device: those measured here, else the latest record's."""
    mine = [line for line in lines if line.way.kind == kind and line.series]
    here = [line for line in mine if not line.machine]
    return here or [line for line in mine if line.date == max(line.date for line in mine)]


def at(line, n):
    return line.series[n].median


def called(line):
    return line.way.label + (" (recorded)" if line.machine else "")


def lowest(lines):
    """Return {n: the fastest time} by brute force, for each measured n where no interpolated line lies below it."""
    found = {}
    for n in sorted({n for line in lines for n in line.series}):
        least = min(at(line, n) for line in lines if n in line.series)
        drawn = []
        for line in lines:
            known = sorted(line.series)
            if n not in known and known and known[0] < n < known[-1]:
                drawn.append(np.exp(np.interp(np.log(n), np.log(known), np.log([at(line, m) for m in known]))))
        if all(least <= other * (1 + 1e-12) for other in drawn):
            found[n] = least
    return found


def leads(name, lines, n):
    """Return whether a way of that name is the fastest of `lines` at n, or within 10 % of it."""
    least = min(at(line, n) for line in lines if n in line.series)
    return any(called(line) == name and n in line.series and at(line, n) <= 1.1 * least * (1 + 1e-9) for line in lines)


def check(said, slow_lines, fast_lines):
    """Assert that the sentence agrees with the lower envelopes of the curves that its two names can refer to."""
    main, *listed = said.split("; ")
    pattern, match = next((name, m) for name, of in SAYS.items() if (m := of.fullmatch(main)))
    slow, fast = lowest(slow_lines), lowest(fast_lines)
    common = sorted(set(fast) & set(slow))
    if pattern == "no":
        assert not common
        return
    groups = list(match.groups())
    verb = groups.pop(1) if pattern in ("one", "last", "never") else "faster than"
    wins = [n for n in common if fast[n] < slow[n]]
    if pattern == "one":
        assert common == [number(groups[2])]
        assert verb == ("faster than" if wins else "as fast as" if fast[common[0]] == slow[common[0]]
                        else "slower than")  # fmt: skip
    elif pattern == "from":
        least = number(groups[2])
        assert [n for n in common if n >= least] == [n for n in wins if n >= least] != []
        both = sorted(n for n in {*fast, *slow} if common[0] <= n <= common[-1])
        if both == common:  # only straight lines between the points
            assert max(n for n in common if n not in wins) < least
            assert min(n for n in common if n > max(n for n in common if n not in wins)) >= least
    elif pattern == "always":
        assert common == wins
    elif pattern == "last":
        assert common[-1] == number(groups[2])
        assert common[-1] not in wins
        assert verb == ("slower than" if fast[common[-1]] > slow[common[-1]] else "as fast as")
    else:
        assert not wins
        assert (verb == "slower") == all(fast[n] > slow[n] for n in common)
    for name, lines, series, best in ((groups[0], fast_lines, fast, BEST_GPU), (groups[1], slow_lines, slow, BEST_CPU)):
        compared = [n for n in series if common[0] <= n <= common[-1]]
        if name.lower() == f"the {best.lower()}":
            check_leaders(next(words for words in listed if words.startswith(f"{best}: ")), lines, compared)
        else:
            assert all(leads(name, lines, n) for n in compared)


def check_leaders(words, lines, compared):
    """Assert that each way of the list leads at every n of its range, and that the ranges cover every compared n."""
    parts, covered, low = PARTS.split(words.partition(": ")[2]), [], 0
    assert len(parts) > 1
    for part in parts[:-1]:
        name, last = TO.fullmatch(part).groups()
        mine = [n for n in compared if low < n <= number(last)]
        assert mine
        assert all(leads(name, lines, n) for n in mine)
        covered, low = covered + mine, number(last)
    name, first = ON.fullmatch(parts[-1]).groups()
    mine = [n for n in compared if n >= number(first)]
    assert all(leads(name, lines, n) for n in mine)
    assert covered + mine == sorted(compared)


@settings(max_examples=examples(600), deadline=None)
@given(plots())
def test_the_sentence_agrees_with_the_points(lines):
    """Best against best: the fastest of each device at every common n; no curve of either contradicts the sentence."""
    cpu, gpu = candidates(lines, "cpu"), candidates(lines, "gpu")
    found = compare(*sides(lines))
    if not (cpu and gpu):
        return
    check(found.sentence, cpu, gpu)
    if found.n:
        slow, fast = lowest(cpu), lowest(gpu)
        assert found.n == max(set(slow) & set(fast))
        assert found.ratio.ratio == slow[found.n] / fast[found.n]
        assert at(found.slow.lines[0], found.n) == slow[found.n]
        assert at(found.fast.lines[0], found.n) == fast[found.n]


@settings(max_examples=examples(300), deadline=None)
@given(plots(), st.data())
def test_a_chosen_pair_is_the_pair_that_is_named(lines, data):
    slow, fast = (data.draw(st.sampled_from(lines)) for _ in range(2))
    found = compare(*sides(lines, slow.key, fast.key))
    if found.n:
        check(found.sentence, [slow], [fast])
        assert found.slow.lines + found.fast.lines == (slow, fast)


@settings(max_examples=examples(300), deadline=None)
@given(plots())
def test_page_and_drawing_say_the_same_and_mark_it_where_both_were_measured(lines):
    found = compare(*sides(lines))
    assert plain(finding_html(found)) == re.sub(
        r"(?<=\d),(?=\d)", "\u202f", found.sentence
    )  # thousands separated as everywhere on the page
    marks = panels._crossing(found)
    assert len(marks) == (found.crossing is not None and found.crossing.n is not None)
    for mark in marks:
        common = set(found.slow.series) & set(found.fast.series)
        edges = [min(common), mark.low, mark.x, mark.high, max(common)]
        assert all(left <= right * (1 + 1e-9) for left, right in pairwise(edges))
        assert mark.label == found.sentence


# -- cases from the page


def test_what_was_said_beside_a_plot_that_contradicted_it():
    """The page claimed that the GPU is faster than Numba at every n, where NumPy is up to 500 times as fast as both.

    NumPy beats every recorded GPU up to 30 000; Numba is slower but was measured further.
    """
    small = [100, 1000, 10_000, 30_000]
    found = compare(*sides([
        curve("cpu_numpy", {n: 2e-10 * n for n in small}),
        curve("cpu_numba", dict.fromkeys([*small, 10**5], 4e-4)),
        curve("gpu_cupy_kernel", dict.fromkeys([100, 1000, 10_000, 10**5, 10**6], 1e-5), "NVIDIA H200", "2026-11-21"),
    ]))  # fmt: skip
    assert found.sentence == (
        "CuPy, kernel (recorded) is faster than the best CPU way from n ≈ 35,000 on; "
        "best CPU way: NumPy up to n = 30,000, Numba from n = 100,000 on"
    )
    (mark,) = panels._crossing(found)
    # lines from 6e-6 s at 30 000 to 4e-4 s at 1e5, and constant at 1e-5 s, meet where ln(n / 30 000) = ln(10/3) ln(5/3)
    # / ln(200/3)
    assert mark.x == pytest.approx(30_000 * math.exp(math.log(10 / 3) * math.log(5 / 3) / math.log(200 / 3)))
    assert found.names_at_n == ("CuPy, kernel (recorded)", "Numba")
    assert found.place == "CuPy, kernel was recorded on NVIDIA H200, 2026-11-21"
    assert "both measured from n = 100 to 100,000" in found.uncertainty()


def test_a_way_that_is_slower_within_a_tenth_goes_on_leading():
    found = compare(*sides([
        curve("cpu_numba", {10: 1.05e-6, 100: 1e-6, 1000: 1e-5}), curve("cpu_numpy", {10: 1e-6, 100: 1e-6, 1000: 2e-5}),
        curve("gpu_cupy", {10: 1e-5, 100: 1e-5, 1000: 1e-5}),
    ]))  # fmt: skip
    assert found.names[1] == "Numba"
    assert found.slow.series[10].median == 1e-6  # the time is still the fastest way's


@pytest.fixture
def model():
    """Return the model of a lab with its default values."""
    values = {name: Crossover.param[name].default for name in Crossover.param if name != "name"}
    return SweepViewModel(SimpleNamespace(values=values))


def plain(html_text):
    return html.unescape(re.sub("<[^>]+>", "", html_text))


def test_before_anything_is_measured_the_newest_record_of_one_machine_speaks(model):
    """The factor in large type is hollow then; the sentence says that it was recorded and how to measure here."""
    model.update(None)
    assert not model.finding.n
    known = model.elsewhere
    assert {line.machine for side in (known.fast, known.slow) for line in side.lines} == {"NVIDIA H200"}
    assert "(recorded) is faster than" in plain(sentence_html(model, running=False))
    assert "Press Run for n = 10 to 100\u202f000\u202f000, about 20.0\u202fs" in readout_html(model)
    assert "headline gpu recorded" in readout_html(model)
    assert "Not measured yet on this computer" in readout_html(model)
    compared = both_times(model)
    assert re.search(r"n = [\d\u202f]+: (NVIDIA H200, recorded, [^(]+ \([^)]+\)[;:] ){2}\S+× as fast", compared)
    assert "at most from memory to memory" not in compared  # 79 GB/s, although Numba moved 127 GB/s in the same run
    drawn = {line.key for line in model.time_plot_content().lines}
    assert {line.key for side in (known.fast, known.slow) for line in side.lines} <= drawn
    model.choice.recorded = "none"
    model.update(None)
    assert not [line for line in model.time_plot_content().lines if line.machine and line.series]


HERE = "the processor of this computer"
COPIED, MULTIPLIED = "from memory to memory", "in fused multiply-adds"


@pytest.mark.parametrize(
    ("rates", "gpu", "says"),
    [
        ((4e12, 1e9), 1e-5, f"100× as fast; it moves 4.00 TB/s, and {HERE} copies 10.0 GB/s at most {COPIED}"),
        ((3e12, 1e9), 1e-5, "100× as fast"),  # 30 MB fit a cache of this computer, so its copy rate does not apply
        ((3e12, 2e12), 1e-5, "100× as fast"),  # less than one operation per byte: arithmetic is not the limit
        ((1e10, 2e12), 1e-5, f"100× as fast; it does 2.00 TFLOP/s, and {HERE} does 1.00 TFLOP/s at most {MULTIPLIED}"),
        ((5e9, 1e9), 1e-5, "100× as fast"),  # this computer could reach these rates, too
        ((4e12, 1e9), 2e-3, "2.00× slower: its limit is not measured"),
    ],
)  # fmt: skip
def test_beside_a_recorded_way_both_times_are_told_and_what_is_beyond_this_computer(
    rates, gpu, says, model, monkeypatch
):
    machine = SimpleNamespace(rate=lambda device: 2e10, caches=lambda device: (Cache("L3", 32 * 10**6),))
    monkeypatch.setattr(findings, "machine_roofs", lambda: machine)
    facts = {"roof host bandwidth": 1e10, "roof host flops": 1e12, "progress": 1.0}
    model.frame = Frame({}, facts, Timing("cpu_numpy", "", 1, 1), notes={"dtype": "float32"})
    here = TimeCurve(WAYS["cpu_numpy"], {1000: Spread(1e-3, 1e-3, 1e-3, 9)})
    there = TimeCurve(WAYS["gpu_cupy"], {1000: Spread(gpu, gpu, gpu, 9)}, machine="GPU <Q>", date="2026-01-02",
                      rates={1000: rates})  # fmt: skip
    model.lines = [here, there]
    model.finding = compare(*sides(model.lines))
    took = "10.0 µs" if gpu < 1e-3 else "2.00 ms"
    both = f"n = 1 000: this computer 1.00 ms (NumPy); GPU <Q>, recorded, {took} ({there.label}): {says}Quartiles"
    assert both in plain(details(model)).replace("\u202f", " ")
    del facts["roof host bandwidth"]  # as before the sweep has measured it
    assert ("copies 20.0\u202fGB/s at most" in plain(details(model))) == (rates[0] > 3e12 and gpu < 1e-3)
    model.lines, model.finding = [here], compare(*sides([here]))
    assert "this computer" not in both_times(model)
