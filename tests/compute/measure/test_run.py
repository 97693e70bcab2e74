"""Time limits of a bench's cases: a slow way takes no time from fast ways and later cases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from compute.devices.backends import backend
from compute.devices.devices import Host
from compute.labs.diffusion.benchmark import BENCHMARK as DIFFUSION
from compute.measure.benchmark import CaseBenchmark
from compute.measure.case import BenchPlan, Checked, Implementation, Row
from compute.measure.run import BenchProgress, BenchRun, CaseRun, Pace, _in_checking_order, silent
from compute.measure.sampling import LEAST_SAMPLES, Budget
from compute.measure.timing import Timing
from tests.comparing import NoMeter

STEP = {"fast": 1e-4, "slow": 1.0, "as slow": 1.0, "first slow": 40.0}  # s per step, by variant


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class FakeCase:
    title: str = "a case"
    dtype: str = "float64"
    pace: str = "the same"
    cells: int = 1
    needed_bytes: int = 8
    tolerance: float = 1e-9
    plain: bool = False
    shared: str = "one"
    name: str = "known"  # of the reference


class FakeFixture:
    """Ways that take the seconds in STEP, on the budget's clock. begun: the called ways, in order."""

    def __init__(self, clock: Clock, begun: list[str]) -> None:
        self.device, self._clock, self._begun = Host(), clock, begun

    def prepare(self, way):
        pass

    def first(self, way):
        timing = self.run(way, 1)
        return timing, timing.step_seconds

    def check(self, way):
        return Checked(0.0, 0.0, self.run(way, 1))

    def run(self, way, steps):
        seconds = steps * STEP[way.variant]
        self._begun.append(way.variant)
        self._clock.now += seconds
        return Timing(way.backend.name, way.variant, steps, 1, 0.0, seconds)


class FakeBenchmark(CaseBenchmark):
    package, rate, included = "compute.labs.diffusion", DIFFUSION.rate, "nothing"

    def __init__(self, ways: tuple[str, ...]) -> None:
        self.clock, self.begun, self._ways = Clock(), [], ways

    def cases(self, chosen, dtypes, gpu):
        return ()

    def variants(self, backend, case):
        return {name: object() for name in self._ways}

    def reference(self, case):
        return FakeCase()

    def fixture(self, device, case, right):
        return FakeFixture(self.clock, self.begun)


def rows_of(
    benchmark: FakeBenchmark, *ways: str, share: float = 5.0, pace: Pace | None = None, alone: float = 0.0
) -> list[Row]:
    """Return the rows of a run of one case."""
    case = FakeCase()
    run = CaseRun(benchmark, case, case, share, pace or Pace(), Budget(1000, benchmark.clock), alone=alone)
    for name in ways:
        run.check(Implementation(backend("cpu_numpy"), name, None))
    run.sample()
    run.close()
    return run.rows


def reasons_of(benchmark: FakeBenchmark, *ways: str, **limits: Any) -> dict[str, str]:
    """Return for each way the reason why it is not timed, "" if it is timed."""
    return {row.variant: row.reason for row in rows_of(benchmark, *ways, **limits)}


def test_a_slow_way_gets_what_the_others_leave_of_a_case_and_a_fast_one_is_always_timed():
    reasons = reasons_of(FakeBenchmark(tuple(STEP)), "slow", "as slow", "fast")
    assert reasons["slow"] == reasons["fast"] == ""
    # of 10 s the first one took 2 to check, and needs 8 to warm up and sample; the second one's first call took 1
    assert reasons["as slow"] == "would take about 7 s (1 s a step); 0 s are allowed for this case"


def test_one_disturbance_does_not_make_a_way_too_slow(monkeypatch):
    benchmark, looks = FakeBenchmark(("fast",)), iter([21.0, 21.0, 1e-4])
    monkeypatch.setattr(FakeFixture, "first", lambda self, way: (self.run(way, 1), next(looks)))
    assert reasons_of(benchmark, "fast") == {"fast": ""}


def test_a_way_of_many_steps_a_launch_is_predicted_by_whole_launches():
    """Six samples of ten seconds each, and a step to check."""
    benchmark = FakeBenchmark(("slow",))
    benchmark.rules = replace(DIFFUSION.rules, at_once={("cpu_numpy", "slow"): 10})
    (row,) = rows_of(benchmark, "slow", share=30.0)
    assert row.reason.startswith("would take about 61 s (1 s a step); 59 s")
    (row,) = rows_of(benchmark, "slow", share=32.0)
    assert (row.reason, row.steps) == ("", 10)


def test_in_a_race_each_lane_has_its_own_time_which_may_exceed_that_of_sampling():
    reasons = reasons_of(FakeBenchmark(tuple(STEP)), "slow", "as slow", "fast", alone=10.0)
    assert set(reasons.values()) == {""}
    assert reasons_of(FakeBenchmark(("first slow",)), "first slow", alone=280.0) == {"first slow": ""}
    refused = reasons_of(FakeBenchmark(("first slow",)), "first slow", alone=279.0)["first slow"]
    assert refused == "would take about 280 s (40 s a step); 279 s are allowed for this case"


