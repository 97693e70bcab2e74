"""The live comparison with simulated engines, which answer immediately or never, and a simulated clock."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from app.readout import comparison as module
from app.readout.comparison import (
    CALM,
    LONGEST_JOB,
    LONGEST_SILENCE,
    MOST_TIMINGS,
    REST,
    Comparison,
    TakenTimings,
)
from compute.engine import benchmark_target
from compute.engine.messages import Busy, MeasurementQueued, Refused, Solved
from compute.labs.diffusion import Diffusion, cpu_numba, cpu_numpy
from compute.labs.diffusion.benchmark import RULES
from compute.measure import roofs
from compute.measure import verdict as verdicts
from compute.measure.agreement import Agreement, amplification
from compute.measure.rules import AMPLIFIED, CHECK_SIDE, field_agreement
from compute.measure.statistics import Measurement
from compute.measure.timing import Timing
from compute.measure.verdict import ResultCache, Standing, Variant, judge, pairing

VALUES = {
    "backend": "cpu_numba", "variant": "", "device_index": 0, "ny": 20, "nx": 30, "dtype": "float32",
    "edges": "zero-flux", "r": 0.2, "unstable": False, "preset": "ring", "probe_x": 0.5,
}  # fmt: skip


class Engines:
    """Runs every job to its end within the call; records opened and closed labs."""

    def __init__(self, answer=True):
        self.answer, self.opened, self.sampled, self.closed = answer, [], [], 0
        self.roofs = []  # for each sample, the roof requested with it
        self.tells = []  # for each opened lab, its event callback

    def open(self, engine, values, on_event):
        self.opened.append((engine, values))
        self.tells.append(on_event)
        return Handle(self, values, on_event)


class Handle:
    def __init__(self, engines, values, on_event):
        self.engines, self.values, self.on_event = engines, values, on_event

    def sample(self, steps, repeat, roof="", dtype=""):
        self.engines.sampled.append(self.values["backend"])
        self.engines.roofs.append(roof)
        self.run(benchmark_target.sample(Diffusion, self.values, steps, repeat, roof, dtype))

    def solve(self, steps, seed):
        self.run(benchmark_target.solve(Diffusion, self.values, steps, seed))

    def run(self, work):
        if not self.engines.answer:
            return
        while True:
            try:
                next(work)
            except StopIteration as stop:
                self.on_event(stop.value)
                return
            except ValueError as error:
                self.on_event(Refused(str(error)))
                return

    def close(self):
        self.engines.closed += 1


class Bench:
    """A comparison with simulated engines and clock."""

    def __init__(self, results=None, **engine):
        self.now, self.engines, self.results = 0.0, Engines(**engine), results or ResultCache()
        self.comparison = Comparison("diffusion", RULES, self.engines.open, self.results, clock=lambda: self.now)
        self.comparison.follow(VALUES)

    def turn(self, times=1):
        for _ in range(times):
            self.now += max(CALM, REST) + 0.01
            self.comparison.tick()

    def finish(self, most=2000):
        """Advance until the comparison requests nothing: a noisier machine needs more samples."""
        for _ in range(most):
            asked = len(self.engines.opened)
            self.turn(10)
            if len(self.engines.opened) == asked:
                return
        raise AssertionError("it asks for ever")

    def verdict(self, most=120):
        for _ in range(most):
            self.turn()
            verdict = self.comparison.verdict()
            if verdict.state != "measuring":
                return verdict
        return verdict


@pytest.fixture(autouse=True)
def cpu_only(monkeypatch):
    """Restrict the tests to two backends that are always available, on two threads."""

    monkeypatch.setattr(verdicts, "cpu_count", lambda: 2)
    monkeypatch.setattr(module, "AGAIN", math.inf)  # the result must not depend on the noise of this machine

    monkeypatch.setattr(verdicts, "BACKENDS", [b for b in verdicts.BACKENDS if b.device == "host"])


def standing(name, seconds=1.0, difference=1e-8):
    timings = [Timing(name, "", 10, 100, compute=seconds * (1 + 0.001 * k)) for k in range(9)]
    return Standing(Variant(name), Measurement.of(timings), Agreement(difference, 1e-6, "", ""))


def test_right_results_give_a_speed_up_within_its_spread():
    bench = Bench()
    assert bench.verdict().state == "agree"
    bench.finish()
    verdict = bench.verdict()
    assert verdict.title == "Numba over NumPy"
    assert verdict.speed_up.low <= verdict.speed_up.ratio <= verdict.speed_up.high
    assert 0 < verdict.agreement.difference < 1e-6
    assert "30 × 20 cells" in verdict.agreement.about
    assert [s.variant.backend for s in verdict.standings] == ["cpu_numba", "cpu_numpy"]


def test_timings_are_taken_anew_on_request_and_results_stay_compared():
    """Samples disturbed by another program can be replaced."""
    bench = Bench()
    assert bench.verdict().state == "agree"
    bench.finish()
    solved = len(bench.engines.opened) - len(bench.engines.sampled)
    bench.comparison.measure_again()
    again = bench.comparison.verdict()
    assert again.state == "measuring"
    assert all(one.measurement is None and one.right for one in again.standings)
    assert bench.verdict().state == "agree"
    assert len(bench.engines.opened) - len(bench.engines.sampled) == solved


def slightly_off(u, out, r, edges, steps):
    cpu_numpy.step(u, out, 1.001 * r, edges, steps)


def test_a_planted_disagreement_shows_no_speed_up_and_no_time(monkeypatch):
    monkeypatch.setattr(cpu_numba, "step", slightly_off)
    bench = Bench()
    bench.verdict()
    bench.finish()
    verdict = bench.comparison.verdict()
    assert verdict.state == "disagree"
    assert verdict.speed_up is None
    assert verdict.agreement.difference > verdict.agreement.tolerance
    assert verdict.standings[0].measurement is None
    assert verdict.standings[1].measurement is not None
    assert set(bench.engines.sampled) == {"cpu_numpy"}


def blowing_up(r, **values):
    return {**VALUES, "ny": 64, "nx": 64, "r": r, "unstable": True, **values}


@pytest.mark.parametrize("r", [0.26, 0.3, 0.35, 0.5])
def test_a_field_that_blows_up_is_no_disagreement(r):
    """At r = 0.3 NumPy in float32 is 1.7e-6 from float64 after the usual 25 steps: rounding, amplified 1.4^25 times."""
    bench = Bench()
    bench.comparison.follow(blowing_up(r))
    verdict = bench.verdict()
    assert verdict.state == "agree"
    assert "unstable: rounding is amplified" in verdict.agreement.said
    assert verdict.agreement.tolerance <= 1e-5  # an error is still detected


def test_a_planted_disagreement_is_caught_in_a_field_that_blows_up(monkeypatch):
    monkeypatch.setattr(cpu_numba, "step", slightly_off)
    for r in (0.26, 0.3, 0.5):
        bench = Bench()
        bench.comparison.follow(blowing_up(r))
        bench.verdict()
        assert bench.comparison.verdict().state == "disagree", r
        assert bench.comparison.verdict().speed_up is None


def test_rounding_is_amplified_by_the_checkerboard_s_factor():
    """Two steps at r = 1/2, where the checkerboard grows threefold: (1 + 3) / 2. It decays below the limit."""
    assert amplification(3.0, 2) == 2.0
    assert [RULES.growth({"r": r}) for r in (0.0, 0.2, 0.25, 0.5)] == [1, 1, 1, 3]
    assert RULES.compared_after({"r": 0.25}) == RULES.check_steps
    for r in np.linspace(0.251, 0.5, 60):
        steps, factor = RULES.compared_after({"r": r}), abs(1 - 8 * r)
        assert sum(factor**k for k in range(steps)) <= AMPLIFIED * steps
        assert steps == RULES.check_steps or sum(factor**k for k in range(steps + 1)) > AMPLIFIED * (steps + 1)
    right = np.ones((4, 4))
    assert field_agreement(right, right + 5e-6, 1e-6, 4).agrees is False
    assert field_agreement(right, right + 5e-6, 1e-6, 4, 10.0).agrees is True


def test_the_checkerboard_grows_by_the_factor_that_is_said():
    """On an even periodic grid one step multiplies it by 1 - 8 r exactly."""
    board = np.indices((8, 8)).sum(axis=0) % 2 * 2.0 - 1.0
    out = np.empty_like(board)
    cpu_numpy.step(board, out, 0.5, "periodic", 1)
    np.testing.assert_array_equal(out, -3.0 * board)
    assert RULES.growth({"r": 0.5}) == 3.0


def test_times_taken_while_it_was_right_are_not_shown_once_it_is_wrong(monkeypatch):
    bench = Bench()
    assert bench.verdict().state == "agree"
    monkeypatch.setattr(cpu_numba, "step", slightly_off)
    bench.comparison.follow({**VALUES, "r": 0.1})
    bench.turn(10)
    verdict = bench.comparison.verdict()
    assert verdict.state == "disagree"
    assert verdict.standings[0].measurement is None


def test_nothing_is_asked_until_the_parameters_are_calm():
    bench = Bench()
    for r in np.linspace(0.1, 0.2, 20):
        bench.now += CALM / 2
        bench.comparison.follow({**VALUES, "r": r})
        bench.comparison.tick()
    assert bench.engines.opened == []
    bench.turn()
    assert len(bench.engines.opened) == 1


def test_what_does_not_matter_for_the_comparison_does_not_restart_it():
    bench = Bench()
    bench.now += CALM + 0.01
    bench.comparison.follow({**VALUES, "probe_x": 0.9, "preset": "step"})
    bench.comparison.tick()
    assert len(bench.engines.opened) == 1


@pytest.fixture
def few(monkeypatch):
    """Let five samples of each way suffice, independent of the noise of this machine."""
    monkeypatch.setattr(module, "settled", lambda samples: len(samples) >= 5)


def test_a_known_setting_is_not_asked_again_and_other_sessions_share_it(few):
    first = Bench()
    first.verdict()
    first.finish()
    asked = len(first.engines.opened)
    first.turn(20)
    assert len(first.engines.opened) == asked
    second = Bench(results=first.results)
    second.turn()
    assert second.comparison.verdict().state == "agree"
    assert second.engines.opened == []


def test_r_changes_the_check_but_not_the_timings(few):
    bench = Bench()
    bench.verdict()
    bench.finish()
    before = len(bench.engines.opened)
    bench.comparison.follow({**VALUES, "r": 0.1})
    bench.turn(20)
    fresh = bench.engines.opened[before:]
    assert len(fresh) == 3  # reference, Numba, NumPy
    assert all(values["r"] == 0.1 for _, values in fresh)
    assert bench.comparison.verdict().state == "agree"


def test_the_field_that_is_kept_has_memory_of_its_own(monkeypatch):
    """The engine's field is a view of an in-memory file, which stays open while any array refers to it."""
    sent, took = [], Comparison._take

    def take(self, job, event):
        if isinstance(event, Solved):
            event = replace(event, field=np.frombuffer(bytearray(event.field.tobytes()), event.field.dtype))
            sent.append(event.field)
        took(self, job, event)

    monkeypatch.setattr(Comparison, "_take", take)
    bench = Bench()
    bench.turn(20)
    key, kept = bench.comparison._right
    assert len(sent) > 0
    assert np.array_equal(kept, sent[0])
    for field in (kept, bench.results.right(key)):
        assert not any(np.shares_memory(field, one) for one in sent)


