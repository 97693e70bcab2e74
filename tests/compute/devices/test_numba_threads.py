"""The number of threads of Numba's parallel kernels."""

from __future__ import annotations

from math import isnan
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from compute.devices import numba_threads
from compute.devices.numba_threads import leave_a_core, limited, quicker, seconds_alone, shared
from compute.devices.parallel_regions import counted
from compute.labs.diffusion import cpu_numba as diffusion
from compute.labs.l_curve.lab import LCurve

MOST = numba.config.NUMBA_NUM_THREADS
needs_two = pytest.mark.skipif(MOST < 2, reason="one processor")


def test_one_thread_can_be_left_to_others():
    try:
        for _ in range(2):
            leave_a_core(True)
            assert numba.get_num_threads() == max(1, MOST - 1)
    finally:
        leave_a_core(False)
    assert numba.get_num_threads() == MOST


@pytest.fixture
def waking(monkeypatch):
    """Set the wake-up time of the threads to 100 us."""
    monkeypatch.setattr(numba_threads, "waking", lambda: 1e-4)


@needs_two
@pytest.mark.usefixtures("waking")
@pytest.mark.parametrize(("seconds", "many"), [(0.0, False), (0.9e-4, False), (1e-3, True), (1.0, True)])
def test_work_is_shared_only_if_that_saves_more_than_waking_the_threads(seconds, many):
    with counted() as found, shared(seconds, regions=3) as threads:
        assert threads == numba.get_num_threads() == (MOST if many else 1)
        assert isnan(found.regions)
    assert numba.get_num_threads() == MOST
    assert found.regions == (3 if many else 0)
    with pytest.raises(ZeroDivisionError), shared(seconds):
        raise ZeroDivisionError
    assert numba.get_num_threads() == MOST


def test_a_single_thread_is_never_woken():
    with limited(1):
        assert numba_threads.waking() == 0.0
        with shared(1.0, regions=5) as threads, counted() as found:
            assert threads == 1
        assert quicker(lambda: None) == 1
    assert isnan(found.regions)


@needs_two
@pytest.mark.usefixtures("waking")
def test_the_faster_number_of_threads_is_found_and_long_work_runs_once(monkeypatch):
    moments = iter(np.arange(1000) * 0.01)  # each call takes 10 ms
    monkeypatch.setattr(numba_threads, "perf_counter", lambda: next(moments))
    calls = []
    assert quicker(lambda: calls.append(numba.get_num_threads())) == MOST
    assert calls == [MOST]
    now, calls = [0.0], []

    def work():
        calls.append(numba.get_num_threads())
        now[0] += 1e-5 if calls[-1] == 1 else 2e-4

    monkeypatch.setattr(numba_threads, "perf_counter", lambda: now[0])
    assert quicker(work) == 1
    assert set(calls) == {1, MOST}
    assert seconds_alone(work) == pytest.approx(1e-5)


@needs_two
def test_waking_is_measured_again_after_a_while(monkeypatch):
    clock = SimpleNamespace(now=numba_threads.perf_counter(), tick=1e-5)

    def perf_counter():
        clock.now += clock.tick
        return clock.now

    monkeypatch.setattr(numba_threads, "perf_counter", perf_counter)
    clock.now += 2 * numba_threads.LASTS
    assert numba_threads.waking() == pytest.approx(1e-5)
    clock.tick = 7e-5
    assert numba_threads.waking() == pytest.approx(1e-5)
    clock.now += 2 * numba_threads.LASTS
    assert numba_threads.waking() == pytest.approx(7e-5)


@needs_two
@pytest.mark.parametrize("problem", ["heat", "gravity"])
def test_an_l_curve_has_the_same_bits_on_one_thread_and_on_all(problem, monkeypatch):
    found = []
    for cost in (0.0, 1e9):
        monkeypatch.setattr(numba_threads, "waking", lambda cost=cost: cost)
        lab = LCurve(backend="cpu_numba", problem=problem, n=150)
        with counted() as regions:
            lab.advance(20)
        assert (regions.regions > 0) == (cost == 0.0)
        found.append((lab.bidiagonal.small.diagonal.copy(), lab.bidiagonal.small.below.copy()))
        lab.close()
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


@needs_two
@pytest.mark.parametrize("steps", [1, 2, 7, 40])
@pytest.mark.parametrize("kernel", [diffusion.step, diffusion.one_step])
def test_diffusion_has_the_same_bits_on_one_thread_and_on_all(kernel, steps, monkeypatch):
    start = np.random.default_rng(1).random((70, 90))
    found = []
    for cost in (0.0, 1e9):
        monkeypatch.setattr(numba_threads, "waking", lambda cost=cost: cost)
        u, out = start.copy(), np.empty_like(start)
        with counted() as regions:
            kernel(u, out, 0.2, "zero-flux", steps)
        assert (regions.regions > 0) == (cost == 0.0)
        found.append(out)
    np.testing.assert_array_equal(*found)
