"""The state of the machine: a real CPU, and GPUs through a fake NVML."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import fields
from types import SimpleNamespace
from typing import NamedTuple

import psutil
import pytest

from compute.devices.backends import Backend, backend
from compute.devices.gpu_devices import Cuda
from compute.machine import gpu_nvml, machine, system
from compute.machine.system import CpuReading, GpuReading, Reading, SystemReader
from compute.measure import conditions
from compute.measure.conditions import OtherWork, Sampler, Watch
from tests.fake_nvml import FakeNvml

ELSEWHERE = 2**22 + 7  # larger than any process id


@pytest.fixture
def nvml(monkeypatch):
    """Two GPUs."""
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(gpu_nvml.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake


class Times(NamedTuple):
    """CPU times in seconds, as psutil returns them."""

    user: float
    idle: float
    iowait: float = 0.0
    guest: float = 0.0


def test_processor_use_is_the_busy_share_of_each_permitted_core_since_the_last_reading(monkeypatch):
    times = [Times(10, 90), Times(5, 95), Times(10, 80, 10)], [Times(12, 92, 0, 2), Times(5, 99), Times(11, 80, 13)]
    left = iter(times)
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: next(left))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2}, raising=False)
    read = SystemReader().read
    assert read().cpu.use == ()  # no earlier reading to compare with
    cpu = read().cpu
    assert cpu.use == (50, 25)  # the guests' time is in the users', and waiting for a disk is idle
    assert cpu.memory_total == psutil.virtual_memory().total
    assert 0 < cpu.memory_used < cpu.memory_total


def test_a_gpu_is_read_in_plain_units(nvml):
    nvml.use(os.getpid(), 2.0)
    gpu, other = SystemReader().read().gpus
    assert (gpu.index, gpu.name, other.index, other.name) == (0, "NVIDIA H200", 1, "NVIDIA A40")
    assert (gpu.use, gpu.clock, gpu.clock_limit, gpu.temperature) == (87, 1.755e9, 1.98e9, 61)
    assert (gpu.power, gpu.power_limit, gpu.held_down) == (512.5, 700, ())
    assert (gpu.memory_used, gpu.memory_total) == (3 * 2**30, 140 * 2**30)
    assert [(user.mine, user.memory) for user in gpu.users] == [(True, 2 * 2**30)]


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", "use"),
        ("nvmlDeviceGetMemoryInfo", "memory_used"),
        ("nvmlDeviceGetClockInfo", "clock"),
        ("nvmlDeviceGetTemperature", "temperature"),
        ("nvmlDeviceGetPowerUsage", "power"),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", "held_down"),
        ("nvmlDeviceGetViolationStatus", "held_seconds"),
        ("nvmlDeviceGetComputeRunningProcesses", "users"),
    ],
)
def test_an_unsupported_figure_is_none_and_the_others_remain(nvml, function, field):
    nvml.unsupported.add(function)
    gpu = SystemReader().read().gpus[0]
    also = {"memory_total"} if field == "memory_used" else set()
    assert {f.name for f in fields(GpuReading) if getattr(gpu, f.name) is None} == {field} | also


def test_a_lost_gpu_is_reported_until_it_returns(nvml, monkeypatch):
    machine = SystemReader()
    assert len(machine.read().gpus) == 2
    nvml.lost = True
    reading = machine.read()
    assert (reading.gpus, reading.problem) == ((), "NVML has failed: GPU is lost")
    assert reading.cpu.memory_total > 0
    machine.read()
    starts = nvml.starts
    machine.read()  # a failed NVML is not started again at once
    assert nvml.starts == starts
    monkeypatch.setattr(system, "AGAIN", 0.0)
    assert "NVML does not start: GPU is lost" in machine.read().problem
    nvml.lost = False
    assert len(machine.read().gpus) == 2
    assert machine.read().problem == ""


def test_a_missing_nvml_is_reported_with_its_install_command_only_if_there_is_a_driver(nvml, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_nvml.INSTALL in SystemReader().read().problem
    monkeypatch.setattr(gpu_nvml.shutil, "which", lambda name: None)
    reading = SystemReader().read()
    assert (reading.gpus, reading.problem) == ((), "")


def test_gpus_are_numbered_as_cuda_numbers_them(nvml, monkeypatch):
    """By the rules of the CUDA C++ Programming Guide: an invalid entry hides itself and all entries after it."""
    uuids = ["GPU-aa11", "GPU-aa22", "GPU-bb33"]
    orders = {None: [0, 1, 2], "": [], "2,0": [2, 0], "0,7,1": [0], "-1": [], "GPU-bb": [2], "GPU-aa": []}
    assert {order: gpu_nvml.visible(order, uuids) for order in orders} == orders
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [(gpu.index, gpu.name) for gpu in SystemReader().read().gpus] == [(0, "NVIDIA A40")]


def test_a_part_of_a_gpu_is_read_by_its_uuid(nvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-77,1")
    nvml.parts["MIG-77"] = "NVIDIA H200 MIG 1g.18gb"
    part, other = SystemReader().read().gpus
    assert (part.index, part.name, part.use) == (0, "NVIDIA H200 MIG 1g.18gb", None)  # NVML reports no use of a part
    assert (part.memory_total, part.clock) == (18 * 2**30, 1755e6)
    assert other.name == "NVIDIA A40"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-gone,1")
    assert SystemReader().read().gpus == ()
    assert gpu_nvml.visible("1,MIG-GPU-aa/1/0,GPU-b", ["GPU-a", "GPU-b"]) == [1, "MIG-GPU-aa/1/0", 1]


def test_gpus_numbered_by_speed_are_refused_unless_they_are_equal(nvml, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    problem = "CUDA numbers these GPUs by speed and NVML by bus: set CUDA_DEVICE_ORDER=PCI_BUS_ID"
    reading = SystemReader().read()
    assert (reading.gpus, reading.problem) == ((), problem)
    nvml.names = ("NVIDIA H200",) * 2  # equal GPUs have only one order
    assert len(SystemReader().read().gpus) == 2
    nvml.names = ("NVIDIA H200", "NVIDIA A40")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    assert not SystemReader().read().problem  # a name is sufficient


@pytest.mark.parametrize("chosen", ["FASTEST_FIRST", None])
def test_cuda_numbers_gpus_by_their_bus_unless_the_user_chooses(monkeypatch, chosen):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", chosen or "")  # restored at the end of the test
    if chosen is None:
        del os.environ["CUDA_DEVICE_ORDER"]
    # A backend that no other test uses: `missing` is computed once per process and backend.
    assert Backend(f"gpu_by_{chosen}", "cuda", Cuda, ("surely_not_installed",), "by bus").missing
    assert os.environ["CUDA_DEVICE_ORDER"] == (chosen or "PCI_BUS_ID")


SMI = """NVIDIA H200, 143771, 580.1, GPU-aa
NVIDIA A40, 46068, 580.1, GPU-bb"""
PARTS = """GPU 0: NVIDIA H200 (UUID: GPU-aa)
  MIG 1g.18gb     Device  0: (UUID: MIG-77)
  MIG 3g.71gb     Device  1: (UUID: MIG-78)
