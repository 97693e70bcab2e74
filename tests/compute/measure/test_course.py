"""A race for a whole result: its times equal the bench's, lanes agree or are disqualified, all do the same work."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from compute.__main__ import main
from compute.devices.backends import backend
from compute.labs.l_curve import LCurve
from compute.labs.l_curve.fixtures import CurveFixture
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot import cpu_numpy as picture_kernels
from compute.labs.mandelbrot.benchmark import BENCHMARK, SceneFixture
from compute.labs.mandelbrot.course import scene_of
from compute.labs.mandelbrot.scenes import CountsReference
from compute.measure import course
from compute.measure.case import Implementation
from compute.measure.course import turns
from compute.measure.race import Race, RaceError, Racer, default_racers, run_race
from compute.measure.records import Recorded
from compute.measure.run import CaseRun, Pace
from compute.measure.sampling import LEAST_RUN, Budget

SMALL = {"ny": 30, "nx": 40, "max_iterations": 60}
NUMPY, NUMBA = Racer("cpu_numpy"), Racer("cpu_numba")
LESSON = dict(BENCHMARK.raced["the lesson's scene"])


def quiet(part, words):
    """Ignore the progress messages."""


def given(values):
    """Return all values of a Mandelbrot lab."""
    return {name: Mandelbrot.param[name].default for name in Mandelbrot.param} | values


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Take the smallest number of samples."""
    monkeypatch.setattr(course, "SHARE", 1e-3)
    monkeypatch.setattr("compute.measure.run.PATIENCE", 1e6)  # with so small a share no backend is too slow


@pytest.fixture
def seconds(monkeypatch):
    """Fake durations of a run on each backend instead of the clock's, the same for race and bench."""
    taken = {"cpu_numpy": iter(()), "cpu_numba": iter(())}

    def fake(fixture):
        run = fixture.run

        def timed(self, way, steps):
            return replace(run(self, way, steps), compute=steps * next(taken[way.backend.name]))

        monkeypatch.setattr(fixture, "run", timed)

    fake(SceneFixture)
    fake(CurveFixture)
    return taken


def test_a_time_is_the_benchs_own_by_the_same_clock(seconds):
    def start():
        seconds["cpu_numpy"] = iter(0.2 + 0.01 * (number % 5) for number in range(100))
        seconds["cpu_numba"] = iter(0.1 + 0.002 * (number % 3) for number in range(100))

    start()
    raced = run_race(Race(Mandelbrot, SMALL, (NUMPY, NUMBA)), quiet)
    start()
    scene = scene_of(given(SMALL))
    bench = CaseRun(BENCHMARK, scene, CountsReference(scene), course.SHARE, Pace(), Budget(LEAST_RUN))
    for name in ("cpu_numpy", "cpu_numba"):
        bench.check(Implementation(backend(name), "block", backend(name).kernels(BENCHMARK.package).direct))
    bench.sample()
    bench.close()
    benched = {row.backend: row.measurement.step for row in bench.rows}
    assert {lane.racer.backend: lane.step for lane in raced.lanes} == benched
    assert [lane.seconds for lane in raced.ranks] == [benched["cpu_numba"].median, benched["cpu_numpy"].median]


def test_the_clock_is_even_from_start_to_finish_and_a_record_has_its_own(seconds):
    seconds["cpu_numpy"], seconds["cpu_numba"] = iter([0.3] * 100), iter([0.1] * 100)
    record = Recorded("mandelbrot", "NVIDIA H200", "2026-11-21", "gpu_cupy", "block", 30, 40, "float64", "small", 6e-3,
                      1e12, 5e-3, 7e-3)  # fmt: skip
    result = run_race(Race(Mandelbrot, SMALL, (NUMPY, NUMBA, Racer("gpu_cupy", "block", record))), quiet)
    slow, fast, recorded = result.lanes
    assert result.marks == turns(30)
    assert slow.clock == pytest.approx([0.3 * mark / 30 for mark in result.marks])
    assert recorded.clock == pytest.approx([6e-3 * mark / 30 for mark in result.marks])
    assert recorded.agreement is None
    assert result.ranks == (recorded, fast, slow)
    assert result.behind(slow) == pytest.approx(50)
    assert result.compared_with is fast  # the result of the faster lane is the reference for the other
    assert result.unit == "row"
    assert result.timed.startswith("the kernels of the whole picture in one launch")


def test_pictures_fill_row_by_row_until_they_are_the_labs():
    result = run_race(Race(Mandelbrot, SMALL, (NUMPY, NUMBA)), quiet)
    lab = Mandelbrot(**SMALL, backend="cpu_numba")
    lab.counts()
    levels = next(iter(lab.frame(None, (30, 40)).rasters.values())).levels
    for mark, shown in zip(result.marks, result.pictures, strict=True):
        assert np.array_equal(shown[:mark], levels[:mark])
        assert (shown[mark:] == 255).all()


def test_a_picture_that_is_wrong_is_not_timed_and_a_race_of_one_is_none(monkeypatch):
    right = picture_kernels.direct

    def wrong(state, part):
        right(state, part)
        state.count[...] += 5

    monkeypatch.setitem(picture_kernels.VARIANTS, next(iter(picture_kernels.VARIANTS)), wrong)
    with pytest.raises(RaceError, match=r"fewer than 2 lanes can be timed: NumPy: .* % of the pixels differ by more"):
        run_race(Race(Mandelbrot, SMALL, (NUMPY, NUMBA)), quiet)


