"""Measurement of curves: checks before timing, skipped points, order, and the end."""

from __future__ import annotations

import itertools
import time
import weakref
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from compute.devices.backends import Backend
from compute.devices.devices import Host, HostStopwatch
from compute.labs.crossover import lab
from compute.measure.rates import Cache
from compute.measure.sampling import LEAST_SAMPLES
from compute.measure.timing import Timing
from compute.ways import runner as runners
from compute.ways import sweep as sweeps
from compute.ways.catalogue import workload
from compute.ways.ecosystems import Extra, ecosystem_of
from compute.ways.plan import SweepPlan
from compute.ways.roofline import Roof
from compute.ways.runner import FirstCall, WorkloadRunner
from compute.ways.source import DeclaredWay
from compute.ways.sweep import ROUNDS, TRANSFERS, Sweep
from compute.ways.workload import Case, Way
from tests.comparing import NoMeter

NUMPY = ecosystem_of("cpu_numpy")
INSTALL = "pip install 'fieldlab[magic]'"


@dataclass(frozen=True)
class Planted(Way):
    """A way of add_one defined in this file."""

    call: object = None

    @property
    def declared(self):
        return DeclaredWay(self.name, "", Path(), "", "")

    def function(self):
        return self.call


def planted(name, call):
    return Planted("add_one", NUMPY, name, call)


def add_two_at_last(a):
    a += 1
    if a.size > 50:
        a[-1] += 1


def broken(a):
    raise RuntimeError("no such\nkernel")


def plan(*ways, sizes=(10, 100, 1000), **values):
    return SweepPlan(workload("add_one"), ways, sizes, **{"budget": 0.3, **values})


def finish(sweep):
    for progress in sweep.measure():
        assert 0 <= progress.done <= 1
        assert progress.doing
    return sweep


def series(sweep, way):
    """Return seconds per call by n, of right results only."""
    return {n: p.measurement.step for (name, n), p in sweep.points.items() if name == way and p.measurement}


def test_a_way_that_disagrees_at_one_n_has_no_time_at_any():
    right = workload("add_one").way("cpu_numpy")
    sweep = finish(Sweep(plan(planted("wrong", add_two_at_last), right)))
    wrong = [point for (name, _), point in sweep.points.items() if name == "cpu_numpy_wrong"]
    assert [point.status for point in wrong] == ["disagrees"] * 3
    assert "at n = 100 it differs by" in wrong[0].reason
    assert all(not point.timings and point.measurement is None for point in wrong)
    assert series(sweep, "cpu_numpy_wrong") == {}
    assert list(series(sweep, "cpu_numpy")) == [10, 100, 1000]


def test_a_way_that_raises_or_is_not_declared_is_reported_and_the_others_are_measured():
    ways = planted("broken", broken), Way("add_one", NUMPY, "unwritten"), workload("add_one").way("cpu_numpy")
    points = finish(Sweep(plan(*ways))).points
    assert {points[way, 10].status for way in ("cpu_numpy_broken", "cpu_numpy_unwritten")} == {"failed"}
    assert points["cpu_numpy_broken", 10].reason == "RuntimeError: no such kernel"
    assert points["cpu_numpy_unwritten", 10].reason.startswith(
        "ValueError: compute.labs.crossover.workloads.add_one has no way 'cpu_numpy_unwritten'"
    )
    assert points["cpu_numpy", 10].status == "measured"


def test_no_reference_is_computed_for_an_n_that_no_way_reaches(scripted, monkeypatch):
    scripted.seconds = lambda way, n: 1e-2 * n
    reference, seen = Case.reference, []
    monkeypatch.setattr(Case, "reference", lambda case, inputs: seen.append(case.n) or reference(case, inputs))
    sweep = finish(Sweep(plan(A, budget=1.2), Clock(1e-3)))
    assert [point.status for point in sweep.points.values()] == ["measured", "skipped", "skipped"]
    assert seen == [10]