def test_every_lab_that_was_opened_is_closed():
    bench = Bench()
    bench.verdict()
    bench.comparison.close()
    assert bench.engines.closed == len(bench.engines.opened) > 4


@pytest.mark.parametrize("leave", [Comparison.close, Comparison.let_go])
def test_one_session_waits_for_what_another_is_measuring_until_that_is_left(leave):
    silent = Bench(answer=False)
    silent.turn()
    waiting = Bench(results=silent.results)
    waiting.turn(3)
    assert waiting.engines.opened == []
    leave(silent.comparison)
    waiting.turn()
    assert len(waiting.engines.opened) == 1


def test_who_rested_goes_on_where_the_job_was_left():
    bench = Bench(answer=False)
    bench.turn()
    bench.comparison.let_go()
    assert bench.engines.closed == 1
    bench.engines.answer = True
    assert bench.verdict().state == "agree"


def test_an_engine_that_does_not_answer_is_given_up_in_words():
    bench = Bench(answer=False)
    bench.turn()
    bench.now += LONGEST_JOB + 1
    bench.comparison.tick()
    verdict = bench.comparison.verdict()
    assert verdict.state == "unavailable"
    assert "no answer within" in verdict.standings[0].note
    assert bench.engines.closed == 1
    bench.turn(10)
    assert len(bench.engines.opened) == 1  # until RETRY has passed
    bench.now += module.RETRY
    bench.turn()
    assert len(bench.engines.opened) == 2


