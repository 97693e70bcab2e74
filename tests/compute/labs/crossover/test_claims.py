"""Verdicts on conclusions, for curves with known times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compute.labs.crossover.claims import (
    Alike,
    LikeForLike,
    MeasuredWay,
    Plausible,
    Ratio,
    conclusions,
    speed_up,
)  # fmt: skip
from compute.measure import records
from compute.measure.statistics import Spread
from compute.ways.catalogue import workload, workloads
from compute.ways.recorded import RecordedCurve

SLOW, FAST, FAIR = MeasuredWay("cpu_numpy"), MeasuredWay("gpu_cupy"), MeasuredWay("cpu_numba")


def curve(way, seconds, of="add_one", n=10**6, dtype="float64", scatter=0.01, **values):
    """Return a curve with one n."""
    spread = Spread(seconds, seconds * (1 - scatter), seconds * (1 + scatter), 9)
    given = {"machine": "a machine", "date": "2026-01-01", "settings": workload(of).choices()[0], **values}
    return RecordedCurve(
        workload=of, way=way, label=way, dtype=dtype, evict=False, series={n: spread}, status="measured", **given
    )


def verdict(test, *curves):
    found = test.judge(curves)
    return found.verdict if found else "not measured yet"


@pytest.mark.parametrize(
    ("claimed", "slow", "expected"),
    [
        (8.0, 80.0, "holds"), (8.0, 4.2, "holds"), (8.0, 3.8, "does not hold"), (8.0, 4.0, "undecided"),
        (0.72, 0.7, "holds"), (0.72, 50.0, "does not hold"), (0.72, 1.0, "undecided"),  # a loss was claimed
        (1.2, 1.2, "holds"), (1.2, 0.8, "does not hold"),  # a small gain must be a gain
    ],
)  # fmt: skip
def test_a_ratio_holds_if_half_of_it_is_reached(claimed, slow, expected):
    test = Ratio(SLOW, FAST, 10**6, "float64", claimed)
    assert verdict(test, curve("cpu_numpy", slow), curve("gpu_cupy", 1.0)) == expected


def test_a_ratio_needs_both_times_and_a_narrow_interval():
    test, fast = Ratio(SLOW, FAST, 10**6, "float64", 8.0), curve("gpu_cupy", 1.0)
    assert verdict(test, curve("cpu_numpy", 3.8, scatter=0.2), fast) == "undecided"
    assert verdict(test, curve("cpu_numpy", 8.0)) == "not measured yet"
    assert verdict(test, curve("cpu_numpy", 8.0, dtype="float32"), fast) == "not measured yet"


def test_another_method_s_merit_is_not_the_machine_s():
    """The GPU is 3500 times as fast, but a factor of 35 is due to a better method: 100 remain."""
    test = LikeForLike(SLOW, FAST, FAIR, 10**6, "float64")
    curves = curve("cpu_numpy", 3.5), curve("gpu_cupy", 1e-3)
    assert verdict(test, *curves, curve("cpu_numba", 0.1)) == "does not hold"
    assert verdict(test, *curves, curve("cpu_numba", 3.0)) == "holds"
    assert verdict(test, *curves) == "not measured yet"
    assert "3.5e+03 times, of which 100 times" in test.judge([*curves, curve("cpu_numba", 0.1)]).ours


def test_alike_is_no_pair_further_apart():
    test = Alike((SLOW, FAST, FAIR), "float64", 1.05)
    tight = {"scatter": 0.001}
    near = curve("cpu_numpy", 1.0, **tight), curve("gpu_cupy", 1.02, **tight)
    assert verdict(test, *near, curve("cpu_numba", 0.99, **tight)) == "holds"
    assert verdict(test, *near, curve("cpu_numba", 0.9, **tight)) == "does not hold"
    assert verdict(test, *near) == "not measured yet"


def test_nothing_moves_bytes_many_times_faster_than_the_fastest():
    """Squares of 1e10 float32 in 3.2727 ms are 80 GB: 24.4 TB/s."""
    test = Plausible(10**10, "float32", 3.2727e-3)
    of = {"of": "square", "n": 10**8, "dtype": "float32"}
    slow = curve("gpu_cupy", 2e-4, **of)  # 4 TB/s
    assert verdict(test, slow) == "does not hold"
    assert "24.4 TB/s" in test.judge([slow]).ours
    assert "4 TB/s" in test.judge([slow]).ours
    assert verdict(test, curve("gpu_cupy", 2e-5, **of)) == "holds"
    assert verdict(test, curve("cpu_numpy", 2e-2, **of)) == "not measured yet"
    assert verdict(test, curve("gpu_cupy", 2e-4, of="square", n=10**8)) == "not measured yet"  # of float64
    assert verdict(test) == "not measured yet"


def test_the_nearest_n_counts_within_half_a_decade():
    curves = curve("cpu_numpy", 2.0, n=10**5), curve("gpu_cupy", 1.0, n=10**5)
    assert speed_up(curves, SLOW, FAST, 3 * 10**5, "float64")[0] == 10**5
    assert speed_up(curves, SLOW, FAST, 4 * 10**5, "float64") is None
    assert speed_up(curves, SLOW, FAST, None, "float64")[0] == 10**5


def test_settings_tell_curves_apart():
    many, few = ({"bins": bins} for bins in (1200, 3))
    curves = [
        curve("gpu_numba_atomics", 1.0, of="histogram", settings=many),
        curve("gpu_numba_atomics", 3.0, of="histogram", settings=few),
    ]
    test = Ratio(MeasuredWay("gpu_numba_atomics", few), MeasuredWay("gpu_numba_atomics"), 10**6, "float64", 2.7)
    assert verdict(test, *curves) == "holds"
    assert verdict(test, curves[0]) == "not measured yet"


def test_without_a_record_nothing_is_concluded_and_the_newest_that_says_something_counts():
    assert {found.verdict for found in conclusions([])} == {"not measured yet"}
    old = [curve("gpu_cupy", 1.0, of="quadratic"), curve("gpu_cupy_elementwise", 0.1, of="quadratic")]
    new = [curve("gpu_cupy", 1.0, of="quadratic", date="2026-02-02")]
    (found,) = (c for c in conclusions([*new, *old]) if c.workload == "quadratic")
    assert (found.verdict, found.where) == ("holds", ("a machine", "2026-01-01"))
    assert found.ours.startswith("10 times (9.8")
    of_two_runs = [replace(one, run=one.way) for one in old]
    (found,) = (c for c in conclusions(of_two_runs) if c.workload == "quadratic")
    assert found.verdict == "not measured yet"


@pytest.mark.parametrize("w", workloads(), ids=lambda w: w.name)
def test_a_claim_names_ways_n_and_settings_that_there_are(w):
    assert w.claims
    for claim in w.claims:
        sides = [value for value in vars(claim.test).values() if isinstance(value, MeasuredWay)]
        for side in (*sides, *getattr(claim.test, "ways", ())):
            w.way(side.name)
            w.case(1, **side.settings)
        assert claim.claim.endswith(".")
        if sides:
            assert 1 <= claim.test.n <= w.sizes[1]


def test_a_new_record_is_judged(monkeypatch, tmp_path):
    known = records.timings_folder() / "nvidia-h200-crossover.json"
    monkeypatch.setattr(records, "timings_folder", lambda: tmp_path)
    first = conclusions()
    assert {one.verdict for one in first} == {"not measured yet"}
    first.clear()  # the caller gets a copy
    (tmp_path / known.name).write_bytes(known.read_bytes())
    assert {one.verdict for one in conclusions()} > {"holds"}


def test_the_recorded_curves_give_a_verdict_on_every_claim():
    """For every record: no file in assets/timings breaks the page."""
    found = conclusions()
    assert len(found) == sum(len(w.claims) for w in workloads())
    for conclusion in found:
        assert (conclusion.verdict == "not measured yet") == (conclusion.ours == "") == (conclusion.where == ("", ""))
