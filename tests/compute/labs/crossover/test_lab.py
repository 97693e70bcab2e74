"""The crossover as a lab: its slices, its frames, the end of a sweep, and a wrong way."""

from __future__ import annotations

import itertools
import json
from math import isnan

import pytest

from compute.devices.backends import Backend, backend
from compute.devices.devices import Host
from compute.engine import LabClosed, Refused, Supervisor
from compute.labs.crossover import Crossover, benchmark, lab, picture, results
from compute.labs.crossover.curves import measured_curves, recorded_curves
from compute.measure import clocks, records
from compute.ways import sweep as sweeps
from compute.ways.catalogue import workload
from compute.ways.plan import SweepPlan
from compute.ways.roofline import Roof
from compute.ways.runner import FirstCall
from compute.ways.sweep import Sweep
from compute.ways.workload import Way
from tests.compute.engine.faulty import Client
from tests.compute.ways.test_sweep import A, give_roofs, script

LITTLE = {"backend": "cpu_numba", "least": 10, "most": 100, "per_decade": 1, "budget": 0.2,
          "longest": 60.0}  # fmt: skip  # a busy machine skips nothing


@pytest.fixture(autouse=True)
def no_roofs(monkeypatch):
    """Skip the roofs, which take seconds and have separate tests."""
    give_roofs(monkeypatch)


@pytest.fixture
def scripted(monkeypatch):
    """Simulated times, by (way, n); no array is made."""
    return script(monkeypatch)


def sampling(made):
    """Advance until the first time is measured."""
    while not any(point.samples for point in made.sweep.points.values()):
        made.advance()
    return made


def wrong(a, out):
    """Square all numbers, the last one wrongly."""
    out[...] = a**2
    out[-1] += 1


def test_a_way_that_disagrees_shows_no_time_anywhere(monkeypatch):
    planted, right = "cpu_numpy_power", Way.function
    monkeypatch.setattr(Way, "function", lambda way: wrong if way.name == planted else right(way))
    made = Crossover(workload="square", ways=["cpu_numpy", planted], split=True, **LITTLE)
    made.run()
    frame = made.frame()
    drawn = picture.ways_of(frame)
    assert drawn["cpu_numpy"].status in ("measured", "noisy")
    assert drawn[planted].status == "disagrees"
    assert "tolerance is" in drawn[planted].reason
    assert drawn[planted].series() == {}
    for spot in drawn[planted].points:
        assert spot.step is None
        assert spot.difference > 0.01
        times = (spot.launch, spot.transfer, spot.flops, spot.moved, spot.percent)
        assert all(isnan(number) for number in times)
    rows = [row for row in results.rows(made.sweep, {}) if row.extra["way"] == planted]
    assert {(row.status, row.measurement, row.speed_up) for row in rows} == {("disagrees", None, None)}


def test_a_step_is_one_slice_and_the_curves_fill_in(scripted):
    scripted.seconds = lambda way, n: 1e-6
    made = Crossover(**LITTLE, ways=["cpu_numpy", "cpu_numba"])
    assert {spot.status for line in picture.ways_of(made.frame()).values() for spot in line.points} == {"waiting"}
    samples, drawn = [0], []
    while not made.status.resting:
        made.advance()
        frame = made.frame()
        samples.append(sum(len(point.samples) for point in made.sweep.points.values()))
        drawn.append(sum(len(line.series()) for line in picture.ways_of(frame).values()))
        assert frame.facts["finished"] == (frame.facts["progress"] == 1.0) == made.status.resting
    assert {after - before for before, after in itertools.pairwise(samples)} == {0, 1}
    assert drawn == sorted(drawn)
    assert set(drawn) == {0, 1, 2, 3, 4}
    assert frame.notes["doing"] == "complete"


def test_a_turn_ends_although_more_slices_are_asked_for(monkeypatch):
    made = Crossover(**LITTLE)
    clock = itertools.count(step=0.005).__next__  # five milliseconds per reading
    monkeypatch.setattr(lab, "perf_counter", clock)
    assert made.advance(1000).steps == 2
    assert made.elapsed == pytest.approx(0.01)


def test_a_new_value_drops_the_sweep_and_gives_its_arrays_back(scripted):
    scripted.seconds = lambda way, n: 1e-6
    made = sampling(Crossover(**LITTLE))
    assert scripted.open == 1
    made.update(dtype="float32")
    assert scripted.open == 0
    assert {point.status for point in made.sweep.points.values()} == {"waiting"}
    assert made.sweep.plan.dtype == "float32"
    made.update(ways=["cpu_numpy"], most=1000)
    made.update(workload="histogram")
    assert (made.ways, made.settings, made.most, made.least) == ([], {}, None, None)
    made.update(workload="determinants", settings={"side": 64}, most=5)
    assert made.sweep.plan.settings == {"side": 64}
    assert max(made.sweep.plan.sizes) == 5
    made.close()