def test_a_job_that_waits_for_others_says_so_and_its_time_counts_from_when_it_begins():
    bench = Bench(answer=False)

    def hear(before, seconds):
        bench.engines.tells[0](MeasurementQueued(before))
        bench.comparison.tick()
        bench.now += seconds
        bench.comparison.tick()
        return {standing.waiting for standing in bench.comparison.verdict().standings}

    bench.turn()
    assert hear(39, LONGEST_JOB + 1) == {"waiting: 39 measurements before it"}
    assert hear(1, LONGEST_JOB + 1) == {"waiting: 1 measurement before it"}
    assert hear(0, LONGEST_JOB - 1) == {"measuring"}
    bench.now += 2
    bench.comparison.tick()
    assert bench.comparison.verdict().standings[0].note == f"no answer within {LONGEST_JOB:.0f} s"
    assert bench.engines.closed == 1


def test_a_queue_that_is_silent_for_long_is_given_up():
    bench = Bench(answer=False)
    bench.turn()
    bench.engines.tells[0](MeasurementQueued(3))
    bench.comparison.tick()
    bench.now += LONGEST_SILENCE - 1
    bench.comparison.tick()
    assert bench.comparison.verdict().state == "measuring"
    bench.now += 2
    bench.comparison.tick()
    assert bench.comparison.verdict().standings[0].note == f"no answer within {LONGEST_SILENCE:.0f} s"
    bench.now += module.RETRY
    bench.turn()
    assert {standing.waiting for standing in bench.comparison.verdict().standings} == {"measuring"}