@pytest.mark.parametrize("slow", ["inputs", "reference"])
def test_a_first_n_that_takes_too_long_is_skipped_before_its_arrays_are_made(scripted, monkeypatch, slow):
    scripted.seconds = lambda way, n: 1e-6
    known, large, seen = workload("add_one"), 10**6, []

    def sleeping(name):
        given = getattr(known, name)

        def made(first, *rest):
            n = first if name == "inputs" else first.size
            seen.append(n)
            time.sleep(1e-5 * n if name == slow else 0.0)
            return given(first, *rest)

        return made

    stub = replace(known, inputs=sleeping("inputs"), reference=sleeping("reference"))
    sweep = finish(Sweep(SweepPlan(stub, (A, B), (large,), budget=1.0, longest=0.05)))
    assert {point.status for point in sweep.points.values()} == {"skipped"}
    assert "s for the reference; limit" in sweep.points["cpu_numpy_a", large].reason
    assert 0 < max(seen) < 10**4
    quick = finish(Sweep(SweepPlan(replace(stub, inputs=known.inputs), (A,), (100,), budget=1.0, longest=5.0)))
    assert {point.status for point in quick.points.values()} == {"measured"}


def test_a_slow_way_of_a_quick_reference_is_skipped_at_its_first_n_and_others_are_measured():
    seen = []

    def slow(a):
        seen.append(a.size)
        time.sleep(1e-4 * a.size)
        a += 1

    large, right = 10**6, workload("add_one").way("cpu_numpy")
    ways = planted("slow", slow), right
    sweep = finish(Sweep(SweepPlan(workload("add_one"), ways, (large,), budget=1.0, longest=5.0)))
    assert sweep.points["cpu_numpy_slow", large].status == "skipped"
    assert "a call; " in sweep.points["cpu_numpy_slow", large].reason
    assert 0 < max(seen) < 10**4
    assert sweep.points[right.name, large].status == "measured"


def test_time_of_others_between_two_slices_is_not_counted(monkeypatch):
    elsewhere = 0.0
    monkeypatch.setattr(sweeps, "perf_counter", lambda: time.perf_counter() + elsewhere)
    sweep = Sweep(plan(workload("add_one").way("cpu_numpy"), longest=1000.0))
    for _ in sweep.measure():
        elsewhere += 10_000.0
    assert {point.status for point in sweep.points.values()} == {"measured"}
    assert all(point.handling < 10_000 for point in sweep.points.values())


def test_a_missing_way_is_reported_with_its_install_command():
    absent = Way("add_one", Extra("gpu_magic", "cuda", Host, ("magic_wands",), "Magic", installed_by=INSTALL), "")
    sweep = finish(Sweep(plan(absent)))
    assert {point.status for point in sweep.points.values()} == {"missing"}
    reason = f"the package magic_wands is not installed; {INSTALL}"
    assert sweep.points["gpu_magic", 10].reason == reason


def test_real_ways_are_measured_with_first_call_launch_and_transfer():
    ways = workload("add_one").way("cpu_numpy"), workload("add_one").way("cpu_numba")
    sweep = finish(Sweep(plan(*ways, split=True, longest_call=60.0)))  # so that a busy machine skips nothing
    for point in sweep.points.values():
        measured = point.measurement
        assert measured.step.n == len(point.timings) >= ROUNDS
        assert 0 < measured.step.q1 <= measured.step.median <= measured.step.q3
        assert measured.first_call > 0
        assert point.transfer.median == 0
        assert len(point.transfers) == TRANSFERS
        assert point.launch.n == measured.step.n


@pytest.fixture
def scratch(monkeypatch):
    """Return the arrays that fill the caches, 4 KiB each unless the caches are larger."""
    monkeypatch.setitem(runners.SCRATCH_BYTES, "cpu", 2**12)
    monkeypatch.setattr(runners, "host_caches", lambda: ())
    monkeypatch.setattr(runners, "_scratch", {})
    return runners._scratch


def test_evicting_times_one_call_at_a_time(scratch):
    sweep = finish(Sweep(plan(workload("add_one").way("cpu_numpy"), evict=True)))
    assert {timing.steps for point in sweep.points.values() for timing in point.timings} == {1}
    (values,) = scratch.values()
    assert values[0] == values[-1] >= 3 * ROUNDS
    runners.forget_scratch()
    assert not scratch


