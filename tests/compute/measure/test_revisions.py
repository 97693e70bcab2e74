"""Figures recorded before a kernel became faster are excluded from comparisons, and the page reports it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from compute.labs.crossover import claims
from compute.labs.crossover.curves import outdated_lines, recorded_curves
from compute.labs.mandelbrot.benchmark import BENCHMARK
from compute.labs.mandelbrot.comparison import RULES
from compute.measure import records, report
from compute.measure.case import Results, Row
from compute.measure.records import BEFORE, Recorded, outdated, paired
from compute.ways import recorded
from compute.ways.catalogue import workload
from tests.compute.measure.test_records import RESULT, changed

NEWER = {("cpu_numba", "block"): 2}


def figure(backend, step, variant="block", kernel=1):
    facts = "whole set", step, 1 / step
    return Recorded("mandelbrot", "GPU Q", "2026-01-02", backend, variant, 9, 9, "float64", *facts, kernel=kernel)


FIGURES = [figure("gpu_cupy", 1e-3), figure("cpu_numba", 0.5), figure("cpu_numpy", 9.0)]

VALUES = {
    "center": ("-0.5", "0.0"), "zoom": "1", "ny": 9, "nx": 9, "max_iterations": 100, "precision": "float64",
    "shortcuts": False,
}  # fmt: skip


def test_a_result_without_a_revision_is_of_the_first():
    assert [f.kernel for f in records.recorded(changed(["lab"], "diffusion"))] == [1]
    assert [f.kernel for f in records.recorded(changed(["results", 0, "kernel"], 3))] == [3]
    assert "kernel" not in RESULT


def test_the_figure_of_an_older_kernel_is_compared_with_no_gpu_nor_is_a_slower_way():
    pair = paired(FIGURES, "", same=False, revisions=NEWER)
    assert (pair.gpu.step, pair.cpu, pair.unpaired) == (1e-3, None, f"its CPU was {records.BEFORE}")
    again = paired([figure("cpu_numba", 0.1, kernel=2), *FIGURES[::2]], "", same=False, revisions=NEWER)
    assert (again.cpu.step, again.unpaired) == (0.1, "")
    assert not outdated(replace(FIGURES[1], kernel=7), NEWER)  # recorded by a newer version of this program


def test_a_gpu_whose_kernel_has_changed_is_omitted_and_others_stay():
    newer = {("gpu_cupy", "block"): 2}
    assert paired(FIGURES, "", same=True, revisions=newer) is None
    other = figure("gpu_numba", 2e-3)
    pair = paired([*FIGURES, other], "", same=True, revisions=newer)
    assert (pair.gpu, pair.cpu) == (other, FIGURES[1])


def test_the_mandelbrot_rules_compare_no_old_row_of_the_cpu_and_every_row_of_a_gpu():
    assert RULES.recorded_pair(VALUES, FIGURES).unpaired == f"its CPU was {records.BEFORE}"
    assert RULES.elsewhere(VALUES, FIGURES) == [FIGURES[0]]


def test_a_record_names_the_revision_of_each_kernel():
    (case,) = BENCHMARK.cases({"scenes": ("interior",)}, ("float64",), gpu=False)
    entries = {
        (backend, variant): report.entry(Row(backend, variant, case, "skipped"), Results(), BENCHMARK)["kernel"]
        for backend, variant in (("cpu_numba", "block"), ("cpu_numba", "test each step"), ("gpu_cupy", "block"))
    }
    assert entries == {("cpu_numba", "block"): 2, ("cpu_numba", "test each step"): 1, ("gpu_cupy", "block"): 1}


# -- the crossover's curves


@pytest.fixture
def old_record():
    path = records.timings_folder() / "nvidia-h200-crossover.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    for result in document["results"]:
        result.pop("kernel", None)
    return document


def revised(document, kernel):
    """Return the record with this revision of the Numba way of π."""
    for result in document["results"]:
        if (result["workload"], result["way"]) == ("monte_carlo_pi", "cpu_numba"):
            result["kernel"] = kernel
    return document


def curves_of(document):
    found = recorded.of_record(document)
    return [curve for curve in found if (curve.workload, curve.dtype) == ("monte_carlo_pi", "float64")]


def test_a_curve_of_an_older_way_has_no_times_and_states_why(old_record):
    found = {curve.way: curve for curve in curves_of(old_record)}
    assert found["cpu_numba"].outdated
    assert not found["cpu_numba"].series
    assert set(found["cpu_numba"].reasons.values()) == {BEFORE}
    assert found["gpu_numba"].series
    assert found["cpu_numpy"].series
    now = {curve.way: curve for curve in curves_of(revised(old_record, 2))}
    assert now["cpu_numba"].series
    assert not now["cpu_numba"].outdated


def test_no_other_way_represents_a_processor_whose_best_way_is_older(old_record, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "timings_folder", lambda: tmp_path)
    chosen = workload("monte_carlo_pi"), "float64", {}, False, (100, 10**9)
    of, *rest = chosen
    for kernel, ways, words in ((1, {"gpu"}, 1), (2, {"cpu", "gpu"}, 0)):
        document = revised(old_record, kernel)
        (tmp_path / f"{kernel}-crossover.json").write_text(json.dumps(document), encoding="utf-8")
        lines = recorded_curves(of, {}, *rest, every=True)
        assert {line.kind for line in lines if line.series} == ways
        texts = outdated_lines(*chosen)
        assert len(texts) == words
        assert all(f"Numba on NVIDIA H200: {BEFORE}" in text for text in texts)


def test_a_claim_is_not_judged_by_an_older_way(old_record):
    (before,) = (c for c in claims.conclusions(curves_of(old_record)) if c.workload == "monte_carlo_pi")
    assert (before.verdict, before.ours, before.outdated) == ("not measured yet", "", True)
    (now,) = (c for c in claims.conclusions(curves_of(revised(old_record, 2))) if c.workload == "monte_carlo_pi")
    assert (now.verdict, now.outdated) == ("holds", False)
