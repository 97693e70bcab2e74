"""Jobs with real processes: progress, pause, cancel, deadline, all kinds of death; no process remains."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace
from functools import partial

import psutil
import pytest

from compute.export import jobs
from compute.export.jobs import BRIEF, DECODE, FILE, FILM, QUICK, RACE, STATE, Job, JobLane, JobQueue
from compute.process import tasks
from compute.process.tasks import Result, TaskProcess
from tests import waiting
from tests.compute.export.chores import (
    babble,
    count,
    deaf,
    full,
    heavy,
    own_pid,
    parent,
    refuse,
    stumble,
    unsendable,
    vanish,
)

until = partial(waiting.until, seconds=300.0)  # on a busy machine, processes of low priority start slowly


@pytest.fixture
def turns():
    """Return a new queue with one turn per lane."""
    return JobQueue()


@pytest.fixture(autouse=True)
def nothing_left():
    """Check that all processes that a test has started end."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield

    def left():
        return [p for p in psutil.Process().children(recursive=True) if p.pid not in before and alive(p.pid)]

    until(lambda: not left())


def started(task, *args, lane=FILE, **more):
    """Return a started job of one of these tasks; in the film lane it would wait until the machine is idle."""
    made = Job(partial(task, *args), lane, **more)
    made.start()
    return made


def outcome(job):
    """Return the state and the text of a job after its end."""
    assert job.join(240)
    return job.state, job.text


def ran(task, *args, **options):
    """Return a job of one of these tasks, after its end."""
    made = started(task, *args, **options)
    outcome(made)
    return made


def cancelled(*jobs):
    """Cancel jobs, and wait for their ends."""
    for job in jobs:
        job.cancel()
    for job in jobs:
        assert outcome(job) == ("cancelled", "")


