"""The check against plain C++: equal counts first, ratios from one run, and a message if the check is impossible."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from compute.__main__ import OK, main
from compute.labs.mandelbrot import cpu_numba, plain_c
from compute.labs.mandelbrot.benchmark import BENCHMARK
from compute.labs.mandelbrot.scenes import SCENES
from compute.measure import records, report
from compute.measure.case import BenchPlan, Results

pytestmark = pytest.mark.extended

needs_compiler = pytest.mark.skipif(shutil.which(plain_c.COMPILER) is None, reason="g++ is not installed")
SMALL = replace(SCENES["whole set"], shape=(33, 47), view=replace(SCENES["whole set"].view, max_iterations=70))


@pytest.fixture(scope="module")
def library():
    with plain_c.compiled() as found:
        yield found


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(plain_c, "LONG", replace(SMALL, name="long"))
    monkeypatch.setattr(plain_c, "PAIRS", 2)
    monkeypatch.setattr(plain_c, "LATE", 1e9)  # times a second


@needs_compiler
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shortcuts", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["lesson", "whole set", "interior", "long"])
def test_plain_c_and_the_kernel_agree(library, name, dtype, shortcuts, threads):
    scene = plain_c.LONG if name == "long" else SCENES[name]
    rows = 30
    scene = replace(scene, shape=(rows, 45), dtype=dtype, shortcuts=shortcuts)
    ours, theirs = (plain_c.fresh(scene, rows) for _ in range(2))
    part = plain_c.part_of(scene, rows)
    cpu_numba.direct(ours, part)
    plain_c.paint(library, threads, theirs, part)
    np.testing.assert_array_equal(theirs.count, ours.count)
    np.testing.assert_allclose(theirs.smooth, ours.smooth, rtol=1e-6)  # the system's library computes log2
    if not shortcuts:
        assert theirs.totals[0] == ours.totals[0]


@needs_compiler
@pytest.mark.usefixtures("quick")
def test_scenes_without_time_are_left_out_and_named(monkeypatch):
    """Compilation counts: with a cold cache the check took longer than the bench."""
    monkeypatch.setattr(plain_c, "LATE", 0.0)
    found = plain_c.check([SMALL, SMALL], 1.0)
    assert {row.case for row in found.rows} == {SMALL.name}
    assert found.absent == f"the budget ended before {SMALL.title}"
    assert found.program


def test_a_bench_interrupted_during_the_check_keeps_its_rows(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(plain_c, "check", interrupted)
    plan = BenchPlan("mandelbrot", (replace(SMALL, shape=(9, 9)),), ("cpu_numba", "cpu_numpy"), budget=0.5)
    results = BENCHMARK.run(plan)
    assert isinstance(results.interrupted, KeyboardInterrupt)
    assert any(row.measurement for row in results.rows)


@needs_compiler
@pytest.mark.usefixtures("quick")
def test_the_bench_shows_and_records_the_check(capsys, tmp_path, monkeypatch):
    for name in SCENES:
        monkeypatch.setitem(SCENES, name, replace(SMALL, name=name))
    saved = tmp_path / "record.json"
    command = ["bench", "mandelbrot", "--scenes", "lesson", "--backends", "cpu_numba", "--dtypes", "float32"]
    assert main([*command, "--budget", "1", "--save", str(saved)]) == OK
    shown = capsys.readouterr().out
    assert plain_c.TITLE in shown
    assert "ours / theirs" in shown
    rows = records.load(saved)["outside"]["rows"]
    assert {row["case"] for row in rows} == {"lesson", "long"}
    assert all(row["differ"] == 0 and row["ratio"] > 0 and row["dtype"] == "float32" for row in rows)


@pytest.mark.usefixtures("quick")
def test_a_missing_or_failing_compiler_is_reported(tmp_path, monkeypatch):
    if shutil.which(plain_c.COMPILER):
        broken = tmp_path / "plain.cpp"
        broken.write_text("int main( {", encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(plain_c, "SOURCE", broken)
            assert plain_c.check([SMALL], 0.1).absent.startswith("g++ cannot compile plain.cpp:")
    monkeypatch.setattr(plain_c.shutil, "which", lambda _: None)
    results = BENCHMARK.run(BenchPlan("mandelbrot", (SMALL,), ("cpu_numba",), budget=1.0))
    assert results.outside.rows == ()
    assert results.outside.absent == "g++ is not installed, so the kernel was not compared with plain C++"
    with Console(width=150) as console, console.capture() as capture:
        report.show(results, BENCHMARK, console)
    assert results.outside.absent in capture.get()


@needs_compiler
@pytest.mark.usefixtures("quick")
def test_differing_results_get_no_time(tmp_path, monkeypatch):
    wrong = tmp_path / "plain.cpp"
    text = plain_c.SOURCE.read_text(encoding="utf-8")
    wrong.write_text(text.replace("<= T(4)", "<= T(9)"), encoding="utf-8")
    monkeypatch.setattr(plain_c, "SOURCE", wrong)
    found = plain_c.check([SMALL], 0.1)
    assert all(row.differ > 0 and row.ratio.n == 0 for row in found.rows)
    assert all(row["ratio"] is None for row in json.loads(json.dumps(found.as_record()))["rows"])
    with Console(width=150) as console, console.capture() as capture:
        report.show(Results(outside=found), BENCHMARK, console)
    assert "results disagree, so no time  whole set float64" in capture.get()
