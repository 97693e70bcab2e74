"""The live comparison with simulated engines, which answer at once or never, and a simulated clock."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from app.readout.comparison import (
    AGAIN,
    ALONE,
    CALM,
    LONGEST_JOB,
    LONGEST_SILENCE,
    MOST_TIMINGS,
    REPEAT,
    REST,
    RETRY,
    TELLING,
    Comparison,
    TakenTimings,
)
from compute.devices.backends import BACKENDS, Backend
from compute.engine import benchmark_target
from compute.engine.messages import Busy, MeasurementQueued, Refused
from compute.labs.diffusion import Diffusion, cpu_numba, cpu_numpy
from compute.labs.diffusion.benchmark import RULES
from compute.measure import roofs
from compute.measure import verdict as verdicts
from compute.measure.agreement import Agreement, amplification
from compute.measure.rules import AMPLIFIED, CHECK_SIDE, field_agreement
from compute.measure.statistics import Measurement
from compute.measure.timing import Timing
from compute.measure.verdict import ResultCache, Standing, Variant, judge, pairing
from tests.app.readout.benches import VALUES, Engines
from tests.comparing import answer_of

pytestmark = pytest.mark.usefixtures("host_only")


class Bench:
    """A comparison with simulated engines and clock. engines: arguments of Engines."""

    def __init__(self, results=None, values=VALUES, **engines):
        self.now, self.engines, self.results = 0.0, Engines(**engines), results or ResultCache()
        self.comparison = Comparison("diffusion", RULES, self.engines.open, self.results, clock=lambda: self.now)
        self.comparison.follow(values)

    @property
    def jobs(self):
        return self.engines.jobs

    @property
    def verdict(self):
        return self.comparison.verdict()

    def follow(self, **changes):
        self.comparison.follow(VALUES | changes)

    def tick(self, seconds=0.0):
        self.now += seconds
        self.comparison.tick()

    def turn(self, times=1):
        """Tick after each pause that the comparison makes."""
        for _ in range(times):
            self.tick(max(CALM, REST) + 0.01)

    def finish(self):
        """Advance until the comparison requests nothing; return the verdict."""
        asked = -1
        while asked != len(self.jobs):
            asked = len(self.jobs)
            assert asked < 1000
            self.turn(5)
        return self.verdict

    def waiting(self):
        """Return what each way waits for."""
        return {one.variant.backend: one.waiting for one in self.verdict.standings}


def standing(name, seconds=1.0, difference=1e-8):
    timings = [Timing(name, "", 10, 100, compute=seconds * (1 + 0.001 * k)) for k in range(9)]
    return Standing(Variant(name), Measurement.of(timings), Agreement(difference, 1e-6, "", ""))


# -- results


def test_right_results_give_a_speed_up_within_its_spread():
    bench = Bench(drift=0.001)
    verdict = bench.finish()
    assert (verdict.state, verdict.title) == ("agree", "Numba over NumPy")
    assert verdict.speed_up.low <= verdict.speed_up.ratio <= verdict.speed_up.high
    assert verdict.speed_up.ratio == pytest.approx(4, rel=0.05)
    assert 0 < verdict.agreement.difference < 1e-6
    assert "30 × 20 cells" in verdict.agreement.about
    assert [s.variant.backend for s in verdict.standings] == ["cpu_numba", "cpu_numpy"]
    assert bench.engines.open_jobs == []


def slightly_off(u, out, r, edges, steps):
    cpu_numpy.step(u, out, 1.001 * r, edges, steps)


def test_a_planted_disagreement_shows_no_speed_up_and_no_time(monkeypatch):
    bench = Bench()
    assert bench.finish().state == "agree"
    monkeypatch.setattr(cpu_numba, "step", slightly_off)
    bench.follow(r=0.1)  # the times of the earlier r are known, and no longer shown
    fresh = Bench()
    for one in (bench, fresh):
        verdict = one.finish()
        assert (verdict.state, verdict.speed_up) == ("disagree", None)
        assert verdict.agreement.difference > verdict.agreement.tolerance
        numba, numpy = verdict.standings
        assert numba.measurement is None
        assert numpy.measurement is not None
    assert set(fresh.engines.backends("sample")) == {"cpu_numpy"}


@pytest.mark.parametrize("r", [0.26, 0.3, 0.5])
def test_a_field_that_blows_up_is_no_disagreement(monkeypatch, r):
    """At r = 0.3 NumPy in float32 is 1.7e-6 from float64 after the usual 25 steps: rounding, amplified 1.4^25 times."""
    values = VALUES | {"ny": 64, "nx": 64, "r": r, "unstable": True}
    verdict = Bench(values=values).finish()
    assert verdict.state == "agree"
    assert "unstable: rounding is amplified" in verdict.agreement.said
    monkeypatch.setattr(cpu_numba, "step", slightly_off)  # an error is still detected
    verdict = Bench(values=values).finish()
    assert (verdict.state, verdict.speed_up) == ("disagree", None)


def test_rounding_is_amplified_by_the_checkerboard_s_factor():
    """On an even periodic grid one step multiplies the checkerboard by 1 - 8 r exactly."""
    board = np.indices((8, 8)).sum(axis=0) % 2 * 2.0 - 1.0
    out = np.empty_like(board)
    cpu_numpy.step(board, out, 0.5, "periodic", 1)
    np.testing.assert_array_equal(out, -3.0 * board)
    assert [RULES.growth({"r": r}) for r in (0.0, 0.2, 0.25, 0.5)] == [1, 1, 1, 3]
    assert amplification(3.0, 2) == 2.0  # two steps: (1 + 3) / 2
    assert RULES.compared_after({"r": 0.25}) == RULES.check_steps
    for r in np.linspace(0.251, 0.5, 60):
        steps, factor = RULES.compared_after({"r": r}), abs(1 - 8 * r)
        assert sum(factor**k for k in range(steps)) <= AMPLIFIED * steps
        assert steps == RULES.check_steps or sum(factor**k for k in range(steps + 1)) > AMPLIFIED * (steps + 1)


def test_agreement_is_the_relative_distance_to_the_reference():
    right = np.arange(6.0).reshape(2, 3)
    got = right.copy()
    got[1, 2] += 0.5
    agreement = field_agreement(right, got, 1e-6, 25)
    assert "5.0e-01" in agreement.said
    assert agreement.difference == pytest.approx(0.5 / np.sqrt(np.sum(right**2)))
    assert not agreement.agrees
    assert not field_agreement(right, right * np.nan, 1e-6, 25).agrees
    assert field_agreement(np.zeros((2, 2)), np.zeros((2, 2)), 1e-6, 25).agrees
    ones = np.ones((4, 4))
    assert not field_agreement(ones, ones + 5e-6, 1e-6, 4).agrees
    assert field_agreement(ones, ones + 5e-6, 1e-6, 4, 10.0).agrees  # the tolerance of amplified rounding


def test_the_reference_result_is_copied_from_the_engine_s_memory():
    """The engine's field is a view of an in-memory file, which stays open while any array refers to it."""
    bench = Bench(answers=False)
    for _ in range(3):  # reference, Numba, NumPy
        bench.turn()
        job = bench.jobs[-1]
        fields, tell = [], job.tell
        job.tell = lambda event, fields=fields, tell=tell: (fields.append(event.field), tell(event))
        job.answer()
        bench.tick()
        fields[0].fill(np.nan)  # the memory is reused
    assert [one.agreement.agrees for one in bench.verdict.standings] == [True, True]