def test_a_way_that_is_being_compiled_says_so_instead_of_measuring():
    bench = Bench(answer=False)

    def waiting():
        return {standing.variant.backend: standing.waiting for standing in bench.comparison.verdict().standings}

    bench.turn()
    ((_, values),), (tell,) = bench.engines.opened, bench.engines.tells
    assert set(waiting().values()) == {"measuring"}
    tell(Busy("opening"))
    bench.turn()
    assert set(waiting().values()) == {"measuring"}
    tell(Busy("compiling, 3.2 s the last time"))
    bench.turn()
    assert {way for way, words in waiting().items() if words.startswith("compiling, 3.2 s")} == {values["backend"]}
    tell(Refused("no"))
    bench.turn()
    assert "compiling, 3.2 s the last time" not in waiting().values()


def test_a_refusal_is_shown_with_the_engine_s_own_words():
    bench = Bench()
    bench.comparison.follow({**VALUES, "edges": "open"})
    verdict = bench.verdict()
    assert verdict.state == "unavailable"
    assert "open" in verdict.standings[0].note


def test_an_answer_that_comes_too_late_is_ignored():
    bench = Bench(answer=False)
    bench.turn()
    old = bench.comparison
    job = partial(old._answers.append, (old._job, Refused("late")))
    bench.now += LONGEST_JOB + 1
    old.tick()
    before = old.verdict().standings[0].note
    job()
    old.tick()
    assert old.verdict().standings[0].note == before


