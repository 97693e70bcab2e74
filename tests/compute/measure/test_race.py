"""Races with fake clocks: ranks, ratios, pictures, records, and error messages."""

from __future__ import annotations

import argparse
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from compute.__main__ import main
from compute.cli.race_command import add_race, as_document, race_of, show
from compute.devices.backends import backend
from compute.labs.diffusion import Diffusion
from compute.labs.diffusion import cpu_numba as numba_kernels
from compute.labs.diffusion import cpu_numpy as kernels
from compute.labs.diffusion.benchmark import BENCHMARK, GridCase
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot
from compute.measure.case import Implementation
from compute.measure.race import (
    LEGS,
    MOST_STEPS,
    Race,
    RaceError,
    Racer,
    cut,
    default_racers,
    possible_racers,
    run_race,
    steps_to,
)
from compute.measure.records import Recorded
from compute.measure.run import CaseRun, Pace
from compute.measure.sampling import Budget
from compute.measure.statistics import Spread

pytestmark = pytest.mark.extended

VALUES = {"ny": 24, "nx": 24, "preset": "noise", "hold_limits": True, "dtype": "float32", "edges": "zero-flux"}
HOST, NUMBA = Racer("cpu_numpy"), Racer("cpu_numba")
RECORD = Recorded("diffusion", "NVIDIA H200", "2026-11-21", "gpu_cupy", "T-step", 24, 24, "float32", "zero-flux", 1e-5,
                  5.76e7, 0.9e-5, 1.2e-5)  # fmt: skip
ELSEWHERE = Racer("gpu_cupy", "T-step", RECORD)


def quiet(part, words):
    """Ignore the progress messages."""


@pytest.fixture
def clocks(monkeypatch):
    """Set the seconds per step of each racing lab, in turn; `order` lists the numbers of the labs, leg by leg."""
    labs, order, advance = [], [], Diffusion.advance

    def take(*seconds):
        def timed(lab, steps=1):
            if not any(lab is known for known in labs):
                labs.append(lab)
            number = next(at for at, known in enumerate(labs) if known is lab) % len(seconds)
            order.append(number)
            return replace(advance(lab, steps), compute=seconds[number] * steps)

        monkeypatch.setattr(Diffusion, "advance", timed)
        return order

    return take


def test_ranks_times_and_ratios_are_those_of_the_lanes_own_clocks_and_of_records(clocks, monkeypatch):
    monkeypatch.setattr("compute.measure.race.OtherWork", lambda: SimpleNamespace(cores=lambda: 1.25))
    order, progress = clocks(1e-2, 2.5e-3), []
    race = Race(Diffusion, VALUES, (HOST, HOST, ELSEWHERE), 100)
    result = run_race(race, lambda part, words: progress.append((part, words)))
    slow, fast, record = result.lanes
    assert [lane.seconds for lane in result.lanes] == pytest.approx([1.0, 0.25, 1e-3])
    assert result.ranks == (record, fast, slow)
    assert (result.behind(slow), result.behind(record)) == pytest.approx((1000, 1))
    assert result.speed_up(slow).ratio == pytest.approx(1000)
    assert slow.step == Spread(pytest.approx(1e-2), pytest.approx(1e-2), pytest.approx(1e-2), LEGS)
    assert result.marks == tuple(range(0, 101, 5))
    assert slow.clock == pytest.approx([mark * 1e-2 for mark in result.marks])
    assert order[:4] == [0, 0, 1, 1]  # before the start, not timed
    assert order[4:8] == [0, 1, 1, 0]  # they take turns, and the first one changes
    assert record.racer.name.endswith(", T-step")  # not to be taken for a kernel that the lab runs
    assert record.clock == pytest.approx([1e-5 * mark for mark in result.marks])
    assert (record.step.q1, record.step.median, record.step.q3) == (0.9e-5, 1e-5, 1.2e-5)
    assert record.agreement is None
    assert result.others == as_document(race, result)["cores_of_others"] == 1.25
    assert (progress[0], progress[-1]) == ((0.0, "warming up"), (1.0, f"leg {LEGS} of {LEGS}"))


def test_a_leg_too_short_for_a_clock_is_timed_on_a_longer_stretch(clocks):
    order = clocks(1e-2, 1e-6, 2e-6)  # the third is the twin
    result = run_race(Race(Diffusion, VALUES, (HOST, HOST), 40), quiet)
    assert result.lanes[1].seconds == pytest.approx(40 * 2e-6)
    assert result.lanes[1].right  # its own field has advanced 40 steps, not those of the longer stretch
    assert order.count(2) == LEGS + 1