def test_a_record_joins_only_the_race_for_the_same_work():
    record = Recorded("mandelbrot", "NVIDIA H200", "2026-11-21", "gpu_cupy", "block", 2000, 3000, "float64", "lesson",
                      6e-5, 1e12, 5e-5, 7e-5)  # fmt: skip
    assert default_racers(Mandelbrot, LESSON, [record])[-1].record is record
    for others in ({}, {**LESSON, "precision": "float32"}):
        assert all(racer.record is None for racer in default_racers(Mandelbrot, others, [record]))
    scene = scene_of(given(LESSON))
    assert (scene.shape, scene.shortcuts, scene.dtype) == ((2000, 3000), False, "float64")


def test_a_forced_precision_that_the_bench_does_not_support_is_refused():
    with pytest.raises(ValueError, match="precision must be what this view needs, float64, not perturbation"):
        Race(Mandelbrot, {**SMALL, "precision": "perturbation"}, (NUMPY, NUMBA))


@pytest.mark.parametrize("values", [{"n": 60}, {"problem": "shaw", "n": 40}, {"n": 60, "dtype": "float32"}])
def test_all_lanes_of_a_curve_do_the_steps_that_close_its_ribbons(values):
    result = run_race(Race(LCurve, values, (NUMPY, NUMBA)), quiet)
    lab = LCurve(**values, backend="cpu_numba")
    while not lab.done:
        lab.advance(lab.chunk)
    assert result.steps == lab.bidiagonal.k
    assert [lane.right for lane in result.lanes] == [True, True]
    assert result.lanes[0].agreement.difference <= result.lanes[0].agreement.tolerance
    low, high = result.curves[-1]
    assert (low <= high * (1 + 1e-12)).all()
    assert (high / low - 1).max() <= lab.tolerance * 2
    assert np.isnan(result.curves[0]).all()


def test_a_lane_that_would_take_minutes_is_left_out_and_named(monkeypatch):
    monkeypatch.setattr("compute.measure.run.PATIENCE", 2.0)
    monkeypatch.setattr(course, "SHARE", 1.0)
    first = SceneFixture.first

    def slow(self, way):
        timing, taken = first(self, way)
        return timing, 95.0 if way.backend.name == "cpu_numpy" else taken

    monkeypatch.setattr(SceneFixture, "first", slow)
    record = Recorded("mandelbrot", "a GPU", "2026-11-21", "gpu_cupy", "block", 30, 40, "float64", "small", 1e-9, 1e12)
    result = run_race(Race(Mandelbrot, SMALL, (NUMPY, NUMBA, Racer("gpu_cupy", "block", record))), quiet)
    assert [lane.racer.name for lane in result.ranks] == [Racer("gpu_cupy", "block").name, "Numba"]
    (words,) = result.left_out
    assert words.startswith("NumPy: would take about 665 s (95 s a picture)")


@pytest.mark.parametrize(("whole", "marks"), [(1, (0, 1)), (3, (0, 1, 2, 3)), (40, tuple(range(0, 41, 2)))])
def test_the_moments_are_whole_and_end_at_the_finish_line(whole, marks):
    assert turns(whole) == marks


@pytest.mark.gpu
@pytest.mark.parametrize(("lab", "values"), [(Mandelbrot, LESSON), (LCurve, {"n": 3000})])
def test_a_gpu_races_for_a_whole_result_and_agrees(lab, values):
    racers = [racer for racer in default_racers(lab, values, []) if racer.backend != "cpu_numpy"]
    if not racers[-1].backend.startswith("gpu_"):
        pytest.skip(str(backend("gpu_cupy").missing))
    result = run_race(Race(lab, values, tuple(racers)), quiet)
    assert not result.left_out
    assert all(lane.right for lane in result.lanes)


def test_the_command_prints_the_race_as_a_table_or_as_json_with_its_provenance(capsys):
    race = ["race", "mandelbrot", "--set", "ny=12", "--set", "nx=16", "--set", "max_iterations=30"]
    assert main([*race, "--backends", "cpu_numpy,cpu_numba"]) == 0
    printed = capsys.readouterr().out
    assert "NumPy" in printed
    assert "Numba" in printed
    assert main([*race, "--backends", "cpu_numpy,cpu_numba", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert {"lab", "words", "lanes", "date", "machine", "versions"} <= made.keys()
    assert made["conditions"]["samples"] == sum(lane["step"]["n"] for lane in made["lanes"])
    assert [lane["backend"] for lane in made["lanes"]] == ["cpu_numpy", "cpu_numba"]
    assert sorted(lane["place"] for lane in made["lanes"]) == [1, 2]
    for lane in made["lanes"]:
        assert lane["step"]["q1"] <= lane["step"]["median"] <= lane["step"]["q3"]
        assert lane["seconds"] == pytest.approx(lane["step"]["median"], rel=1e-12)  # of one and the same race


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["race", "mandelbrot", "--work", "moon"], "--work must be one of the lesson's scene, not 'moon'"),
        (["race", "diffusion", "--work", "moon"], "--work must be one of none in this lab, not 'moon'"),
        (["race", "mandelbrot", "--steps", "5"], "steps must be 0 in mandelbrot"),
        (["race", "crossover"], "crossover has no whole result to race for"),
        (["race", "diffusion", "--backends", "cpu_numpy"], "a race has 2 to 4 lanes, not 1"),
        (["race", "diffusion", "--backends", "abacus"], "abacus"),
    ],
)
def test_the_command_refuses_what_it_cannot_race(arguments, words, capsys):
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
