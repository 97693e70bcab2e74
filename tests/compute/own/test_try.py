"""`fieldlab try` as a whole: a failing way does not affect others; the report as text, JSON and HTML."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from compute.__main__ import main
from compute.measure.statistics import Spread
from compute.own import commands
from compute.own.report import BOTTOM, HEIGHT, as_html, as_json, lines
from compute.own.trial import Options, TrialReport, WayReport, try_file
from compute.own.verdict import AskedWork, verdict_of
from compute.ways.declaring import OwnWay
from compute.ways.ecosystems import ecosystem_of
from compute.ways.finding import TimeCurve, compare, sides
from compute.ways.roofline import Roof

pytestmark = pytest.mark.extended

FILES = Path(__file__).parent / "files"
FAULTY = Options(
    FILES / "faulty.py", budget=0.1, deadline=30.0, check_seconds=0.5, per_decade=1, roofs=False, memory=2 * 2**30
)


@pytest.fixture(scope="module")
def report():
    return try_file(FAULTY)


def test_each_fault_is_one_sentence_and_the_right_ways_are_measured(report):
    assert report.refused == ""
    assert not report.right
    found = {one.way.name: (one.kind, one.sentence) for one in report.ways}
    expected = {
        "cpu_numpy": ("", "cpu_numpy: the reference (here: n = 1, 2, 3, "),
        "cpu_numpy_into": ("", "cpu_numpy_into: right (here: n = 1, 2, 3, "),
        "cpu_numpy_forever": ("hangs", "it did not end within 30 s"),
        "cpu_numpy_segfault": ("crashed", "SIGSEGV: it read or wrote outside of its arrays"),
        "cpu_numpy_memory": ("memory", "memory is exhausted (n = 1, line "),
        "cpu_numpy_exit": ("raises", "it ends the program (n = 1, line "),
        "cpu_numpy_large": ("differs", "it is wrong at n = 1031: "),
        "cpu_awkward_absent": ("missing", "no_such_library_for_fieldlab is not installed (n = 1, line "),
        "gpu_cupy_syntax": ("compile", "it cannot be compiled or launched (n = 1, line "),
    }
    assert set(found) == set(expected)
    for name, (kind, words) in expected.items():
        if name == "cpu_awkward_absent" and "awkward is not installed" in found[name][1]:
            continue
        assert found[name][0] == kind, found[name]
        assert words in found[name][1]
        assert "\n" not in found[name][1]
        assert found[name][1].endswith(".")
    timed = {one.way.name for one in report.ways if one.series.get("float32")}
    assert timed == {"cpu_numpy", "cpu_numpy_into"}
    assert set(report.ways[0].series["float32"]) == {10, 100, 1000, 3000}
    assert report.findings["float32"].n == 3000
    assert "NumPy" in report.verdict["float32"][0]


def test_the_report_is_plain_json(report):
    found = json.loads(json.dumps(as_json(report), allow_nan=False))
    assert found["right"] is False
    assert {one["name"]: one["fault"] for one in found["ways"]}["cpu_numpy_forever"] == "hangs"
    times = found["ways"][0]["seconds"]["float32"]["3000"]
    assert 0 < times["q1"] <= times["median"] <= times["q3"]
    assert found["crossovers"]["float32"]["fast"]


def test_the_html_report_works_offline_and_escapes_everything(report):
    evil = '</pre><script>alert(1)</script><img src="http://x.example/y" onerror=z>'
    bad = replace(report.ways[2].way, variant=evil)
    ways = [WayReport(bad, "wrong", "differs", evil, notes=[evil])]
    other = TrialReport(Path(f"{evil.replace('/', '_')}.py"), "now", ways)
    other.verdict["float32"] = [evil]
    for page in (as_html(other, evil), as_html(replace(other, refused=evil), evil)):
        tags = set(re.findall(r"<\s*(/?\w+)", page))
        assert not tags & {"script", "img", "link", "iframe", "object"}
    page = as_html(report, "x < y")
    assert page.count("<polyline") == 2
    assert "x &lt; y" in page
    assert "://" not in page


def test_labels_of_lines_that_end_at_the_same_place_are_stacked_within_the_figure():
    way, one = OwnWay("blur", ecosystem_of("cpu_numpy"), ""), Spread.of([1e-3])
    ways = [WayReport(way, series={"float32": {10: one, 1000: one}}) for _ in range(5)]
    page = as_html(TrialReport(Path("blur.py"), "now", ways, verdict={"float32": []}), "")
    places = [float(y) for y in re.findall(r'<text x="[\d.]+" y="([\d.]+)">', page)]
    assert len(places) == 5
    assert all(low - high >= 14 for high, low in pairwise(places))  # px, their height
    assert places[-1] <= HEIGHT - BOTTOM


def test_a_file_that_cannot_be_opened_is_one_sentence(tmp_path, capsys):
    path = tmp_path / "own.py"
    path.write_text("def f(:\n")
    assert main(["try", str(path)]) == 2
    assert capsys.readouterr().out == "own.py, line 1: syntax error: invalid syntax.\n"
    assert main(["try", str(tmp_path / "none.py"), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["refused"].startswith("there is no file")


def test_a_reference_that_fails_ends_the_trial(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import numpy as np\nfrom compute.own import way, workload\n"
        "@workload(sizes=(1, 99))\ndef inputs(n, dtype, rng): return rng.random(n)\n"
        "@way('cpu_numpy')\ndef plain(x): return x[10]\n"
    )
    found = try_file(Options(path, timed=False, check_seconds=0.1))
    assert found.refused.startswith("cpu_numpy: it raises an error (the reference")
    assert "line 6 of own.py): IndexError" in found.refused
    assert next(lines(found)) == f"{found.refused}."


# -- the report's text


def curve(name, series):
    way = OwnWay("own", ecosystem_of(name), "", None)
    return TimeCurve(way, {n: Spread(t, 0.9 * t, 1.1 * t, 9, 0.95 * t, 1.05 * t) for n, t in series.items()})


CPU = curve("cpu_numpy", {n: 1e-8 * n for n in (100, 1000, 10_000, 100_000)})
GPU = curve("gpu_cupy", {n: 5e-6 + 1e-10 * n for n in (100, 1000, 10_000, 100_000)})


def verdict(curves, roofs=None, work=None):
    return " ".join(verdict_of(curves, compare(*sides(curves)), roofs or {}, work or {}))


def test_the_verdict_names_the_crossing_with_its_interval_and_the_launch():
    words = verdict([CPU, GPU])
    assert "CuPy is faster than NumPy from n ≈ 510 on (by the quartiles " in words  # 1e-8 n = 5e-6 + 1e-10 n
    assert "At n = 100,000 it is 67 times as fast (62.1 to 71.6)." in words  # 1e-3 s / 15e-6 s, exp ±0.071 of it
    low, high = (float(text.replace(",", "")) for text in re.search(r"quartiles ([\d,]+) to ([\d,]+)", words).groups())
    assert low < 505 < high
    launch = "Below that the launch is nearly all: 5.01 us at n = 100."
    assert launch not in words  # one n alone is not enough
    assert launch in verdict([curve("cpu_numpy", {n: 1e-9 * n for n in (100, 1000, 10_000, 100_000)}), GPU])
    fast = curve("cpu_numpy", {n: 1e-12 * n for n in (100, 1000, 10_000)})
    assert verdict([fast, GPU]).startswith("CuPy is slower than NumPy at every n of both")


@pytest.mark.parametrize(
    ("moved", "flops", "words"),
    [
        (0.71 * 15e-6 * 1e12, float("nan"), "71 % of the copy roof: memory-bound"),
        (0.1 * 15e-6 * 1e12, 0.8 * 15e-6 * 1e13, "10 % of the copy roof and 80 % of the multiply-add roof: bound by"),
        (0.1 * 15e-6 * 1e12, 0.1 * 15e-6 * 1e13, "far from both"),
        (0.1 * 15e-6 * 1e12, float("nan"), "counts no operations"),
        (2.0 * 15e-6 * 1e12, float("nan"), "200 % of the copy roof: in cache: 30 MB fit the L2 of 50 MB"),
    ],
)
def test_the_verdict_names_what_limits_the_gpu(moved, flops, words):
    roof = Roof("cuda:0", "float32", 1e12, 1e13, 50e6)
    assert words in verdict([CPU, GPU], {"gpu": roof}, {100_000: AskedWork(moved, flops)})


def test_watching_tries_again_when_a_file_of_the_folder_is_saved_even_during_a_trial(tmp_path, monkeypatch):
    own, trials, looks = tmp_path / "own.py", [], []
    own.write_text("")

    def trial(*_):
        trials.append(1)
        if len(trials) == 2:
            later = own.stat().st_mtime_ns + 10**9
            os.utime(own, ns=(later, later))

    def look(_):
        looks.append(len(trials))
        if len(looks) == 3:
            (tmp_path / "own.cu").write_text("")
        elif len(looks) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(commands, "_once", trial)
    monkeypatch.setattr(commands.time, "sleep", look)
    assert main(["try", str(own), "--watch"]) == 130
    assert looks == [1, 1, 1, 3, 3]  # no pause between the second trial and the third


HELPED = """
import numpy as np
from compute.own import way, workload