def test_the_pictures_are_those_of_the_steps():
    result = run_race(Race(Diffusion, VALUES, (HOST, HOST), 40), quiet)
    assert len(result.pictures) == len(result.marks) == LEGS + 1
    alone = Diffusion(**VALUES, backend="cpu_numpy")
    alone.frame(None, (24, 24))
    for mark in (0, 2, 40):
        if mark > alone.steps:
            alone.advance(mark - alone.steps)
        levels = next(iter(alone.frame(None, (24, 24)).rasters.values())).levels
        assert np.array_equal(result.pictures[result.marks.index(mark)], levels)


def too_large(u, out, r, edges, steps):
    """A wrong kernel."""
    kernels.step(u, out, r, edges, steps)
    out *= 1.01


def test_lanes_agree_and_a_wrong_one_is_out_of_the_race(clocks, monkeypatch):
    clocks(1e-2, 5e-3)
    right = run_race(Race(Diffusion, VALUES, (HOST, Racer("cpu_numpy", "one-step"))), quiet)
    assert right.steps == 200  # by default two seconds of the slowest lane
    assert right.lanes[0].agreement is None
    assert right.lanes[1].right
    assert right.lanes[1].agreement.difference == 0

    monkeypatch.setitem(kernels.VARIANTS, "one-step", too_large)
    wrong = run_race(Race(Diffusion, VALUES, (HOST, Racer("cpu_numpy", "one-step")), 40), quiet)
    assert [lane.right for lane in wrong.lanes] == [True, False]
    assert wrong.ranks == (wrong.lanes[0],)


def test_lanes_of_a_field_that_blows_up_are_compared_before_it_does(monkeypatch):
    values = {"ny": 64, "nx": 64, "unstable": True, "r": 0.3}
    race = Race(Diffusion, values, (HOST, NUMBA), 1000)
    with np.errstate(all="ignore"):  # the field overflows, as it should
        right = run_race(race, quiet).lanes
        assert [lane.right for lane in right] == [True, True]
        assert "unstable: rounding is amplified, so compared after" in right[1].agreement.said
        monkeypatch.setitem(kernels.VARIANTS, "one-step", too_large)
        wrong = run_race(Race(Diffusion, values, (HOST, Racer("cpu_numpy", "one-step")), 1000), quiet).lanes
    assert [lane.right for lane in wrong] == [True, False]


@pytest.mark.parametrize("steps", [1, 7, 20, 33, 1000])
def test_the_legs_are_all_steps(steps):
    legs = list(cut(steps))
    assert sum(legs) == steps
    assert len(legs) == min(LEGS, steps)
    assert max(legs) - min(legs) <= 1


@pytest.mark.parametrize(
    ("lab", "values", "racers", "steps", "words"),
    [
        (Diffusion, {"ny": 2048, "nx": 2048}, (HOST,), 0, "2 to 4 lanes, not 1$"),
        (Diffusion, {"ny": 4096, "nx": 4096}, (NUMBA,), 0,
         "2 to 4 lanes, not 1: NumPy has none on more than 2048 × 2048 cells, so choose a smaller grid"),
        (Diffusion, {}, (HOST,) * 5, 0, "2 to 4 lanes, not 5"),
        (Diffusion, {}, (HOST, HOST), 2 * MOST_STEPS, "from 0 to 1\u202f000\u202f000, not 2\u202f000\u202f000"),
        (Diffusion, {}, (HOST, HOST), -1, "not -1"),
        (Diffusion, {"ny": 16384, "nx": 16384}, (HOST, HOST), MOST_STEPS,
         r"2\.7e\+14 steps times cells are more than the 1e\+12"),
        (Diffusion, {}, (ELSEWHERE, ELSEWHERE), 0, "one lane at least must be of this computer"),
        (Mandelbrot, {}, (HOST, NUMBA), 7, "steps must be 0 in mandelbrot, whose race is for a whole result, not 7"),
        (Mandelbrot, {}, (HOST, HOST), 0, "lanes of mandelbrot must be of different backends, not cpu_numpy, cpu_n"),
    ],
)  # fmt: skip
def test_a_race_that_cannot_be_run_is_refused(lab, values, racers, steps, words):
    with pytest.raises(RaceError, match=words):
        Race(lab, values, racers, steps)


