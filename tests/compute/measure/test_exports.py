"""Files written by a bench: the same numbers in every file, each in the format that its readers expect."""

from __future__ import annotations

import copy
import csv
import io
import json
import threading
from collections import defaultdict
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pyperf
import pytest
from rich.console import Console

from compute.__main__ import BAD_INPUT, OK, main
from compute.devices.backends import backend
from compute.devices.gpu_devices import EventStopwatch
from compute.measure import commands, exports, records
from compute.measure.exports import Series
from compute.measure.record_comparison import ComparedTime
from compute.measure.statistics import SpeedUp, Spread, median_interval
from compute.measure.timing import MOST_SPANS, Sample, Span, Timing, listening, note_span, take_sample

QUICK = ["bench", "diffusion", "--sizes", "24", "--backends", "cpu_numpy,cpu_numba", "--budget", "0.1"]
ABOUT = ("lab", "date", "command", "commit", "machine", "versions")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the paths of all files of one bench."""
    folder = tmp_path_factory.mktemp("bench")
    files = {name: folder / f"{name}.json" for name in ("save", "pyperf", "trace", "csv")}
    assert main([*QUICK, *(text for name, path in files.items() for text in (f"--{name}", str(path)))]) == OK
    return files


@pytest.fixture(scope="module")
def saved(written):
    return records.load(written["save"])


def test_every_file_has_the_same_numbers(written, saved):
    lines = list(csv.DictReader(io.StringIO(written["csv"].read_text())))
    benchmarks = pyperf.BenchmarkSuite.load(str(written["pyperf"])).get_benchmarks()
    assert len(saved["results"]) == len(lines) == len(benchmarks) == 6  # three ways, two dtypes
    assert saved["conditions"]["samples"] == sum(result["n"] for result in saved["results"])
    for result, line, benchmark in zip(saved["results"], lines, benchmarks, strict=True):
        values = benchmark.get_values()
        q1, median, q3 = np.quantile(values, (0.25, 0.5, 0.75))
        assert (q1, median, q3) == pytest.approx([result[key] for key in ("q1", "median", "q3")], rel=1e-12)
        assert len(values) == result["n"]
        low, high = median_interval(values)
        assert (low, high) == pytest.approx((result["median_low"], result["median_high"]), rel=1e-12)
        assert float(line["median_low_s_per_step"]) == result["median_low"]
        assert float(line["median_s_per_step"]) == result["median"]
        assert benchmark.get_unit() == "second"
        assert result["backend"] in benchmark.get_name()
        assert benchmark.get_metadata()["device"] == result["device"] == "host"
        (run,) = benchmark.get_runs()
        assert run.warmups == ((1, result["first_call"]),)
        assert run.get_metadata()["loops"] == result["steps_per_sample"]
        assert run.get_metadata()["cpu_model_name"] == saved["machine"]["cpu"]


def rows(timeline):
    """Return events by category, after checking the requirements of the format for each event."""
    found = defaultdict(list)
    named = set()
    for event in timeline["traceEvents"]:
        assert event.keys() >= {"name", "ph", "pid", "tid", "args"}
        assert event["ph"] in "MX"
        if event["ph"] == "M":
            named.add((event["pid"], event["tid"], event["name"]))
            continue
        assert event["ts"] >= 0
        assert event["dur"] > 0
        found[event["pid"], event["tid"]].append(event)
    for pid, tid in found:
        assert named >= {(pid, 0, "process_name"), (pid, tid, "thread_name")}
    for events in found.values():
        for one, next_one in pairwise(events):
            assert round(1000 * (one["ts"] + one["dur"])) <= round(1000 * next_one["ts"])  # in nanoseconds
    return {events[0]["cat"] if tid else "": events for (_, tid), events in found.items()}


def test_the_timeline_has_every_sample_and_its_kernels(written, saved):
    timeline = json.loads(written["trace"].read_text())
    found = rows(timeline)
    assert list(found) == ["samples", "compute"]  # a host has no launches
    for result in saved["results"]:
        mine = [e for e in found["samples"] if f"{result['backend']} {result['variant']}" in e["name"]]
        mine = [event for event in mine if result["dtype"] in event["name"]]
        cold, *warm = mine
        assert (cold["args"]["first_call"], len(warm)) == (True, result["n"])
        assert np.median([event["args"]["us_a_step"] for event in warm]) == pytest.approx(1e6 * result["median"])
        kernels = [e["dur"] for e in found["compute"] if e["name"] == warm[0]["name"] and e["args"]["sample"]]
        assert np.median(kernels) == pytest.approx(1e6 * result["median"] * result["steps_per_sample"], abs=2e-3)
    ends = [event["ts"] + event["dur"] for event in found["samples"]]
    assert max(ends) < 1e11  # us since the start of the run, not since 1970
    assert min(event["ts"] for event in found["samples"]) == 0


def test_parts_seen_late_are_put_before_the_next_and_deliveries_side_by_side():
    """Three kernels of 2 s; the host waited for them only at 10 s, so the first two ended earlier."""
    timing = Timing("gpu_cupy", "", 3, 1, 0.3, 6.0)
    late = tuple(Span("compute", 10.0, 2.0) for _ in range(3))
    launches = Span("launch", 1.1, 0.1), Span("launch", 1.3, 0.1)
    under_way = Span("delivery", 12.0, 2.0), Span("delivery", 13.0, 2.0), Span("delivery", 15.0, 2.0)
    sample = Sample(1.0, 10.0, timing, (*launches, *late, *under_way))
    made = exports.trace_document([Series("case, way", "cuda:0", "step", (sample,))], dict.fromkeys(ABOUT, ""))
    rows(made)
    kernels = [event for event in made["traceEvents"] if event.get("cat") == "compute"]
    assert [(event["ts"] / 1e6, event["dur"] / 1e6) for event in kernels] == [(3, 2), (5, 2), (7, 2)]
    deliveries = {e["tid"] for e in made["traceEvents"] if e.get("cat") == "delivery"}
    assert len(deliveries) == 2
    names = [event["args"]["name"] for event in made["traceEvents"] if event["name"] == "thread_name"]
    assert names == ["samples", "launch", "compute", "delivery", "delivery 2"]


def test_a_gpu_s_stopwatch_notes_its_launch_and_its_kernels_only_for_a_listener():
    def call():
        watch = EventStopwatch((Mock(), Mock()), lambda *_: 4.0)
        with watch:
            pass
        watch.seconds()  # called twice, recorded once
        return Timing("gpu_cupy", "", 1, 1, watch.launch, watch.seconds())

    sample = take_sample(call, listen=True)
    launch, kernels = sample.spans
    assert (launch.part, launch.seconds) == ("launch", sample.timing.launch)
    assert (kernels.part, kernels.seconds) == ("compute", 4e-3)
    assert sample.began <= launch.began <= launch.ended <= kernels.ended <= sample.ended
    assert take_sample(call).spans == ()


@pytest.mark.gpu
def test_a_gpu_s_kernels_lie_within_their_samples(tmp_path):
    chosen = backend("gpu_cupy")
    if chosen.missing:
        pytest.skip(chosen.missing)
    path = tmp_path / "trace.json"
    gpu = ["bench", "diffusion", "--sizes", "512", "--dtypes", "float32", "--backends", "gpu_cupy", "--budget", "2"]
    assert main([*gpu, "--trace", str(path)]) == OK
    found = rows(json.loads(path.read_text()))
    assert set(found) == {"samples", "launch", "compute"}
    places = {(event["name"], event["args"]["sample"]): event for event in found["samples"]}
    for event in found["launch"] + found["compute"]:
        sample = places[event["name"], event["args"]["sample"]]
        assert sample["ts"] - 20 <= event["ts"]  # us: the two clocks
        assert event["ts"] + event["dur"] <= sample["ts"] + sample["dur"] + 20


def test_parts_beyond_those_kept_are_counted():
    with listening() as heard:
        for number in range(MOST_SPANS + 3):
            note_span(float(number), 1.0)
    note_span(0.0, 1.0)  # after the listener has left
    assert (len(heard.spans), heard.left_out) == (MOST_SPANS, 3)


def planted(saved, factor):
    """Return the results with the first way's time multiplied, and one way that no longer exists."""
    first, *others = copy.deepcopy(saved["results"])
    for key in ("median", "q1", "q3", "median_low", "median_high"):
        first[key] *= factor
    return [first, *others, {**first, "variant": "old"}]


