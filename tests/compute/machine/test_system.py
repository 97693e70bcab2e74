"""The state of the machine: a real CPU, and GPUs through a fake NVML."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import fields

import psutil
import pytest

from compute.devices import backends
from compute.devices.backends import backend
from compute.machine import gpu_nvml, machine, system
from compute.machine.system import GpuReading, Reading, System
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


def until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_processor_s_use_is_that_of_the_time_between_two_readings():
    read = System().read
    assert read().cpu.use == ()  # no earlier reading to compare with
    end = time.monotonic() + 120
    while True:  # until this thread has had one core for most of half a second
        one = time.monotonic() + 0.5
        while time.monotonic() < one:
            pass
        cpu = read().cpu
        if max(cpu.use) > 40 or time.monotonic() > end:
            break
    assert len(cpu.use) == len(os.sched_getaffinity(0))
    assert all(0 <= percent <= 100 for percent in cpu.use)
    assert max(cpu.use) > 40
    assert cpu.memory_total == psutil.virtual_memory().total
    assert 0 < cpu.memory_used < cpu.memory_total


def test_a_gpu_is_read_in_plain_units(nvml):
    nvml.use(os.getpid(), 2.0)
    gpu, other = System().read().gpus
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
def test_a_figure_that_is_not_supported_is_none_and_the_others_are_there(nvml, function, field):
    nvml.unsupported.add(function)
    gpu = System().read().gpus[0]
    also = {"memory_total"} if field == "memory_used" else set()
    assert {f.name for f in fields(GpuReading) if getattr(gpu, f.name) is None} == {field} | also


def test_a_gpu_that_is_lost_is_said_and_comes_back(nvml, monkeypatch):
    monkeypatch.setattr(system, "AGAIN", 0.0)
    machine = System()
    assert len(machine.read().gpus) == 2
    nvml.lost = True
    reading = machine.read()
    assert (reading.gpus, reading.problem) == ((), "NVML has failed: GPU is lost")
    assert reading.cpu.memory_total > 0
    machine.read()  # it does not restart either
    nvml.lost = False
    assert len(machine.read().gpus) == 2
    assert machine.read().problem == ""


def test_a_failed_nvml_is_not_asked_again_at_once(nvml):
    nvml.lost = True
    machine = System()
    for _ in range(3):
        assert "NVML does not start: GPU is lost" in machine.read().problem
    assert nvml.starts == 1


def test_without_the_library_the_install_line_is_said_and_without_a_driver_nothing(nvml, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_nvml.INSTALL in System().read().problem
    monkeypatch.setattr(gpu_nvml.shutil, "which", lambda name: None)
    reading = System().read()
    assert (reading.gpus, reading.problem) == ((), "")


def test_gpus_are_numbered_as_cuda_numbers_them(nvml, monkeypatch):
    """By the rules of the CUDA C++ Programming Guide: an invalid entry hides itself and all entries after it."""
    uuids = ["GPU-aa11", "GPU-aa22", "GPU-bb33"]
    orders = {None: [0, 1, 2], "": [], "2,0": [2, 0], "0,7,1": [0], "-1": [], "GPU-bb": [2], "GPU-aa": []}
    assert {order: gpu_nvml.visible(order, uuids) for order in orders} == orders
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [(gpu.index, gpu.name) for gpu in System().read().gpus] == [(0, "NVIDIA A40")]


def test_a_part_of_a_gpu_is_read_by_its_uuid(nvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-77,1")
    nvml.parts["MIG-77"] = "NVIDIA H200 MIG 1g.18gb"
    part, other = System().read().gpus
    assert (part.index, part.name, part.use) == (0, "NVIDIA H200 MIG 1g.18gb", None)  # NVML reports no use of a part
    assert (part.memory_total, part.clock) == (18 * 2**30, 1755e6)
    assert other.name == "NVIDIA A40"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-gone,1")
    assert System().read().gpus == ()
    assert gpu_nvml.visible("1,MIG-GPU-aa/1/0,GPU-b", ["GPU-a", "GPU-b"]) == [1, "MIG-GPU-aa/1/0", 1]


def test_gpus_that_cuda_numbers_by_speed_are_not_mixed_up(nvml, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    reading = System().read()
    assert (reading.gpus, reading.problem) == (
        (), "CUDA numbers these GPUs by speed and NVML by bus: set CUDA_DEVICE_ORDER=PCI_BUS_ID",
    )  # fmt: skip
    nvml.names = ("NVIDIA H200",) * 2  # equal GPUs have only one order
    assert len(System().read().gpus) == 2
    nvml.names = ("NVIDIA H200", "NVIDIA A40")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    assert not System().read().problem  # a name is sufficient


def test_cuda_numbers_gpus_by_their_bus_unless_the_user_says_otherwise(monkeypatch):
    for chosen in ("FASTEST_FIRST", None):
        monkeypatch.setenv("CUDA_DEVICE_ORDER", chosen or "")  # restored at the end of the test
        if chosen is None:
            del os.environ["CUDA_DEVICE_ORDER"]
        backends._why_missing.__wrapped__(backends.backend("gpu_cupy"))
        assert os.environ["CUDA_DEVICE_ORDER"] == (chosen or "PCI_BUS_ID")


SMI = """NVIDIA H200, 143771, 580.1, GPU-aa
NVIDIA A40, 46068, 580.1, GPU-bb"""
PARTS = """GPU 0: NVIDIA H200 (UUID: GPU-aa)
  MIG 1g.18gb     Device  0: (UUID: MIG-77)
  MIG 3g.71gb     Device  1: (UUID: MIG-78)
