"""Exports of the crossover lab: figures of time and roofline, numbers, and an unfinished sweep."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from compute.export import data_files, figures
from compute.export.formats import write_drawing
from compute.export.render import LiveState
from compute.export.scene import Scene, SceneError
from compute.labs.crossover import Crossover, lab, picture
from compute.measure.statistics import Spread
from compute.ways import recorded
from compute.ways.roofline import Roof, roof_curves
from compute.ways.workload import Way
from tests.compute.ways.test_sweep import script

SIZES = [100, 1000, 10**4, 10**5, 10**6]
VALUES = {"backend": "cpu_numba", "least": SIZES[0], "most": SIZES[-1], "per_decade": 1,
          "ways": ["cpu_numpy", "cpu_numba"], "longest": 60}  # fmt: skip
# longest: otherwise a pause of the machine of 50 ms at n = 10⁵ would make the sweep skip the largest n
SCENE = Scene("crossover", VALUES, (300, 400))
TRUTH = {"cpu_numpy": lambda n: 1e-9 * n, "cpu_numba": lambda n: 1e-7 * n**0.5}  # seconds, equal at n = 10⁴


@pytest.fixture(autouse=True)
def scripted(monkeypatch):
    """Simulated times, and a roof of 1 GB/s and 1 GFLOP/s."""
    made = script(monkeypatch)
    made.seconds = lambda way, n: TRUTH[way](n)
    monkeypatch.setattr(lab, "roof_parts", lambda device, dtype: ())
    monkeypatch.setattr(lab, "roof_of", lambda device, dtype: Roof("host", dtype, 1e9, 1e9))
    monkeypatch.setattr(recorded, "library", lambda folder=None: [])
    return made


@pytest.fixture
def done():
    with closing(Crossover(**VALUES)) as made:
        made.run()
        yield made


def drawn(made, part):
    (axes,) = figures.drawn(made, made.frame(), Scene("crossover", VALUES, (300, 400), part=part)).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    return axes


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_time_against_n_with_its_crossing(done):
    axes = drawn(done, "time")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("n [elements]", "time [s]")
    assert axes.get_title() == "Time of a call: Add one, float64"
    *ways, mark = axes.lines
    for way, label in (("cpu_numpy", "NumPy"), ("cpu_numba", "Numba")):
        line = lines(axes)[label]
        assert list(line.get_xdata()) == SIZES
        assert list(line.get_ydata()) == pytest.approx([TRUTH[way](n) for n in SIZES])
    assert mark.get_xdata()[0] == pytest.approx(1e4)
    said = " ".join(mark.get_label().split())
    assert re.fullmatch("Numba is faster than NumPy from n ≈ 10,00[01] on", said)  # equal at 10 000
    assert len({line.get_marker() for line in ways}) == len({line.get_linestyle() for line in ways}) == 2
    assert {line.get_color() for line in ways} == {figures.HUES["cpu"]}


def test_the_quartiles_are_bars(done):
    frame = done.frame()
    q1, q3 = (np.array(frame.curves[f"cpu_numpy {name}"].y) * factor for name, factor in (("q1", 0.5), ("q3", 2.0)))
    frame.curves["cpu_numpy q1"].y[:], frame.curves["cpu_numpy q3"].y[:] = q1, q3
    (axes,) = figures.drawn(done, frame, SCENE).axes
    bars = [collection.get_segments() for collection in axes.collections]
    spans = [sorted((segment[0][1], segment[1][1]) for segment in segments) for segments in bars]
    assert any(np.allclose(span, [(0.5e-9 * n, 2e-9 * n) for n in SIZES]) for span in spans)


def test_the_roofline_by_hand(done):
    """One addition per number, with 8 bytes read and 8 written: 1/16 operation per byte; NumPy: 1 ns per number."""
    axes = drawn(done, "roofline")
    found = lines(axes)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("operations a byte", "operations a second")
    for label, seconds in (("NumPy", 1e-9), ("Numba", 1e-10)):  # for each of 10⁶ numbers
        place = found[f"{label}, n = 1,000,000"].get_xydata()
        assert place.tolist() == [pytest.approx([1 / 16, 1 / seconds])]
    roof = found["roof of the CPU"]
    assert list(roof.get_xdata()) == pytest.approx([1 / 160, 1.0, 10.0])  # the ridge, and ten times farther
    assert list(roof.get_ydata()) == pytest.approx([1e9 / 160, 1e9, 1e9])


CURVE = recorded.RecordedCurve(
    "A100", "2026-01-02", "add_one", "gpu_cupy", "CuPy", "float64", {}, False,
    {n: Spread(2e-5, 1e-5, 4e-5, 9) for n in (10, 100, 10**8, 10**9)}, "measured",
)  # fmt: skip


def test_recorded_curves_of_absent_ways_are_hollow_and_cited_figures_hatched(monkeypatch):
    """Other dtypes, other caches and other n are left out.

    The CPU of the record is shown until a way is measured here.
    """
    others = [replace(CURVE, dtype="float32"), replace(CURVE, evict=True), replace(CURVE, way="cpu_numpy")]
    monkeypatch.setattr(recorded, "library", lambda folder=None: [*others, CURVE])
    monkeypatch.setattr(Way, "missing", property(lambda way: "no GPU" * (way.backend.device == "cuda")))
    values = VALUES | {"most": 10**8}
    with closing(Crossover(**values)) as made:
        shown = figures.drawn(made, made.frame(), Scene("crossover", values, (300, 400), part="time"))
    (axes,) = shown.axes
    line, opponent = sorted(axes.lines, key=lambda one: one.get_label())
    assert opponent.get_label() == "NumPy, recorded"
    assert (line.get_label(), line.get_markerfacecolor()) == ("CuPy, recorded", "white")
    assert line.get_color() == figures.HUES["gpu"]
    assert line.get_xydata().tolist() == [[100, 2e-5], [10**8, 2e-5]]
    quartiles = [one for one in axes.collections if isinstance(one, LineCollection)]
    hatched = [one for one in axes.collections if one not in quartiles]
    for bars in quartiles:
        assert [bar[:, 1].tolist() for bar in bars.get_segments()] == [[1e-5, 4e-5]] * 2
    cited = {(mark.get_hatch(), *mark.get_offsets()[0].tolist()) for mark in hatched}
    assert cited == {("////", 1e8, seconds) for seconds in (60.9e-3, 2.15e-3, 0.489e-3)}
    assert {text.get_text() for text in axes.texts} == {"NumPy", "on a GPU", "on a GPU, NVIDIA H200"}
    note = "hollow: recorded on A100, 2026-01-02\nhatched: cited from a tutorial on GPUs from Python"
    assert shown.get_supxlabel() == note


def test_a_roof_without_a_rate_of_arithmetic_only_rises():
    (roof,) = roof_curves({"cuda": Roof("gpu", "float64", 2e12, float("inf"))}, [0.0, float("nan"), 0.5]).values()
    assert (list(roof.x), list(roof.y), roof.label) == ([0.05, 5.0], [1e11, 1e13], "roof of the GPU")


def test_before_anything_is_measured_there_are_axes_and_no_numbers():
    with closing(Crossover(**VALUES)) as made:
        assert list(made.panels(made.frame())) == ["time"]
        assert not drawn(made, "time").lines
        with pytest.raises(SceneError, match="no raw data"):
            data_files.results(made)


def test_a_drawing_and_the_numbers_of_what_the_page_has_measured(done, tmp_path, scripted):
    present = LiveState(done.values(), done.snapshot())
    scripted.seconds = lambda way, n: 1.0  # would reveal a new measurement
    write_drawing(SCENE, tmp_path / "time.svg", current=present)
    assert b'"lab": "crossover"' in (tmp_path / "time.svg").read_bytes()
    data_files.write_npz(SCENE, tmp_path / "times.npz", current=present)
    with np.load(tmp_path / "times.npz") as found:
        assert json.loads(str(found["fieldlab"]))["lab"] == "crossover"
        names = [f"{way}.{name}" for way in TRUTH for name in ("n", "median", "q1", "q3")]
        assert sorted(found) == sorted(["fieldlab", *names])
        for way, seconds in TRUTH.items():
            assert list(found[f"{way}.n"]) == SIZES
            for name in ("median", "q1", "q3"):
                assert list(found[f"{way}.{name}"]) == pytest.approx([seconds(n) for n in SIZES])


def test_a_sweep_that_had_not_ended_is_shown_and_begins_anew():
    with closing(Crossover(**VALUES)) as made, closing(Crossover(**VALUES)) as again:
        while sum(bool(point.samples) for point in made.sweep.points.values()) < 3:
            made.advance()
        assert 0 < made.status.progress < 1
        snapshot = made.snapshot()
        history = Crossover.HISTORY.of(Crossover, made.values(), snapshot)
        assert (history.steps, history.entries, history.values["least"]) == (0, (), 100)
        assert "measured again" in history.missing
        again.restore(snapshot)
        shown = [{name: line.series() for name, line in picture.ways_of(of.frame()).items()} for of in (made, again)]
        assert shown[0] == shown[1]
        assert sum(map(len, shown[1].values())) == 3
        assert not again.status.resting
        again.advance()
        assert {point.status for point in again.sweep.points.values()} == {"waiting"}
        again.run()
        assert (again.status.progress, len(again.data())) == (1.0, 8)
