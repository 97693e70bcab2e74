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
from compute.measure.rates import spaced
from compute.measure.records import Recorded
from compute.measure.run import CaseRun, Pace
from compute.measure.sampling import LEAST_RUN, Budget
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

    def take(rates):
        def timed(lab, steps=1):
            if not any(lab is known for known in labs):
                labs.append(lab)
            number = next(at for at, known in enumerate(labs) if known is lab) % len(rates)
            order.append(number)
            return replace(advance(lab, steps), compute=rates[number](len(order)) * steps)

        monkeypatch.setattr(Diffusion, "advance", timed)
        return order

    return take


def test_ranks_times_and_ratio_are_those_of_the_lanes_own_clocks(clocks):
    order = clocks([lambda _: 1e-2, lambda _: 2.5e-3])
    result = run_race(Race(Diffusion, VALUES, (HOST, HOST, ELSEWHERE), 100), quiet)
    slow, fast, record = result.lanes
    assert [lane.seconds for lane in result.lanes] == pytest.approx([1.0, 0.25, 1e-3])
    assert result.ranks == (record, fast, slow)
    assert result.behind(slow) == pytest.approx(1000)
    assert result.behind(record) == 1
    assert slow.step == Spread(pytest.approx(1e-2), pytest.approx(1e-2), pytest.approx(1e-2), LEGS)
    assert result.marks == tuple(range(0, 101, 5))
    assert slow.clock == pytest.approx([mark * 1e-2 for mark in result.marks])
    assert order[:4] == [0, 0, 1, 1]  # before the start, not timed
    assert order[4:8] == [0, 1, 1, 0]  # they take turns, and the first one changes


def test_a_leg_too_short_for_a_clock_is_timed_on_a_longer_stretch(clocks):
    order = clocks([lambda _: 1e-2, lambda _: 1e-6, lambda _: 2e-6])  # the third is the twin
    result = run_race(Race(Diffusion, VALUES, (HOST, HOST), 40), quiet)
    assert result.lanes[1].seconds == pytest.approx(40 * 2e-6)
    assert result.lanes[1].right  # its own field has advanced 40 steps, not those of the longer stretch
    assert order.count(2) == LEGS + 1


def test_the_interval_of_a_typical_step_is_that_of_the_benchs_statistics(clocks):
    seconds = [1e-2 + 1e-4 * (number % 7) for number in range(100)]
    clocks([lambda at: seconds[at], lambda _: 5e-3])
    slow, _ = (result := run_race(Race(Diffusion, VALUES, (HOST, HOST), 40), quiet)).lanes
    raced = [moment / 2 for moment in np.diff(slow.clock)]  # legs of two steps
    wanted = Spread.of(raced)
    assert (slow.step.median, slow.step.q1, slow.step.q3) == pytest.approx((wanted.median, wanted.q1, wanted.q3))
    assert slow.step.q1 < slow.step.median < slow.step.q3
    typical = result.speed_up(slow)
    assert typical.ratio == pytest.approx(slow.step.median / 5e-3)
    assert (typical.low, typical.high) == pytest.approx((slow.step.low / 5e-3, slow.step.high / 5e-3))


def test_a_recorded_lane_has_the_records_rate_and_the_pictures_computed_here():
    result = run_race(Race(Diffusion, VALUES, (HOST, ELSEWHERE), 40), quiet)
    lane = result.lanes[1]
    assert lane.clock == pytest.approx([1e-5 * mark for mark in result.marks])
    assert (lane.step.q1, lane.step.median, lane.step.q3) == (0.9e-5, 1e-5, 1.2e-5)
    assert lane.agreement is None
    assert len(result.pictures) == len(result.marks) == LEGS + 1
    assert not np.array_equal(result.pictures[0], result.pictures[-1])


def test_a_lane_is_named_with_its_kernel_be_it_of_here_or_a_record():
    """The record of a kernel that the lab does not run must not be taken for one that it runs."""
    assert ELSEWHERE.name.endswith(", T-step")
    assert Racer("gpu_cupy", "T-step").name == ELSEWHERE.name
    assert Racer("cpu_numpy").name == "NumPy"


def test_the_pictures_are_those_of_the_steps():
    result = run_race(Race(Diffusion, VALUES, (HOST, HOST), 40), quiet)
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
    clocks([lambda _: 1e-2, lambda _: 5e-3])
    race = Race(Diffusion, VALUES, (HOST, Racer("cpu_numpy", "one-step")), 40)
    right, other = run_race(race, quiet).lanes
    assert right.agreement is None
    assert other.right
    assert other.agreement.difference == 0

    monkeypatch.setitem(kernels.VARIANTS, "one-step", too_large)
    result = run_race(race, quiet)
    assert [lane.right for lane in result.lanes] == [True, False]
    assert result.ranks == (result.lanes[0],)


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