def test_large_grids_are_compared_small_and_a_single_thread_is_not_sampled():
    bench = Bench()
    bench.comparison.follow({**VALUES, "ny": 3000, "nx": 3000})
    bench.turn(2)
    assert {values["ny"] for _, values in bench.engines.opened} == {CHECK_SIDE}
    notes = {s.variant.backend: s.note for s in bench.comparison.verdict().standings}
    assert "fieldlab bench" in notes["cpu_numpy"]
    assert notes["cpu_numba"] == ""


def huge(side, **changes):
    return {**VALUES, "ny": side, "nx": side, **changes}


def test_a_huge_grid_is_compared_small_and_timed_by_the_live_frames_alone():
    bench = Bench()
    bench.comparison.follow(huge(8192))
    bench.turn(10)
    assert bench.engines.sampled == []
    assert {values["ny"] for _, values in bench.engines.opened} == {CHECK_SIDE}
    for k in range(12):
        bench.comparison.record_live(Timing("cpu_numba", "", 2, 8192**2, compute=0.1, first_call=k == 0))
    live, other = bench.comparison.verdict().standings
    assert live.measurement.step.median == 0.05
    assert live.measurement.step.n == 10  # without the first call and the one after it
    assert "fieldlab bench" in other.note


def test_live_frames_do_not_count_where_a_way_is_sampled_apart():
    bench = Bench()
    bench.verdict()
    before = bench.comparison.verdict().standings[0].measurement
    bench.comparison.record_live(Timing("cpu_numba", "", 2, 600, compute=99.0))
    assert bench.comparison.verdict().standings[0].measurement == before


def test_live_frames_of_another_setting_do_not_count():
    bench = Bench()
    bench.comparison.follow(huge(8192))
    bench.turn(10)
    for backend, cells, steps in (("cpu_numpy", 8192**2, 1), ("cpu_numba", 600, 1), ("cpu_numba", 8192**2, 0)):
        for _ in range(5):
            bench.comparison.record_live(Timing(backend, "", steps, cells, compute=0.1))
    assert bench.comparison.verdict().standings[0].measurement is None


def test_live_frames_do_not_count_until_the_parameters_are_calm():
    bench, timing = Bench(), Timing("cpu_numba", "", 2, 8192**2, compute=0.1)
    bench.comparison.follow(huge(8192))
    bench.turn(10)
    bench.comparison.follow(huge(8192, dtype="float64"))
    for _ in range(5):  # computed before the change, painted after it
        bench.comparison.record_live(timing)
    assert bench.comparison._taken(Variant("cpu_numba")).timings == ()
    bench.now += CALM
    bench.comparison.record_live(timing)
    assert len(bench.comparison._taken(Variant("cpu_numba")).timings) == 1


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


def test_the_selected_gpu_backend_meets_numba(monkeypatch):
    from compute.devices.backends import BACKENDS, Backend

    monkeypatch.setattr(verdicts, "BACKENDS", BACKENDS)
    monkeypatch.setattr(Backend, "missing", None)
    challenger, opponent, everybody = pairing({"backend": "gpu_numba", "variant": "racing"})
    assert (challenger, opponent) == (Variant("gpu_numba", "racing"), Variant("cpu_numba"))
    assert [c.backend for c in everybody] == ["gpu_numba", "cpu_numba", "cpu_numpy", "gpu_wgpu", "gpu_cupy"]
    assert pairing({"backend": "cpu_numpy"})[0] == Variant("gpu_cupy")
    verdict = judge(challenger, opponent, tuple(Standing(c, None, None) for c in everybody))
    assert verdict.title == "GPU over CPU"


