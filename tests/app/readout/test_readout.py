"""The readout as a whole, on a simulated session: its requests, and the parts that it omits."""

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
from compute.measure.verdict import ResultCache, Variant

TIMING = Timing("cpu_numpy", "", 4, 64, launch=0.0, compute=4e-3, levels=1e-3, transfer=1e-4, delivery=2e-3)


class Roof:
    def start(self):
        pass

    def rate(self, device, kind="copy", dtype=""):
        return {"copy": 1e10, "fma": 5e10}[kind]

    def caches(self, device):
        return ()

    waking = 1e-6
    kept = ""


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(readout, "machine_roofs", Roof)
    monkeypatch.setattr(readout, "recorded_figures", lambda: ())
    monkeypatch.setattr(readout, "shared_results", ResultCache)
    monkeypatch.setattr(comparison.Comparison, "tick", lambda self: None)


def session(lab, **values):
    defaults = {name: lab.param[name].default for name in lab.param if name != "name"} if hasattr(lab, "param") else {}
    frame = Frame({}, {"iterations": 6e9, "timed_iterations": 6e9, "compute_seconds": 2.0, "finished": 1.0}, TIMING)
    return SimpleNamespace(
        lab=lab, values=defaults | values, confirmed=defaults | values, latest=frame, phase="running", playing=True,
        engine="host", gate=SimpleNamespace(rate=25.0, dropped=3, latency=0.012), later=lambda callback: callback(),
    )  # fmt: skip


def shown(lab, **values):
    made = Readout(session(lab, **values))
    made.details.unfold()
    made.tick()
    made._drawn_at -= 2 * readout.REDRAW
    for _ in range(3):
        made.on_painted(TIMING)
    made.tick()
    text = made._text.object + made._details.object
    label = made.history.figure.yaxis[0].axis_label
    made.close()
    return text, label


def test_nothing_is_compared_with_values_that_may_yet_be_refused():
    made = Readout(session(LCurve, problem="gravity", n=32, backend="cpu_numpy"))
    made._session.values["depth"] = inf
    made.tick()
    assert made._comparison._values["depth"] == 0.25
    made.close()


def test_a_frame_counts_for_the_values_it_was_computed_with():
    """The session's values may have changed since the last tick."""
    grid = {"backend": "cpu_numba", "ny": 8192, "nx": 8192, "dtype": "float32"}
    made = Readout(session(Diffusion, **grid))
    made.tick()
    live, frame = Variant("cpu_numba"), Frame({}, {}, Timing("cpu_numba", "", 1, 8192**2, compute=0.1))
    former = made._comparison._timed_key(live)
    made.on_painted(frame.timing)
    known = made._comparison._results.get(former)
    assert known.timings[-1] == frame.timing
    made._session.confirmed = {**made._session.confirmed, "dtype": "float64"}  # another object, as in a real session
    made.on_painted(frame.timing)
    assert made._comparison._results.get(former) == known
    assert made._comparison._taken(live).timings == ()
    made.close()


def test_only_backends_that_the_lab_has_kernels_for_are_compared(monkeypatch):
    monkeypatch.setattr(Diffusion, "backends", classmethod(lambda cls: (backend("cpu_numpy"),)))
    made = Readout(session(Diffusion, backend="cpu_numpy"))
    made.tick()
    standings = made._comparison.verdict().standings
    made.close()
    assert {standing.variant.backend for standing in standings if not standing.variant.name} == {"cpu_numpy"}


def test_a_lab_that_compares_nothing_has_the_parts_of_its_frames_and_no_more(monkeypatch):
    monkeypatch.setattr(readout, "benchmark_of", lambda lab: SimpleNamespace(rules=None))
    text, label = shown(SimpleNamespace(LAB="nothing"), backend="cpu_numpy", ny=8, nx=8)
    assert "Parts of a live frame" in text
    assert "compute 4.00&nbsp;ms" in re.sub(r"<[^>]*>", "", text)
    assert "headline" not in text
    assert label == "ms/frame"


def test_what_is_folded_away_is_not_written_and_unfolding_it_shows_what_is_true_then():
    made = Readout(session(Mandelbrot, backend="cpu_numpy"))
    written, draw = [], made.history.draw
    made._details.param.watch(lambda event: written.append(event.new), "object")
    made.history.draw = lambda *given: written.append(given) or draw(*given)

    def frames(compute):
        """Deliver some more frames, and run the tick that would show them."""
        made.on_painted(replace(TIMING, compute=compute))
        made._drawn_at -= 2 * readout.REDRAW
        made.tick()

    frames(4e-3)  # the first frame of a setting is the starting value
    frames(4e-3)
    assert not written
    made.details.unfold()
    assert len(written) == 2
    assert "compute 4.00&nbsp;ms" in re.sub(r"<[^>]*>", "", made._details.object)
    for _ in range(9):
        frames(8e-3)
    assert "compute 8.00&nbsp;ms" in re.sub(r"<[^>]*>", "", made._details.object)
    made.details._head.unfolded = False
    written.clear()
    for _ in range(19):
        frames(2e-3)
    assert not written
    made.details.unfold()
    assert "compute 2.00&nbsp;ms" in re.sub(r"<[^>]*>", "", made._details.object)
    made.close()


