"""Roofs: samples count their bytes and operations, in turn with the ways. No speed is asserted."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from compute.devices.backends import BACKENDS, backend
from compute.devices.devices import Host, HostStopwatch
from compute.labs.crossover import Crossover, lab
from compute.labs.diffusion import benchmark as diffusion
from compute.measure import roofs, run
from compute.measure.case import BenchPlan, Results
from compute.measure.machine_roofs import measured_rates
from compute.measure.rates import host_caches
from compute.measure.roofs import Copies, MultiplyAdds, RoofMeter, copy_bandwidth, fma_rate
from compute.process.tasks import Result, TaskProcess
from compute.ways.roofline import roof_of
from tests.compute.measure.test_rates import plant
from tests.cuda_on_cpu import Module, upload

SMALL = {"cpu": 2**20, "gpu": 2**20}
COPY, FMA = ("host", "copy", ""), ("host", "fma", "float32")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Use arrays of a megabyte, and forget known roofs."""
    monkeypatch.setattr(roofs, "ARRAY_BYTES", SMALL)
    monkeypatch.setattr(roofs, "LIVE_BYTES", SMALL)
    monkeypatch.setattr(roofs, "CACHES", 0)
    monkeypatch.setattr(roofs, "HOST_ROUNDS", 100)
    for name in ("_known", "_rates"):
        monkeypatch.setattr(roofs, name, {})


def test_a_roof_that_was_disturbed_most_of_the_time_is_the_undisturbed_one():
    """Seven of ten copies run at half the speed under load: with their median, 10 GB/s, a way would reach 200 %."""
    for rate in [10e9] * 7 + [20e9] * 3:
        roofs.record_rate("host", "copy", "", rate, 8)
        roofs.record_rate("host", "fma", "float32", rate)
    assert copy_bandwidth(Host()).rate.median == 10e9
    assert copy_bandwidth(Host()).roof == pytest.approx(17.5e9)  # the quartile, not the largest
    assert fma_rate(Host(), "float32").roof == copy_bandwidth(Host()).roof
    assert roof_of(Host(), "float32").bandwidth == copy_bandwidth(Host()).roof
    results = Results(bandwidths={"host": copy_bandwidth(Host())})
    assert results.roof("copy", "host", "float32") == copy_bandwidth(Host()).roof


@pytest.fixture
def second(monkeypatch):
    """Let every run take a second by the device's clock."""

    class Second(HostStopwatch):
        def seconds(self):
            return 1.0

    monkeypatch.setattr(Host, "stopwatch", lambda self: Second())


@pytest.mark.parametrize("pieces", [1, 4])
def test_copies_copy_every_byte_and_are_counted_by_the_device_s_clock(pieces, second, monkeypatch):
    arrays, allocate = [], Host.allocate

    def noted(self, *given):
        arrays.append(allocate(self, *given))
        return arrays[-1]

    monkeypatch.setattr(Host, "allocate", noted)
    with closing(Copies(Host(), pieces)) as copies:
        assert len(list(copies.prepare())) == roofs.FIRST * pieces
        source, target = arrays
        source[:], target[:] = np.arange(len(source)), -1
        assert copies.sample() == 2 * copies.array_bytes / pieces  # read and written in that second
        for _ in range(pieces - 1):
            copies.sample()
        np.testing.assert_array_equal(target, source)