# -- requests


def test_values_are_measured_when_they_are_calm_and_the_first_ones_at_once():
    bench = Bench(answers=False)
    bench.tick()
    assert len(bench.jobs) == 1
    bench.comparison.let_go()
    for r in np.linspace(0.1, 0.15, 20):
        bench.follow(r=r)
        bench.tick(CALM / 2)
    assert len(bench.jobs) == 1
    bench.tick(CALM / 2 + 0.01)
    assert len(bench.jobs) == 2
    bench.follow(r=0.15, probe_x=0.9, preset="step")  # which affect no result and no time
    bench.jobs[-1].answer()
    bench.tick()
    assert len(bench.jobs) == 3


def test_timings_are_taken_anew_on_request_and_results_stay_compared():
    """Samples disturbed by another program can be replaced."""
    bench = Bench()
    bench.finish()
    solved = len(bench.engines.backends("solve"))
    bench.comparison.measure_again()
    assert bench.verdict.state == "measuring"
    assert all(one.measurement is None and one.right for one in bench.verdict.standings)
    assert bench.finish().state == "agree"
    assert len(bench.engines.backends("solve")) == solved


@pytest.mark.parametrize("leave", [Comparison.close, Comparison.let_go])
def test_one_session_waits_for_what_another_is_measuring_until_that_is_left(leave):
    silent = Bench(answers=False)
    silent.turn()
    waiting = Bench(results=silent.results)
    waiting.turn(3)
    assert waiting.jobs == []
    leave(silent.comparison)
    assert silent.engines.open_jobs == []
    waiting.turn()
    assert len(waiting.jobs) == 1