@pytest.mark.parametrize(("device", "timed"), [("cuda", [True, True]), ("host", [True, False])])
def test_a_case_times_the_first_way_of_the_cpu_even_if_those_of_the_gpu_took_its_share(device, timed):
    """An l_curve bench on an H200 had no CPU row for the curves of its GPU."""
    benchmark, numpy = FakeBenchmark(("slow", "as slow")), backend("cpu_numpy")
    other = SimpleNamespace(name="cpu_numba", device=device, open_device=Host)
    run = CaseRun(benchmark, FakeCase(), FakeCase(), 0.1, Pace(), Budget(100, benchmark.clock))
    run.quick = True
    run.check(Implementation(other, "slow", None))
    run.check(Implementation(numpy, "as slow", None))
    run.sample()
    found = {row.variant: row.measurement is not None for row in run.rows}
    assert [found["slow"], found["as slow"]] == timed


def test_a_way_that_was_too_slow_once_is_not_begun_again():
    benchmark, pace = FakeBenchmark(tuple(STEP)), Pace()
    for ways in (("first slow",), ("first slow", "fast")):
        reasons = reasons_of(benchmark, *ways, pace=pace)
        assert reasons["first slow"].startswith("would take about 280 s (40 s a step)")
    assert reasons["fast"] == ""
    assert benchmark.begun.count("first slow") == 1


@pytest.fixture
def bench(monkeypatch):
    """Return a function that runs cases on the clock of their ways, and returns the rows."""

    def ran(benchmark: FakeBenchmark, count: int, budget: float, progress: BenchProgress = silent) -> list[Row]:
        monkeypatch.setattr("compute.measure.run.RoofMeter", NoMeter)
        monkeypatch.setattr(BenchRun, "_roof_of", lambda *_: None)
        cases = tuple(FakeCase(f"case {number}", pace=str(number)) for number in range(count))
        run = BenchRun(benchmark, BenchPlan("fake", cases, ("cpu_numpy",), budget), progress, benchmark.clock)
        run._cases([backend("cpu_numpy")], cases)
        assert [row.case for row in run.results.rows] == [
            case for case in cases for _ in benchmark.variants(None, case)
        ]
        return run.results.rows

    return ran


def test_the_last_case_gets_its_part_however_slow_the_ways_of_the_first_are(bench):
    rows = bench(FakeBenchmark(("fast", "slow", "as slow")), 6, 60.0)
    assert {row.case.title for row in rows if row.measurement and row.variant == "fast"} == {
        row.case.title for row in rows
    }


def test_every_case_is_timed_once_before_any_is_refined(bench):
    """Each case's only way takes a second: two samples in the first pass, and more if time is left."""
    benchmark = FakeBenchmark(("slow",))
    rows = bench(benchmark, 5, 40.0)
    assert all(row.measurement for row in rows)
    assert min(row.measurement.step.n for row in rows) == 2
    assert all(row.status == "measured" for row in rows)
    rows = bench(FakeBenchmark(("slow",)), 5, 400.0)
    assert min(row.measurement.step.n for row in rows) >= LEAST_SAMPLES
    assert all(len(row.samples) == row.measurement.step.n + 1 for row in rows)  # one first call, both passes


def test_the_progress_of_a_run_never_goes_back(bench):
    """Two passes over three cases: the last case of the second one begins at five sixths."""
    told: list[float] = []
    bench(FakeBenchmark(("slow", "fast")), 3, 400.0, lambda _, part: told.append(part))
    assert told == sorted(told)
    assert told[0] == 0.0
    assert 5 / 6 < told[-1] <= 1.0


def test_headline_cases_come_first_and_rows_stay_in_the_order_of_the_plan(bench):
    benchmark = FakeBenchmark(("slow",))
    benchmark.headline = lambda cases: [cases[3], cases[1]]
    rows = bench(benchmark, 5, 34.0)
    assert [row.case.title for row in rows] == [f"case {number}" for number in range(5)]
    assert rows[3].measurement
    assert rows[1].measurement


@pytest.mark.parametrize("untimed", ["reference", "arrays"])
def test_references_and_arrays_do_not_use_up_the_budget(bench, monkeypatch, untimed):
    """Laying out a large matrix for each backend used up the time of the first case of an l_curve bench."""
    benchmark = FakeBenchmark(("slow",))

    def take(*given):
        benchmark.clock.now += 1000.0
        return given[0]

    if untimed == "reference":
        monkeypatch.setattr(benchmark, "reference", take)
    else:
        monkeypatch.setattr(FakeFixture, "prepare", take)
    assert all(row.measurement for row in bench(benchmark, 3, 40.0))


@pytest.mark.parametrize("names", [("one", "two"), ("one",)])
def test_the_first_ways_of_all_backends_come_before_the_others_and_gpus_before_the_host(names):
    ways = [Implementation(backend(b), v, None) for b in ("cpu_numpy", "cpu_numba", "gpu_cupy") for v in names]
    order = [(way.backend.name, way.variant) for way in _in_checking_order(ways)]
    assert order == [(b, v) for v in names for b in ("gpu_cupy", "cpu_numba", "cpu_numpy")]
