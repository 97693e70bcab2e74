"""Files of the readout: frames and samples of a real engine, the same numbers in every format."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from itertools import pairwise
from math import nan

import numpy as np
import pyperf
import pytest

from app.tab.stream import Delivered
from compute.engine import EnginePool, FrameReady, Sampled
from compute.labs.diffusion import Diffusion
from compute.labs.diffusion.benchmark import RATE
from compute.measure.agreement import Agreement
from compute.measure.live_record import ShownTimings, as_csv, as_json, as_pyperf, as_trace
from compute.measure.statistics import Measurement, Window
from compute.measure.timing import Timing
from compute.measure.verdict import Standing, Variant, judge
from tests.waiting import until

VALUES = {"backend": "cpu_numpy", "ny": 64, "nx": 64}
STEPS = 7  # per live frame
SAMPLES = 6


@pytest.fixture(scope="module")
def measured():
    """Return (frames of a live lab, samples of a second lab) from an engine, with times on this process's clock."""
    room, events, others = EnginePool(), [], []

    def frames():
        return [event.frame for event in events if isinstance(event, FrameReady)]

    def sampled():
        return [event for event in others if isinstance(event, Sampled)]

    values = {name: Diffusion.param[name].default for name in Diffusion.param if name != "name"} | VALUES
    live = room.get("host").open("diffusion", values, events.append)
    live.pace(STEPS)
    live.run()
    live.frames_through(12)
    until(lambda: len(frames()) >= 12)
    room.get("host").open("diffusion", values, others.append).sample(5, SAMPLES)
    until(sampled)
    room.close()
    return frames(), sampled()[0].timings


@pytest.fixture(scope="module")
def shown(measured):
    frames, samples = measured
    window = Window()
    for frame in frames:  # the delivery of each took 3 ms, and the deliveries overlap
        window.add(Delivered(frame, 3e-3, 1e-3, frame.timing.spans[-1].ended + 4e-3).timing)
    agreement = Agreement(1e-8, 1e-6, "equal", "")
    numpy = Standing(Variant("cpu_numpy"), Measurement.of(samples), agreement, "", samples)
    twice = tuple(replace(timing, backend="cpu_numba", compute=timing.compute / 2) for timing in samples)
    numba = Standing(Variant("cpu_numba"), Measurement.of(twice), agreement, "", twice)
    waiting = Standing(Variant("cpu_numba", "other"), None, None)
    verdict = judge(numba.variant, numpy.variant, (numba, numpy, waiting))
    values = VALUES | {"center": ("0", "1"), "image": b"\0" * 9, "low": nan, "text": "x" * 999}
    return ShownTimings("diffusion", values, "host", RATE, verdict, window.timings, 24.0)


def test_a_frame_knows_when_its_parts_ran(measured):
    frames, samples = measured
    for frame in frames[1:]:
        timing = frame.timing
        assert timing.steps == STEPS
        for part in ("compute", "levels", "transfer"):
            spans = [span for span in timing.spans if span.part == part]
            assert sum(span.seconds for span in spans) == pytest.approx(getattr(timing, part))
        ends = [span.ended for span in timing.spans]
        assert ends == sorted(ends)
    for one, next_one in pairwise(frames[1:]):
        assert one.timing.spans[-1].ended <= next_one.timing.spans[-1].began
    for timing in samples[1:]:
        assert sum(span.seconds for span in timing.spans) == pytest.approx(timing.compute)
    assert all(abs(span.ended - time.perf_counter()) < 300 for span in samples[-1].spans)  # one clock for all processes


def test_json_and_csv_have_the_numbers_of_the_readout(shown):
    record = json.loads(as_json(shown))
    numba, numpy = record["results"]
    step = shown.verdict.standings[1].measurement.step
    assert (numpy["median"], numpy["q1"], numpy["q3"], numpy["n"]) == (step.median, step.q1, step.q3, SAMPLES)
    assert numba["median"] == step.median / 2
    assert record["headline"]["speed_up"]["ratio"] == shown.verdict.speed_up.ratio == pytest.approx(2)
    assert numpy["cells_per_second"] == 64 * 64 / step.median
    assert record["live"]["delivery_per_frame"] == pytest.approx(3e-3)
    assert record["live"]["frames_per_second"] == 24.0
    assert len(numpy["samples"]) == SAMPLES + 1
    parameters = record["parameters"]
    assert (parameters["center"], parameters["ny"]) == (["0", "1"], 64)
    assert [parameters[name] for name in ("image", "low", "text")] == [
        "(bytes, not saved)", "(float, not saved)", "(str, not saved)",
    ]  # fmt: skip
    lines = list(csv.DictReader(io.StringIO(as_csv(shown))))
    assert [line["what"] for line in lines] == ["sampled", "sampled", "live frames"]
    assert float(lines[1]["median_s_per_step"]) == step.median
    assert float(lines[2]["delivery_per_frame_s"]) == pytest.approx(3e-3)
    assert lines[1]["delivery_per_frame_s"] == ""


def test_pyperf_reads_the_file_of_the_readout(shown, tmp_path):
    path = tmp_path / "live.json"
    path.write_text(as_pyperf(shown))
    values = [one.get_values() for one in pyperf.BenchmarkSuite.load(str(path)).get_benchmarks()]
    assert [len(each) for each in values[:2]] == [SAMPLES, SAMPLES]
    assert np.median(values[1]) == shown.verdict.standings[1].measurement.step.median
    assert len(values) == 3


def test_the_timeline_shows_when_each_part_ran(shown):
    events = json.loads(as_trace(shown))["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    rows = [names[tid] for tid in sorted(names)]
    assert [row for row in rows if not row[-1].isdigit()] == ["samples", "compute", "copy", "colour", "delivery"]
    bars = [event for event in events if event["ph"] == "X"]
    for tid in names:
        mine = [(round(1000 * event["ts"]), round(1000 * event["dur"])) for event in bars if event["tid"] == tid]
        assert all(began + length <= after for (began, length), (after, _) in pairwise(mine))
    origin = min(span.began for timing in shown.live for span in timing.spans)  # the frames came before the samples
    for number, timing in enumerate(shown.live):
        first, last = timing.spans[0].began - origin, timing.spans[-1].ended - origin
        (bar,) = [e for e in bars if e["cat"] == "samples" and "live" in e["name"] and e["args"]["sample"] == number]
        assert (bar["ts"] / 1e6, bar["dur"] / 1e6) == (pytest.approx(first, abs=1e-8), pytest.approx(last - first))


def test_a_lab_without_a_comparison_saves_its_frames(shown):
    computed, rested = Timing("gpu_cupy", "", 2, 64, 1e-5, 4e-4), Timing("gpu_cupy", "", 2, 64, 1e-5, 0.0)
    plain = ShownTimings("other", {"ny": 8}, "cuda:1", live=(computed, rested))
    record = json.loads(as_json(plain))
    assert (record["results"], record["headline"], record["rate"]) == ([], None, None)
    assert (record["live"]["device"], record["live"]["median"]) == ("cuda:1", 1e-4)
    assert json.loads(as_pyperf(plain))["benchmarks"][0]["runs"][0]["values"] == [2e-4]  # pyperf refuses 0
    assert not plain.empty
    nothing = ShownTimings("other", {}, "host")
    assert nothing.empty
    cold = replace(plain, live=(replace(computed, first_call=True),))
    assert [(what.timed, what.placed) for what in (shown, plain, cold)] == [(True, True), (True, False), (False, False)]
    for make in (as_pyperf, as_trace):
        with pytest.raises(ValueError, match="no timing was made"):
            make(nothing)