def test_a_gpus_way_is_named_where_another_of_them_is_faster():
    numba, cupy, host = standing("gpu_numba", 2.0), standing("gpu_cupy", 1.0), standing("cpu_numba", 50.0)
    slower = judge(numba.variant, host.variant, (numba, host, cupy))
    assert (slower.title, slower.speed_up.ratio) == ("Numba-CUDA over CPU", pytest.approx(25.0))
    assert judge(cupy.variant, host.variant, (cupy, host, numba)).title == "GPU over CPU"
    wrong, waiting = standing("gpu_cupy", 1.0, difference=1e-3), Standing(cupy.variant, None, None)
    for other in (wrong, waiting, standing("gpu_cupy", 3.0)):
        assert judge(numba.variant, host.variant, (numba, host, other)).title == "GPU over CPU"


def test_a_lab_without_kernels_for_the_gpu_that_is_here_is_compared_on_the_host(monkeypatch):
    from compute.devices.backends import BACKENDS, Backend

    monkeypatch.setattr(verdicts, "BACKENDS", BACKENDS)
    monkeypatch.setattr(Backend, "missing", None)
    host = [Variant("cpu_numba"), Variant("cpu_numpy")]
    assert pairing({"backend": "cpu_numpy"}, ["cpu_numpy", "cpu_numba"]) == (*host, host)
    assert pairing({"backend": "cpu_numpy"}, ["cpu_numpy"]) == (host[1], None, host[1:])
    engines = Engines()
    comparison = Comparison("diffusion", RULES, engines.open, ResultCache(), lambda: 0.0, ["cpu_numpy", "cpu_numba"])
    comparison.follow(VALUES)
    verdict = comparison.verdict()
    assert (verdict.challenger, verdict.opponent) == tuple(host)
    assert [standing.variant for standing in verdict.standings if not standing.variant.name] == host


def test_the_ways_take_turns_so_that_a_disturbance_meets_all():
    bench = Bench()
    bench.turn(40)
    asked = [values["backend"] for _, values in bench.engines.opened[3:]]  # after reference, Numba, NumPy
    assert set(asked[:2]) == set(asked[2:4]) == {"cpu_numba", "cpu_numpy"}


def test_noisy_samples_are_replaced_by_newer_ones_but_never_more_than_the_most():
    wild = tuple(Timing("cpu_numpy", "", 1, 100, compute=float(1 + k % 7)) for k in range(2 + MOST_TIMINGS))
    full = TakenTimings(wild, at=0.0)
    calm = [Timing("cpu_numpy", "", 1, 100, compute=1.0, first_call=k == 0) for k in range(MOST_TIMINGS + 1)]
    fresh = full.with_more(calm, now=9.0)
    assert fresh.timings[:2] == wild[:2]
    assert fresh.warm == [1.0] * MOST_TIMINGS
    assert fresh.at == 9.0


@pytest.mark.parametrize(("spread", "asks"), [(0.0, 0), (1.0, 1)])
def test_only_noisy_samples_are_asked_for_again(monkeypatch, spread, asks):
    monkeypatch.setattr(module, "settled", lambda samples: False)
    bench = Bench()
    bench.finish()
    monkeypatch.setattr(module, "AGAIN", 8.0)
    for variant in (Variant("cpu_numba"), Variant("cpu_numpy")):
        values = [1.0 + spread * (k % 7) for k in range(MOST_TIMINGS + 2)]
        timings = tuple(Timing(variant.backend, "", 1, 600, compute=value) for value in values)
        key = bench.comparison._timed_key(variant)
        bench.results.put(key, TakenTimings(timings, at=bench.now))
    before = len(bench.engines.opened)
    bench.turn(5)
    assert len(bench.engines.opened) == before
    bench.now += 8.0
    bench.turn()
    assert len(bench.engines.opened) == before + asks


