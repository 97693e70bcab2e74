"""The command line, in this process: messages and exit codes, complete records, no assertions on speed."""

from __future__ import annotations

import csv
import io
import json
import os
import sys

import numpy as np
import pytest
from rich.console import Console

from compute import BACKENDS
from compute.__main__ import BAD_INPUT, OK, Terminated, main, without_paths
from compute.labs.diffusion import benchmark, cpu_numba, cpu_numpy, scheme
from compute.machine import machine
from compute.measure import records, report, sampling
from compute.measure.case import BenchPlan, Results, Row
from compute.measure.commands import DISAGREED
from compute.measure.statistics import Measurement
from compute.measure.timing import Timing

BOTH = ["--backends", "cpu_numpy,cpu_numba"]
QUICK = ["bench", "diffusion", "--sizes", "24", *BOTH, "--dtypes", "float32", "--budget", "0.1"]


def plan(**changes):
    values = {"sizes": (24,), "dtypes": ("float64",), "edges": ("periodic",)}
    values |= {name: changes.pop(name) for name in list(changes) if name in values}
    cases = benchmark.BENCHMARK.cases(values, values["dtypes"], gpu=False)
    given = {"lab": "diffusion", "backends": ("cpu_numpy", "cpu_numba"), "budget": 0.1} | changes
    return BenchPlan(**given, cases=cases)


def test_info_lists_backends_machine_and_versions(capsys):
    assert main(["info"]) == OK
    printed = capsys.readouterr().out
    assert all(backend.name in printed for backend in BACKENDS)
    assert machine.machine()["cpu"] in printed
    assert main(["info", "--json"]) == OK
    found = json.loads(capsys.readouterr().out)
    assert [backend["name"] for backend in found["backends"]] == [backend.name for backend in BACKENDS]
    assert all(backend["missing"] or backend["install"] == "" for backend in found["backends"])
    assert found["machine"].keys() >= {"cpu", "cores", "threads", "gpus", "driver", "memory"}
    assert found["versions"]["numpy"] == np.__version__


def test_bench_writes_tables_csv_and_a_record_that_can_be_read(capsys, tmp_path):
    saved, table = tmp_path / "here" / "record.json", tmp_path / "table.csv"
    assert main([*QUICK, "--save", str(saved), "--csv", str(table)]) == OK
    assert "24 x 24  float32  zero-flux" in capsys.readouterr().out
    figures = records.recorded(records.load(saved))
    assert {figure.backend for figure in figures} == {"cpu_numpy", "cpu_numba"}
    lines = list(csv.DictReader(io.StringIO(table.read_text())))
    assert len(lines) == len(figures)
    assert float(lines[0]["median_s_per_step"]) == figures[0].step
    before = saved.read_bytes()
    assert main([*QUICK, "--compare", str(saved), "--csv", str(saved)]) == BAD_INPUT
    assert "--compare names a file that would be overwritten" in capsys.readouterr().err
    assert saved.read_bytes() == before


def test_bench_as_json_has_its_provenance(capsys):
    assert main([*QUICK, "--json"]) == OK
    document = json.loads(capsys.readouterr().out)
    records.check(document, "stdout")
    assert document["command"].startswith("fieldlab bench diffusion")
    assert document["copy_bandwidth"]["host"]["n"] >= 3
    for result in document["results"]:
        assert result["status"] == "measured"
        assert result["difference"] <= result["tolerance"]
        assert result["q1"] <= result["median"] <= result["q3"]
        assert result["n"] >= 5
        assert result["first_call"] > 0
    fastest, *others = sorted(document["results"], key=lambda result: result["median"])
    assert "speed_up" not in fastest
    for result in others:
        assert result["speed_up"]["over"] == f"{fastest['backend']} {fastest['variant']}"
        assert result["speed_up"]["ratio"] == pytest.approx(fastest["median"] / result["median"])


INVALID = {
    "": "required",
    "fly": "fly",
    "bench nothing": "lab must be one of crossover, diffusion,",
    "bench diffusion --sizes 512,many": "'many' is not a whole number",
    "bench diffusion --sizes 0": "'0' is not a whole number",
    "bench diffusion --sizes 99999999": "from 1 to 32768",
    "bench diffusion --sizes ,": "no size is given",
    "bench diffusion --scenes home": "unrecognized arguments: --scenes",
    "bench diffusion --backends cpu_abacus": "cpu_abacus",
    "bench diffusion --dtypes float16": "float16",
    "bench diffusion --edges open": "'open'",
    "bench diffusion --budget nan": "'nan' is not a number of seconds",
    "bench diffusion --save /dev/null/x.json": "/dev/null is not a folder",
}


