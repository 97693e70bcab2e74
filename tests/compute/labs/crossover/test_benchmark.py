"""The crossover's bench: rows of a sweep, their record, and the curves read from it."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from rich.console import Console

from compute.__main__ import main
from compute.labs.crossover import benchmark, results
from compute.labs.crossover.benchmark import BENCHMARK
from compute.measure import records, report
from compute.measure.case import BenchPlan, Results
from compute.ways import recorded
from compute.ways import sweep as sweeps
from compute.ways.catalogue import workload, workloads
from compute.ways.roofline import Roof
from compute.ways.sweep import Sweep
from compute.ways.workload import Case, Way
from tests.comparing import NoMeter
from tests.compute.ways.test_sweep import Clock, Scripted, broken, finish, plan, script

OPTIONS = {"workloads": (), "ways": (), "sizes": (), "limit": ()}
QUICK = ("--sizes", "10,100", "--ways", "cpu_numpy,cpu_numba", "--budget", "0.4")


@pytest.fixture(autouse=True)
def no_roofs(monkeypatch):
    """Skip the roofs, which take seconds and have separate tests."""
    monkeypatch.setattr(benchmark, "RoofMeter", NoMeter)
    monkeypatch.setattr(
        benchmark.SweepBench, "_roofs", lambda run, ways, dtype: {"host": Roof("host", dtype, 1e9, 1e9)}
    )


@pytest.fixture
def scripted(monkeypatch):
    """Simulated times, by (way, n)."""
    return script(monkeypatch)


def test_a_bench_is_saved_and_its_curves_are_read_again(tmp_path, capsys):
    path, lines = tmp_path / "machine-crossover.json", tmp_path / "lines.csv"
    files = "--save", str(path), "--csv", str(lines), "--json"
    arguments = "--workloads", "add_one,determinants", "--dtypes", "float64"
    assert main(["bench", "crossover", *arguments, *QUICK, *files]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == records.load(path)
    found = printed["results"]
    keys = {(r["workload"], r["way"], r["size"], r["dtype"], r["settings"]) for r in found}
    assert len(keys) == len(found) == 2 * 2 * (1 + 2)  # ways, n, settings of both workloads
    for result in found:
        assert result["status"] == "measured"
        assert result["q1"] <= result["median"] <= result["q3"]
        assert result["n"] >= 5
        assert result["elements_per_second"] == pytest.approx(result["size"] / result["median"])
        assert result["difference"] <= result["tolerance"]
        assert "transfer" in result
    for result in (r for r in found if r["workload"] == "add_one"):
        assert result["bytes_per_second"] == pytest.approx(2 * 8 * result["size"] / result["median"])
        assert result["percent_of_roof"] == pytest.approx(result["bytes_per_second"] / 1e9 * 100)
    curves = recorded.curves("determinants", tmp_path)
    assert {(c.way, c.dtype, c.settings["side"]) for c in curves} == {
        (way, "float64", side) for way in ("cpu_numpy", "cpu_numba") for side in (16, 64)
    }
    medians = {result["median"] for result in found if result["workload"] == "determinants"}
    assert {spread.median for curve in curves for spread in curve.series.values()} == medians
    assert {(curve.machine, curve.date) for curve in curves} == {
        (records.machine_name(printed["machine"]), printed["date"][:10])
    }
    assert lines.read_text().splitlines()[0].startswith("backend,variant,status")
    assert records.recorded(printed) == []  # no grid: the usual readout ignores it


def test_a_disagreement_ends_in_a_row_and_an_exit_code(monkeypatch, capsys):
    right = Way.function
    monkeypatch.setattr(Way, "function", lambda way: (lambda a: None) if way.variant == "" else right(way))
    assert main(["bench", "crossover", "--workloads", "add_one", "--dtypes", "float64", *QUICK]) == 1
    out = capsys.readouterr().out
    assert "disagrees  cpu_numpy from n = 10" in out
    assert "differs" in out
    assert "us" not in out.split("disagrees")[0].replace("n = ", "")


def ways_of(name, *ways):
    return [workload(name).way(way) for way in ways]


def test_a_speed_up_is_over_the_fastest_way_of_the_host_be_it_numpy(scripted):
    """Up to some thousand numbers NumPy is faster: Numba starts its threads first."""
    scripted.seconds = lambda way, n: {"cpu_numpy": 1e-6, "cpu_numba": 8e-6}[way]
    ways = ways_of("add_one", "cpu_numba", "cpu_numpy")
    numba, numpy = results.rows(finish(Sweep(plan(*ways, sizes=(1000,), budget=1000), Clock(1e-3))), {})
    assert (numba.over, numpy.speed_up) == ("cpu_numpy", None)
    assert numba.speed_up.ratio == pytest.approx(1 / 8)


def test_a_shortcut_has_no_speed_up_over_a_full_product(scripted):
    """(1 A) B takes n m + 2 m k operations, 1 (A B) takes 2 n m k + n k: only ways with equal work are compared."""
    seconds = {"cpu_numpy": 1e-2, "cpu_numpy_einsum": 5e-2, "cpu_numpy_shortcut": 1e-5}
    scripted.seconds = lambda way, n: seconds[way]
    sweep = Sweep(plan(*ways_of("column_sums", *seconds), sizes=(100,), budget=1000), Clock(1e-3))
    found = results.rows(finish(sweep), {})
    rows = {row.extra["way"]: row for row in found}
    assert all(row.measurement for row in rows.values())
    assert rows["cpu_numpy_einsum"].speed_up.ratio == pytest.approx(1 / 5)
    assert rows["cpu_numpy_einsum"].over == "cpu_numpy"
    assert rows["cpu_numpy"].speed_up is None
    assert rows["cpu_numpy_shortcut"].speed_up is None


@pytest.mark.parametrize(
    ("copy", "fma", "bandwidth", "flops"),
    [
        ({"bytes_per_second": 2e9, "q1": 1e9, "q3": 3e9, "roof": 4e9},
         {"instructions_per_second": 2e9, "q1": 1e9, "q3": 3e9, "roof": 5e9}, 4e9, 10e9),
        ({"bytes_per_second": 2e9, "q1": 1e9, "q3": 3e9}, {"instructions_per_second": 2e9, "q3": 3e9}, 3e9, 6e9),
        ({"bytes_per_second": 2e9}, {"instructions_per_second": 2e9}, 2e9, 4e9),
        ({}, {}, math.inf, math.inf),
    ],
)  # fmt: skip
def test_a_recorded_roof_is_the_upper_quartile_as_every_roof(copy, fma, bandwidth, flops):
    """Current records store it as "roof"; a multiply-add is two operations."""
    (curve,) = recorded.of_record({
        "machine": {"cpu": "a CPU"}, "date": "2026-11-21T00:00:00",
        "copy_bandwidth": {"host": copy}, "fma": {"host float64": fma},
        "results": [{"workload": "sort", "way": "cpu_numpy", "size": 10, "dtype": "float64", "settings": "",
                     "device": "host", "status": "failed", "reason": ""}],
    })  # fmt: skip
    assert repr(curve.roof) == repr(Roof("host", "float64", bandwidth, flops))  # its NaN differs from itself


def test_a_row_has_what_exports_and_speed_ups_need(scripted):
    scripted.seconds = lambda way, n: {"cpu_numpy": 4e-9, "cpu_numba": 1e-9}[way] * n
    sweep = finish(Sweep(plan(*ways_of("add_one", "cpu_numpy", "cpu_numba"), sizes=(1000,), budget=1000), Clock(1e-3)))
    numpy, numba = results.rows(sweep, {"host": Roof("host", "float64", 32e9, 1e12)})
    assert (numpy.over, numba.speed_up) == ("cpu_numba", None)
    assert numpy.speed_up.ratio == pytest.approx(0.25)
    assert [sample.timing.first_call for sample in numpy.samples] == [True] + [False] * numpy.measurement.step.n
    assert all(sample.ended >= sample.began for sample in numpy.samples)
    assert numba.extra["percent_of_roof"] == pytest.approx(50)
    document = report.as_record(Results([numpy, numba]), BenchPlan("crossover", (), ()), "x", BENCHMARK)
    records.check(document, "here")
    for key in ("workload", "way", "size"):
        damaged = json.loads(json.dumps(document))
        del damaged["results"][0][key]
        with pytest.raises(records.RecordError, match=r"results\[0\]: (\w+) is missing"):
            records.check(damaged, "here")


def test_a_noisy_time_is_labelled(scripted, capsys):
    scatter = np.random.default_rng(1)
    scripted.seconds = lambda way, n: 1e-8 * n * scatter.uniform(0.5, 1.5)
    sweep = finish(Sweep(plan(*ways_of("add_one", "cpu_numpy"), sizes=(10,), budget=1.0), Clock(1e-3)))
    found = Results(list(results.rows(sweep, {})))
    assert [row.measurement.noisy for row in found.rows] == [True]
    results.show_tables(found, Console(width=100))
    assert "noisy" in capsys.readouterr().out


def test_the_default_sizes_are_about_six_and_reach_what_was_cited():
    for w, dtype in product(workloads(), BENCHMARK.dtypes):
        sizes = {case.size for case in BENCHMARK.cases({**OPTIONS, "workloads": (w.name,)}, (dtype,), False)}
        assert 4 <= len(sizes) <= 8
        for cited in w.cited:
            assert cited.n in sizes or cited.n > w.sizes[1] or cited.dtype not in ("", dtype)
        for test in (claim.test for claim in w.claims):
            assert getattr(test, "slow", None) is None or test.n in sizes or test.dtype != dtype


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--workloads", "cube"), "--workloads: workload must be one of add_one"),
        (("--ways", "gpu_magic"), "--ways: must be some of cpu_awkward, cpu_numba"),
        (("--limit", "0"), "--limit: '0' is not a number of seconds from 1 to 86400"),
        (("--sizes", "0"), "--sizes: '0' is not a whole number n from 1 to 1000000000"),
        (("--workloads", "sort", "--ways", "gpu_triton"), "none of the requested workloads has such a way"),
        (("--workloads", "sort", "--sizes", "1000000000"), "at such an n"),
    ],
)
def test_bad_options_are_named(arguments, text, capsys):
    assert main(["bench", "crossover", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_a_missing_library_is_said_once(capsys):
    names = ["cpu_numpy", *(way.name for way in workload("square").ways() if way.missing)]
    arguments = ["--workloads", "square", "--dtypes", "float32", "--sizes", "10", "--ways", ",".join(names)]
    assert main(["bench", "crossover", *arguments, "--budget", "0.2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {way.backend.name for way in workload("square").ways() if way.missing} == set(found["missing"])
    assert [result["way"] for result in found["results"]] == ["cpu_numpy"]


def plan_of(*workloads, budget):
    """Return the plan of a bench of cpu_numpy at n = 10 and 100."""
    chosen = {**OPTIONS, "workloads": workloads, "sizes": (10, 100), "ways": ("cpu_numpy",)}
    return BenchPlan("crossover", tuple(BENCHMARK.cases(chosen, ("float64",), False)), ("cpu_numpy",), budget)


def silent(*words):
    pass


def test_a_limit_ends_a_curve_but_loses_nothing(monkeypatch):
    plan = plan_of("add_one", "sort", budget=0.4)
    clock = itertools.count(step=2).__next__  # two seconds per reading
    limited = replace(plan, cases=tuple(replace(case, limit=60.0) for case in plan.cases))
    monkeypatch.setattr(benchmark, "LEAST_RUN", 1e6)
    rows = benchmark.SweepBench(limited, silent, clock).run().rows
    assert {row.reason for row in rows if row.status == "skipped"} == {"not timed: the time for all was over"}
    assert {row.case.workload for row in rows if row.status == "measured"} == {"add_one"}
    assert [row.case.size for row in rows if row.case.workload == "sort"] == [10]  # one row: not begun


def test_an_error_ends_its_curve_only(monkeypatch):
    right = Case.reference
    fail = {"add_one": lambda case, inputs: broken(inputs)}
    monkeypatch.setattr(Case, "reference", lambda case, inputs: fail.get(case.workload.name, right)(case, inputs))
    found = benchmark.SweepBench(plan_of("add_one", "sort", budget=0.4), silent).run().rows
    statuses = {(row.case.workload, row.status) for row in found}
    assert statuses == {("add_one", "skipped"), ("sort", "measured")}
    assert found[0].reason == "not timed: RuntimeError: no such kernel"


def test_an_interrupted_sweep_keeps_what_it_has():
    def say(text, _done=None):
        """Raise the interrupt as soon as the second curve has begun."""
        if "sort" in text.lower():
            raise KeyboardInterrupt

    made = benchmark.SweepBench(plan_of("add_one", "sort", budget=0.4), say).run()
    assert made.interrupted
    assert {row.status for row in made.rows if row.case.workload == "add_one"} == {"measured"}


def test_a_bench_goes_round_its_curves_with_nothing_open_between_them(monkeypatch):
    """A slow phase of the machine then affects few visits of a point: cpu_numpy at n of two workloads."""
    log = []

    class Logged(Scripted):
        def time(self, steps):
            assert type(self).open == 1
            log.append((self._case.workload.name, self._case.n))
            return super().time(steps)

        def transfer(self):
            return 0.0

    monkeypatch.setattr(sweeps, "WorkloadRunner", Logged)
    scatter = np.random.default_rng(0)
    Logged.seconds = lambda way, n: 1e-6 * scatter.uniform(0.5, 1.5)
    told = []
    monkeypatch.setattr(benchmark, "LEAST_RUN", 1e6)  # of a clock that advances by a second per reading
    plan = plan_of("add_one", "sort", budget=1e-3)
    made = benchmark.SweepBench(plan, lambda text, done: told.append((text, done)), Clock(1.0)).run()
    assert {row.status for row in made.rows} == {"measured"}
    turns = [(name, {n for _, n in visits}) for name, visits in itertools.groupby(log, key=lambda entry: entry[0])]
    assert turns == [("add_one", {10, 100}), ("sort", {10, 100})] * sweeps.ROUNDS
    assert {len(row.samples) for row in made.rows} == {1 + sweeps.ROUNDS}  # including the cold one
    parts = [done for _, done in told]
    assert parts == sorted(parts)
    assert 0 <= parts[0] < 0.5 < parts[-1] <= 1
    assert [case["title"] for case in made.conditions.as_record()["cases"]] == ["Add one  float64", "Sort  float64"]


def test_records_of_other_versions_and_broken_files_are_left_out(tmp_path):
    (tmp_path / "damaged-crossover.json").write_text("{")
    assert recorded.library(tmp_path) == []
    document = {
        "machine": {"cpu": "a CPU"}, "date": "2026-11-21T00:00:00", "results": [
            {"workload": name, "way": way, "size": 10, "dtype": "float64", "settings": text, "status": "measured",
             "median": 2.0, "q1": 1.0, "q3": 3.0, "n": 5, "noisy": True}
            for name, way, text in (
                ("add_one", "cpu_numpy", ""), ("gone", "cpu_numpy", ""), ("sort", "gone", ""),
                ("histogram", "cpu_numpy", "bins = 7"), ("histogram", "cpu_numpy", "bins = 3"),
            )
        ],
    }  # fmt: skip
    found = list(recorded.of_record(document))
    assert [(curve.workload, dict(curve.settings), curve.status) for curve in found] == [
        ("add_one", {}, "noisy"), ("histogram", {"bins": 3}, "noisy"),
    ]  # fmt: skip
    assert found[0].noisy == {10}
    assert found[0].run == "2026-11-21T00:00:00"
    assert found[0].series[10].median == 2.0


def test_of_two_runs_the_newest_with_a_time_counts_whole(tmp_path, monkeypatch):
    def run(hour, status, seconds, way="cpu_numpy"):
        result = {"workload": "sort", "way": way, "size": 10, "dtype": "float64", "settings": "",
                  "status": status, "reason": "", "median": seconds, "q1": seconds, "q3": seconds, "n": 5}  # fmt: skip
        return {"machine": {"cpu": "a CPU"}, "date": f"2026-11-21T{hour:02}:00:00", "lab": "crossover",
                "results": [result]}  # fmt: skip

    documents = {
        "a-crossover.json": run(9, "measured", 1.0), "b-crossover.json": run(10, "measured", 2.0),
        "c-crossover.json": run(11, "failed", 0.0), "d-crossover.json": run(8, "failed", 0.0, "gpu_cupy"),
    }  # fmt: skip
    for name in documents:
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(recorded.records, "load", lambda path: documents[path.name])
    found = {curve.way: curve for curve in recorded.library(tmp_path)}
    assert found["cpu_numpy"].series[10].median == 2.0
    assert found["gpu_cupy"].status == "failed"
    assert len(recorded.library(tmp_path)) == 2


def test_a_small_budget_leaves_out_rounds_and_not_curves(monkeypatch):
    """A budget of 170 s on an H200 timed three of 28 curves."""
    made = script(monkeypatch)
    made.transfer, made.seconds = (lambda self: 0.0), (lambda way, n: 1e-6)
    monkeypatch.setattr(benchmark, "LEAST_RUN", 60.0)  # of a clock that advances by a second per reading
    rows = benchmark.SweepBench(plan_of("add_one", "square", "sort", budget=1.0), silent, Clock(1.0)).run().rows
    assert [row.status for row in rows] == ["measured"] * 6
    assert all(row.measurement.step.n < sweeps.ROUNDS for row in rows)