def test_an_engine_that_does_not_answer_is_given_up_and_tried_again_later():
    bench = Bench(answers=False)
    bench.turn()
    bench.tick(LONGEST_JOB + 1)
    reason = f"no answer within {LONGEST_JOB:.0f} s"
    assert (bench.verdict.state, bench.verdict.standings[0].note) == ("unavailable", reason)
    assert bench.engines.open_jobs == []
    bench.jobs[0].tell(Refused("late"))
    bench.turn(10)
    assert bench.verdict.standings[0].note == reason
    assert len(bench.jobs) == 1
    bench.tick(RETRY)
    assert len(bench.jobs) == 2


def test_the_time_of_a_job_counts_from_its_begin_in_the_engine_s_queue():
    bench = Bench(answers=False)

    def waiting(before, seconds):
        bench.jobs[0].tell(MeasurementQueued(before))
        bench.tick()
        bench.tick(seconds)
        return set(bench.waiting().values())

    bench.turn()
    assert waiting(39, LONGEST_JOB + 1) == {"waiting: 39 measurements before it"}
    assert waiting(1, LONGEST_SILENCE - 1) == {"waiting: 1 measurement before it"}
    assert waiting(0, LONGEST_JOB - 1) == {"measuring"}
    bench.tick(2)
    assert bench.verdict.standings[0].note == f"no answer within {LONGEST_JOB:.0f} s"


def test_a_silent_queue_is_given_up():
    bench = Bench(answers=False)
    bench.turn()
    bench.jobs[0].tell(MeasurementQueued(3))
    bench.tick()
    bench.tick(LONGEST_SILENCE + 1)
    assert bench.verdict.standings[0].note == f"no answer within {LONGEST_SILENCE:.0f} s"
    bench.tick(RETRY)
    assert set(bench.waiting().values()) == {"measuring"}


def test_a_way_that_is_being_compiled_says_so():
    bench = Bench(answers=False)
    bench.turn()
    (job,) = bench.jobs
    job.tell(Busy("opening"))
    bench.turn()
    assert set(bench.waiting().values()) == {"measuring"}
    job.tell(Busy("compiling, 3.2 s the last time"))
    bench.turn()
    assert [way for way, words in bench.waiting().items() if "3.2 s" in words] == [job.values["backend"]]
    job.tell(Refused("no"))
    bench.turn()
    assert not [words for words in bench.waiting().values() if "3.2 s" in words]


def test_a_refusal_is_shown_with_the_engine_s_own_words():
    verdict = Bench(values=VALUES | {"edges": "open"}).finish()
    assert verdict.state == "unavailable"
    assert "open" in verdict.standings[0].note


def test_the_ways_take_turns_so_that_a_disturbance_meets_all():
    bench = Bench()
    bench.finish()
    asked = bench.engines.backends("sample")
    assert set(asked[:2]) == set(asked[2:4]) == {"cpu_numba", "cpu_numpy"}


# -- large grids and live frames