def test_the_roof_is_sampled_in_turn_with_the_ways_on_their_engine(monkeypatch):
    """The roof is sampled after each job with timings, in the same process; its upper quartile counts."""
    asked = []

    def planted(device, kind, dtype, count):
        asked.append((device.name, kind, dtype))
        yield
        return (10e9, 10e9, 20e9)[:count]

    monkeypatch.setattr(benchmark_target, "sampled_live", planted)
    monkeypatch.setattr(module, "settled", lambda warm: False)  # sampling continues however quiet this machine is
    bench = Bench()
    assert math.isnan(bench.comparison.roof("host", "float32"))
    bench.verdict()
    bench.turn(20)
    assert set(asked) == {("host", "copy", "float32")}
    assert len(asked) == bench.engines.roofs.count("copy") >= 2
    assert 15e9 <= bench.comparison.roof("host", "float32") <= 20e9  # the upper quartile of 10, 10 and 20 each time
    assert math.isnan(bench.comparison.roof("cuda:0", "float32"))
    assert len(bench.results.get(("roof", "host", "copy", "float32"))) <= MOST_TIMINGS + benchmark_target.ROOF_SAMPLES


def test_no_more_roofs_are_asked_for_than_times(monkeypatch):
    asked = []

    def planted(device, kind, dtype, count):
        asked.append(kind)
        yield
        return (1.0,) * count

    monkeypatch.setattr(benchmark_target, "sampled_live", planted)
    bench = Bench()
    bench.results.put(("roof", "host", "copy", "float32"), (1.0,) * MOST_TIMINGS)
    bench.verdict()
    bench.turn(10)
    assert asked == []


def test_a_job_brings_a_roof_with_its_timings(monkeypatch):
    monkeypatch.setattr(roofs, "LIVE_BYTES", {"cpu": 2**20})
    monkeypatch.setattr(roofs, "CACHES", 0)
    heard = []
    handle = Handle(Engines(), VALUES, heard.append)
    handle.sample(3, 2, "copy", "float32")
    assert len(heard[0].timings) == 3
    assert len(heard[0].roof) == benchmark_target.ROOF_SAMPLES
    assert all(rate > 0 for rate in heard[0].roof)
    handle.sample(3, 2)
    assert heard[1].roof == ()


@pytest.mark.parametrize(("telling", "sampled"), [(0.0, 1), (math.inf, 2)])
def test_the_first_estimate_needs_few_jobs_without_a_rest_and_is_marked(monkeypatch, telling, sampled):
    """The reference result, the results of the compared two, and timings of each; other ways wait.

    Timings are one job, or two if the step that finds the pace is too short to count.
    """
    monkeypatch.setattr(module, "REST", 100.0)
    monkeypatch.setattr(module, "ALONE", telling)
    monkeypatch.setattr(module, "TELLING", 0.0)
    bench = Bench()
    pair = [Variant("cpu_numba"), Variant("cpu_numpy")]
    other = Variant("cpu_numba", "one-step")
    monkeypatch.setattr(Comparison, "_ways", property(lambda self: (*pair, [*pair, other])))
    bench.turn()
    for _ in range(3 + 2 * sampled):  # each tick reads an answer and starts the next job
        assert bench.comparison.verdict().speed_up is None
        bench.comparison.tick()
    assert bench.engines.sampled == sampled * ["cpu_numba", "cpu_numpy"]
    first = bench.comparison.verdict()
    assert (first.state, first.early) == ("agree", sampled == 1)
    for _ in range(12):
        bench.now += 101.0
        bench.comparison.tick()
    settled = bench.comparison.verdict()
    assert (settled.state, settled.early) == ("agree", False)
    (numba,) = (one for one in settled.standings if one.variant == pair[0])
    assert len(numba.timings) == numba.measurement.step.n + 1  # the first call; the pacing step no longer counts


@pytest.mark.parametrize(("pace", "repeat"), [(1e-6, module.REPEAT), (module.SOON / 2.5, 2), (4 * module.SOON, 1)])
def test_a_first_estimate_does_not_wait_for_many_long_samples(pace, repeat):
    bench = Bench()
    variant = Variant("cpu_numpy")
    bench.results.put(bench.comparison._timed_key(variant), TakenTimings((timed(1, pace), timed(1, pace)), at=0.0))
    job = module.SampleTask((), (), "host", {}, 1, module.REPEAT, "copy", "float32")
    soon = bench.comparison._soon(job, variant)
    assert (soon.repeat, soon.roof) == (repeat, "")