def test_an_older_record_is_compared_way_by_way(saved, tmp_path, capsys):
    path = tmp_path / "older.json"
    results = planted(saved, 1e-3)
    del results[1]["median_low"], results[1]["median_high"]  # older versions recorded no intervals
    differing = {"machine": saved["machine"] | {"cpu": "an older CPU"}, "parameters": saved["parameters"] | {"r": 0.1}}
    records.save(saved | differing | {"results": results}, path)
    assert main([*QUICK, "--compare", str(path), "--json"]) == OK
    made = json.loads(capsys.readouterr().out)
    first, second, *others = made["comparison"]["rows"]
    result = made["results"][0]
    assert (first["way"], first["quartiles_overlap"]) == ("cpu_numpy one-step", False)
    assert first["ratio"] == pytest.approx(result["median"] / results[0]["median"])
    now, then = (Spread(r["median"], 0, 0, 9, r["median_low"], r["median_high"]) for r in (result, results[0]))
    assert (first["low"], first["high"]) == pytest.approx((SpeedUp.of(now, then).low, SpeedUp.of(now, then).high))
    assert first["now"]["median"] == result["median"]
    assert second["ratio"] > 0
    assert (second["low"], second["high"]) == (None, None)
    assert len(others) == 4
    assert made["comparison"]["only_then"] == ["24 x 24  float32  zero-flux: cpu_numpy old"]
    assert f"CPU then an older CPU, now {saved['machine']['cpu']}" in made["comparison"]["differences"]
    assert "r then 0.1, now 0.2" in made["comparison"]["differences"]
    assert main([*QUICK, "--compare", str(path)]) == OK
    printed = capsys.readouterr().out
    assert "slower" in printed
    assert "differs: CPU then an older CPU" in printed