@pytest.fixture
def two_processors(tmp_path, monkeypatch):
    """Simulate two EPYC 9654: 24 groups of cores, each with an L3 of 32 MiB, 768 MiB in total."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(24)), raising=False)
    for core in range(24):
        plant(tmp_path, core, 0, type="Unified", level=2, shared_cpu_list=core, size="8M")
        plant(tmp_path, core, 3, type="Unified", level=3, shared_cpu_list=f"{core},{core + 24}", size="32768K")
    caches = host_caches(tmp_path)
    monkeypatch.setattr(roofs, "host_caches", lambda: caches)


@pytest.mark.parametrize("live", [False, True])
def test_the_arrays_of_a_copy_are_four_times_all_caches_together(two_processors, monkeypatch, live):
    """The rule of the STREAM benchmark; four times a single cache, 128 MiB, would be copied within the caches."""
    monkeypatch.setattr(roofs, "CACHES", 4)
    for free, size in ((2**40, 4 * 768 * 2**20), (10 * 2**30, 2**30)):  # at most a tenth of the free memory for each
        monkeypatch.setattr(Host, "free_bytes", lambda self, free=free: free)
        assert Copies(Host(), live=live).array_bytes == size


def test_a_meter_takes_one_sample_of_each_kind():
    with closing(RoofMeter([Host()], ("copy", "fma"), "float32")) as meter:
        for number in range(1, 4):
            meter.sample()
            assert [roofs._known[key].rate.n for key in (COPY, FMA)] == [number, number]
            meter.close()  # a later sample allocates again
    assert roofs._known.keys() == {COPY, FMA}


def test_chains_count_what_they_run(second, monkeypatch):
    monkeypatch.setattr(roofs, "cpu_count", lambda: 2)
    assert MultiplyAdds(Host(), "float64").sample() == 4 * 2 * roofs.ROW * 100 * roofs.CHAIN


def test_a_bench_samples_the_roof_between_its_rounds_and_releases_its_memory(monkeypatch):
    events = []

    class Spy(RoofMeter):
        def sample(self):
            events.append("roof")
            super().sample()

        def close(self):
            events.append("closed")
            super().close()

    monkeypatch.setattr(run, "RoofMeter", Spy)
    time_one = diffusion.FieldFixture.run
    monkeypatch.setattr(diffusion.FieldFixture, "run", lambda *given: events.append("way") or time_one(*given))
    plan = BenchPlan("diffusion", [diffusion.GridCase(32, "float32", "periodic")], ("cpu_numpy",), 0.05)
    found = diffusion.BENCHMARK.run(plan)
    rounds = found.rows[-1].measurement.step.n
    assert events.count("roof") == rounds
    first = events.index("roof")
    assert events[first : first + 4] == ["roof", "way", "roof", "way"]
    assert events[-1] == "closed"
    assert found.bandwidths["host"].rate.n >= rounds


def test_a_sweep_samples_the_roofs_between_its_rounds(monkeypatch):
    taken = []
    monkeypatch.setattr(lab, "roof_parts", lambda device, dtype: ())

    class Spy(RoofMeter):
        def sample(self):
            taken.append({key: len(point.samples) for key, point in made.sweep.points.items()})
            super().sample()

    monkeypatch.setattr(lab, "RoofMeter", Spy)
    made = Crossover(backend="cpu_numba", ways=["cpu_numpy"], most=100, per_decade=1, budget=0.1, longest=60.0)
    while made.progress.doing != lab.ROOFS:
        made.advance()
    assert made.status.cold  # it may compile for seconds, which must not count as a hang
    made.run()
    assert len(taken) >= 4
    assert [sum(counts.values()) for counts in taken[:3]] == [2, 4, 6]  # both n, once a round
    assert made.roofs["host"].bandwidth == roofs._known[COPY].roof
    made.close()


def test_a_host_s_roofs_are_measured_once_a_process():
    for measure in (copy_bandwidth, partial(roofs.fma_rate, dtype="float32")):
        first = measure(Host())
        assert first.device == "host"
        assert first.rate.n >= roofs.LEAST
        assert 1e7 < first.rate.median < 1e14
        assert measure(Host()) is first


# -- multiply-adds


def after(x, steps):
    """Return x after `steps` times x -> x/2 + 1/4, each of which halves its distance from 1/2."""
    return 0.5 + (x - 0.5) * 0.5**steps


@pytest.mark.parametrize("dtype", roofs.DTYPES)
def test_the_gpu_kernel_runs_the_chains_it_is_counted_for(dtype):
    module = Module(roofs.FMA_SOURCE, {"REAL": roofs.REAL[dtype]})
    out = upload(np.zeros(8, dtype))
    real = np.dtype(dtype).type
    module.get_function("fma_chains")((2,), (4,), (out, real(0.5), real(0.25), np.int32(1)))
    starts = np.arange(4)[:, None] + np.arange(roofs.CHAINS)
    expected = np.tile(after(starts, roofs.UNROLLED).sum(axis=1), 2)
    np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", roofs.DTYPES)
def test_the_host_s_loop_runs_its_chain_on_every_number(dtype):
    values = np.tile(np.arange(5, dtype=dtype), (3, 1))
    roofs._chains(values, values.dtype.type(0.5), values.dtype.type(0.25), 2)
    np.testing.assert_allclose(values, np.tile(after(np.arange(5), 2 * roofs.CHAIN), (3, 1)), rtol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", roofs.DTYPES)
def test_a_gpu_s_rate_is_measured(dtype):
    absent = backend("gpu_cupy").missing
    if absent:
        pytest.skip(absent)
    found = roofs.fma_rate(backend("gpu_cupy").open_device(), dtype)
    assert found.device == "cuda:0"
    assert found.rate.n >= 3


def test_a_child_measures_the_roofs_of_every_device():
    with closing(TaskProcess(leads=True, low=False)) as child:
        outcome = child.run(measured_rates)
    assert isinstance(outcome, Result), outcome.text
    found = outcome.value
    assert found["host"].keys() == {"copy", "fma float32", "fma float64", "waking"}
    assert 0 < found["host"].pop("waking") < 1
    assert all(rate > 1e6 for rate in found["host"].values())
    if all(b.missing for b in BACKENDS if b.device == "cuda"):
        assert set(found) == {"host"}