def test_a_race_without_a_number_of_steps_takes_a_few_seconds_of_the_slowest(clocks):
    clocks([lambda _: 1e-2, lambda _: 5e-3])
    assert run_race(Race(Diffusion, VALUES, (HOST, HOST)), quiet).steps == 200


def test_what_others_did_meanwhile_is_in_the_result_and_in_its_document(monkeypatch):
    monkeypatch.setattr("compute.measure.race.OtherWork", lambda: SimpleNamespace(cores=lambda: 1.25))
    race = Race(Diffusion, VALUES, (HOST, HOST), 20)
    result = run_race(race, quiet)
    assert result.others == 1.25
    assert as_document(race, result)["cores_of_others"] == 1.25


def test_progress_is_told():
    told = []
    run_race(Race(Diffusion, VALUES, (HOST, HOST), 40), lambda part, words: told.append((part, words)))
    assert told[0] == (0.0, "warming up")
    assert told[-1] == (1.0, f"leg {LEGS} of {LEGS}")


@pytest.mark.parametrize("steps", [1, 7, 20, 33, 1000])
def test_the_legs_are_all_steps(steps):
    legs = list(cut(steps))
    assert sum(legs) == steps
    assert len(legs) == min(LEGS, steps)
    assert max(legs) - min(legs) <= 1


@pytest.mark.parametrize(
    ("racers", "steps", "lab", "words"),
    [
        ((HOST,), 0, Diffusion, "2 to 4 lanes, not 1"),
        ((HOST,) * 5, 0, Diffusion, "2 to 4 lanes, not 5"),
        ((HOST, HOST), MOST_STEPS + 1, Diffusion, f"from 0 to {spaced(MOST_STEPS)}, not {spaced(MOST_STEPS + 1)}"),
        ((HOST, HOST), -1, Diffusion, "not -1"),
        ((HOST, NUMBA), 7, Mandelbrot, "steps must be 0 in mandelbrot, whose race is for a whole result, not 7"),
        ((HOST, HOST), 0, Mandelbrot, "lanes of mandelbrot must be of different backends, not cpu_numpy, cpu_numpy"),
        ((ELSEWHERE, ELSEWHERE), 0, Diffusion, "one lane at least must be of this computer"),
    ],
)
def test_what_cannot_race_is_told(racers, steps, lab, words):
    with pytest.raises(RaceError, match=words):
        Race(lab, {}, racers, steps)


def test_refusals_set_thousands_apart():
    with pytest.raises(RaceError, match="from 0 to 1\u202f000\u202f000, not 2\u202f000\u202f000"):
        Race(Diffusion, {}, (HOST, NUMBA), 2 * MOST_STEPS)
    with pytest.raises(RaceError, match="a race has 1\u202f000\u202f000 at most"):
        steps_to(Diffusion, {}, 1e9)


def test_too_much_work_is_refused_before_anything_is_opened():
    with pytest.raises(RaceError, match=r"2\.7e\+14 steps times cells are more than the 1e\+12"):
        Race(Diffusion, {"ny": 16384, "nx": 16384}, (HOST, HOST), MOST_STEPS)


def test_the_usual_racers_are_this_computers_and_a_record_of_the_same_work():
    racers = default_racers(Diffusion, VALUES, [RECORD])
    assert [racer.backend for racer in racers[:2]] == ["cpu_numpy", "cpu_numba"]
    assert racers[-1] == ELSEWHERE
    assert all(racer.record is None for racer in default_racers(Diffusion, VALUES | {"ny": 48}, [RECORD]))
    large = default_racers(Diffusion, VALUES | {"ny": 8192, "nx": 8192}, [])
    assert "cpu_numpy" not in [racer.backend for racer in large]


def test_a_backend_that_is_alone_races_its_own_other_kernels(monkeypatch):
    monkeypatch.setattr("compute.measure.race.backends_for", lambda *_given: [backend("cpu_numba")])
    large = {"ny": 4096, "nx": 4096}
    racers = default_racers(Diffusion, large, [])
    assert [racer.key for racer in racers] == ["cpu_numba", "cpu_numba:one-step"]
    assert Race(Diffusion, large, racers).words.startswith("4096 × 4096 cells")


def test_a_lane_that_is_alone_on_a_large_grid_is_told_what_to_change():
    why = "NumPy has none on more than 2048 × 2048 cells, so choose a smaller grid"
    with pytest.raises(RaceError, match=f"a race has 2 to 4 lanes, not 1: {why}"):
        Race(Diffusion, {"ny": 4096, "nx": 4096}, (NUMBA,))
    with pytest.raises(RaceError, match=r"a race has 2 to 4 lanes, not 1$"):
        Race(Diffusion, {"ny": 2048, "nx": 2048}, (NUMBA,))