@pytest.mark.parametrize(
    ("then", "overlap"), [((2.9, 3.5, 4.0), True), ((3.1, 3.5, 4.0), False), ((0.1, 0.5, 0.9), False)]
)
def test_quartiles_overlap_if_neither_time_is_clearly_shorter(then, overlap):
    assert ComparedTime("", "", (1.0, 2.0, 3.0), then).overlap is overlap


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"lab": "mandelbrot"}, "is of the lab mandelbrot, not of diffusion"), ({"schema": "other/1"}, "schema is")],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_timed(saved, tmp_path, capsys, changes, says):
    path = tmp_path / "older.json"
    path.write_text(json.dumps(saved | changes))
    assert main([*QUICK, "--compare", str(path)]) == BAD_INPUT
    captured = capsys.readouterr()
    assert says in captured.err
    assert "checking" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--compare", "nothing.json"], "cannot be read"),
        (["--pyperf", "/dev/null/a.json"], "/dev/null is not a folder"),
        (["--trace", "."], "is a folder"),
        (["--csv", "a.json", "--pyperf", "./a.json"], "two options name the same file, a.json"),
        (["--py", "a.json"], "unrecognized arguments: --py"),
    ],
)
def test_bad_files_are_refused_before_anything_is_written(capsys, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert main([*QUICK, *arguments]) == BAD_INPUT
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")  # a dumb terminal has no bar
    clock, screen = iter([0.0, 10.0, 10.1, 20.0]), io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)
    threads = set(threading.enumerate())
    with commands.shown(terminal, lambda: next(clock)) as say:
        say("timing", 0.25)
        assert "0:30 left" in screen.getvalue()
        assert "25%" in screen.getvalue()
        say("timing", 0.30)  # too soon to be drawn
        assert "30%" not in screen.getvalue()
        say("timing", 0.50)
        assert "0:20 left" in screen.getvalue()
        assert set(threading.enumerate()) <= threads  # no thread draws while a sample is measured
    log = io.StringIO()
    with commands.shown(Console(file=log, width=100)) as say:
        for part in (0.1, 0.2):
            say("timing [bold]", part)
    assert log.getvalue() == "timing [bold]\n"
