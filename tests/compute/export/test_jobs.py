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
from compute.process import tasks, watchdog
from compute.process.tasks import Result, TaskProcess
from tests.compute.export.chores import babble, count, deaf, full, heavy, parent, refuse, stumble, unsendable, vanish

# -- helpers


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


def ran(task, *args, **options):
    """Return a job of one of these tasks, after its end."""
    made = started(task, *args, **options)
    assert made.join(240)
    return made


def until(condition, seconds=300.0):
    """Wait until the condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not true in time"
        time.sleep(0.01)


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


# -- results


class Page:
    """A client of jobs."""


@pytest.mark.parametrize("ends", ["done", "failed", "cancelled", "cancelled while it waits"])
def test_what_is_kept_of_a_job_keeps_nothing_of_who_asked(turns, ends):
    """A listing of code is kept for later clients; it kept the page of the first client alive."""
    page = Page()
    task, *args = (refuse,) if ends == "failed" else (count, 2, 0.01)
    first = started(count, 9, 0.05, queue=turns) if ends == "cancelled while it waits" else None
    made = started(task, *args, queue=turns, client=page)
    if ends.startswith("cancelled"):
        made.cancel()
    assert made.join(240)
    assert made.state == ends.split()[0]
    page = weakref.ref(page)
    gc.collect()
    assert page() is None
    if first:
        assert first.join(240)


def test_a_job_notes_when_it_was_over():
    before = time.monotonic()
    assert before < ran(count, 1, 0.0).ended < time.monotonic()


@pytest.mark.parametrize(("lane", "order"), [(FILM, os.SCHED_IDLE), (QUICK, os.SCHED_OTHER), (STATE, os.SCHED_OTHER)])
def test_a_result_comes_back_from_a_process_of_low_priority(lane, order):
    """An awaited result gets a share of a fully loaded machine; a film does not."""
    made = ran(count, 3, 0.0, lane=lane)
    assert (made.state, made.part, made.text) == ("done", 1.0, "")
    assert made.result == (3, min(19, os.nice(0) + 10), order)


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


def test_much_is_sent_and_much_comes_back():
    ballast = os.urandom(2**24)
    assert ran(heavy, ballast).result == ballast


def test_one_that_floods_its_output_is_heard_and_ends():
    made = started(babble)
    assert made.join(240)
    assert (made.state, made.result) == ("done", "done")


# -- pause, resume, cancel


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
    made.cancel()
    assert made.join(240)
    assert made.state == "cancelled"


def test_a_double_click_on_go_on_and_pause_gives_the_turn_on():
    """The second click comes before the first is handled: the job pauses for both."""
    queue = JobQueue()
    made = started(count, 10_000, 0.005, queue=queue)
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
    made.cancel()
    assert made.join(240)
    assert (made.state, made.text) == ("cancelled", "")


def test_cancelling_ends_it_with_all_that_it_has_started(tmp_path):
    made = started(parent, str(tmp_path))
    pids = pids_in(tmp_path)
    assert all(alive(pid) for pid in pids)
    made.cancel()
    made.cancel()
    assert made.join(240)
    assert made.state == "cancelled"
    until(lambda: not any(alive(pid) for pid in pids))


def test_a_job_that_is_over_never_ends_another_process(monkeypatch):
    """Its process id may have been reused."""
    process = []
    init = TaskProcess.__init__

    def noted(self, **how):
        init(self, **how)
        process.append(self)

    monkeypatch.setattr(TaskProcess, "__init__", noted)
    made = started(count, 1, 0.0, queue=JobQueue())
    assert made.join(240)
    other = subprocess.Popen(["sleep", "600"], process_group=0)
    try:
        process[0].pid = process[0]._process.pid = other.pid  # as if process ids had wrapped around
        made.cancel()
        made.pause()
        process[0].kill()
        time.sleep(0.3)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    assert made.state == "done"


def test_no_click_waits_for_a_child_that_does_not_read():
    """The data sent to the child exceed the size of any pipe, and the child is stopped; no click blocks."""
    made = started(heavy, bytes(2**24), queue=JobQueue())
    until(lambda: made._process is not None)
    os.kill(made._process.pid, signal.SIGSTOP)
    clicks = threading.Thread(target=lambda: [made.pause(), made.resume(), made.pause(), made.cancel()], daemon=True)
    clicks.start()
    clicks.join(120)
    assert not clicks.is_alive()
    assert made.join(240)
    assert made.state == "cancelled"


def test_a_pause_does_not_break_what_is_on_its_way():
    ballast = bytes(2**24)
    made = started(heavy, ballast, queue=JobQueue())
    until(lambda: made._process is not None)
    for _ in range(20):
        made.pause()
        made.resume()
    assert made.join(240)
    assert (made.state, made.text, made.result == ballast) == ("done", "", True)


# -- death


@pytest.mark.parametrize(
    ("sign", "text"),
    [(signal.SIGKILL, "SIGKILL, from outside"), (signal.SIGSEGV, "it was ended by SIGSEGV")],
)
@pytest.mark.parametrize("paused", [False, True])
def test_a_process_that_dies_is_told(sign, text, paused):
    made = started(count, 10_000, 0.005)
    until(lambda: made.part > 0)
    if paused:
        made.pause()
        until(lambda: not made._has_turn)
    os.kill(made._process.pid, sign)
    assert made.join(240)
    assert made.state == "failed"
    assert made.text.endswith(text)


def test_a_process_that_is_stopped_is_given_up(monkeypatch):
    monkeypatch.setattr(tasks, "QUIET", 0.0)
    monkeypatch.setattr(tasks, "STOPPED", 1.0)
    made = started(count, 10_000, 0.005)
    until(lambda: made.part > 0)
    os.kill(made._process.pid, signal.SIGSTOP)
    assert made.join(240)
    assert made.state == "failed"
    assert made.text == "its process was ended: it was stopped by SIGSTOP for more than 1 s"


def test_a_process_that_is_stopped_before_it_reads_is_given_up(monkeypatch):
    monkeypatch.setattr(tasks, "QUIET", 0.0)
    monkeypatch.setattr(tasks, "STOPPED", 1.0)
    made = started(heavy, bytes(2**24), queue=JobQueue())
    until(lambda: made._process is not None)
    os.kill(made._process.pid, signal.SIGSTOP)
    assert made.join(240)
    assert (made.state, made.text[:25]) == ("failed", "its process was ended: it")


def test_a_process_that_does_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(tasks, "QUIET", 0.0)
    monkeypatch.setattr(tasks, "IDLE", 2.0)
    made = started(deaf)
    assert made.join(240)
    assert (made.state, made.text) == ("failed", "its process was ended: it did nothing for more than 2 s")


def test_a_process_that_waits_for_a_processor_has_more_time_within_a_bound(monkeypatch):
    asked = []

    def waits(pid):
        """Report an hour of waiting since the job began."""
        asked.append(pid)
        return {"1": 3600.0 * (len(asked) > 1)}

    monkeypatch.setattr(watchdog, "processor_waits", waits)
    monkeypatch.setattr(jobs, "MOST_WAITS", 5)
    made = started(count, 10_000, 0.01, deadline=0.6)
    assert made.join(240)
    assert made.text == "it took longer than the allowed 0.6 s"
    assert 3.6 < made.seconds < 7.0
    assert len(asked) > 2


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
    assert made.join(240)
    assert (made.state, made.text) == ("done", "")


def test_a_deadline_is_kept_and_a_pause_does_not_count():
    made = started(count, 10_000, 0.01, deadline=1000.0)
    until(lambda: made.part > 0)
    made.pause()
    until(lambda: not made._has_turn)
    before, watching = made.seconds, made._process.watchdog
    watching.limits = replace(watching.limits, deadline=int(before) + 1)
    time.sleep(1.5)
    assert made.state == "paused"
    assert made.seconds == before
    made.resume()
    assert made.join(240)
    assert made.state == "failed"
    assert made.text == f"it took longer than the allowed {int(before) + 1} s"


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


# -- turns

ONE, OTHER = JobLane("one", 1), JobLane("other", 1)


def test_what_is_quick_does_not_wait_behind_films(turns):
    films = [started(count, 10_000, 0.005, lane=FILM, queue=turns) for _ in range(FILM.turns + 2)]
    assert [film.state for film in films].count("waiting") == 2
    for lane in (DECODE, QUICK, BRIEF, STATE, RACE, FILE):
        quick = started(count, 1, 0.0, lane=lane, queue=turns)
        assert quick.join(240)
        assert quick.state == "done"
    for film in films:
        film.cancel()
    assert all(film.join(240) for film in films)


@pytest.mark.parametrize("lane", [BRIEF, DECODE])
def test_a_short_state_and_a_file_do_not_wait_behind_long_states(turns, lane):
    long = [started(count, 10_000, 0.005, lane=STATE, queue=turns, client=n) for n in range(STATE.turns + 2)]
    until(lambda: [job.state for job in long].count("running") == STATE.turns)
    short = started(count, 1, 0.0, lane=lane, queue=turns, client="another")
    assert short.join(240)
    assert short.state == "done"
    assert not any(job.over for job in long)
    for job in long:
        job.cancel()
    assert all(job.join(240) for job in long)


def test_a_paused_job_gives_its_turn_back_and_queues_to_go_on(turns):
    first = started(count, 10_000, 0.005, lane=ONE, queue=turns)
    until(lambda: first.part > 0)
    second = started(count, 10_000, 0.005, lane=ONE, queue=turns)
    assert second.state == "waiting"
    first.pause()
    until(lambda: second.part > 0)
    part = first.part
    first.resume()
    assert first.state == "waiting"
    first.pause()
    assert first.state == "paused"
    first.resume()
    second.cancel()
    until(lambda: first.part > part)
    first.cancel()
    assert first.join(240)
    assert second.join(240)


def test_one_that_waits_can_be_cancelled_and_turns_are_given_back(turns):
    running = started(count, 10_000, 0.01, lane=ONE, queue=turns)
    waiting = started(count, 1, 0.0, lane=ONE, queue=turns)
    waiting.cancel()
    assert waiting.join(240)
    waiting.start()
    assert waiting.state == "cancelled"
    running.cancel()
    assert running.join(240)
    last = started(count, 1, 0.0, lane=ONE, queue=turns)
    assert last.join(240)
    assert last.state == "done"
    assert not turns._running
    assert not turns._waiting


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
    made[1].cancel()
    assert [job.before for job in made] == [0, 0, 1]
    made[0].cancel()
    assert made[0].join(240)
    assert [job.before for job in made] == [0, 0, 0]
    for job in (elsewhere, *made):
        job.cancel()
        assert job.join(240)
    assert Job(partial(count, 1, 0.0), ONE, queue=turns).before == 0  # it was not started


def test_races_run_one_at_a_time():
    assert RACE.turns == 1


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
    process = turns.fresh.take()
    spare = process.pid
    os.kill(spare, signal.SIGKILL)
    until(lambda: process.exited)
    turns.fresh.add(process)
    made = started(own_pid, queue=turns)
    assert made.join(240)
    assert made.state == "done"
    turns.prepare()
    until(lambda: turns.fresh.pids not in {(), (spare,)})
    (spare,) = turns.fresh.pids
    assert [ran(own_pid, queue=turns).result == spare for _ in range(2)] == [True, False]


def own_pid(report):
    """Return the process id."""
    return os.getpid()


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


def test_a_process_that_was_kept_and_died_is_not_used(turns):
    pid = ran(own_pid, queue=turns, keeps=True).result
    process = turns.used.take()
    os.kill(pid, signal.SIGKILL)
    until(lambda: process.exited)
    turns.keep(process)
    made = ran(own_pid, queue=turns, keeps=True)
    assert (made.state, made.text) == ("done", "")
    assert made.result != pid
    turns.end_idle()


def test_a_process_that_nobody_wants_ends(turns, monkeypatch):
    monkeypatch.setattr(jobs, "KEPT", 0.2)
    pid = ran(own_pid, queue=turns, keeps=True).result
    until(lambda: not alive(pid))
    assert turns.used.pids == ()


def test_a_job_that_was_held_as_it_ended_holds_up_no_other(turns):
    """The message to hold may reach the process after it has sent its result."""
    first = ran(own_pid, queue=turns, keeps=True)
    process = turns.used.take()
    process.hold(1)
    turns.keep(process)
    made = started(count, 3, 0.0, queue=turns, keeps=True)
    assert made.join(240)
    assert made.state == "done"
    assert first.result
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
    end = time.monotonic() + 500  # processes of low priority start one after the other
    while not all(client.told.is_set() for client in clients):
        assert time.monotonic() < end, [(job.state, job.text) for job in jobs]
        for job in jobs:
            job.resume()
        time.sleep(0.05)
    assert all(job.over for job in jobs)
    assert all(bool(job.text) == (job.state == "failed") for job in jobs)
    assert not turns._running
    assert not turns._waiting
    assert turns._served == {}