def test_scratch_memory_is_twice_all_caches(scratch, monkeypatch):
    """On a host with larger caches, scratch memory of a fixed size would leave part of the data in them."""
    monkeypatch.setattr(runners, "host_caches", lambda: (Cache("L2", 2**18), Cache("L3", 2**20)))
    case = workload("add_one").case(50)
    with WorkloadRunner(workload("add_one").way("cpu_numpy"), case, case.inputs(0)) as runner:
        runner.evict()
    (values,) = scratch.values()
    assert values.nbytes == 2 * 2**20
    assert values.all()  # every number was written


@pytest.mark.parametrize(
    ("kind", "free", "l2", "size"),
    [
        ("cpu", 2**31, nan, 2**29),  # a quarter of the free memory
        ("cpu", 2**20, nan, 2**28),  # the fixed minimum
        ("gpu", 2**40, 126e6, 252e6),
        ("gpu", 2**40, 50e6, 2**27),
        ("gpu", 2**40, nan, 2**27),  # the driver does not report the L2
    ],
)
def test_scratch_memory_is_bounded_by_free_memory_and_for_a_gpu_twice_its_l2(monkeypatch, kind, free, l2, size):
    monkeypatch.setattr(runners, "host_caches", lambda: (Cache("L3", 300 * 2**20),))
    view = SimpleNamespace(l2_bytes=lambda: l2)
    device = SimpleNamespace(kind=kind, free_bytes=lambda: free, best_view=lambda: view, largest_array=2**40)
    assert runners.scratch_bytes(device) == size


class Scripted:
    """A runner with simulated times: `seconds` of (way, n)."""

    seconds: object = None
    device = Host()
    log: ClassVar[list[tuple[str, str, int]]]
    open: int

    def __init_subclass__(cls):
        """Give each subclass its own log and count: a sweep of another test is closed whenever its memory is freed."""
        cls.log, cls.open = [], 0

    def __init__(self, way, case, inputs):
        self._way, self._case = way, case

    def __enter__(self):
        type(self).open += 1
        return self

    def __exit__(self, *error):
        type(self).open -= 1

    def check(self, truth):
        self.log.append(("check", self._way.name, self._case.n))
        return FirstCall(0.0, 1.0)

    def time(self, steps):
        self.log.append(("time", self._way.name, self._case.n))
        seconds = type(self).seconds(self._way.name, self._case.n)
        return Timing("cpu_numpy", "", steps, self._case.n, 0.0, steps * seconds)


def script(monkeypatch):
    """Install simulated times; return the runner class of this test, whose `seconds` sets them."""
    made = type("ScriptedHere", (Scripted,), {})
    monkeypatch.setattr(sweeps, "WorkloadRunner", made)
    return made


def give_roofs(monkeypatch):
    """Install roofs of 1 GB/s and 1 GFLOP/s for the labs of a test, without measurement."""
    monkeypatch.setattr(lab, "RoofMeter", NoMeter)
    monkeypatch.setattr(lab, "roof_parts", lambda device, dtype: ())
    monkeypatch.setattr(lab, "roof_of", lambda device, dtype: Roof("host", dtype, 1e9, 1e9))


@pytest.fixture
def scripted(monkeypatch):
    return script(monkeypatch)


class Clock:
    """Advances by `tick` seconds per reading."""

    def __init__(self, tick):
        self._times = itertools.count()
        self._tick = tick

    def __call__(self):
        return self._tick * next(self._times)


A, B = planted("a", None), planted("b", None)


def test_steady_points_settle_early_and_noisy_ones_are_labelled(scripted):
    scatter = np.random.default_rng(0)
    noisy = {("cpu_numpy_b", 10)}
    scripted.seconds = lambda way, n: 1e-6 * (scatter.uniform(0.5, 1.5) if (way, n) in noisy else 1)
    points = finish(Sweep(plan(A, B, sizes=(10, 100), budget=1000), Clock(1e-3))).points
    assert {key for key, point in points.items() if point.label == "noisy"} == noisy
    assert {point.label for key, point in points.items() if key not in noisy} == {"measured"}
    samples = {key: len(point.timings) for key, point in points.items()}
    assert samples["cpu_numpy_a", 100] == samples["cpu_numpy_b", 100] <= 2 * LEAST_SAMPLES  # enough for a steady point
    assert samples["cpu_numpy_b", 10] >= 27  # three times as many while the samples scatter
    assert samples["cpu_numpy_a", 10] == samples["cpu_numpy_b", 10]  # compared points are sampled in the same rounds


