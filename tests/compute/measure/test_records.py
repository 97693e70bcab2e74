"""Records: saved completely, and validated when loaded."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from math import isnan

import pytest

from compute.labs.diffusion.benchmark import CITED
from compute.measure import records
from compute.measure.records import RecordError, library, load, nearest, recorded, save

RESULT = {
    "backend": "gpu_cupy", "variant": "T-step", "status": "measured", "device": "cuda:0", "ny": 2000, "nx": 2000,
    "dtype": "float32", "edges": "zero-flux", "median": 4e-6, "q1": 3.9e-6, "q3": 4.2e-6, "n": 20,
    "cells_per_second": 1e12, "bytes_per_second": 8e12, "percent_of_copy": 190.0,
}  # fmt: skip
RECORD = {
    "schema": records.SCHEMA, "lab": "diffusion", "date": "2026-01-02T03:04:05+00:00",
    "command": "fieldlab bench diffusion", "commit": None,
    "machine": {"cpu": "some CPU", "gpus": [{"name": "some GPU", "memory": 1}]},
    "versions": {"numpy": "2"}, "parameters": {"r": 0.2}, "copy_bandwidth": {}, "results": [RESULT],
    "rate": {"unit": "Gcell/s", "work": "cells", "step": "step", "roof": "copy", "counted": "bytes"},
}  # fmt: skip


def changed(where, value):
    """Return RECORD with the entry at the path `where` replaced, or removed if value is `...`."""
    out = copy.deepcopy(RECORD)
    inner = out
    for key in where[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[where[-1]]
    else:
        inner[where[-1]] = value
    return out


def test_saved_and_loaded_records_are_the_same(tmp_path):
    path = save(RECORD, tmp_path / "new folder" / "a.json")
    assert load(path) == RECORD
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = save(RECORD, tmp_path / "a.json")

    def full(*_args, **_values):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records.json, "dump", full)
    with pytest.raises(OSError, match=r"a\.json cannot be written: the disk is full"):
        save(changed(["lab"], "other"), path)
    assert load(path) == RECORD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (["schema"], "fieldlab-timings/99", "this version reads"),
        (["lab"], ..., "lab is missing"),
        (["rate"], ..., "rate: is NoneType"),
        (["rate", "work"], ..., "work is missing"),
        (["rate", "work"], "iterations", "iterations_per_second must be a positive number"),
        (["results", 0, "percent_of_copy"], ..., "percent_of_copy must be a positive number"),
        (["results"], {}, "results is dict"),
        (["results"], [RESULT] * 5001, "more than 5000"),
        (["results", 0], "text", r"results\[0\]: is str"),
        (["results", 0, "ny"], -4, "ny must be from 1"),
        (["results", 0, "ny"], True, "ny is bool"),
        (["results", 0, "median"], ..., "median must be a positive number"),
        (["results", 0, "median"], 1e300, "outside the quartiles"),
        (["results", 0, "n"], 0, "n must be 1 or more"),
        (["results", 0, "kernel"], 0, "kernel"),
        (["results", 0, "kernel"], "2", "kernel"),
        (["results", 0, "kernel"], 2**21, "kernel"),
        (["machine", "cpu"], "x" * 501, "longer than 500"),
    ],
)
def test_a_wrong_record_is_refused_with_the_entry_and_its_bound(tmp_path, where, value, says):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed(where, value)))
    with pytest.raises(RecordError, match=says) as error:
        load(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"median": NaN}', "[" * 100_000, "\udcff", f'{{"a": {"[" * 900}{"]" * 900}}}', None,
             " " * (records.LARGEST_FILE + 1)]
)  # fmt: skip
def test_a_file_that_is_no_record_is_refused(tmp_path, text):
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=r"bad\.json"):
        load(path)


def test_only_right_results_are_shown_again():
    wrong = {**RESULT, "variant": "racing", "status": "wrong"}
    skipped = {key: RESULT[key] for key in ("backend", "variant", "device", "ny", "nx", "dtype", "edges")}
    figures = recorded(changed(["results"], [RESULT, wrong, {**skipped, "status": "skipped"}]))
    assert len(figures) == 1
    assert (figures[0].machine, figures[0].date, figures[0].variant) == ("some GPU", "2026-01-02", "T-step")
    assert figures[0].rate == pytest.approx(2000 * 2000 / 4e-6)
    assert not figures[0].cited


def test_the_library_reports_and_omits_broken_records(tmp_path):
    save(RECORD, tmp_path / "good.json")
    (tmp_path / "bad.json").write_text("{}")
    (_,), (problem,) = library(tmp_path)
    assert "bad.json" in problem
    assert library(tmp_path / "absent") == ([], [])


def test_nearest_takes_the_closest_grid_then_the_fastest():
    others = [{**RESULT, "ny": 512, "nx": 512}, {**RESULT, "variant": "one-step", "median": 4.1e-6}]
    figures = recorded(changed(["results"], [*others, RESULT]))
    assert nearest(figures, "diffusion", 1800, 1800, "float32").variant == "T-step"
    assert nearest(figures, "diffusion", 300, 300, "float32").ny == 512
    assert nearest(figures, "diffusion", 300, 300, "float64") is None
    assert nearest(figures, "mandelbrot", 300, 300, "float32") is None
    assert all(figure.cited and math.isnan(figure.q1) for figure in CITED)
    assert nearest(CITED, "diffusion", 2000, 2000, "float64") is None  # figures of other authors are never shown


def test_records_of_the_older_schema_are_still_read():
    older = changed(["schema"], records.OLDER)
    del older["rate"]
    records.check(older, "older")
    (now, *_), (then, *_) = recorded(RECORD), recorded(older)
    assert then.variant == "T-step"
    assert isnan(then.percent)  # every step of a pass was counted as a pass
    assert repr(replace(then, percent=now.percent)) == repr(now)  # their NaN differ from themselves


def test_a_rate_without_a_known_roof_is_recorded_without_its_share():
    unknown = changed(["results", 0, "percent_of_copy"], None)
    records.check(unknown, "here")
    assert math.isnan(recorded(unknown)[0].percent)


def test_every_record_in_the_assets_is_whole():
    figures, problems = library()
    assert problems == []
    assert all(figure.step > 0 for figure in figures)