def test_a_field_is_told_in_steps_and_cells():
    text, label = shown(Diffusion, backend="cpu_numpy")
    assert "billion cells/s, logarithmic" in text
    assert "class='facts'" not in text
    assert label == "µs/step"


def test_a_picture_is_told_in_iterations_and_its_facts():
    text, label = shown(Mandelbrot, backend="cpu_numpy")
    assert "billion iterations/s, logarithmic" in text
    assert "<b>3.00&nbsp;<span" in text  # with an explained unit
    assert "3.00&nbsp;Giter/s" in re.sub(r"<[^>]*>", "", text)
    assert "<b>24&nbsp;%</b>" in text  # 4 x 3e9 of 5e10
    assert label == "ms/frame"


def test_the_lesson_s_scene_is_shown_as_a_chart():
    view = VIEWS["lesson"]
    text, _ = shown(Mandelbrot, backend="cpu_numpy", center=view.center, zoom=view.zoom, max_iterations=20)
    assert "The lesson&#x27;s scene" in text
    assert "Python, cited" in text
    assert "billion iterations/s, logarithmic" not in text


def test_nothing_is_asked_before_the_first_frame(monkeypatch):
    monkeypatch.setattr(comparison.Comparison, "follow", lambda *_: pytest.fail("asked"))
    made = Readout(SimpleNamespace(**(vars(session(Mandelbrot)) | {"latest": None})))
    made.tick()
    assert "Starting" in made._text.object


def test_an_answer_for_the_first_number_is_taken_at_once(monkeypatch):
    """Other answers are read at the next tick, four times a second."""
    opened, soon = [], []
    engines = SimpleNamespace(get=lambda name: SimpleNamespace(open=lambda kind, values, heard: opened.append(heard)))
    monkeypatch.setattr("app.readout.readout.session_limiter", lambda: SimpleNamespace(crowding=1, engines=engines))
    made = Readout(SimpleNamespace(**(vars(session(Mandelbrot)) | {"later": soon.append})))
    ticks, heard = [], []
    made._comparison = SimpleNamespace(for_first_estimate=True, verdict=lambda: None, let_go=lambda: None)
    made._comparison.tick = lambda: ticks.append(len(heard))
    made._drawn_at = inf  # no redraw is due
    made._open("host", {}, heard.append)
    opened[0]("an answer")
    (go_on,) = soon
    go_on()
    assert ticks == [1]
    made.hide()
    go_on()  # a pending callback
    assert ticks == [1]
    made._comparison.for_first_estimate = False
    opened[0]("another")
    assert (heard, len(soon)) == (["an answer", "another"], 1)


def test_a_first_call_is_in_no_history():
    made = Readout(session(Mandelbrot))
    made.on_painted(replace(TIMING, first_call=True))
    assert made._fresh == []
    made.on_painted(TIMING)
    assert made._fresh == [4e-3]


def test_a_history_with_nothing_new_moves_once_a_second():
    plot, drawn = readout.ComputeTimePlot(), []
    plot._source.on_change("data", lambda _attr, _old, new: drawn.append(min(new[plot._columns[0]], default=None)))
    plot.add(0.0, 1e-6)
    for quarter in range(1, 13):
        plot.draw(quarter / 4, "cpu")
    assert drawn == [-0.25, -1.25, -2.25]
    for quarter in range(4):
        plot.add(3.0 + quarter / 4, 1e-6)
        plot.draw(3.0 + quarter / 4, "cpu")
    assert len(drawn) == 3 + 4


def test_a_pause_is_a_gap_in_the_history():
    """The line does not connect the last frame before a pause with the first one after it."""
    tab = session(Mandelbrot)
    made = Readout(tab)
    made.details.unfold()

    def ticks(count, frames):
        for _ in range(count):
            for _ in range(frames):
                made.on_painted(TIMING)
            made.tick()
        return list(made._history_values())

    made._history_values = lambda: next(column for name, column in made.history._source.data.items()
                                        if name == made.history._renderer.glyph.y)  # fmt: skip
    assert np.isfinite(ticks(4, 1)).tolist() == [True] * 3  # the first frame of a setting is the starting value
    tab.playing = False
    ticks(5, 0)
    tab.playing = True
    values = ticks(2, 1)
    assert np.isfinite(values).tolist() == [True] * 3 + [False] + [True] * 2
    assert made.history.figure.y_range.end > 0
    made.close()


@pytest.mark.parametrize(("pages", "seconds"), [(1, 1), (8, 1), (40, 5)])
def test_the_text_is_written_more_seldom_the_more_pages_are_open(monkeypatch, pages, seconds):
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
