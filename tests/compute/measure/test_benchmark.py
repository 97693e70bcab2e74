"""A lab's benchmark: the default for a lab without one, and where a lab's own benchmark is defined."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from compute.labs.diffusion import Diffusion
from compute.machine import machine
from compute.measure.benchmark import LabBenchmark, benchmark_of
from compute.measure.case import BenchPlan, Row, with_speed_ups
from compute.measure.statistics import Measurement
from compute.measure.target import FieldTarget, StateTarget
from compute.measure.timing import Timing

BOTH = ("cpu_numpy", "cpu_numba")
SMALL = {"ny": 24, "nx": 36}


@pytest.mark.parametrize("wrong", [False, True])
def test_a_lab_without_a_benchmark_is_compared_with_numpy_and_its_advance_timed(wave, monkeypatch, wrong):
    wave(backend="cpu_numba", **SMALL)  # compiles
    if wrong:
        kernels = sys.modules[f"{wave.PACKAGE}.cpu_numba"]
        right = kernels.step
        monkeypatch.setattr(kernels, "step", lambda u, before, courant, *rest: right(u, before, 1.001 * courant, *rest))
    benchmark = benchmark_of(wave)
    cases = tuple(benchmark.cases({}, benchmark.dtypes, gpu=False))
    rows = benchmark.run(BenchPlan("wave", cases, BOTH, 0.2)).rows
    assert [(row.backend, row.case.dtype) for row in rows] == [
        (backend, dtype) for dtype in ("float32", "float64") for backend in BOTH
    ]  # fmt: skip
    for row in rows:
        if wrong and (row.backend, row.case.dtype) == ("cpu_numba", "float64"):
            assert (row.status, row.measurement) == ("disagrees", None)
        elif not wrong or row.backend == "cpu_numpy":
            assert (row.status, row.measurement.cells) == ("measured", 256**2)
            assert row.backend == "cpu_numba" or 0 <= row.difference <= 1e-6


def timed_row(backend, variant, seconds, status="measured", **others):
    timings = [Timing(backend, variant, 1, 1, 0.0, seconds, first_call=first) for first in (True, False, False)]
    return Row(backend, variant, None, status, measurement=Measurement.of(timings), **others)


def test_a_speed_up_is_over_the_fastest_right_way_of_the_processor():
    """Whatever its variant and order; ways that are wrong, untimed or compute less do not count."""
    rows = with_speed_ups([
        timed_row("gpu_cupy", "block", 0.002),
        timed_row("gpu_cupy", "counts", 0.001, work="smooth counts"),
        timed_row("cpu_numba", "block", 0.8),
        timed_row("cpu_numba", "test each step", 0.4),
        timed_row("cpu_numba", "racing", 0.1, status="wrong"),
        Row("cpu_numpy", "block", None, "skipped"),
        timed_row("cpu_numpy", "counts", 0.2, work="other counts"),
    ])  # fmt: skip
    found = {(row.backend, row.variant): (row.over, row.speed_up and round(row.speed_up.ratio, 6)) for row in rows}
    assert found == {
        ("gpu_cupy", "block"): ("cpu_numba test each step", 200.0),
        ("gpu_cupy", "counts"): ("", None),
        ("cpu_numba", "block"): ("cpu_numba test each step", 0.5),
        ("cpu_numba", "test each step"): ("", None),
        ("cpu_numba", "racing"): ("", None),
        ("cpu_numpy", "block"): ("", None),
        ("cpu_numpy", "counts"): ("", None),
    }


def test_what_is_measured_of_a_lab_is_its_field_or_else_its_state(wave):
    assert isinstance(benchmark_of(Diffusion).target(Diffusion(ny=8, nx=8)), FieldTarget)
    target = benchmark_of(wave).target(wave(**SMALL))
    assert isinstance(target, StateTarget)
    target.begin(1)
    first = target.result()
    assert first.shape == (2 * 24 * 36,)
    target.warm()
    assert target.advance(3).steps == 3
    assert not np.array_equal(target.result(), first)
    target.begin(2)
    np.testing.assert_array_equal(target.result(), first)
    target.close()


def test_a_lab_may_define_its_benchmark_in_its_module_or_in_benchmark_py(wave, monkeypatch):
    assert type(benchmark_of(wave)) is LabBenchmark
    own = LabBenchmark(wave)
    monkeypatch.setattr(sys.modules[wave.__module__], "BENCHMARK", own, raising=False)
    assert benchmark_of(wave) is own
    name = f"{wave.PACKAGE}.benchmark"
    module = ModuleType(name)
    module.__spec__, module.BENCHMARK = machine.__spec__, "no benchmark"
    monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(TypeError, match=f"BENCHMARK in {name} must be a Benchmark, not str"):
        benchmark_of(wave)