def test_large_grids_are_compared_small_and_a_single_thread_is_not_sampled():
    bench = Bench(values=VALUES | {"ny": 3000, "nx": 3000}, answers=False)
    bench.turn()
    assert bench.jobs[0].values["ny"] == CHECK_SIDE
    notes = {one.variant.backend: one.note for one in bench.verdict.standings}
    assert "fieldlab bench" in notes["cpu_numpy"]
    assert notes["cpu_numba"] == ""


HUGE = {"ny": 8192, "nx": 8192}
LIVE = Timing("cpu_numba", "", 2, 8192**2, compute=0.1)


def test_a_huge_grid_is_compared_small_and_timed_by_the_live_frames_alone():
    bench = Bench(values=VALUES | HUGE, solves=False)
    bench.finish()
    assert bench.engines.backends("sample") == []
    assert {job.values["ny"] for job in bench.jobs} == {CHECK_SIDE}
    for change in ({"backend": "cpu_numpy"}, {"variant": "one-step"}, {"cells": 600}, {"steps": 0}):
        other = replace(LIVE, **change)
        for _ in range(5):
            bench.comparison.record_live(other)
    assert bench.verdict.standings[0].measurement is None
    for k in range(12):
        bench.comparison.record_live(replace(LIVE, first_call=k == 0))
    live, other = bench.verdict.standings
    assert live.measurement.step.median == 0.05
    assert live.measurement.step.n == 10  # without the first call and the one after it
    assert "fieldlab bench" in other.note


def test_live_frames_count_only_for_huge_grids_and_calm_values():
    bench = Bench(solves=False)
    before = bench.finish().standings[0].measurement
    bench.comparison.record_live(Timing("cpu_numba", "", 2, 600, compute=99.0))
    assert bench.verdict.standings[0].measurement == before
    bench.follow(**HUGE)
    bench.finish()
    bench.follow(**HUGE, dtype="float64")
    for _ in range(12):  # computed before the change, painted after it
        bench.comparison.record_live(LIVE)
    bench.finish()
    assert bench.verdict.standings[0].measurement is None


# -- timings


@pytest.mark.parametrize(("drift", "repeated"), [(0.0, 0), (0.2, 1)])
def test_noisy_timings_are_replaced_by_newer_ones_after_a_while(drift, repeated):
    bench = Bench(drift=drift)
    bench.finish()
    samples = bench.verdict.standings[0].measurement.step.n
    assert samples == (MOST_TIMINGS if drift else 2 * REPEAT)
    before = len(bench.jobs)
    bench.tick(AGAIN)
    bench.tick()
    assert len(bench.jobs) == before + repeated
    assert bench.verdict.standings[0].measurement.step.n == samples


def test_the_roof_is_sampled_in_turn_with_the_ways_on_their_engine():
    """The roof is sampled after jobs with timings, in the same process; its upper quartile counts."""
    bench = Bench(drift=0.2)  # so that sampling continues
    assert math.isnan(bench.comparison.roof("host", "float32"))
    bench.finish()
    asked = [job.roof for job in bench.jobs if job.roof[0]]
    assert set(asked) == {("copy", "float32")}
    assert MOST_TIMINGS <= len(asked) * benchmark_target.ROOF_SAMPLES < MOST_TIMINGS + benchmark_target.ROOF_SAMPLES
    assert 15e9 <= bench.comparison.roof("host", "float32") <= 20e9  # the upper quartile of 10, 10 and 20 each time
    assert math.isnan(bench.comparison.roof("cuda:0", "float32"))


def test_an_engine_measures_a_roof_with_the_timings(monkeypatch):
    monkeypatch.setattr(roofs, "LIVE_BYTES", {"cpu": 2**20})
    monkeypatch.setattr(roofs, "CACHES", 0)
    for roof, count in (("copy", benchmark_target.ROOF_SAMPLES), ("", 0)):
        answer = answer_of(benchmark_target.sample(Diffusion, VALUES, 3, 2, roof, "float32"))
        assert [timing.first_call for timing in answer.timings] == [True, False, False]
        assert len(answer.roof) == count
        assert all(rate > 0 for rate in answer.roof)