@workload(sizes=(10, 1000))
def inputs(n, dtype, rng):
    return rng.random(n).astype(dtype)

@way("cpu_numpy")
def plain(values):
    return values + 1

@way("cpu_numpy_helped")
def helped(values):
    from helper import loop
    return loop(values)
"""


def test_a_module_beside_the_file_can_be_imported_by_a_way(tmp_path, monkeypatch, capsys):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "blur.py").write_text(HELPED)
    (tmp_path / "d" / "helper.py").write_text("def loop(values):\n    return values + 1\n")
    monkeypatch.chdir(tmp_path)
    assert main(["try", "d/blur.py", "--check"]) == 0
    assert "cpu_numpy_helped: right" in capsys.readouterr().out
    (tmp_path / "d" / "helper.py").write_text("def loop(values):\n    return values + 2\n")
    assert main(["try", "d/blur.py", "--check"]) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sizes", "1:inf"], "must be two whole numbers from 1 to"),
        (["--sizes=1.5:10"], "must be two whole numbers"),
        (["--sizes", "1"], "must be two whole numbers"),
        (["--sizes", "9:3"], "sizes must rise from at least 1, not 9 to 3"),
        (["--seed=-1"], "seed must be a whole number from 0 to"),
        (["--budget", "0"], "budget must be more than 0 and at most 86400 seconds, not 0.0"),
        (["--budget", "inf"], "budget must be more than 0 and at most 86400 seconds, not inf"),
        (["--check", "--sizes", "1:10"], "--sizes has no effect with --check"),
        (["--port", "5010"], "--port has no effect without --open"),
        (["--open", "--port", "70000"], "must be 1 to 65535"),
        (["--html", "FILE"], "--html would overwrite the file itself"),
    ],
)
def test_a_request_that_cannot_be_tried_is_refused(tmp_path, capsys, arguments, says):
    path = tmp_path / "own.py"
    path.write_text(HELPED)
    assert main(["try", str(path), *(str(path) if each == "FILE" else each for each in arguments)]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.out == ""
    assert path.read_text() == HELPED


def test_interpreted_loops_are_not_timed_as_numba(tmp_path, monkeypatch):
    path = tmp_path / "own.py"
    path.write_text(HELPED.replace("cpu_numpy_helped", "cpu_numba").replace("from helper import loop", "loop = plain"))
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    report = try_file(Options(path, budget=0.1, check_seconds=0.2, per_decade=1, roofs=False))
    (numba,) = (one for one in report.ways if one.way.name == "cpu_numba")
    assert numba.unmeasured.startswith("Numba compiles nothing (NUMBA_DISABLE_JIT is set)")
    assert not numba.series