def test_cancelled_it_rests_and_keeps_what_was_measured(scripted):
    scripted.seconds = lambda way, n: 1e-6
    made = sampling(Crossover(**LITTLE))
    made.act("cancel")
    assert made.status.resting
    assert scripted.open == 0
    assert sum(len(line.series()) for line in picture.ways_of(made.frame()).values()) == 1
    assert (made.frame().notes["doing"], made.frame().facts["finished"]) == ("cancelled", 0.0)
    made.act("reset")
    assert not made.status.resting
    assert made.progress.done == 0


def test_a_snapshot_is_shown_again_and_makes_a_record():
    made = Crossover(**LITTLE, ways=["cpu_numpy", "cpu_numba"], split=True)
    half = made.snapshot()
    made.run()
    kept = made.snapshot()
    again = Crossover(**LITTLE, ways=["cpu_numpy", "cpu_numba"], split=True)
    again.restore(kept)
    assert again.status.resting
    series = [{name: line.series(True) for name, line in picture.ways_of(of.frame()).items()} for of in (made, again)]
    assert series[0] == series[1] != {}
    again.restore(half)
    assert not again.status.resting
    record = benchmark.record_of(kept, "a click")
    assert (record["lab"], record["command"]) == ("crossover", "a click")
    medians = {(result["backend"], result["size"]): result["median"] for result in record["results"]}
    assert medians == {(name, n): spread.median for name, of in series[0].items() for n, spread in of.items()}


@pytest.mark.parametrize(("rate", "low"), [(0.2, {10, 100}), (0.95, set())])
def test_times_at_a_low_clock_are_marked_here_in_a_snapshot_and_in_a_record(monkeypatch, tmp_path, rate, low):
    monkeypatch.setattr(clocks, "clock_rate", lambda device: rate)
    made = Crossover(**LITTLE, ways=["cpu_numba"])
    made.run()
    again = Crossover(**LITTLE, ways=["cpu_numba"])
    again.restore(made.snapshot())
    for shown in (made, again):
        (curve,) = measured_curves(workload("add_one"), picture.ways_of(shown.frame()))
        assert curve.low_clock == low
    record = benchmark.record_of(made.snapshot(), "a click")
    (tmp_path / "crossover.json").write_text(json.dumps(record))
    monkeypatch.setattr(records, "timings_folder", lambda: tmp_path)
    (curve,) = recorded_curves(workload("add_one"), {}, made.dtype, made.settings, made.evict, (1, 1000), every=True)
    assert (curve.low_clock, curve.key != "cpu_numba") == (low, True)


def test_a_snapshot_without_clock_rates_is_restored():
    """Version 0.2 did not measure them."""
    made = Crossover(**LITTLE, ways=["cpu_numba"])
    made.run()
    kept = made.snapshot()
    for point in kept["points"].values():
        point["samples"], point["cold"] = point["samples"][:, :5], point["cold"][:, :5]
    again = Crossover(**LITTLE, ways=["cpu_numba"])
    again.restore(kept)
    ways = [picture.ways_of(lab.frame())["cpu_numba"] for lab in (made, again)]
    assert ways[0].series() == ways[1].series() != {}
    assert isnan(ways[1].points[0].clock_rate)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"ways": ["gpu_magic"]}, "add_one has no way 'gpu_magic'"),
        ({"settings": {"bins": 3}}, "settings must be some of none for add_one, not 'bins'"),
        ({"workload": "histogram", "settings": {"bins": 4}}, r"bins must be one of \(1200, 3\) for histogram, not 4"),
        ({"least": 1000, "most": 10}, r"most must be from 1000 \(least\) to 100000000 for add_one, not 10"),
        ({"most": 10**9}, r"most must be from 10 \(least\) to 100000000 for add_one, not 1000000000"),
        ({"device_index": 1}, "device_index must be 0"),
        ({"budget": float("nan")}, "budget"),
        ({"longest": 0.0}, "longest"),
    ],
)
def test_bad_values_are_refused_and_change_nothing(values, text):
    with pytest.raises(ValueError, match=text):
        Crossover(**{"backend": "cpu_numba", **values})
    made = Crossover(backend="cpu_numba", seed=3)
    before, sweep = made.values(), made.sweep
    with pytest.raises(ValueError, match=text):
        made.update(**values)
    assert made.values() == before
    assert made.sweep is sweep
    with pytest.raises(ValueError, match="steps must be at least 1, not 0"):
        made.advance(0)
    with pytest.raises(ValueError, match=r"trap must be one of .*complex_power, not 'x'"):
        made.act("try_trap", which="x")


