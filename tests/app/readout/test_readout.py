"""The readout as a whole, on a simulated session: its requests, its text and its history."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest

from app.readout import comparison, readout
from app.readout.readout import Readout
from app.server.admission import session_limiter
from compute.devices.backends import backend
from compute.lab.frames import Frame
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.views import VIEWS
from compute.measure.timing import Timing
from compute.measure.verdict import ResultCache
from tests.app.readout.benches import Engines

TICK = comparison.Comparison.tick
TIMING = Timing("cpu_numpy", "", 4, 64, launch=0.0, compute=4e-3, levels=1e-3, transfer=1e-4, delivery=2e-3)


class Roof:
    """The roofs of a machine on which nothing is measured."""

    waking, kept = 1e-6, ""

    def start(self):
        pass

    def rate(self, device, kind="copy", dtype=""):
        return {"copy": 1e10, "fma": 5e10}[kind]

    def caches(self, device):
        return ()


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Measure nothing, and use no record."""
    monkeypatch.setattr(readout, "machine_roofs", Roof)
    monkeypatch.setattr(readout, "recorded_figures", lambda: ())
    monkeypatch.setattr(readout, "shared_results", ResultCache)
    monkeypatch.setattr(comparison.Comparison, "tick", lambda self: None)


def session(lab=Mandelbrot, **values):
    defaults = {name: lab.param[name].default for name in lab.param if name != "name"} if hasattr(lab, "param") else {}
    frame = Frame({}, {"iterations": 6e9, "timed_iterations": 6e9, "compute_seconds": 2.0, "finished": 1.0}, TIMING)
    return SimpleNamespace(
        lab=lab, values=defaults | values, confirmed=defaults | values, latest=frame, phase="running", playing=True,
        engine="host", gate=SimpleNamespace(rate=25.0, dropped=3, latency=0.012), later=lambda callback: callback(),
    )  # fmt: skip


def shown(lab, **values):
    """Return the text with its details as HTML, the same without tags, and the label of the history."""
    made = Readout(session(lab, **values))
    made.details.unfold()
    made.tick()
    made._drawn_at -= 2 * readout.REDRAW
    for _ in range(3):
        made.on_painted(TIMING)
    made.tick()
    html = made._text.object + made._details.object
    made.close()
    return html, re.sub(r"<[^>]*>", "", html), made.history.figure.yaxis[0].axis_label


# -- the comparison


def test_nothing_is_compared_with_values_that_may_yet_be_refused():
    made = Readout(session(LCurve, problem="gravity", n=32, backend="cpu_numpy"))
    made._session.values["depth"] = inf
    made.tick()
    assert made._comparison._values["depth"] == 0.25
    made.close()


def test_a_frame_counts_for_the_values_it_was_computed_with():
    """The session's values may have changed since the last tick."""
    made = Readout(session(Diffusion, backend="cpu_numba", ny=8192, nx=8192, dtype="float32"))
    made.tick()
    comparison, frame = made._comparison, Timing("cpu_numba", "", 1, 8192**2, compute=0.1)
    before = comparison._results.version
    made.on_painted(frame)
    assert comparison._results.version > before
    made._session.confirmed = {**made._session.confirmed, "dtype": "float64"}  # another object, as in a real session
    before = comparison._results.version
    made.on_painted(frame)
    assert comparison._results.version == before
    made.close()


def test_only_backends_that_the_lab_has_kernels_for_are_compared(monkeypatch):
    monkeypatch.setattr(Diffusion, "backends", classmethod(lambda cls: (backend("cpu_numpy"),)))
    made = Readout(session(Diffusion, backend="cpu_numpy"))
    made.tick()
    standings = made._comparison.verdict().standings
    made.close()
    assert {standing.variant.backend for standing in standings if not standing.variant.name} == {"cpu_numpy"}


def test_nothing_is_compared_before_the_first_frame(monkeypatch):
    monkeypatch.setattr(comparison.Comparison, "follow", lambda *_: pytest.fail("asked"))
    tab = session()
    tab.latest = None
    made = Readout(tab)
    made.tick()
    assert "Starting" in made._text.object


def test_an_answer_for_the_first_estimate_is_processed_at_once(monkeypatch, host_only):
    """Other answers are read at the next tick, four times a second."""
    monkeypatch.setattr(comparison.Comparison, "tick", TICK)
    engines, soon = Engines(answers=False), []
    host = SimpleNamespace(open=lambda lab, values, tell: engines.open("host", values, tell))
    limiter = SimpleNamespace(crowding=1, engines=SimpleNamespace(get=lambda name: host))
    monkeypatch.setattr(readout, "session_limiter", lambda: limiter)
    tab = session(Diffusion, ny=20, nx=30, backend="cpu_numba")
    tab.later = soon.append
    made = Readout(tab)
    made.tick()
    engines.jobs[0].answer()
    (proceed,) = soon
    proceed()
    assert len(engines.jobs) == 2
    made.hide()
    proceed()  # a pending callback
    assert len(engines.jobs) == 2
    made.close()


