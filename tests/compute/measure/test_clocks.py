"""The clock of a GPU at a measurement, through a fake NVML, and where it is shown."""

from __future__ import annotations

import io
import sys
from math import isnan, nan
from types import SimpleNamespace

import pytest
from rich.console import Console

from app.page.explain import explained
from app.readout import readout_html
from compute.devices.backends import backend
from compute.devices.devices import Host
from compute.engine import benchmark_target
from compute.labs.diffusion import Diffusion, benchmark
from compute.machine import gpu_nvml
from compute.measure import clocks, report
from compute.measure.case import BenchPlan, Results, Row
from compute.measure.statistics import Measurement
from compute.measure.timing import Timing
from compute.measure.verdict import Standing, Variant
from tests.comparing import answer_of
from tests.fake_nvml import FakeNvml


def gpu(name):
    return SimpleNamespace(kind="gpu", describe=lambda: {"name": name})


@pytest.fixture
def driver(monkeypatch):
    """Install a driver with GPUs of the given names."""

    def install(*names):
        fake = FakeNvml(names)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        monkeypatch.setattr(gpu_nvml.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
        clocks._gpus.cache_clear()
        return fake

    yield install
    clocks._gpus.cache_clear()


@pytest.mark.parametrize("visible", [None, "", "1"])
def test_the_clock_is_that_of_the_gpu_of_this_name_whatever_cuda_may_use(driver, monkeypatch, visible):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    driver("NVIDIA H200", "NVIDIA A40")
    assert clocks.clock_rate(gpu("NVIDIA A40")) == 1755 / 1980


def test_an_unknown_clock_is_nan(driver, monkeypatch):
    fake = driver("NVIDIA H200", "NVIDIA H200")
    assert isnan(clocks.clock_rate(gpu("NVIDIA H200")))  # which one?
    assert isnan(clocks.clock_rate(gpu("AMD Radeon 780M")))
    assert isnan(clocks.clock_rate(Host()))
    fake.names = ("NVIDIA H200",)
    clocks._gpus.cache_clear()
    assert clocks.clock_rate(gpu("NVIDIA H200")) == 1755 / 1980
    fake.unsupported.add("nvmlDeviceGetClockInfo")
    assert isnan(clocks.clock_rate(gpu("NVIDIA H200")))
    fake.lost = True
    assert isnan(clocks.clock_rate(gpu("NVIDIA H200")))
    monkeypatch.setattr(gpu_nvml.shutil, "which", lambda name: None)
    clocks._gpus.cache_clear()
    assert isnan(clocks.clock_rate(gpu("NVIDIA H200")))


def test_samples_next_to_a_live_lab_have_the_clock(monkeypatch):
    monkeypatch.setattr(benchmark_target, "clock_rate", lambda device: 0.2)
    work = benchmark_target.sample(Diffusion, {"backend": "cpu_numpy", "ny": 16, "nx": 16}, 3, 2)
    first, *rest = answer_of(work).timings
    assert (isnan(first.clock_rate), [timing.clock_rate for timing in rest]) == (True, [0.2, 0.2])


@pytest.mark.parametrize(("rate", "low"), [(0.17, True), (0.59, True), (0.6, False), (1.0, False), (nan, False)])
def test_a_low_clock_is_stated_on_the_page_and_by_bench(rate, low):
    timings = [Timing("gpu_wgpu", "T-step", 10, 576, launch=0.1, compute=1.0, clock_rate=rate) for _ in range(9)]
    measured = Measurement.of(timings)
    shown = explained(readout_html.ways([Standing(Variant("gpu_wgpu", "T-step"), measured, None)]))
    assert ("data-term='low clock'" in shown) is low
    case = benchmark.GridCase(24, "float32", "zero-flux")
    row = Row("gpu_wgpu", "T-step", case, "measured", measurement=measured, steps=10, difference=0.0)
    assert report.entry(row, Results(rows=[row]), benchmark.BENCHMARK)["clock_rate"] == (None if isnan(rate) else rate)
    written = io.StringIO()
    benchmark.BENCHMARK.show(Results(rows=[row]), Console(width=200, file=written))
    assert (f"low clock  gpu_wgpu T-step: the GPU ran at {100 * rate:.0f} %" in written.getvalue()) is low


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gpu_cupy", "gpu_wgpu"])
def test_the_clock_of_a_real_gpu_is_at_most_its_highest(name):
    gpu = backend(name)
    if not gpu.ready:
        pytest.skip(f"{name}: {gpu.missing}")
    rate = clocks.clock_rate(gpu.open_device())
    assert isnan(rate) or 0 < rate <= 1.05


def test_samples_of_a_bench_have_the_clock(monkeypatch):
    monkeypatch.setattr(clocks, "clock_rate", lambda device: 0.5)
    cases = benchmark.BENCHMARK.cases({"sizes": (16,), "edges": ("periodic",)}, ("float64",), gpu=False)
    plan = BenchPlan(lab="diffusion", backends=("cpu_numpy",), budget=0.1, cases=cases)
    (row,) = benchmark.BENCHMARK.run(plan).rows
    assert row.measurement.clock_rate == 0.5
