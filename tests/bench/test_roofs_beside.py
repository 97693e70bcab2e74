"""The roofs are measured in turn with the ways, and the upper quartile of all samples counts: no speed is asserted."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from compute.bench import bandwidth, fma, run
from compute.bench.bandwidth import Copies, CopyBandwidth, copy_bandwidth
from compute.bench.fma import Chains, FmaRate, fma_rate
from compute.bench.meter import Meter
from compute.bench.rows import Plan, Results
from compute.devices import Host, HostStopwatch
from compute.labs.crossover import Crossover, lab
from compute.labs.crossover.roofline import roof_of
from compute.labs.diffusion import benchmark as diffusion
from compute.timings import Spread

SMALL = {"cpu": 2**20, "gpu": 2**20}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Arrays of a megabyte, and nothing is known yet."""
    monkeypatch.setattr(bandwidth, "ARRAY_BYTES", SMALL)
    monkeypatch.setattr(bandwidth, "LIVE_BYTES", SMALL)
    monkeypatch.setattr(bandwidth, "CACHES", 0)
    monkeypatch.setattr(fma, "HOST_ROUNDS", 100)
    for module in (bandwidth, fma):
        monkeypatch.setattr(module, "_known", {})
        monkeypatch.setattr(module, "_rates", {})


def test_a_roof_that_something_else_disturbed_most_of_the_time_is_the_undisturbed_one():
    """Seven of ten copies beside other load at half the speed: their median would be 10 GB/s, and a way 200 %."""
    for rate in [10e9] * 7 + [20e9] * 3:
        bandwidth.note(Host(), rate, 8)
        fma.note(Host(), "float32", rate)
    assert copy_bandwidth(Host()).rate.median == 10e9
    assert copy_bandwidth(Host()).roof == pytest.approx(17.5e9)
    assert fma_rate(Host(), "float32").roof == copy_bandwidth(Host()).roof
    assert roof_of(Host(), "float32").bandwidth == copy_bandwidth(Host()).roof
    results = Results(bandwidths={"host": copy_bandwidth(Host())})
    assert results.roof("copy", "host", "float32") == copy_bandwidth(Host()).roof


def test_the_roof_is_the_quartile_and_not_the_largest():
    assert CopyBandwidth("host", Spread.of([1.0, 1.0, 1.0, 1.0, 9.0]), 8).roof == 1.0
    assert FmaRate("host", "float32", Spread.of([1.0, 1.0, 1.0, 1.0, 9.0])).roof == 1.0


@pytest.mark.parametrize("pieces", [1, 4])
def test_copies_copy_every_byte_and_are_counted_by_the_device_s_clock(pieces, monkeypatch):
    class Second(HostStopwatch):
        def seconds(self):
            return 1.0

    monkeypatch.setattr(Host, "stopwatch", lambda self: Second())
    with closing(Copies(Host(), pieces)) as copies:
        steps = list(copies.prepare())
        assert len(steps) == bandwidth.FIRST * pieces
        source, target = copies._arrays
        source[:], target[:] = np.arange(len(source)), -1
        assert copies.sample() == 2 * copies.array_bytes / pieces  # read and written in that second
        for _ in range(pieces - 1):
            copies.sample()
        np.testing.assert_array_equal(target, source)
    assert copies._arrays is None


def test_a_meter_takes_one_sample_of_each_and_gives_its_memory_back():
    with closing(Meter([Host()], ("copy", "fma"), "float32")) as meter:
        for number in range(1, 4):
            meter.sample()
            assert (bandwidth._known["host"].rate.n, fma._known["host", "float32"].rate.n) == (number, number)
            meter.close()
    with closing(Meter([Host()], ("fma",), "float64")) as meter:
        meter.sample()
    assert ("host", "float64") in fma._rates
    assert all(rate > 0 for rate in [*bandwidth._rates["host"], *fma._rates["host", "float64"]])


def test_chains_count_what_they_run(monkeypatch):
    class Second(HostStopwatch):
        def seconds(self):
            return 1.0

    monkeypatch.setattr(Host, "stopwatch", lambda self: Second())
    monkeypatch.setattr(fma, "cpu_count", lambda: 2)
    assert Chains(Host(), "float64").sample() == 4 * 2 * fma.ROW * 100 * fma.CHAIN


def test_a_bench_samples_the_roof_between_its_rounds(monkeypatch):
    """As one more way: as many samples as there are rounds, within the case, and memory is given back after it."""
    events = []

    class Spy(Meter):
        def sample(self):
            events.append("roof")
            super().sample()

        def close(self):
            events.append("closed")
            super().close()

    monkeypatch.setattr(run, "Meter", Spy)
    time_one = diffusion.Rig.run
    monkeypatch.setattr(diffusion.Rig, "run", lambda rig, way, steps: events.append("way") or time_one(rig, way, steps))
    plan = Plan("diffusion", [diffusion.GridCase(32, "float32", "periodic")], ("cpu_numpy",), 0.05)
    found = run.Bench(plan).run()
    rounds = found.rows[-1].measurement.step.n
    assert events.count("roof") == rounds
    first = events.index("roof")
    assert events[first : first + 4] == ["roof", "way", "roof", "way"]
    assert events[-1] == "closed"
    assert found.bandwidths["host"].rate.n >= rounds


def test_a_sweep_samples_the_roofs_between_its_rounds(monkeypatch):
    taken = []
    monkeypatch.setattr(lab, "parts_of_roof", lambda device, dtype: ())

    class Spy(Meter):
        def sample(self):
            taken.append({key: len(point.samples) for key, point in made.sweep.points.items()})
            super().sample()

    monkeypatch.setattr(lab, "Meter", Spy)
    made = Crossover(backend="cpu_numba", ways=["cpu_numpy"], most=100, per_decade=1, budget=0.1, longest=60.0)
    made.run()
    assert len(taken) >= 4
    assert [sum(counts.values()) for counts in taken[:3]] == [2, 4, 6]  # both n, once a round
    assert made.roofs["host"].bandwidth == bandwidth._known["host"].roof
    made.close()


def test_what_measures_a_roof_for_the_first_time_is_announced():
    """It may compile for seconds, which is no hang."""
    made = Crossover(backend="cpu_numba", ways=["cpu_numpy"], most=100, per_decade=1, budget=0.1, longest=60.0)
    while made.progress.doing != lab.ROOFS:
        made.advance()
    assert made.cold
    made.close()