def test_the_budget_ends_a_sweep_but_every_point_has_its_first_samples(scripted):
    scatter = np.random.default_rng(0)
    scripted.seconds = lambda way, n: 1e-6 * scatter.uniform(0.5, 1.5)
    sweep = finish(Sweep(plan(A, B, budget=1e-3), Clock(1.0)))
    assert {len(point.timings) for point in sweep.points.values()} == {ROUNDS}


def test_the_budget_ends_a_further_round_after_any_sample(scripted):
    """Each call takes 1 s of the clock, and a sample 5 calls: 3 s more allow one sample more at most."""
    scatter, now = np.random.default_rng(0), [0.0]

    def call(way, n):
        now[0] += 1.0
        return 1e-6 * scatter.uniform(0.5, 1.5)

    def samples(budget):
        now[0] = 0.0
        ways = (A, B, planted("c", None))
        points = finish(Sweep(plan(*ways, sizes=(10,), budget=budget), lambda: now[0])).points
        return sum(len(point.timings) for point in points.values())

    scripted.seconds = call
    found = {samples(budget) for budget in range(5 * 3 * ROUNDS, 5 * 4 * ROUNDS, 3)}
    assert found == set(range(3 * ROUNDS, max(found) + 1))
    assert max(found) > 3 * (ROUNDS + 1)


def test_all_is_checked_before_anything_is_timed_and_the_order_is_shuffled(scripted):
    scripted.seconds = lambda way, n: 1e-6
    finish(Sweep(plan(A, B, sizes=(1000, 10, 100), budget=1000), Clock(1e-3)))
    checks = [(way, n) for what, way, n in scripted.log if what == "check"]
    assert checks == [(way, n) for n in (10, 100, 1000) for way in ("cpu_numpy_a", "cpu_numpy_b")]
    last = max(i for i, entry in enumerate(scripted.log) if entry[0] == "check")
    visits = [entry[1:] for entry, _ in itertools.groupby(scripted.log[last + 3 :])]
    first, second = visits[:6], visits[6:12]
    assert sorted(first) == sorted(second) == sorted(checks)
    assert first != second
    assert first not in (checks, sorted(checks))


def test_a_way_may_be_timed_before_others_are_checked_but_not_before_it_is_itself(scripted):
    slow = Planted("add_one", Extra("cpu_magic", "host", Host, (), "Magic"), "")
    absent = Way("add_one", Extra("gpu_magic", "cuda", Host, ("magic_wands",), "Magic", installed_by=INSTALL), "")
    gpu = Planted("add_one", Backend("gpu_planted", "cuda", Host, (), "Planted"), "")
    scripted.seconds = lambda way, n: 1e-6
    sweep = Sweep(plan(slow, gpu, absent, A, budget=1000, early=True), Clock(1e-3))

    def by_way(fact):
        return {way: {fact(p) for (name, _), p in sweep.points.items() if name == way} for way, _ in sweep.points}

    first = None
    for progress in sweep.measure():
        state = by_way(lambda point: point.status)
        sampled = {name for (name, _), point in sweep.points.items() if point.samples}
        assert all("waiting" not in state[way] for way in sampled)
        assert "waiting" not in state["cpu_magic"] or max(len(point.samples) for point in sweep.points.values()) <= 1
        if sampled and first is None:
            first = state
            assert progress.done < sweeps.CHECKS
    assert first.pop("cpu_numpy_a") == {"checked", "measured"}
    assert first == {"cpu_magic": {"waiting"}, "gpu_planted": {"waiting"}, "gpu_magic": {"missing"}}
    counts = by_way(lambda point: len(point.samples))
    assert counts["gpu_magic"] == {0}
    (last,) = counts["cpu_magic"]
    assert last >= LEAST_SAMPLES
    assert counts["gpu_planted"] == counts["cpu_numpy_a"] == {last + 1}  # the early time is an additional sample


def test_a_way_that_disagrees_at_the_largest_n_is_not_timed_early():
    slow = Planted("add_one", Extra("cpu_magic", "host", Host, (), "Magic"), "", lambda a: a.__iadd__(1))
    sweep = finish(Sweep(plan(planted("wrong", add_two_at_last), slow, early=True)))
    assert series(sweep, "cpu_numpy_wrong") == {}
    assert not any(point.samples for (name, _), point in sweep.points.items() if name == "cpu_numpy_wrong")
    assert list(series(sweep, "cpu_magic")) == [10, 100, 1000]