def test_it_lives_with_the_gpu_if_there_is_one(monkeypatch):
    gone, here = (Backend(f"gpu_{name}", "cuda", Host, needs, name)
                  for name, needs in (("cupy", ("no_wand",)), ("numba", ())))  # fmt: skip
    for known, home in (((gone, backend("cpu_numba")), "cpu_numba"), ((gone, here, backend("cpu_numba")), "gpu_numba")):
        monkeypatch.setattr(Crossover, "backends", classmethod(lambda cls, known=known: known))
        assert Crossover.home() == home
    monkeypatch.undo()
    on_host = Crossover(**LITTLE, ways=["cpu_numpy", "gpu_cupy"])
    on_host.run()
    assert picture.ways_of(on_host.frame())["gpu_cupy"].status == "missing"
    reason = lab.GpuWayOnHost("add_one", here, "").missing
    assert reason == "this lab is open on the host; open it with a GPU's backend"


def test_an_n_whose_arrays_would_take_too_long_to_compare_is_skipped(scripted, monkeypatch):
    now = 0.0

    def check(runner, truth):
        """Take 2 s at the first n, which may compile, then 0.6 ms an element."""
        nonlocal now
        now += 2.0 if runner._case.n == 10 else 6e-4 * runner._case.n
        return FirstCall(0.0, 0.0)

    scripted.check, scripted.seconds = check, lambda way, n: 1e-6
    monkeypatch.setattr(sweeps, "perf_counter", lambda: now)
    made = Sweep(SweepPlan(workload("add_one"), (A,), (10, 100, 1000), budget=1.0, longest=0.5))
    for _ in made.measure():
        pass
    assert [point.status for point in made.points.values()] == ["measured", "measured", "skipped"]
    reason = made.points["cpu_numpy_a", 1000].reason
    assert reason == "about 0.6 s to prepare and compare its arrays; limit 0.5 s"


def test_after_a_change_of_dtype_the_new_roof_gives_percents(scripted):
    scripted.seconds = lambda way, n: 1e-6
    made = Crossover(**LITTLE, ways=["cpu_numpy"])
    made.run()
    made.update(dtype="float32")
    sampling(made)

    def percents():
        return [spot.percent for spot in picture.ways_of(made.frame())["cpu_numpy"].points if spot.step]

    assert percents()
    assert all(isnan(percent) for percent in percents())  # the available roof is that of float64
    made.roofs = {**made.roofs, "host": Roof("host", "float32", 1e9, 1e9)}
    assert not any(isnan(percent) for percent in percents())


def test_only_first_calls_and_roofs_are_announced_as_cold(scripted):
    scripted.seconds = lambda way, n: 1e-6
    made = Crossover(**LITTLE)
    assert made.status.cold
    sampling(made)
    made.advance()
    assert not made.status.cold
    made.act("try_trap", which="zeros")
    assert made.status.cold


def test_it_runs_in_an_engine_with_another_lab():
    engine = Supervisor("host", labs={"crossover": "compute.labs.crossover:Crossover"})
    engine.start()
    try:
        other = Client(engine, "diffusion", eager=True, backend="cpu_numpy", ny=32, nx=32)
        client = Client(engine, "crossover", eager=True, **LITTLE, workload="square")
        other.handle.run()
        before = len(other.frames)
        client.handle.pace(None)
        client.handle.run()
        last = client.wait_frame(lambda frame: frame.facts["finished"] == 1.0)  # the roofs may compile
        assert len(other.frames) > before
        series = {name: line.series() for name, line in picture.ways_of(last).items()}
        here = [way for way in workload("square").ways() if way.backend.device == "host" and not way.missing]
        assert {way.name for way in here} == set(series)
        assert all(set(of) == {10, 100} for of in series.values())
        client.handle.act("try_trap", which="complex_power")
        seen = client.wait_frame(lambda frame: picture.trap_result(frame) is not None)
        assert picture.trap_result(seen)["name"] == "complex_power"
        assert {name: line.series() for name, line in picture.ways_of(seen).items()} == series
        client.handle.update(ways=["gpu_magic"])
        assert "has no way" in client.wait(Refused).text
        client.handle.update(workload="sort", most=100)
        again = client.wait_frame(lambda frame: frame.notes["workload"] == "sort")
        assert again.facts["progress"] < 1
        for end in (client, other):
            end.handle.close()
            end.wait(LabClosed)
    finally:
        engine.close()
