"""Jobs compile the kernels of a lab while another backend computes; the engine's process compiles nothing."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from math import inf

import psutil
import pytest

from compute.engine import FrameReady, Sampled, compiling
from compute.engine.benchmark_target import BenchmarkQueue
from compute.engine.compiling import KERNELS, KernelJobs
from compute.engine.lab_host import LabHost
from compute.engine.messages import Act, FramesThrough, Run, Step, TakeSample, Update
from compute.engine.shared_memory import FrameRing
from compute.export.jobs import JobLane
from compute.lab.compilation import Interim
from tests.compute.engine.compiled import Compiled, began
from tests.compute.engine.faulty import Client, QuietSender, running
from tests.waiting import until

WAITS = Interim("NumPy computes while Numba compiles")


@pytest.fixture(autouse=True)
def _nothing_in_advance(monkeypatch):
    monkeypatch.setattr(compiling, "PREPARED", inf)


class Hosts:
    """Hosts of labs with kernels in `folder`, whose turns `work` runs."""

    def __init__(self, folder, lane=KERNELS):
        self.folder, self.jobs, self.sender = folder, KernelJobs(lane), QuietSender()
        self.hosts = []

    def open(self, kernel):
        lab = Compiled(backend="cpu_numba", size=5, folder=str(self.folder), kernel=kernel)
        number = len(self.hosts) + 1
        self.hosts.append(LabHost(number, lab, self.sender, FrameRing(FrameRing.create()), "host", self.jobs))
        return self.hosts[-1]

    def work(self, condition):
        """Run turns until `condition()`."""

        def worked():
            for host in self.hosts:
                now = time.monotonic()
                if host.wakes_at(now) <= now:
                    host.turn(now, 0.01)
            return condition()

        until(worked)


@pytest.fixture
def hosts(tmp_path):
    made = []

    def make(**options):
        made.append(Hosts(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        for host in each.hosts:
            host.close()
        each.jobs.close()


def ended(host):
    """Return whether no job of this lab is left."""
    return lambda: host.lab.interim is None or host.lab.interim.lasts


def test_a_job_compiles_while_the_lab_runs_and_its_kernels_are_then_loaded(hosts, tmp_path):
    made = hosts()
    host = made.open("heat")
    assert host.lab.interims == [WAITS]
    host.handle(Step(1, 10**9))
    made.work(lambda: host.lab.count > 10)  # computed by NumPy
    made.work(ended(host))
    assert host.lab.interims == [WAITS, None]
    assert os.getpid() not in began(tmp_path, "heat")
    count = host.lab.count
    made.work(lambda: host.lab.count > count)


def test_kernels_in_the_cache_need_no_job(hosts, tmp_path):
    (tmp_path / "heat").touch()
    host = hosts().open("heat")
    assert host.lab.interim is None
    assert not began(tmp_path, "heat")
    host.turn(time.monotonic(), 1.0)  # shows the first frame
    assert host.wakes_at(time.monotonic()) > time.monotonic() + 0.1


def test_a_process_is_prepared_once_for_the_first_job(hosts, tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "PREPARED", 0.0)
    (tmp_path / "heat").touch()
    made = hosts()
    host, _ = made.open("heat"), made.open("heat")
    made.work((tmp_path / "compiler").is_file)
    made.work(lambda: made.jobs.counts() == (0, 0))
    (process,) = began(tmp_path, "compiler")
    host.handle(Update(1, 1, {"kernel": "wave"}))
    host.turn(time.monotonic(), 1.0)
    made.work(ended(host))
    assert began(tmp_path, "wave") == began(tmp_path, "compiler") == [process]


def test_a_kernel_that_compiles_quickly_computes_while_the_chosen_one_compiles(hosts, tmp_path):
    made = hosts()
    host = made.open("staged lose")  # the chosen one fails
    made.work(ended(host))
    waits = Interim("Numba computes with its quick kernel while a faster one compiles", variant="quick")
    problem = "because a faster one did not compile: the kernels are not in the cache"
    fails = Interim(f"Numba computes with its quick kernel, {problem}", lasts=True, variant="quick")
    assert host.lab.interims == [WAITS, waits, fails]
    assert began(tmp_path, "quick staged lose") == began(tmp_path, "lose")


def test_only_the_newest_values_of_a_lab_are_compiled(hosts, tmp_path):
    made = hosts(lane=JobLane("kernels", 4, 60.0))
    host = made.open("slow 1")
    made.work(lambda: began(tmp_path, "slow 1"))
    (process,) = began(tmp_path, "slow 1")
    for kernel in ("slow 2", "wave"):
        host.handle(Update(1, 1, {"kernel": kernel}))
        host.turn(time.monotonic(), 1.0)
    made.work(ended(host))
    assert host.lab.interims[-1] is None
    until(lambda: not psutil.pid_exists(process))
    assert made.jobs.counts() == (0, 0)


def test_a_change_of_other_values_keeps_the_job(hosts, tmp_path):
    made = hosts()
    host = made.open("heat")
    host.handle(Update(1, 1, {"level": 0.25}))
    host.turn(time.monotonic(), 1.0)
    made.work(ended(host))
    assert len(began(tmp_path, "heat")) == 1


def test_an_action_may_change_the_kernels(hosts, tmp_path):
    """An undo restores the previous text."""
    made = hosts()
    (tmp_path / "heat").touch()
    host = made.open("heat")
    host.handle(Act(1, "choose", {"kernel": "wave"}))
    host.turn(time.monotonic(), 1.0)
    assert host.lab.interim == WAITS
    host.handle(Act(1, "choose", {"kernel": "heat"}))
    host.turn(time.monotonic(), 1.0)
    assert host.lab.interim is None
    assert made.jobs.counts()[0] == 0


def test_two_labs_share_a_job_and_one_may_leave_it(hosts, tmp_path):
    made = hosts()
    first, second = made.open("heat"), made.open("heat")
    first.close()
    made.hosts.remove(first)
    made.work(ended(second))
    assert second.lab.interims == [WAITS, None]
    assert len(began(tmp_path, "heat")) == 1


def test_labs_take_turns(hosts, tmp_path):
    made = hosts(lane=JobLane("kernels", 1, 60.0))
    first, second = made.open("slow"), made.open("heat")
    made.work(lambda: began(tmp_path, "slow"))
    assert made.jobs.counts() == (1, 1)
    assert not began(tmp_path, "heat")
    first.close()
    made.hosts.remove(first)
    made.work(ended(second))
    assert second.lab.interim is None


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("slow", "did not compile: it took longer than the allowed 0.2 s"),
        ("fail", "did not compile: planted"),
        ("crash", "did not compile: its process ended before it was done: it was ended by SIGSEGV"),
        ("lose", "did not compile: the kernels are not in the cache"),
        ("large", "cannot continue: planted: no room"),
    ],
)
def test_numpy_goes_on_after_a_failure_until_other_values_are_compiled(hosts, kernel, reason):
    made = hosts(lane=JobLane("kernels", 1, 0.2 if kernel == "slow" else 60.0))
    host = made.open(kernel)
    made.work(ended(host))
    words = f"NumPy computes, because Numba {reason}"
    assert host.lab.interim == Interim(words, lasts=True)
    host.handle(Update(1, 1, {"level": 0.25}))
    host.turn(time.monotonic(), 1.0)
    assert made.jobs.counts() == (0, 0)  # the same values are not tried again
    host.handle(Update(1, 2, {"kernel": "heat"}))
    host.turn(time.monotonic(), 1.0)
    assert host.lab.interim == WAITS


def test_a_backend_without_enough_memory_is_tried_again_on_a_smaller_grid(hosts, tmp_path):
    (tmp_path / "large").touch()
    host = hosts().open("large")
    assert host.lab.interim == Interim("NumPy computes, because Numba cannot continue: planted: no room", lasts=True)
    host.handle(Update(1, 1, {"size": 4}))
    host.turn(time.monotonic(), 1.0)
    assert host.lab.interim is None


def test_the_times_of_numpy_are_not_counted_for_the_other_backend(hosts, tmp_path):
    made = hosts()
    host = made.open("slow")
    host.pacer.steps, host.pacer.cost = 10**6, 1.0
    host.handle(Run(1))
    host.handle(FramesThrough(1, 10))
    made.work(lambda: host.pacer.tally.steps > 5)
    (tmp_path / "wave").touch()
    host.handle(Update(1, 1, {"kernel": "wave"}))
    before = host.pacer.tally.steps
    host._carry_out(inf)
    assert host.lab.interim is None
    assert before > 0 == host.pacer.tally.steps == host.pacer.cost


def test_a_measurement_begins_after_its_kernels_are_compiled(hosts):
    made = hosts()
    host = made.open("heat")
    queue = BenchmarkQueue(made.sender)
    queue.add(TakeSample(1, 1, 1), host.lab)
    now = time.monotonic()
    assert now < queue.wakes_at(now) < now + 1
    made.work(ended(host))
    assert queue.wakes_at(now) <= now
    queue.drop(1)


def test_a_backend_that_was_not_compiled_is_not_measured(hosts):
    """NumPy's times must not be shown under the name of the chosen backend."""
    made = hosts()
    host = made.open("fail")
    made.work(ended(host))
    queue, errors = BenchmarkQueue(made.sender), []
    made.sender.report_error = lambda lab, error, event: errors.append(str(error))
    queue.add(TakeSample(1, 1, 1), host.lab)
    queue.turn(0.0, 0.0)
    assert errors == ["NumPy computes, because Numba did not compile: planted"]
    assert not any(isinstance(each, Sampled) for each in made.sender.said)
    assert queue.wakes_at(0.0) == inf


def test_an_engine_ends_the_compilations_of_closed_labs_and_its_processes_with_itself(tmp_path):
    with contextmanager(running)() as engine:
        clients = [
            Client(engine, kind="compiled", backend="cpu_numba", folder=str(tmp_path), kernel=f"slow {n}")
            for n in (1, 2)
        ]
        for client in clients:
            client.handle.run()
            client.credit(50)
            client.wait(FrameReady, 3)  # frames of both while one of them is compiled
        until(lambda: began(tmp_path, "slow 1"))
        (process,) = began(tmp_path, "slow 1")
        clients[0].close()
        until(lambda: not psutil.pid_exists(process))
        until(lambda: began(tmp_path, "slow 2"))
        (process,) = began(tmp_path, "slow 2")
    until(lambda: not psutil.pid_exists(process))
