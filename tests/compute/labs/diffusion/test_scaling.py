"""The bench of several GPUs: its runs, its comparisons, and cases without a time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from compute.labs.diffusion import benchmark, cpu_numba, gpu_cupy, gpu_slabs, scaling
from compute.labs.diffusion.benchmark import BENCHMARK
from compute.labs.diffusion.scheme import launches
from compute.measure.case import BenchPlan
from compute.measure.records import check, recorded
from compute.measure.report import as_record
from compute.measure.sampling import steps_for
from compute.measure.timing import Sample, Timing


class Gpu:
    """A GPU with 4 GiB."""

    def __init__(self, number=0):
        self.name = f"cuda:{number}"

    @staticmethod
    def count():
        return 4

    def free_bytes(self):
        return 2**32

    def close(self):
        """Do nothing: there is nothing to release."""


class Made:
    """Grids on `count` GPUs, `count` times as fast less a tenth for each further GPU."""

    def __init__(self, shape, count):
        self.shape, self.count, self.u = shape, count, None
        self.device = SimpleNamespace(name=f"cuda:0-{count - 1}")

    def advance(self, _edges, steps, variant):
        cells = self.shape[0] * self.shape[1]
        seconds = steps * cells / (1e12 * (self.count - 0.1 * (self.count - 1)))
        return Timing("gpu_cupy", variant, steps, cells, 1e-5, seconds)


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs the bench. different: the share of wrong cells, by number of GPUs."""

    def ran(budget=5.0, different=None, **chosen):
        def checked(made, case, count, alone=None):
            assert (alone is not None) == (count > 1 and case.kind == "strong" and 1 in case.counts)
            timing = made.advance(case.edges, 25, "T-step" if count == 1 else f"T-step on {count} GPUs")
            return Sample(0.0, 1.0, timing), (different or {}).get(count, 0.0)

        monkeypatch.setattr(scaling, "Cuda", Gpu)
        monkeypatch.setattr(benchmark, "Cuda", Gpu)
        monkeypatch.setattr(scaling, "check", checked)
        monkeypatch.setattr(scaling, "open_grids", lambda shape, _dtype, count: Made(shape, count))
        own = {"sizes": (), "edges": (), "devices": ()} | chosen
        plan = BenchPlan("diffusion", tuple(BENCHMARK.cases(own, ("float32",), True)), ("gpu_cupy",), budget)
        return BENCHMARK.run(plan), plan

    return ran


@pytest.mark.parametrize("step_seconds", [1e-6, 1.1e-3, 1.3e-3, 2e-3, 5e-3, 1.0])
def test_a_sample_consists_of_launches_of_most_steps(step_seconds):
    """Also if the last launches are short: 23 steps are launches of 8, 8, 4, 2 and 1."""
    rules = BENCHMARK.rules
    steps = steps_for(step_seconds, at_once=rules.steps_at_once("gpu_cupy", "T-step"))
    for sizes in (gpu_slabs.SIZES, [tiling.steps for tiling in gpu_cupy.TILINGS["float64"]] + [1]):
        assert set(launches(steps, tuple(sizes))) == {sizes[0]}
    steps = steps_for(step_seconds, at_once=rules.steps_at_once("cpu_numba", "T-step"))
    assert set(cpu_numba.passes(steps)) == {cpu_numba.MOST_STEPS}
    assert rules.steps_at_once("cpu_numba", "one-step") == 1


def test_strong_and_weak_scaling_are_compared_with_one_gpu_of_the_run(run):
    results, plan = run(sizes=(2048,), devices=(2, 1, 4))
    assert [(case.kind, case.counts) for case in plan.cases] == [("strong", (1, 2, 4)), ("weak", (1, 2, 4))]
    strong, weak = results.rows[:3], results.rows[3:]
    for rows in (strong, weak):
        assert [row.status for row in rows] == ["measured"] * 3
        assert [row.extra["gpus"] for row in rows] == [1, 2, 4]
        assert rows[0].speed_up is None
        assert [row.speed_up.ratio for row in rows[1:]] == pytest.approx([1.9, 3.7])
        assert [row.extra["efficiency"] for row in rows[1:]] == pytest.approx([0.95, 0.925])
    assert [row.extra["ny"] for row in weak] == [2048, 4096, 8192]


def test_the_default_grids_double_their_sides():
    cases = BENCHMARK.cases({"sizes": (), "edges": (), "devices": (1, 2)}, ("float32",), True)
    sides = {kind: sorted({case.side for case in cases if case.kind == kind}) for kind in ("strong", "weak")}
    assert sides == {"strong": [4096, 8192, 16384, 32768, 65536], "weak": [16384]}


def test_a_record_contains_all_numbers_of_gpus_and_the_page_shows_one(run):
    results, plan = run(sizes=(2048,), devices=(1, 2))
    record = as_record(results, plan, "bench", BENCHMARK)
    check(record, "here")
    assert [(entry["scaling"], entry["gpus"]) for entry in record["results"]] == [
        ("strong", 1), ("strong", 2), ("weak", 1), ("weak", 2)
    ]  # fmt: skip
    assert {figure.variant for figure in recorded(record)} == {"T-step"}


def test_results_with_other_bits_get_no_time(run):
    results, _ = run(sizes=(2048,), devices=(1, 2), different={2: 1e-6})
    for row in results.rows[1::2]:
        assert (row.status, row.measurement, row.speed_up) == ("disagrees", None, None)
    assert results.rows[0].status == "measured"


def test_a_grid_beyond_memory_and_a_spent_budget_are_reported(run):
    results, _ = run(sizes=(2048, 32768), devices=(1, 2))
    assert results.rows[2].reason == "needs 8.00 GiB on cuda:0; 4.00 GiB are free"
    assert "needs 12.50 GiB on cuda:0, with one GPU's grids to compare with; 4.0" in results.rows[3].reason
    assert results.rows[0].status == "measured"
    results, _ = run(sizes=(2048,), devices=(1,), budget=1e-9)
    assert {(row.status, row.reason) for row in results.rows} == {("skipped", "the budget of 0 s is over")}


def test_needed_bytes_are_those_of_a_slab_and_of_the_comparison():
    """65536² cells in float32 are 16 GiB a grid: a pair on one GPU, half and a quarter of it on two and four."""
    case, weak = scaling.scaling_cases((1, 2, 4), (65536,), ("float32",), ("zero-flux",))
    pair, scratch = 2 * 4 * 65536**2, 8 * scaling.COMPARED
    assert case.needed_bytes(1) == pair
    assert case.needed_bytes(2, {1: None}) == pair // 2 + scratch
    assert case.needed_bytes(4, {1: None, 2: None}) == pair // 4 + scratch
    assert case.needed_bytes(4) == pair // 4 + pair + scratch  # no result to compare with exists yet
    assert weak.needed_bytes(4, {1: None}) == pair + 4 * pair + scratch  # four times as many cells


@pytest.mark.parametrize("text", ["0", "5", "x"])
def test_numbers_of_gpus_are_bounded(monkeypatch, text):
    monkeypatch.setattr(benchmark, "Cuda", Gpu)
    option = next(option for option in BENCHMARK.options if option.name == "devices")
    with pytest.raises(ValueError, match=r"is not a number of GPUs from 1 to 4"):
        option.parse(text)
    assert option.parse("4") == 4