def test_calls_that_would_take_too_long_are_skipped_with_the_reason(scripted):
    scripted.seconds = lambda way, n: 1e-2 * n if way == "cpu_numpy_a" else 1e-6
    sweep = finish(Sweep(plan(A, B, budget=2.4), Clock(1e-3)))
    assert sweep.points["cpu_numpy_a", 10].status == "measured"
    assert sweep.points["cpu_numpy_a", 100].reason == "about 0.99 s a call; limit 0.8 s"
    assert sweep.points["cpu_numpy_a", 1000].reason == "about 9.9 s a call; limit 0.8 s"
    assert sweep.points["cpu_numpy_b", 1000].status == "measured"


def test_the_cost_of_a_launch_is_not_expected_to_grow_with_n(scripted):
    scripted.seconds = lambda way, n: 5e-5 + 1e-10 * n
    sweep = finish(Sweep(plan(A, sizes=(10, 10**6), budget=2.4), Clock(1e-3)))
    assert [point.status for point in sweep.points.values()] == ["measured", "measured"]


def test_a_sample_has_its_full_length_although_the_first_call_woke_threads(scripted):
    calls = itertools.count()
    scripted.seconds = lambda way, n: 1e-3 if next(calls) < 4 else 1e-6  # calls 3 and 4 are the first of the burst
    sweep = finish(Sweep(plan(A, sizes=(10,), budget=1000), Clock(1e-3)))
    (point,) = sweep.points.values()
    assert min(timing.steps for timing in point.timings) > 0.99 * sweeps.MOST_CALLS


def test_a_transfer_is_the_inputs_there_and_the_results_back_where_there_is_one():
    carried = []

    class Remote(Host):
        kind = "gpu"

        def upload(self, host):
            carried.append("there")
            return super().upload(host)

        def download(self, array):
            carried.append("back")
            return super().download(array)

    case = workload("quadratic").case(50)
    remote = Way("quadratic", Backend("cpu_numpy", "cuda", Remote, (), "Remote"), "")
    with WorkloadRunner(remote, case, case.inputs(0)) as runner:
        carried.clear()
        assert runner.transfer() > 0
    assert carried == ["there"] * 3 + ["back"]
    with WorkloadRunner(workload("quadratic").way("cpu_numpy"), case, case.inputs(0)) as runner:
        assert runner.transfer() == 0


def test_data_in_main_memory_are_evicted_from_the_host_s_caches(scratch):
    remote = Way("transfer", Backend("cpu_numpy", "cuda", Host, (), "Remote"), "")
    case = workload("transfer").case(50)
    with WorkloadRunner(remote, case, case.inputs(0)) as runner:
        runner.evict()
    assert list(scratch) == [("cpu_numba", "host")]


def test_the_last_result_lives_until_its_time_is_known(monkeypatch):
    """JAX has no events: its stopwatch waits for all live arrays, but not for a freed one."""
    results, alive = [], []

    class Result:
        pass

    def call(a):
        result = Result()
        results.append(weakref.ref(result))
        return result

    class Watch(HostStopwatch):
        def seconds(self):
            alive.append(results[-1]() is not None)
            return super().seconds()

    monkeypatch.setattr(Host, "stopwatch", lambda self: Watch())
    case = workload("add_one").case(5)
    with WorkloadRunner(planted("result", call), case, case.inputs(0)) as runner:
        runner.time(3)
    assert len(results) == 3
    assert alive == [True]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sizes": ()}, "at least one n and one way"),
        ({"budget": 0}, "budget must be more than 0 seconds, not 0"),
        ({"longest": 0}, "longest must be more than 0 seconds, not 0"),
        ({"longest_call": 0.0}, "longest_call must be more than 0 seconds, not 0.0"),
        ({"sizes": (10**9,)}, "n must be from 1 to 100000000 for add_one, not 1000000000"),
    ],
)
def test_bad_plans_are_refused(values, words):
    with pytest.raises(ValueError, match=words):
        plan(A, **values)