def alive(pid):
    """Return whether the process runs and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids_in(folder):
    """Return the process ids that `parent` has written."""
    until((folder / "pids").is_file)
    return [int(pid) for pid in (folder / "pids").read_text().split()]


class Page:
    """A client of jobs."""


@pytest.mark.parametrize("ends", ["done", "failed", "cancelled", "cancelled while it waits"])
def test_a_job_that_is_kept_keeps_its_time_and_nothing_of_its_client(turns, ends):
    """A listing of code is kept for later clients; it kept the page of the first client alive."""
    page, before = Page(), time.monotonic()
    task, *args = (refuse,) if ends == "failed" else (count, 2, 0.01)
    first = started(count, 9, 0.05, queue=turns) if ends == "cancelled while it waits" else None
    made = started(task, *args, queue=turns, client=page)
    if ends.startswith("cancelled"):
        made.cancel()
    assert outcome(made)[0] == ends.split()[0]
    assert before < made.ended < time.monotonic() or made.state == "cancelled"
    page = weakref.ref(page)
    gc.collect()
    assert page() is None
    if first:
        outcome(first)


@pytest.mark.parametrize(("lane", "order"), [(FILM, os.SCHED_IDLE), (QUICK, os.SCHED_OTHER), (STATE, os.SCHED_OTHER)])
def test_a_result_comes_back_from_a_process_of_low_priority(lane, order):
    """An awaited result gets a share of a fully loaded machine; a film does not."""
    made = ran(count, 3, 0.0, lane=lane)
    assert (made.state, made.part, made.text) == ("done", 1.0, "")
    assert made.result == (3, min(19, os.nice(0) + 10), order)


def test_a_task_that_floods_its_output_and_progress_ends():
    assert ran(babble).result == "done"


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (refuse, "size must be at most 7, not 8"),
        (full, "No space left on device: 'film.mp4'"),
        (stumble, "KeyError: 'unheard of' (this is an error of Fieldlab)"),
        (vanish, "its process ended before it was done: it ended with exit code 9"),
        (unsendable, "its result cannot be sent: cannot pickle '_thread.lock' object (this is an error of Fieldlab)"),
    ],
)
def test_what_fails_says_why(task, text):
    made = ran(task)
    assert (made.state, made.text[-len(text) :]) == ("failed", text)


def test_a_task_that_cannot_be_sent_fails_and_gives_its_turn_back():
    made = ran(heavy, threading.Lock())
    assert made.state == "failed"
    assert "cannot pickle" in made.text
    assert ran(count, 1, 0.0).state == "done"


def test_it_stands_still_while_it_is_paused():
    made = started(count, 10_000, 0.005)
    until(lambda: made.part > 0)
    made.pause()
    assert made.state == "paused"
    until(lambda: not made._has_turn)

    def rests():
        """Return whether all progress messages have arrived."""
        part = made.part
        time.sleep(0.3)
        return made.part == part

    until(rests)
    part = made.part
    made.resume()
    until(lambda: made.part > part)
    assert made.words.startswith("at ")
    cancelled(made)


def test_a_double_click_on_go_on_and_pause_gives_the_turn_on(turns):
    """The second click comes before the first is handled: the job pauses for both."""
    made = started(count, 10_000, 0.005, queue=turns)
    until(lambda: made.part > 0)
    for _ in range(3):
        made.pause()
        until(lambda: not made._has_turn)
        made.resume()
        made.pause()
        until(lambda: not made._has_turn)
        made.resume()
        part = made.part
        until(lambda part=part: made.part > part)
    cancelled(made)


def test_cancelling_ends_it_with_all_that_it_has_started(tmp_path):
    made = started(parent, str(tmp_path))
    pids = pids_in(tmp_path)
    assert all(alive(pid) for pid in pids)
    cancelled(made, made)
    until(lambda: not any(alive(pid) for pid in pids))


def test_a_job_that_is_over_never_ends_another_process(monkeypatch):
    """Its process id may have been reused."""
    process = []
    init = TaskProcess.__init__

    def noted(self, **how):
        init(self, **how)
        process.append(self)

    monkeypatch.setattr(TaskProcess, "__init__", noted)
    made = ran(count, 1, 0.0, queue=JobQueue())
    with subprocess.Popen(["sleep", "600"], process_group=0) as other:
        try:
            process[0].pid = process[0]._process.pid = other.pid  # as if process ids had wrapped around
            made.cancel()
            made.pause()
            process[0].kill()
            time.sleep(0.3)
            assert other.poll() is None
        finally:
            other.kill()
    assert made.state == "done"


def test_no_click_waits_for_a_child_that_does_not_read(turns):
    """The data sent to the child exceed the size of any pipe, and the child is stopped; no click blocks."""
    made = started(heavy, bytes(2**24), queue=turns)
    until(lambda: made._process is not None)
    os.kill(made._process.pid, signal.SIGSTOP)
    clicks = threading.Thread(target=lambda: [made.pause(), made.resume(), made.pause(), made.cancel()], daemon=True)
    clicks.start()
    clicks.join(120)
    assert not clicks.is_alive()
    assert outcome(made)[0] == "cancelled"


def test_pauses_do_not_break_data_on_its_way_to_and_from_the_process(turns):
    ballast = os.urandom(2**24)
    made = started(heavy, ballast, queue=turns)
    until(lambda: made._process is not None)
    for _ in range(20):
        made.pause()
        made.resume()
    assert outcome(made) == ("done", "")
    assert made.result == ballast


@pytest.mark.parametrize(
    ("sign", "text", "paused"),
    [(signal.SIGKILL, "SIGKILL, from outside", False), (signal.SIGSEGV, "it was ended by SIGSEGV", True)],
)
def test_a_process_that_dies_is_told(sign, text, paused):
    made = started(count, 10_000, 0.005)
    until(lambda: made.part > 0)
    if paused:
        made.pause()
        until(lambda: not made._has_turn)
    os.kill(made._process.pid, sign)
    assert outcome(made)[0] == "failed"
    assert made.text.endswith(text)


@pytest.mark.parametrize("reads", [True, False])
def test_a_process_that_is_stopped_is_given_up(reads, monkeypatch):
    monkeypatch.setattr(tasks, "QUIET", 0.0)
    monkeypatch.setattr(tasks, "STOPPED", 1.0)
    made = started(count, 10_000, 0.005) if reads else started(heavy, bytes(2**24), queue=JobQueue())
    until(lambda: made._process is not None and (made.part > 0 or not reads))
    os.kill(made._process.pid, signal.SIGSTOP)
    assert outcome(made) == ("failed", "its process was ended: it was stopped by SIGSTOP for more than 1 s")


def test_a_process_that_does_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(tasks, "QUIET", 0.0)
    monkeypatch.setattr(tasks, "IDLE", 2.0)
    assert outcome(started(deaf)) == ("failed", "its process was ended: it did nothing for more than 2 s")


def test_a_result_that_comes_at_the_last_moment_counts(monkeypatch):
    heard = tasks.exchange

    def late(children, seconds):
        """Let the deadline pass when the result arrives."""
        found = heard(children, seconds)
        if any(isinstance(answer, Result) for _, answer in found):
            made._process.watchdog.seconds = 1e9
        return found

    monkeypatch.setattr(tasks, "exchange", late)
    made = Job(partial(count, 1, 0.0), FILE, deadline=1000.0)
    made.start()
    assert outcome(made) == ("done", "")


def test_a_deadline_is_kept_and_a_pause_does_not_count():
    made = started(count, 10_000, 0.01, deadline=1000.0)
    until(lambda: made.part > 0)
    made.pause()
    until(lambda: not made._has_turn)
    before, watching = made.seconds, made._process.watchdog
    watching.limits = replace(watching.limits, deadline=int(before) + 1)
    time.sleep(1.5)
    assert (made.state, made.seconds) == ("paused", before)
    made.resume()
    assert outcome(made) == ("failed", f"it took longer than the allowed {int(before) + 1} s")


@pytest.mark.parametrize("stopped", [False, True])
def test_it_ends_with_its_server(stopped, tmp_path):
    code = f"""if True:
        import time
        from tests.compute.export import test_jobs as tests
        job = tests.started(tests.parent, {str(tmp_path)!r})
        time.sleep(600)
    """
    server = subprocess.Popen([sys.executable, "-c", code])
    try:
        pids = pids_in(tmp_path)
        if stopped:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            until(lambda: all(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid in pids))
    finally:
        server.kill()
        server.wait()
    until(lambda: not any(alive(pid) for pid in pids))


ONE, OTHER = JobLane("one", 1), JobLane("other", 1)


def test_what_is_quick_does_not_wait_behind_films(turns):
    films = [started(count, 10_000, 0.005, lane=FILM, queue=turns) for _ in range(FILM.turns + 2)]
    assert [film.state for film in films].count("waiting") == 2
    for lane in (DECODE, QUICK, BRIEF, STATE, RACE, FILE):
        assert ran(count, 1, 0.0, lane=lane, queue=turns).state == "done"
    cancelled(*films)


def test_a_paused_job_gives_its_turn_back_and_queues_to_go_on(turns):
    first = started(count, 10_000, 0.005, lane=ONE, queue=turns)
    until(lambda: first.part > 0)
    second = started(count, 10_000, 0.005, lane=ONE, queue=turns)
    assert second.state == "waiting"
    first.pause()
    until(lambda: second.part > 0)
    part = first.part
    for click, state in ((first.resume, "waiting"), (first.pause, "paused"), (first.resume, "waiting")):
        click()
        assert first.state == state
    second.cancel()
    until(lambda: first.part > part)
    cancelled(first, second)


class Still:
    """A job without a process that records when it gets its turn."""

    lane = ONE

    def __init__(self, client, order):
        self.client, self.order = client, order

    def your_turn(self):
        self.order.append(self)


def test_one_client_with_many_does_not_keep_another_waiting(turns):
    order = []
    many, other = [Still("many", order) for _ in range(5)], Still("other", order)
    for job in (*many, other):
        turns.add(job)
    turns.deal()
    assert order == [many[0]]
    for done in range(5):
        turns.remove(order[-1])
        turns.deal()
        assert len(order) == done + 2
    assert order.index(other) == 1
    assert [job for job in order if job is not other] == many


def test_one_that_waits_knows_how_many_of_its_lane_come_before_it(turns):
    elsewhere = started(count, 10_000, 0.01, lane=OTHER, queue=turns)
    made = [started(count, 10_000, 0.01, lane=ONE, queue=turns) for _ in range(3)]
    assert [job.before for job in (elsewhere, *made)] == [0, 0, 1, 2]
    cancelled(made[1])
    assert [job.before for job in made] == [0, 0, 1]
    cancelled(made[0])
    assert [job.before for job in made] == [0, 0, 0]
    cancelled(elsewhere, made[2])
    assert Job(partial(count, 1, 0.0), ONE, queue=turns).before == 0  # it was not started


def test_each_lane_has_all_its_turns_whatever_the_others_do(turns):
    order = []
    for lane in (FILM, FILE, STATE, BRIEF, DECODE, RACE, QUICK, ONE, JobLane("other", ONE.turns, ONE.deadline)):
        for number in range(lane.turns + 1):
            job = Still(number, order)
            job.lane = lane
            turns.add(job)
        turns.deal()
        assert sum(job.lane == lane for job in order) == lane.turns


def test_a_process_that_was_started_ahead_is_used_once_and_one_that_died_is_not(turns):
    turns.prepare()
    until(lambda: turns.fresh.pids)
    (dead,) = turns.fresh.pids
    os.kill(dead, signal.SIGKILL)
    until(lambda: not alive(dead))
    assert ran(own_pid, queue=turns).state == "done"
    turns.prepare()
    until(lambda: turns.fresh.pids not in {(), (dead,)})
    (spare,) = turns.fresh.pids
    assert [ran(own_pid, queue=turns).result == spare for _ in range(2)] == [True, False]


def test_a_process_goes_on_to_the_next_job_that_keeps_its_own(turns, monkeypatch):
    monkeypatch.setattr(jobs, "USES", 3)
    monkeypatch.setattr(jobs, "KEPT", 3600.0)  # a busy machine takes half a minute to start a process of low priority
    pids = [ran(own_pid, queue=turns, keeps=keeps).result for keeps in (True, False, True, True, True)]
    first, other, *same, late = pids
    assert same == [first, first]
    assert len({first, other, late}) == 3  # no `keeps`: an own process; replaced after three jobs
    until(lambda: not alive(first))
    turns.end_idle()


@pytest.mark.parametrize("task", [refuse, vanish])
def test_a_process_whose_job_failed_is_not_kept(task, turns):
    assert ran(task, queue=turns, keeps=True).state == "failed"
    assert turns.used.pids == ()


def test_a_job_that_was_held_as_it_ended_holds_up_no_other(turns):
    """The message to hold may reach the process after it has sent its result."""
    ran(own_pid, queue=turns, keeps=True)
    process = turns.used.take()
    process.hold(1)
    turns.keep(process)
    assert ran(count, 3, 0.0, queue=turns, keeps=True).state == "done"
    turns.end_idle()


ACTS = ("start", "pause", "resume", "cancel", "kill", "stop", "go on", "wait")


class Client:
    """Waits for a job, and sets `told` at its end."""

    def __init__(self, job):
        self.job, self.told = job, threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self):
        if self.job.join(500):
            self.told.set()


def act(name, job):
    """Apply `name` to a job, or to its process from outside."""
    signs = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "go on": signal.SIGCONT}
    process = job._process
    if name in signs:
        if process is not None:
            with process._lock:  # so that the test cannot signal a reused process id
                if process._process.returncode is None:
                    os.kill(process.pid, signs[name])
    elif name == "wait":
        time.sleep(0.15)
    else:
        getattr(job, name)()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_in_whatever_order_all_end_and_everybody_is_told(seed, turns, monkeypatch):
    """A random sequence over jobs in two lanes; then paused jobs are resumed, and all processes end."""
    monkeypatch.setattr(tasks, "QUIET", 0.0)
    monkeypatch.setattr(tasks, "STOPPED", 1.0)
    choose = random.Random(seed).choice
    chores = [partial(count, 30, 0.01), vanish, refuse, partial(heavy, bytes(2**22))]
    jobs = [Job(choose(chores), lane=choose([ONE, OTHER]), client=choose("ab"), queue=turns) for _ in range(6)]
    clients = [Client(job) for job in jobs]
    for _ in range(60):
        act(choose(ACTS), choose(jobs))
    for job in jobs:
        job.start()

    def all_have_ended():
        for job in jobs:
            job.resume()
        return all(client.told.is_set() for client in clients)

    until(all_have_ended, seconds=500)  # processes of low priority start one after the other
    assert all(job.over for job in jobs)
    assert all(bool(job.text) == (job.state == "failed") for job in jobs)
    assert not turns._running
    assert not turns._waiting
    assert turns._served == {}