@pytest.mark.parametrize(("step", "sampled"), [(ALONE, 1), (1e-4, 2)])
def test_the_first_estimate_needs_few_jobs_without_a_rest_and_is_marked(monkeypatch, step, sampled):
    """The reference result, the results of the compared two, and timings of each; other ways wait.

    Timings are one job, or two if the step that finds the pace is too short to count.
    """
    monkeypatch.setattr(type(RULES), "others", lambda rules, values: [Variant("cpu_numba", "one-step")])
    bench = Bench(numba=step)
    for _ in range(3 + 2 * sampled):  # each tick reads an answer and starts the next job
        bench.tick()
        assert bench.verdict.speed_up is None
    bench.tick()
    assert bench.engines.backends("sample")[: 2 * sampled] == sampled * ["cpu_numba", "cpu_numpy"]
    assert (bench.verdict.state, bench.verdict.early) == ("agree", sampled == 1)
    settled = bench.finish()
    assert (settled.state, settled.early) == ("agree", False)
    (numba,) = (one for one in settled.standings if one.variant == Variant("cpu_numba"))
    assert len(numba.timings) == numba.measurement.step.n + 1  # the first call; the pacing step no longer counts


@pytest.mark.parametrize(("step", "repeat"), [(1e-4, REPEAT), (0.2, 2)])
def test_a_first_estimate_does_not_wait_for_many_long_samples(step, repeat):
    bench = Bench(numba=step)
    bench.finish()
    jobs = [job for job in bench.jobs if job.asked == "sample" and job.values["backend"] == "cpu_numba"]
    second, third = jobs[1:3]
    assert (second.repeat, second.roof[0]) == (repeat, "")
    assert (third.repeat, third.roof[0]) == (REPEAT, "copy")


def timed(steps, step_seconds, **more):
    return Timing("gpu_cupy", "", steps, 100, compute=steps * step_seconds, **more)


FIRST = timed(1, 9.0, first_call=True)


def test_short_samples_are_no_estimate():
    """On a GPU a single step is a launch after a rest, and half of the time of a few steps is launching."""
    taken = TakenTimings().with_more([FIRST, timed(1, 47e-6)], 0.0)
    assert taken.telling == ()
    few = [timed(96, 2.1e-6)] * REPEAT
    taken = taken.with_more([FIRST, *few], 1.0, planned=96)
    assert taken.telling == ()
    many = timed(3840, 1.3e-6)
    assert taken.with_more([FIRST, many], 2.0, planned=3840).telling == (many,)
    again = taken.with_more([FIRST, *few], 2.0, planned=96)
    assert len(again.telling) == 2 * REPEAT  # there are no longer ones
    long, short = timed(1, 0.5), timed(1, 0.4)
    taken = TakenTimings().with_more([FIRST, long], 0.0)
    assert (taken.telling, taken.warm) == ((long,), [])
    assert taken.with_more([FIRST, short], 1.0).telling == (short,)


def test_samples_are_kept_or_dropped_by_the_steps_requested_and_not_by_how_long_they_took():
    """Samples of one plan: every sample counts, including those below 2 ms, and a shorter plan drops none."""
    mixed = [timed(100, seconds) for seconds in (15e-6, 19e-6, 21e-6, 25e-6, 40e-6)]
    assert min(timing.compute for timing in mixed) < TELLING < sorted(t.compute for t in mixed)[2]
    taken = TakenTimings().with_more([FIRST, timed(1, 47e-6)], 0.0, planned=1)
    for count, planned in ((1, 100), (2, 40), (3, 199), (1, 400)):
        taken = taken.with_more([FIRST, *mixed], 1.0, planned=planned)
        assert taken.samples == tuple(count * mixed)


def test_reported_timings_have_the_latest_number_of_cells():
    """The iterations of a picture may vary slightly."""
    taken = TakenTimings((FIRST, timed(1, 0.5), replace(timed(1, 0.4), cells=90)), 0.0)
    assert [(timing.cells, timing.compute) for timing in taken.reported] == [(90, 9.0), (90, 0.4)]
    assert taken.measurement.step.median == 0.4
    assert (TakenTimings().reported, TakenTimings().measurement) == ((), None)