GPU 1: NVIDIA A40 (UUID: GPU-bb)"""


@pytest.mark.parametrize(
    ("order", "names"),
    [
        (None, ["NVIDIA H200", "NVIDIA A40"]), ("1", ["NVIDIA A40"]), ("", []),
        ("GPU-bb,GPU-aa", ["NVIDIA A40", "NVIDIA H200"]),
        ("MIG-78", ["NVIDIA H200 MIG 3g.71gb"]), ("MIG-0,1", []),
    ],
)  # fmt: skip
def test_a_record_names_the_gpus_that_cuda_may_use(monkeypatch, order, names):
    if order is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", order)
    monkeypatch.setattr(machine, "_run_program", lambda *words: PARTS if "-L" in words else SMI)
    gpus, driver = machine.nvidia()
    assert ([gpu["name"] for gpu in gpus], driver) == (names, "580.1")
    if order == "MIG-78":
        assert gpus[0]["memory"] == 71 * 2**30


def test_a_locked_clock_is_told(nvml):
    assert gpu_nvml.reasons(0x01) == ()  # idle
    assert gpu_nvml.reasons(0x02) == ("a clock that was locked below it (application clocks)",)
    assert gpu_nvml.reasons(0x10 | 0x100) == ("other GPUs that it follows (sync boost)", "the display's clock")


# -- a bench's conditions


def watched(nvml, monkeypatch, between, before=lambda: None):
    """Return the warnings about a case during which `between` ran."""
    monkeypatch.setattr(conditions, "OTHERS_SHARE", 1e9)  # other tests run in parallel
    before()
    watch = Watch(System())
    between()
    watch.note("case")
    return list(watch.warnings("case")), watch


def test_another_process_on_the_gpu_is_named(nvml, monkeypatch):
    def between():
        nvml.use(os.getpid(), 1.0)
        nvml.use(os.getppid(), 3.5)

    told, watch = watched(nvml, monkeypatch, between)
    name = psutil.Process(os.getppid()).name()
    assert told == [f"another process used cuda:{k}: {name} (pid {os.getppid()}, 3.5 GiB)" for k in (0, 1)]
    plain = watch.as_record()
    assert plain["cases"][0]["warnings"] == told
    assert plain["before"]["gpus"][0]["users"] == ()
    assert len(plain["after"]["gpus"][0]["users"]) == 2


def test_in_a_container_the_one_new_process_is_taken_for_ours(nvml, monkeypatch):
    assert watched(nvml, monkeypatch, lambda: nvml.use(ELSEWHERE))[0] == []
    told, _ = watched(nvml, monkeypatch, lambda: nvml.use(ELSEWHERE + 1))  # the first process existed before
    assert told == [f"another process used cuda:{k}: a process (pid {ELSEWHERE})" for k in (0, 1)]


def test_a_clock_that_was_held_down_is_said_with_its_reason(nvml, monkeypatch):
    def hot():
        nvml.throttle = 0x40

    told, _ = watched(nvml, monkeypatch, hot)
    assert told[0] == "the clock of cuda:0 was held down by heat (hardware) (1755 of 1980 MHz)"

    def capped():
        nvml.throttle = 0x1
        nvml.violated = 700_000_000

    assert watched(nvml, monkeypatch, capped)[0][0] == "the clock of cuda:0 was held down by power or heat for 1.4 s"
    assert watched(nvml, monkeypatch, lambda: None)[0] == []  # earlier throttling does not count


def test_a_processor_that_others_keep_busy_is_said(monkeypatch):
    moments = iter([(100.0, 400.0, 10.0), (107.0, 420.0, 11.0), (108.0, 440.0, 12.0)])  # busy, in all, this process
    clock = iter([0.0, 2.0, 4.0])
    monkeypatch.setattr(conditions, "_processor_seconds", lambda: next(moments))
    monkeypatch.setattr(conditions.psutil, "cpu_count", lambda: 10)
    monkeypatch.setattr(System, "read", lambda self: Reading(next(clock), system.CpuReading("CPU")))
    watch = Watch(System())
    watch.note("loaded")
    watch.note("quiet")
    assert watch.warnings("loaded") == ("other processes kept 3.0 of 10 CPU threads busy",)
    assert watch.warnings("quiet") == ()
    assert [case["cores_of_others"] for case in watch.as_record()["cases"]] == [3.0, 0.0]


def test_the_work_of_others_is_the_machines_less_our_own(monkeypatch):
    """Of 12 s of CPU time in 4 s, 2 were ours; the counters of some systems do not advance."""
    moments = iter([(100.0, 400.0, 10.0), (112.0, 440.0, 12.0), (100.0, 400.0, 10.0)])
    clock = iter([1.0, 5.0, 6.0])
    monkeypatch.setattr(conditions, "_processor_seconds", lambda: next(moments))
    monkeypatch.setattr(conditions.time, "monotonic", lambda: next(clock))
    work = OtherWork()
    assert work.cores() == 2.5
    assert work.cores() is None


def test_what_disturbed_a_case_of_several_parts_is_said_once(monkeypatch):
    """2 s with 3 cores used by others, 2 s of another case, 1 s without load: 2 cores on average."""
    moments = iter([(0.0, 0.0, 0.0), (6.0, 20.0, 0.0), (14.0, 40.0, 8.0), (15.0, 50.0, 9.0)])
    clock = iter([0.0, 2.0, 4.0, 5.0])
    monkeypatch.setattr(conditions, "_processor_seconds", lambda: next(moments))
    monkeypatch.setattr(conditions.psutil, "cpu_count", lambda: 10)
    monkeypatch.setattr(System, "read", lambda self: Reading(next(clock), system.CpuReading("CPU")))
    watch = Watch(System())
    for title in ("one", "other", "one"):
        watch.note(title)
    assert watch.warnings("one") == ("other processes kept 2.0 of 10 CPU threads busy",)
    assert [(case["title"], case["cores_of_others"]) for case in watch.as_record()["cases"]] == [
        ("one", 2.0), ("other", 0.0),
    ]  # fmt: skip


# -- the sampler


def test_a_sampler_works_while_somebody_looks(nvml):
    sampler, threads = Sampler(period=0.02), set(threading.enumerate())
    assert not sampler.working
    sampler.look("one")
    sampler.look("two")
    until(lambda: len(sampler.history()) > 2)
    assert len(set(threading.enumerate()) - threads) == 1
    sampler.leave("one")
    time.sleep(0.05)
    assert sampler.working
    sampler.leave("two")
    sampler.leave("nobody")
    until(lambda: not sampler.working)
    count = len(sampler.history())
    time.sleep(0.06)
    assert len(sampler.history()) == count
    sampler.look("three")
    until(lambda: len(sampler.history()) > count)
    sampler.leave("three")
    until(lambda: not sampler.working)


def test_lookers_share_one_thread():
    readings = []
    sampler = Sampler(lambda: readings.append(threading.get_ident()) or System().read(), period=0.02)
    for who in range(20):
        sampler.look(who)
    until(lambda: len(readings) > 3)
    for who in range(20):
        sampler.leave(who)
    until(lambda: not sampler.working)
    assert len(set(readings)) == 1


def test_a_reading_that_fails_does_not_end_the_others(caplog):
    calls = []

    def read():
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("planted")
        return System().read()

    sampler = Sampler(read, period=0.02)
    sampler.look("one")
    until(lambda: len(sampler.history()) > 2)
    sampler.leave("one")
    until(lambda: not sampler.working)
    assert "planted" in caplog.text


def test_a_driver_that_hangs_does_not_hold_up_those_who_look():
    go = threading.Event()

    def read():
        go.wait(120)
        return System().read()

    sampler = Sampler(read, period=0.02)
    start = time.monotonic()
    sampler.look("one")
    assert sampler.history() == ()
    sampler.leave("one")
    sampler.look("two")
    sampler.leave("two")
    assert time.monotonic() - start < 60  # of the 120 that the driver takes
    go.set()
    until(lambda: not sampler.working)


def _of_this_process(gpu):
    return sum(user.memory for user in gpu.users if user.mine)


@pytest.mark.gpu
def test_nvml_reads_a_real_gpu():
    chosen = backend("gpu_cupy")
    if chosen.missing:
        pytest.skip(chosen.missing)
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    device = chosen.open_device()
    device.close()  # memory that the pool keeps would be given to the array below
    before = System().read()
    assert before.problem == ""
    about, first = device.describe(), before.gpus[0]
    assert first.name == about["name"]
    array = device.allocate((2**28,), "float32")  # 1 GiB
    device.synchronise()
    gpu = System().read().gpus[0]
    print(gpu)
    assert gpu.memory_total == pytest.approx(about["memory"], rel=0.03)
    assert _of_this_process(gpu) >= _of_this_process(first) + 0.9 * 2**30  # others may use the GPU, too
    assert 0 <= gpu.use <= 100
    assert 1e8 < gpu.clock <= gpu.clock_limit
    assert 10 < gpu.temperature < 110
    assert 10 < gpu.power < 1.2 * gpu.power_limit
    assert gpu.held_down is not None
    watch = Watch(System())
    watch.note("case")
    print(watch.as_record())
    assert not any("another process" in text and f"pid {os.getpid()}" in text for text in watch.warnings("case"))
    del array
    device.close()