def test_the_default_racers_are_this_computers_and_a_record_of_the_same_work():
    racers = default_racers(Diffusion, VALUES, [RECORD])
    assert [racer.backend for racer in racers[:2]] == ["cpu_numpy", "cpu_numba"]
    assert racers[-1] == ELSEWHERE
    for choose in (default_racers, possible_racers):
        assert "recorded" not in [racer.key for racer in choose(Diffusion, VALUES | {"ny": 48}, [RECORD])]
        large = choose(Diffusion, VALUES | {"ny": 8192, "nx": 8192}, [])
        assert "cpu_numpy" not in [racer.backend for racer in large]


def test_a_backend_that_is_alone_races_its_own_other_kernels(monkeypatch):
    monkeypatch.setattr("compute.measure.race.backends_for", lambda *_given: [backend("cpu_numba")])
    large = {"ny": 4096, "nx": 4096}
    racers = default_racers(Diffusion, large, [])
    assert [racer.key for racer in racers] == ["cpu_numba", "cpu_numba:one-step"]
    assert Race(Diffusion, large, racers).words.startswith("4096 × 4096 cells")


def test_all_right_kernels_of_this_computer_and_a_record_of_the_same_work_can_race():
    keys = [racer.key for racer in possible_racers(Diffusion, VALUES, [RECORD])]
    assert [key for key in keys if key.startswith("cpu_")] == ["cpu_numpy", "cpu_numba", "cpu_numba:one-step"]
    assert keys[-1] == "recorded"
    assert not any("racing" in key for key in keys)
    assert [racer.key for racer in possible_racers(Mandelbrot, {}, [])][:2] == ["cpu_numpy", "cpu_numba"]


@pytest.mark.parametrize(("r", "time", "steps"), [(0.2, 200, 1000), (0.1, 0.3, 3), (0.2, 0.1, 1), (0.2, 1.1, 6)])
def test_the_steps_to_a_simulated_time(r, time, steps):
    assert steps_to(Diffusion, {"r": r}, time) == steps


LARGE = {"r": 0.2, "ny": 16384, "nx": 16384}


@pytest.mark.parametrize(
    ("lab", "values", "time", "words"),
    [
        (Diffusion, {"r": 0.2}, -1, "above 0 and finite, not -1"),
        (Diffusion, {"r": 0.2}, float("nan"), "above 0 and finite, not nan"),
        (Diffusion, {"r": 0.0}, 1, "no simulated time passes"),
        (Diffusion, {}, 1e9, "a race has 1\u202f000\u202f000 at most"),
        (Diffusion, LARGE, 1000, "needs 5\u202f000 steps, and a race on this grid has 3\u202f725"),
        (Mandelbrot, {}, 1, "time cannot be given for mandelbrot"),
    ],
)
def test_a_simulated_time_that_cannot_be_reached_is_refused(lab, values, time, words):
    with pytest.raises(RaceError, match=words):
        steps_to(lab, values, time)


def race_for(text):
    """Return the race that `fieldlab race` creates for these arguments."""
    parser = argparse.ArgumentParser()
    add_race(parser.add_subparsers())
    return race_of(parser.parse_args(["race", *text.split()]))


def test_the_command_takes_lanes_and_finish_lines_as_the_card_does():
    race = race_for("diffusion --set r=0.125 --time 200 --backends recorded,cpu_numba:one-step,cpu_numba")
    assert [racer.key for racer in race.racers] == ["recorded", "cpu_numba:one-step", "cpu_numba"]
    assert (race.steps, race.time) == (1600, 200)
    assert race.words.endswith("to t = 200 Δx²/D, 1\N{NARROW NO-BREAK SPACE}600 steps")
    assert race_for("l_curve --set n=200 --tolerance 1e-6").values["tolerance"] == 1e-6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("diffusion --backends cpu_numpy,cpu_numba:quick", "other kernels of cpu_numba are cpu_numba:one-step"),
        ("diffusion --set ny=48 --backends cpu_numpy,recorded", "no recorded run of diffusion matches these settings"),
        ("diffusion --set ny=0", "ny must be a whole number from 1 to 16384, not 0"),
        ("diffusion --set ny=null", "ny must be a finite number, not 'null'"),
        ("diffusion --set ny=true", "ny must be a finite number, not 'true'"),
        ("diffusion --set ny=0 --time 3", "ny must be a whole number"),
        ("diffusion --set ny=8 --set ny=9", "ny is set twice"),
        ("mandelbrot --set max_iterations=0", "max_iterations must be a whole number from 1 to 100000000, not 0"),
        ("diffusion --time 0", "time must be above 0"),
        ("mandelbrot --tolerance 0", "--tolerance does not apply to mandelbrot"),
        ("crossover", "Press Run for them, or begin a race in another lab"),
    ],
)
def test_the_command_refuses_what_it_cannot_race(text, words):
    with pytest.raises(ValueError, match=words):
        race_for(text)