def timed(steps, step_seconds, **more):
    return Timing("gpu_cupy", "", steps, 100, compute=steps * step_seconds, **more)


def test_what_is_too_short_is_no_estimate():
    """On a GPU a single step is a launch after a rest, and half of the time of a few steps is launching."""
    taken = TakenTimings().with_more([timed(1, 9.0, first_call=True), timed(1, 47e-6)], 0.0)
    assert taken.telling == ()
    few = [timed(96, 2.1e-6)] * module.REPEAT
    taken = taken.with_more([timed(1, 1e-4, first_call=True), *few], 1.0, planned=96)
    assert taken.telling == ()
    many = timed(3840, 1.3e-6)
    assert taken.with_more([timed(1, 1e-4, first_call=True), many], 2.0, planned=3840).telling == (many,)
    again = taken.with_more([timed(1, 1e-4, first_call=True), *few], 2.0, planned=96)
    assert len(again.telling) == 2 * module.REPEAT  # there are no longer ones


def test_samples_are_kept_or_dropped_by_the_steps_requested_and_not_by_how_long_they_took():
    """Samples of one plan: every sample counts, including those below 2 ms, and a shorter plan drops none."""
    mixed = [timed(100, seconds) for seconds in (15e-6, 19e-6, 21e-6, 25e-6, 40e-6)]
    taken = TakenTimings().with_more([timed(1, 9.0, first_call=True), timed(1, 47e-6)], 0.0, planned=1)
    taken = taken.with_more([timed(1, 1e-4, first_call=True), *mixed], 1.0, planned=100)
    assert min(timing.compute for timing in mixed) < module.TELLING < sorted(t.compute for t in mixed)[2]
    assert taken.samples == tuple(mixed)
    taken = taken.with_more([timed(1, 1e-4, first_call=True), *mixed], 2.0, planned=40)
    taken = taken.with_more([timed(1, 1e-4, first_call=True), *mixed], 3.0, planned=199)
    assert taken.samples == tuple(3 * mixed)
    assert taken.with_more([timed(1, 1e-4, first_call=True), *mixed], 4.0, planned=400).samples == tuple(mixed)


def test_a_long_step_by_itself_is_an_estimate():
    long = timed(1, 0.5)
    taken = TakenTimings().with_more([timed(1, 9.0, first_call=True), long], 0.0)
    assert (taken.telling, taken.warm) == ((long,), [])
    short = timed(1, 0.4)
    assert taken.with_more([timed(1, 9.0, first_call=True), short], 1.0).telling == (short,)


def test_what_is_told_of_timings_is_found_once_for_all_who_show_it():
    first, long, newest = timed(1, 9.0, first_call=True), timed(1, 0.5), replace(timed(1, 0.4), cells=90)
    taken = TakenTimings((first, long, newest), 0.0)
    assert [timing.cells for timing in taken.reported] == [90, 90]  # the iterations of a picture may vary slightly
    assert (taken.reported[0].compute, taken.reported[1].compute) == (9.0, 0.4)
    assert taken.measurement is taken.measurement
    assert taken.measurement.step.median == 0.4
    assert (TakenTimings().reported, TakenTimings().measurement) == ((), None)


def test_the_first_values_are_asked_about_at_once_and_changed_ones_when_they_are_calm():
    bench = Bench(answer=False)
    bench.comparison.tick()
    assert len(bench.engines.opened) == 1
    bench.comparison.let_go()
    bench.now += REST + 0.01
    bench.comparison.follow(VALUES | {"r": 0.1})
    bench.comparison.tick()
    assert len(bench.engines.opened) == 1
    bench.now += CALM
    bench.comparison.tick()
    assert len(bench.engines.opened) == 2