# -- the text


def test_a_lab_without_comparison_shows_only_the_parts_of_its_frames(monkeypatch):
    monkeypatch.setattr(readout, "benchmark_of", lambda lab: SimpleNamespace(rules=None))
    html, text, label = shown(SimpleNamespace(LAB="nothing"), backend="cpu_numpy", ny=8, nx=8)
    assert "Parts of a live frame" in text
    assert "compute 4.00&nbsp;ms" in text
    assert "headline" not in html
    assert label == "ms/frame"


def test_each_lab_is_shown_in_its_own_unit_with_its_facts():
    html, text, label = shown(Diffusion, backend="cpu_numpy")
    assert "billion cells/s, logarithmic" in text
    assert "class='facts'" not in html
    assert label == "µs/step"
    html, text, label = shown(Mandelbrot, backend="cpu_numpy")
    assert "billion iterations/s, logarithmic" in text
    assert "<b>3.00&nbsp;<span" in html  # with an explained unit
    assert "3.00&nbsp;Giter/s" in text
    assert "<b>24&nbsp;%</b>" in html  # 4 x 3e9 of 5e10
    assert label == "ms/frame"


def test_the_lesson_s_scene_is_shown_as_a_chart():
    view = VIEWS["lesson"]
    _, text, _ = shown(Mandelbrot, backend="cpu_numpy", center=view.center, zoom=view.zoom, max_iterations=20)
    assert "The lesson&#x27;s scene" in text
    assert "Python, cited" in text
    assert "billion iterations/s, logarithmic" not in text


@pytest.mark.parametrize(("pages", "seconds"), [(8, 1), (40, 5)])
def test_the_text_is_written_less_often_the_more_pages_are_open(monkeypatch, pages, seconds):
    monkeypatch.setattr(session_limiter(), "pages", dict.fromkeys(range(pages), ""))
    now, drawn = [100.0], []
    monkeypatch.setattr(readout.time, "monotonic", lambda: now[0])
    made = Readout(session(Diffusion))
    monkeypatch.setattr(made, "_draw", drawn.append)
    for _ in range(4 * 10):
        made.tick()
        now[0] += 0.25
    made.close()
    assert len(drawn) == 10 // seconds


def test_details_are_current_when_they_are_unfolded():
    made = Readout(session(backend="cpu_numpy"))
    for _ in range(3):
        made.on_painted(TIMING)
        made._drawn_at -= 2 * readout.REDRAW
        made.tick()
    assert made._details.object == ""  # folded details are not sent
    made.details.unfold()
    assert "compute 4.00&nbsp;ms" in re.sub(r"<[^>]*>", "", made._details.object)
    assert np.isfinite(history_values(made.history)).any()
    made.close()


# -- the history


def history_values(plot):
    return next(column for name, column in plot._source.data.items() if name == plot._renderer.glyph.y)


def test_a_history_without_new_points_moves_once_a_second():
    plot, drawn = readout.ComputeTimePlot(), []
    plot._source.on_change("data", lambda attr, old, new: drawn.append(min(new[plot._columns[0]], default=None)))
    plot.add(0.0, 1e-6)
    for quarter in range(1, 13):
        plot.draw(quarter / 4, "cpu")
    assert drawn == [-0.25, -1.25, -2.25]
    for quarter in range(4):
        plot.add(3.0 + quarter / 4, 1e-6)
        plot.draw(3.0 + quarter / 4, "cpu")
    assert len(drawn) == 3 + 4


def test_the_history_has_a_gap_for_a_pause_and_no_first_calls():
    """The line does not connect the last frame before a pause with the first one after it."""
    tab = session()
    made = Readout(tab)
    made.details.unfold()

    def ticks(count, *timings):
        for _ in range(count):
            for timing in timings:
                made.on_painted(timing)
            made.tick()
        return np.isfinite(history_values(made.history)).tolist()

    assert ticks(4, TIMING) == [True] * 3  # the first frame of a setting is the starting value
    assert ticks(1, replace(TIMING, first_call=True)) == [True] * 3
    tab.playing = False
    ticks(5)
    tab.playing = True
    assert ticks(2, TIMING) == [True] * 3 + [False] + [True] * 2
    assert made.history.figure.y_range.end > 0
    made.close()


def test_the_rate_of_an_interim_backend_is_not_shown_as_that_of_the_chosen_backend():
    """NumPy computes until a typed text is compiled for the chosen backend."""
    made = Readout(session(Diffusion, backend="cpu_numba"))
    for name, shown in (("cpu_numpy", False), ("cpu_numba", True)):
        timing = replace(TIMING, backend=name)
        made._session.latest = replace(made._session.latest, timing=timing)
        made.tick()
        made.on_painted(timing)
        made._drawn_at -= 2 * readout.REDRAW
        made.tick()
        assert ("This computer" in made.sentence) == shown
    made.close()
