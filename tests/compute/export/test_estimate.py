"""Estimates compared with real exports, and with known times on a simulated clock."""

from __future__ import annotations

import numpy as np
import pytest

from compute.export import film_renderer as guessing
from compute.export.film import Film, Key
from compute.export.film_renderer import STARTING, Estimate, estimate
from compute.export.formats import FILMS, film_format
from compute.export.render import current_pixels, pixels, png
from compute.export.scene import Scene, SceneError
from compute.labs.diffusion import Diffusion

HEAT = Scene("diffusion", {"ny": 40, "nx": 52}, (40, 52), steps=4)
FOLLOWING = Film(HEAT, 30, every=10)
SET = Scene("mandelbrot", {"colouring": "smooth", "center": ("-0.7436", "0.1318"), "max_iterations": 100}, (36, 64))
APART = Film(SET, 30, keys=(Key(0, {"zoom": "1"}), Key(1, {"zoom": "1e2"})))


@pytest.fixture
def clock(monkeypatch):
    """Replace the clocks by a number, which tests advance."""
    now = [0.0]
    monkeypatch.setattr(guessing, "perf_counter", lambda: now[0])
    monkeypatch.setattr(guessing, "thread_time", lambda: now[0])
    return now


@pytest.fixture
def frames_take(clock, monkeypatch):
    """A function that sets the seconds of a frame, as a function of its scene."""

    def take(seconds):
        def slow(lab, scene):
            clock[0] += seconds(scene)
            return current_pixels(lab, scene)

        monkeypatch.setattr(guessing, "current_pixels", slow)

    return take


@pytest.fixture
def steps_take_a_second(clock, monkeypatch):
    """Let each step take a second; only a few of many steps are computed."""
    advance = Diffusion.advance

    def slow(lab, steps):
        clock[0] += steps
        return advance(lab, min(steps, 300))

    monkeypatch.setattr(Diffusion, "advance", slow)


@pytest.mark.parametrize("ending", [one.ending for one in FILMS])
@pytest.mark.parametrize("film", [FOLLOWING, APART], ids=["following", "apart"])
def test_the_size_is_about_that_of_the_real_film(film, ending, tmp_path):
    path = tmp_path / f"heat{ending}"
    guess = estimate(film, path)
    frames = [pixels(film.at(number)) for number in range(film.frames)]
    film_format(path).write(path, iter(frames), film.rate, "")
    assert guess.frames_measured == 6
    assert guess.bytes == pytest.approx(path.stat().st_size, rel=0.6)
    assert guess.kept == pytest.approx(sum(len(png(frame)) for frame in frames), rel=0.2)
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_time_that_grows_evenly_is_summed_exactly(frames_take, tmp_path):
    frames_take(lambda scene: scene.values["seed"])
    film = Film(HEAT, 101, keys=(Key(0, {"seed": 0}), Key(1, {"seed": 10})), easing="even")
    total = sum(film.at(number).values["seed"] for number in range(101))
    for workers in (1, 4):
        guess = estimate(film, tmp_path / "a.gif", workers, budget=1000.0)
        assert guess.seconds == pytest.approx(STARTING + total / workers, abs=20 / workers)  # seeds are rounded
    loading = [50.0]  # the kernels are loaded once
    frames_take(lambda _: 1 + (loading.pop() if loading else 0))
    guess = estimate(APART, tmp_path / "a.gif", budget=1e6)
    assert guess.seconds == pytest.approx(STARTING + 50 + 30, abs=0.1)


@pytest.mark.usefixtures("steps_take_a_second")
def test_steps_of_a_film_that_goes_on_are_counted_once(tmp_path):
    """30 frames, 10 steps apart, after 4 steps: 294 steps in total, of a second each."""
    guess = estimate(FOLLOWING, tmp_path / "a.gif", workers=8, budget=1e6)
    assert (guess.seconds, guess.frames_measured) == (pytest.approx(STARTING + 294, abs=1e-6), 6)
    guess = estimate(FOLLOWING, tmp_path / "a.gif", budget=50.0)  # enough for the beginning only
    assert (guess.seconds, guess.frames_measured) == (pytest.approx(STARTING + 294, abs=1e-6), 2)


@pytest.mark.parametrize("busy", [1, 5])
@pytest.mark.parametrize("film", [FOLLOWING, Film(HEAT, 30)], ids=["following", "apart"])
def test_a_busy_machine_does_not_change_what_it_takes_alone(film, busy, clock, frames_take, monkeypatch, tmp_path):
    """A frame takes 3 s of the thread's time; on a busy machine, five times as much wall time."""
    monkeypatch.setattr(guessing, "thread_time", lambda: clock[0] / busy)
    frames_take(lambda _: 3 * busy)
    guess = estimate(film, tmp_path / "a.gif", budget=1e6, starting=7.0)
    assert guess.seconds == pytest.approx(7 + 30 * 3, abs=0.1)
    assert guess.slowed == pytest.approx(busy, rel=0.01)
    both = " on an idle machine, 8 min under the present load,"
    assert guess.words.startswith(f"about 2 min{both}" if busy == 5 else "about 2 min and")
    monkeypatch.setattr(guessing, "_on_gpu", lambda film: True)  # the thread only waits for a GPU
    guess = estimate(film, tmp_path / "a.gif", budget=1e6)
    assert (guess.seconds, guess.slowed) == (pytest.approx(STARTING + 30 * 3 * busy, abs=0.1), 1.0)


@pytest.mark.usefixtures("steps_take_a_second")
@pytest.mark.parametrize("every", [0, 5])
def test_what_takes_too_long_is_guessed_from_its_beginning(every, clock, tmp_path):
    film = Film(Scene("diffusion", {"ny": 8, "nx": 8}, (8, 8), steps=10**6), 3, every=every)
    guess = estimate(film, tmp_path / "a.gif", budget=600.0)
    assert clock[0] < 3000
    truth = 10**6 + 2 * every if every else 3 * 10**6
    assert guess.seconds == pytest.approx(STARTING + truth, rel=1e-3)


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("every", [0, 5])
def test_short_films_are_measured_whole(frames, every, tmp_path):
    assert estimate(Film(HEAT, frames, every=every), tmp_path / "a.webp", workers=16).frames_measured == frames


def test_it_is_said_in_words_and_only_of_films(tmp_path):
    assert Estimate(4000.0, 12_345_678, 6).words == "about 67 min and 12.3 MB, estimated from 6 frames"
    assert Estimate(12.0, 12_345, 1).words == "about 12 s and 0.0123 MB, estimated from 1 frame"
    assert Estimate(9000.0, 0, 2).words.startswith("about 2.5 h")
    with pytest.raises(SceneError, match="must end in"):
        estimate(FOLLOWING, tmp_path / "a.png")
    with pytest.raises(ValueError, match="zoom must be"):
        estimate(Film(Scene("mandelbrot", {"zoom": "0"}, (8, 8)), 2), tmp_path / "a.gif")
    assert np.isfinite(estimate(FOLLOWING, tmp_path / "a.gif", budget=1e-9).seconds)