@pytest.mark.parametrize("arguments", ["l_curve --set n=0", "l_curve --tolerance 0", "diffusion --set r=9"])
def test_values_that_a_lab_refuses_end_the_command_with_its_reason(capsys, arguments):
    assert main(["race", *arguments.split()]) == 2
    printed = capsys.readouterr().err
    assert "must be" in printed
    assert "Traceback" not in printed


def test_interpreted_kernels_do_not_race(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    with pytest.raises(RaceError, match="cpu_numba cannot race: Numba compiles nothing"):
        race_for("diffusion --backends cpu_numpy,cpu_numba")


@pytest.mark.parametrize(
    ("values", "ended"),
    [
        ({"steps_at_most": 5, "tolerance": 1e-12},
         "Stopped at the limit of 5 steps with ribbons wider than 1e-12: allow more steps."),
        ({"n": 6, "problem": "shaw", "tolerance": 1e-12}, "The matrix is used up after "),
        ({"tolerance": 1e-2}, "All ribbons are within 0.01 after "),
    ],
)  # fmt: skip
def test_a_curve_states_its_goal_and_what_ended_its_steps(values, ended):
    race = Race(LCurve, {"n": 60, **values}, (HOST, NUMBA))
    most = values.get("steps_at_most", 2000)
    assert race.words.endswith(f"until its ribbons are {values['tolerance']:g} wide, {most} steps at most")
    result = run_race(race, quiet)
    assert result.ended.startswith(ended)
    assert as_document(race, result)["ended"] == result.ended
    out = Console(record=True, width=200, file=StringIO())
    show(race, result, out)
    assert result.ended in out.export_text()


def test_a_race_has_the_times_of_the_bench(monkeypatch):
    """With one clock, in which a launch has a fixed cost, independent of its number of steps."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("compute.devices.devices.time", SimpleNamespace(perf_counter=lambda: clock.now))
    case = GridCase(24, "float32", "zero-flux")
    bench = CaseRun(BENCHMARK, case, BENCHMARK.reference(case), 10.0, Pace(), Budget(100.0))

    def add(module, name, seconds, at_once):
        step = module.step

        def slower(u, out, r, edges, steps):
            step(u, out, r, edges, steps)
            clock.now += seconds * -(-steps // at_once)

        usual = next(variant for variant, kernel in module.VARIANTS.items() if kernel is step)
        monkeypatch.setattr(module, "step", slower)
        monkeypatch.setitem(module.VARIANTS, usual, slower)
        bench.check(Implementation(backend(name), usual, slower))

    add(kernels, "cpu_numpy", 1e-2, 1)
    add(numba_kernels, "cpu_numba", 1e-4, numba_kernels.MOST_STEPS)
    bench.sample()
    bench.close()
    race = run_race(Race(Diffusion, VALUES, (HOST, NUMBA), 100), quiet)
    raced = {lane.racer.backend: lane.step for lane in race.lanes}
    assert {row.backend for row in bench.rows} == raced.keys()
    for row in bench.rows:
        step, lane = row.measurement.step, raced[row.backend]
        assert (lane.q1, lane.median, lane.q3) == pytest.approx((step.q1, step.median, step.q3)), row.backend


@pytest.mark.gpu
def test_a_gpu_races_and_agrees():
    racers = [racer for racer in default_racers(Diffusion, {}, []) if racer.backend != "cpu_numpy"]
    if not racers[-1].backend.startswith("gpu_"):
        pytest.skip(str(backend("gpu_cupy").missing))
    result = run_race(Race(Diffusion, {"preset": "noise", "ny": 512, "nx": 512}, tuple(racers), 1000), quiet)
    assert all(lane.right for lane in result.lanes)
    assert [lane.step.n for lane in result.lanes] == [LEGS, LEGS]