def test_who_can_race_are_all_right_kernels_of_this_computer_and_a_record_of_the_same_work():
    keys = [racer.key for racer in possible_racers(Diffusion, VALUES, [RECORD])]
    host = [key for key in keys if key.startswith("cpu_")]
    assert host == ["cpu_numpy", "cpu_numba", "cpu_numba:one-step"]
    assert keys[-1] == "recorded"
    assert not any("racing" in key for key in keys)
    assert "recorded" not in [racer.key for racer in possible_racers(Diffusion, VALUES | {"ny": 48}, [RECORD])]
    large = possible_racers(Diffusion, VALUES | {"ny": 8192, "nx": 8192}, [])
    assert "cpu_numpy" not in [racer.key for racer in large]
    assert [racer.key for racer in possible_racers(Mandelbrot, {}, [])][:2] == ["cpu_numpy", "cpu_numba"]


@pytest.mark.parametrize(
    ("r", "time", "steps"), [(0.2, 200, 1000), (0.25, 1, 4), (0.1, 0.3, 3), (0.2, 0.1, 1), (0.2, 1.1, 6)]
)
def test_the_steps_to_a_simulated_time(r, time, steps):
    assert steps_to(Diffusion, {"r": r}, time) == steps


@pytest.mark.parametrize(
    ("lab", "r", "time", "words"),
    [
        (Diffusion, 0.2, -1, "above 0 and finite, not -1"),
        (Diffusion, 0.2, float("inf"), "above 0 and finite, not inf"),
        (Diffusion, 0.2, float("nan"), "above 0 and finite, not nan"),
        (Diffusion, 0.0, 1, "no simulated time passes"),
        (Diffusion, 0.2, 1e9, f"a race has {spaced(MOST_STEPS)} at most"),
        (Mandelbrot, None, 1, "time cannot be given for mandelbrot"),
    ],
)
def test_a_simulated_time_that_cannot_be_is_told(lab, r, time, words):
    with pytest.raises(RaceError, match=words):
        steps_to(lab, {} if r is None else {"r": r}, time)


def test_a_simulated_time_that_is_too_much_work_on_a_large_grid_is_told():
    large = {"r": 0.2, "ny": 16384, "nx": 16384}
    assert steps_to(Diffusion, large, 740) == 3700
    with pytest.raises(RaceError, match="needs 5\u202f000 steps, and a race on this grid has 3\u202f725"):
        steps_to(Diffusion, large, 1000)


def asked(text):
    """Return the race that `fieldlab race` creates for these arguments."""
    parser = argparse.ArgumentParser()
    add_race(parser.add_subparsers())
    return race_of(parser.parse_args(["race", *text.split()]))


def test_the_command_takes_lanes_and_finish_lines_as_the_card_does():
    race = asked("diffusion --set r=0.125 --time 200 --backends recorded,cpu_numba:one-step,cpu_numba")
    assert [racer.key for racer in race.racers] == ["recorded", "cpu_numba:one-step", "cpu_numba"]
    assert (race.steps, race.time) == (1600, 200)
    assert race.words.endswith("to t = 200 Δx²/D, 1\N{NARROW NO-BREAK SPACE}600 steps")
    assert asked("l_curve --set n=200 --tolerance 1e-6").values["tolerance"] == 1e-6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("diffusion --backends cpu_numpy", "2 to 4 lanes, not 1"),
        ("diffusion --backends cpu_numpy,cpu_numba:quick", "other kernels of cpu_numba are cpu_numba:one-step"),
        ("diffusion --set ny=48 --backends cpu_numpy,recorded", "no recorded run of diffusion matches these settings"),
        ("diffusion --set ny=0", "ny must be a whole number from 1 to 16384, not 0"),
        ("diffusion --set nx=-1", "nx must be a whole number from 1 to 16384, not -1"),
        ("diffusion --set ny=null", "ny must be a finite number, not 'null'"),
        ("diffusion --set ny=true", "ny must be a finite number, not 'true'"),
        ("diffusion --set ny=1e99", "ny must be a whole number"),
        ("diffusion --set ny=0 --time 3", "ny must be a whole number"),
        ("diffusion --set ny=0 --backends cpu_numpy,cpu_numba", "ny must be a whole number"),
        ("diffusion --set ny=8 --set ny=9", "ny is set twice"),
        ("mandelbrot --set ny=0", "ny must be a whole number"),
        ("mandelbrot --set max_iterations=0", "max_iterations must be a whole number from 1 to 100000000, not 0"),
        ("diffusion --time 0", "time must be above 0"),
        ("mandelbrot --tolerance 0", "--tolerance does not apply to mandelbrot"),
        ("l_curve --set n=null", "n must be a finite number, not 'null'"),
        ("mandelbrot --tolerance 1e-3", "--tolerance does not apply to mandelbrot"),
        ("mandelbrot --time 3", "time cannot be given for mandelbrot"),
        ("crossover", "Press Run for them, or begin a race in another lab"),
    ],
)
def test_what_the_command_cannot_race_is_told(text, words):
    with pytest.raises(ValueError, match=words):
        asked(text)