GPU 1: NVIDIA A40 (UUID: GPU-bb)"""


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
@pytest.mark.parametrize(
    ("order", "names"),
    [
        (None, ["NVIDIA H200", "NVIDIA A40"]), ("1", ["NVIDIA A40"]), ("", []),
        ("GPU-bb,GPU-aa", ["NVIDIA A40", "NVIDIA H200"]),
        ("MIG-78", ["NVIDIA H200 MIG 3g.71gb"]), ("MIG-0,1", []),
    ],
)  # fmt: skip
def test_a_record_names_the_gpus_that_cuda_may_use(monkeypatch, tmp_path, order, names):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if order is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", order)
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nif [ \"$1\" = -L ]; then echo '{PARTS}'; else echo '{SMI}'; fi\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    gpus, driver = machine.nvidia()
    assert ([gpu["name"] for gpu in gpus], driver) == (names, "580.1")
    if order == "MIG-78":
        assert gpus[0]["memory"] == 71 * 2**30


def test_reasons_of_a_low_clock_are_named():
    assert gpu_nvml.reasons(0x01) == ()  # idle
    assert gpu_nvml.reasons(0x02) == ("a clock that was locked below it (application clocks)",)
    assert gpu_nvml.reasons(0x10 | 0x100) == ("other GPUs that it follows (sync boost)", "the display's clock")


# -- a bench's conditions


def warnings_of(between, monkeypatch):
    """Return the warnings about a case during which `between` ran, and the record."""
    monkeypatch.setattr(conditions, "OTHERS_SHARE", 1e9)  # other tests run in parallel
    watch = Watch(SystemReader())
    between()
    watch.note("case")
    return list(watch.warnings("case")), watch.as_record()


def test_another_process_on_the_gpu_is_named(nvml, monkeypatch):
    def between():
        nvml.use(os.getpid(), 1.0)
        nvml.use(os.getppid(), 3.5)

    warnings, record = warnings_of(between, monkeypatch)
    name = psutil.Process(os.getppid()).name()
    assert warnings == [f"another process used cuda:{k}: {name} (pid {os.getppid()}, 3.5 GiB)" for k in (0, 1)]
    assert record["cases"][0]["warnings"] == warnings
    assert record["before"]["gpus"][0]["users"] == ()
    assert len(record["after"]["gpus"][0]["users"]) == 2


def test_in_a_container_the_only_new_process_counts_as_ours(nvml, monkeypatch):
    assert warnings_of(lambda: nvml.use(ELSEWHERE), monkeypatch)[0] == []
    warnings, _ = warnings_of(lambda: nvml.use(ELSEWHERE + 1), monkeypatch)  # the first process existed before
    assert warnings == [f"another process used cuda:{k}: a process (pid {ELSEWHERE})" for k in (0, 1)]


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"throttle": 0x40}, "the clock of cuda:0 was held down by heat (hardware) (1755 of 1980 MHz)"),
        ({"violated": 700_000_000}, "the clock of cuda:0 was held down by power or heat for 1.4 s"),
    ],
)
def test_a_throttled_clock_is_reported_with_its_reason(nvml, monkeypatch, changes, warning):
    assert warnings_of(lambda: vars(nvml).update(changes), monkeypatch)[0][0] == warning
    vars(nvml).update(throttle=0x1)
    assert warnings_of(lambda: None, monkeypatch)[0] == []  # earlier throttling does not count


def replay(monkeypatch, *moments):
    """Let psutil report (seconds of all cores busy, of all cores, of this process) of one moment after the other."""
    every, own = iter(moments), iter(moments)

    def process():
        return SimpleNamespace(user=next(own)[2], system=0.0, children_user=0.0, children_system=0.0)

    def cores():
        busy, whole, _ = next(every)
        return Times(busy, whole - busy)

    fake = {"cpu_times": cores, "cpu_count": lambda: 10, "Process": lambda: SimpleNamespace(cpu_times=process)}
    monkeypatch.setattr(conditions, "psutil", SimpleNamespace(**fake))


def test_a_case_reports_the_cores_that_other_processes_kept_busy(monkeypatch):
    """2 s with 3 cores used by others, 2 s of another case, 1 s without load: 2 cores on average."""
    replay(monkeypatch, (0, 0, 0), (6, 20, 0), (14, 40, 8), (15, 50, 9))
    clock = iter([0.0, 2.0, 4.0, 5.0])
    watch = Watch(SimpleNamespace(read=lambda: Reading(next(clock), CpuReading("CPU"))))
    for title in ("one", "other", "one"):
        watch.note(title)
    assert watch.warnings("one") == ("other processes kept 2.0 of 10 CPU threads busy",)
    assert watch.warnings("other") == ()
    found = {case["title"]: case["cores_of_others"] for case in watch.as_record()["cases"]}
    assert found == {"one": 2.0, "other": 0.0}


def test_the_work_of_others_is_the_machines_without_our_own(monkeypatch):
    """Of 12 s of CPU time in 4 s, 2 were ours; the counters of some systems do not advance."""
    replay(monkeypatch, (100, 400, 10), (112, 440, 12), (100, 400, 10))
    clock = iter([1.0, 5.0, 6.0])
    monkeypatch.setattr(conditions.time, "monotonic", lambda: next(clock))
    work = OtherWork()
    assert work.cores() == 2.5
    assert work.cores() is None


# -- the sampler


class Machine:
    """A machine that signals each of its readings but the second, which fails."""

    def __init__(self):
        self.signals, self.threads, self.readings = threading.Semaphore(0), set(), 0

    def read(self):
        self.threads.add(threading.get_ident())
        self.readings += 1
        if self.readings == 2:
            raise ValueError("planted")
        self.signals.release()
        return Reading(time.monotonic(), CpuReading("CPU"))

    def wait(self, count):
        for _ in range(count):
            assert self.signals.acquire(timeout=120)


def require_ended(sampler):
    for thread in threading.enumerate():
        if thread.name == "system":
            thread.join(120)
    assert not sampler.working


def test_a_sampler_reads_in_one_thread_while_anyone_watches_even_if_a_reading_fails(caplog):
    machine = Machine()
    sampler = Sampler(machine.read, period=0.001)
    assert not sampler.working
    for viewer in range(20):
        sampler.look(viewer)
    machine.wait(3)
    assert "planted" in caplog.text
    assert len(sampler.history()) >= 2
    for viewer in range(1, 20):
        sampler.leave(viewer)
    machine.wait(50)  # it goes on for the last viewer
    assert len(machine.threads) == 1
    sampler.leave(0)
    sampler.leave("unknown")
    require_ended(sampler)
    count = len(sampler.history())
    sampler.look("again")
    machine.wait(2)
    sampler.leave("again")
    require_ended(sampler)
    assert len(sampler.history()) > count


def test_a_hanging_driver_does_not_block_viewers():
    go, answered = threading.Event(), threading.Event()

    def read():
        go.wait(120)
        answered.set()
        return Machine().read()

    sampler = Sampler(read)
    for viewer in ("one", "two"):
        sampler.look(viewer)
        assert sampler.history() == ()
        sampler.leave(viewer)
    assert not answered.is_set()
    go.set()
    require_ended(sampler)


@pytest.mark.gpu
def test_nvml_reads_a_real_gpu():
    def own_bytes(gpu):
        return sum(user.memory for user in gpu.users if user.mine)

    chosen = backend("gpu_cupy")
    if chosen.missing:
        pytest.skip(chosen.missing)
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    device = chosen.open_device()
    device.close()  # memory that the pool keeps would be given to the array below
    before = SystemReader().read()
    assert before.problem == ""
    about, first = device.describe(), before.gpus[0]
    assert first.name == about["name"]
    array = device.allocate((2**28,), "float32")  # 1 GiB
    device.synchronise()
    gpu = SystemReader().read().gpus[0]
    assert gpu.memory_total == pytest.approx(about["memory"], rel=0.03)
    assert own_bytes(gpu) >= own_bytes(first) + 0.9 * 2**30  # others may use the GPU, too
    assert 0 <= gpu.use <= 100
    assert 1e8 < gpu.clock <= gpu.clock_limit
    assert 10 < gpu.temperature < 110
    assert 10 < gpu.power < 1.2 * gpu.power_limit
    assert gpu.held_down is not None
    watch = Watch(SystemReader())
    watch.note("case")
    assert not any("another process" in text and f"pid {os.getpid()}" in text for text in watch.warnings("case"))
    del array
    device.close()