@pytest.mark.parametrize("command", INVALID)
def test_invalid_arguments_are_refused_and_write_nothing(capsys, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == BAD_INPUT
    captured = capsys.readouterr()
    assert INVALID[command] in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_bench_of_missing_backends_shows_reasons_and_install_commands(capsys):
    absent = [backend for backend in BACKENDS if backend.missing]
    if not absent:
        pytest.skip("every backend is here")
    assert main(["bench", "diffusion", "--backends", ",".join(each.name for each in absent)]) == BAD_INPUT
    said = capsys.readouterr().err
    assert all(f"{each.name}: {each.missing}. {each.install}".rstrip() in said for each in absent)


@pytest.mark.parametrize("factor", [1.001, np.nan])
def test_disagreeing_results_get_no_time_and_no_speed_up(monkeypatch, capsys, factor):
    def planted(u, out, r, edges, steps):
        cpu_numba.step(u, out, r, edges, steps)
        out *= factor

    monkeypatch.setattr(cpu_numba, "VARIANTS", {"planted": planted})
    assert main([*QUICK, "--json"]) == DISAGREED
    results = {result["backend"]: result for result in json.loads(capsys.readouterr().out)["results"]}
    wrong = results["cpu_numba"]
    assert wrong["status"] == "disagrees"
    assert wrong["difference"] is None or wrong["difference"] > wrong["tolerance"]
    assert "median" not in wrong
    assert not any("speed_up" in result for result in results.values())
    assert main(QUICK) == DISAGREED
    assert "results disagree, so no time  cpu_numba planted" in capsys.readouterr().out


def test_a_kernel_wrong_by_design_is_timed_but_never_a_speed_up(monkeypatch):
    def racing(u, out, *_):
        out[...] = 0.5 * u

    monkeypatch.setattr(cpu_numba, "VARIANTS", {"one-step": cpu_numba.step, "racing": racing})
    rows = {row.variant: row for row in benchmark.BENCHMARK.run(plan(backends=("cpu_numba",))).rows}
    assert rows["racing"].status == "wrong"
    assert rows["racing"].measurement.step.n >= 5
    assert rows["racing"].speed_up is None
    assert rows["racing"].difference > rows["racing"].case.tolerance
    assert rows["one-step"].status == "measured"


def test_an_implementation_that_raises_does_not_stop_the_others(monkeypatch):
    def broken(*_):
        raise MemoryError("no more of it")

    monkeypatch.setattr(cpu_numba, "VARIANTS", {"planted": broken})
    rows = {row.backend: row for row in benchmark.BENCHMARK.run(plan()).rows}
    assert rows["cpu_numba"].status == "failed"
    assert "no more of it" in rows["cpu_numba"].reason
    assert rows["cpu_numpy"].status == "measured"


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_an_interrupted_bench_prints_and_saves_its_results(monkeypatch, capsys, tmp_path, stop, code):
    calls = []

    def interrupted(u, out, r, edges, steps):
        calls.append(steps)
        if len(calls) > 8:  # checked, and sampled several times
            raise stop
        cpu_numba.step(u, out, r, edges, steps)

    monkeypatch.setattr(cpu_numba, "VARIANTS", {"interrupted": interrupted})
    saved = tmp_path / "kept.json"
    assert main([*QUICK[:-4], "--dtypes", "float32,float64", "--save", str(saved)]) == code
    printed = capsys.readouterr()
    assert "interrupted; the measurements made so far are kept" in printed.err
    assert " ways in all: " in printed.err  # the estimate, before the bench
    assert "cpu_numpy one-step" in printed.out
    record = records.load(saved)
    assert record["interrupted"]
    assert record["conditions"]["cases"]
    statuses = {(result["backend"], result["dtype"]): result["status"] for result in record["results"]}
    assert statuses["cpu_numpy", "float32"] == statuses["cpu_numba", "float32"] == "measured"
    assert ("cpu_numpy", "float64") not in statuses


def test_interrupting_a_command_without_results_says_that_nothing_was_saved(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("compute.machine.info.facts", interrupted)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "fieldlab: interrupted; nothing was saved\n"


def test_a_bench_without_results_says_so_and_shows_no_table(monkeypatch, capsys):
    monkeypatch.setattr("compute.measure.run.LEAST_RUN", 0.0)
    assert main([*QUICK[:-1], "1e-9"]) == DISAGREED
    printed = capsys.readouterr()
    assert "nothing was measured in 1e-09 s: " in printed.err
    assert sampling.OVER in printed.err
    assert "24 x 24  float32  zero-flux" in printed.out
    assert "┃" not in printed.out
    assert "skipped  cpu_numba" in printed.out


def test_interpreted_kernels_are_not_benched(monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert main(QUICK) == BAD_INPUT
    assert "nothing can be measured: Numba compiles nothing (NUMBA_DISABLE_JIT is set)" in capsys.readouterr().err
    assert main(["info", "--roofs"]) == BAD_INPUT
    assert "the roofs cannot be measured: Numba compiles nothing" in capsys.readouterr().err


def test_the_same_kernel_twice_is_timed_once(monkeypatch):
    monkeypatch.setattr(cpu_numba, "VARIANTS", {"one": cpu_numba.step, "two": cpu_numba.step})
    rows = benchmark.BENCHMARK.run(plan(backends=("cpu_numba",))).rows
    assert [row.variant for row in rows] == ["one"]


@pytest.mark.parametrize(("launch", "bound"), [(0.5, False), (0.95, True), (1.2, True)])
def test_launch_bound_means_launching_takes_as_long_as_computing(launch, bound):
    timings = [Timing("gpu_cupy", "T-step", 10, 576, launch=launch, compute=1.0) for _ in range(5)]
    case = benchmark.GridCase(24, "float32", "zero-flux")
    row = Row("gpu_cupy", "T-step", case, "measured", measurement=Measurement.of(timings), steps=10, difference=0.0)
    results = Results(rows=[row])
    assert report.entry(row, results, benchmark.BENCHMARK)["launch_bound"] is bound
    written = io.StringIO()
    benchmark.BENCHMARK.show(results, Console(width=200, file=written))
    assert ("launch-bound  gpu_cupy T-step" in written.getvalue()) is bound


@pytest.mark.parametrize(
    ("backend", "variant", "passes"),
    [("cpu_numba", "one-step", 24), ("cpu_numba", "T-step", 3), ("gpu_cupy", "T-step", 3)],  # eight steps a pass
)
def test_moved_bytes_are_counted_per_pass_over_the_field(backend, variant, passes):
    timings = [Timing("cpu_numba", "", 24, 576, launch=0.0, compute=24.0) for _ in range(5)]
    case = benchmark.GridCase(24, "float32", "zero-flux")
    row = Row(backend, variant, case, "measured", measurement=Measurement.of(timings), steps=24)
    assert report.counted(row, benchmark.BENCHMARK) == pytest.approx(8 * 576 * passes / 24)


def test_exact_modes_equal_the_stepped_reference():
    """The two references are independent: a formula and the NumPy kernel. They must agree."""
    for edge in scheme.EDGES:
        modes = benchmark.ExactModes(60, edge)
        u = modes.start("float64")
        out = np.empty_like(u)
        cpu_numpy.step(u, out, benchmark.R, edge, benchmark.CHECK_STEPS)
        assert benchmark.field_error(modes, out)[0] < 1e-14


def test_large_grids_are_checked_against_the_exact_modes(monkeypatch):
    monkeypatch.setattr(benchmark, "REFERENCE_CELLS", 100)
    rows = benchmark.BENCHMARK.run(plan(dtypes=("float32", "float64"))).rows
    assert all(row.status == "measured" and row.reference.startswith("exact modes") for row in rows)


def test_machine_names_make_file_names():
    here = {"cpu": "AMD EPYC (TM) 9655", "threads": 2, "gpus": []}
    assert machine.slug(here) == "amd-epyc-tm-9655-2-threads"
    assert machine.slug({**here, "gpus": [{"name": "NVIDIA H200"}]}) == "nvidia-h200"
    assert machine.slug({**here, "gpus": [{"name": "NVIDIA H200"}] * 2}) == "2x-nvidia-h200"


def test_without_a_checkout_the_commit_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.delenv("FIELDLAB_COMMIT", raising=False)
    assert machine.commit() is None
    monkeypatch.setenv("FIELDLAB_COMMIT", "abc")
    assert machine.commit() == "abc"


def test_serve_executes_the_server_of_the_app(monkeypatch):
    ran = []
    monkeypatch.setattr(os, "execv", lambda path, command: ran.append(command) or 0)
    own = ["--port", "7777", "--address", "0.0.0.0", "--origin", "lecture:7777", "--origin", "hall:7777"]
    with pytest.raises(TypeError):  # the real one does not return
        main(["serve", *own])
    assert ran == [[sys.executable, "-P", "-m", "app.server.serve", *own]]


@pytest.mark.parametrize(
    "arguments", [["--save", "/a/a.json"], ["--save=/home/a.json"], ["--csv", "../a.json"], ["--save", "a.json"]]
)
def test_a_recorded_command_contains_no_folders(arguments):
    assert "".join(without_paths(arguments)).replace("=", "") == f"{arguments[0].split('=')[0]}a.json"
    assert without_paths(["bench", "diffusion", "--save", "--json"]) == ["bench", "diffusion", "--save", "--json"]