# -- the verdict


def test_a_speed_up_needs_two_compared_and_measured_ways():
    numba, numpy = standing("cpu_numba", 1.0), standing("cpu_numpy", 8.0)
    pair = numba.variant, numpy.variant
    assert judge(*pair, (numba, numpy)).speed_up.ratio == pytest.approx(8.0)
    for broken in (
        Standing(numba.variant, numba.measurement, None),
        Standing(numba.variant, None, numba.agreement),
        standing("cpu_numba", difference=1e-3),
        standing("cpu_numba", difference=float("inf")),
    ):
        assert judge(*pair, (broken, numpy)).speed_up is None
    assert judge(*pair, (standing("cpu_numba", difference=1e-3), numpy)).state == "disagree"


def test_a_gpu_is_compared_with_the_fastest_way_of_the_processor():
    """For a small problem, sixteen threads may take ten times as long as NumPy: a speed-up over them would mislead."""
    gpu, numba, numpy = standing("gpu_cupy", 1.0), standing("cpu_numba", 11.0), standing("cpu_numpy", 2.0)
    pair, waiting = (gpu.variant, numba.variant), Standing(numpy.variant, None, None)
    first = judge(*pair, (gpu, numba, waiting))
    assert (first.opponent, first.early) == (numba.variant, True)
    assert first.speed_up.ratio == pytest.approx(11.0)
    known = judge(*pair, (gpu, numba, numpy))
    assert (known.opponent, known.early, known.title) == (numpy.variant, False, "GPU over CPU")
    assert known.speed_up.ratio == pytest.approx(2.0)
    wrong = standing("cpu_numpy", 2.0, difference=1e-3)
    for other in (wrong, Standing(numpy.variant, None, None, note="too large"), standing("cpu_numpy", 20.0)):
        verdict = judge(*pair, (gpu, numba, other))
        assert (verdict.opponent, verdict.early) == (numba.variant, False)
    assert judge(*pair, (gpu, Standing(numba.variant, None, None), numpy)).speed_up is None


def test_a_gpus_way_is_named_where_another_of_them_is_faster():
    numba, cupy, host = standing("gpu_numba", 2.0), standing("gpu_cupy", 1.0), standing("cpu_numba", 50.0)
    slower = judge(numba.variant, host.variant, (numba, host, cupy))
    assert (slower.title, slower.speed_up.ratio) == ("Numba-CUDA over CPU", pytest.approx(25.0))
    assert judge(cupy.variant, host.variant, (cupy, host, numba)).title == "GPU over CPU"
    wrong, waiting = standing("gpu_cupy", 1.0, difference=1e-3), Standing(cupy.variant, None, None)
    for other in (wrong, waiting, standing("gpu_cupy", 3.0)):
        assert judge(numba.variant, host.variant, (numba, host, other)).title == "GPU over CPU"


def test_the_selected_gpu_backend_meets_numba_and_a_lab_without_gpu_kernels_numpy(monkeypatch):
    monkeypatch.setattr(verdicts, "BACKENDS", BACKENDS)
    monkeypatch.setattr(Backend, "missing", None)
    challenger, opponent, everybody = pairing({"backend": "gpu_numba", "variant": "racing"})
    assert (challenger, opponent) == (Variant("gpu_numba", "racing"), Variant("cpu_numba"))
    assert everybody[:2] == [challenger, opponent]
    assert sorted(one.backend for one in everybody) == sorted(one.name for one in BACKENDS)
    assert pairing({"backend": "cpu_numpy"})[0] == Variant("gpu_cupy")
    host = [Variant("cpu_numba"), Variant("cpu_numpy")]
    assert pairing({"backend": "cpu_numpy"}, ["cpu_numpy", "cpu_numba"]) == (*host, host)
    assert pairing({"backend": "cpu_numpy"}, ["cpu_numpy"]) == (host[1], None, host[1:])