def test_values_that_a_lab_refuses_end_a_race_in_words(capsys):
    for arguments in (["l_curve", "--set", "n=0"], ["l_curve", "--tolerance", "0"], ["diffusion", "--set", "r=9"]):
        assert main(["race", *arguments]) == 2
        told = capsys.readouterr().err
        assert "must be" in told
        assert "Traceback" not in told


def test_interpreted_kernels_do_not_race(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    with pytest.raises(RaceError, match="cpu_numba cannot race: Numba compiles nothing"):
        asked("diffusion --backends cpu_numpy,cpu_numba")


@pytest.mark.parametrize(
    ("values", "ended"),
    [
        ({"steps_at_most": 5, "tolerance": 1e-12},
         "Stopped at the limit of 5 steps with ribbons wider than 1e-12: allow more steps."),
        ({"n": 6, "problem": "shaw", "tolerance": 1e-12}, "The matrix is used up after "),
        ({"tolerance": 1e-2}, "All ribbons are within 0.01 after "),
    ],
)  # fmt: skip
def test_a_curve_says_what_is_wanted_and_its_result_where_the_steps_ended_it(values, ended):
    race = Race(LCurve, {"n": 60, **values}, (HOST, NUMBA))
    most = values.get("steps_at_most", 2000)
    assert race.words.endswith(f"until its ribbons are {values['tolerance']:g} wide, {most} steps at most")
    result = run_race(race, quiet)
    assert result.ended.startswith(ended)
    assert as_document(race, result)["ended"] == result.ended
    out = Console(record=True, width=200, file=StringIO())
    show(race, result, out)
    assert result.ended in out.export_text()


SECONDS = 10.0  # for a case of a bench


def benched(case, *names):
    """Return the step of each of these backends' usual kernels, as timed by `fieldlab bench diffusion`."""
    run = CaseRun(BENCHMARK, case, BENCHMARK.reference(case), SECONDS, Pace(), Budget(max(10 * SECONDS, LEAST_RUN)))
    try:
        for name in names:
            module = backend(name).kernels(BENCHMARK.package)
            usual = next(variant for variant, kernel in module.VARIANTS.items() if kernel is module.step)
            run.check(Implementation(backend(name), usual, module.step))
        run.sample()
    finally:
        run.close()
    found = {row.backend: row.measurement.step for row in run.rows if row.measurement}
    assert set(found) == set(names), [row.reason for row in run.rows]
    return found


def raced(case, *names, steps):
    """Return the step of each of these backends' lanes in a race on the same grid."""
    values = {"ny": case.size, "nx": case.size, "dtype": case.dtype, "edges": case.edges, "preset": "noise"}
    race = Race(Diffusion, values, tuple(Racer(name) for name in names), steps)
    return {lane.racer.backend: lane.step for lane in run_race(race, quiet).lanes}


def test_a_race_has_the_times_of_the_bench(monkeypatch):
    """With one clock, in which a launch has a fixed cost, independent of its number of steps."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("compute.devices.devices.time", SimpleNamespace(perf_counter=lambda: clock.now))

    def timed(module, seconds, at_once):
        step = module.step

        def slower(u, out, r, edges, steps):
            step(u, out, r, edges, steps)
            clock.now += seconds * -(-steps // at_once)

        usual = next(variant for variant, kernel in module.VARIANTS.items() if kernel is step)
        monkeypatch.setattr(module, "step", slower)
        monkeypatch.setitem(module.VARIANTS, usual, slower)

    timed(kernels, 1e-2, 1)
    timed(numba_kernels, 1e-4, numba_kernels.MOST_STEPS)
    case, names = GridCase(24, "float32", "zero-flux"), ("cpu_numpy", "cpu_numba")
    bench, race = benched(case, *names), raced(case, *names, steps=100)
    for name in names:
        step, lane = bench[name], race[name]
        assert (lane.q1, lane.median, lane.q3) == pytest.approx((step.q1, step.median, step.q3)), name


@pytest.mark.gpu
def test_a_gpu_races_and_agrees():
    racers = [racer for racer in default_racers(Diffusion, {}, []) if racer.backend != "cpu_numpy"]
    if not racers[-1].backend.startswith("gpu_"):
        pytest.skip(str(backend("gpu_cupy").missing))
    result = run_race(Race(Diffusion, {"preset": "noise", "ny": 512, "nx": 512}, tuple(racers), 1000), quiet)
    assert all(lane.right for lane in result.lanes)
    assert [lane.step.n for lane in result.lanes] == [LEGS, LEGS]
