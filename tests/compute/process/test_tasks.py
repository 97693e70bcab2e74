"""Children that run tasks, and pools of idle ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial

import psutil
import pytest

from compute.process.child import ProcessEnd, SparePool
from compute.process.tasks import Progress, Result, TaskProcess, exchange
from compute.process.watchdog import Deadlines, ProcessState
from tests.compute.export.chores import count, deaf, refuse, vanish
from tests.compute.export.test_jobs import alive, until


@pytest.fixture
def processes():
    """Return a function that starts a process, which is closed after the test."""
    made = []

    def start():
        made.append(TaskProcess(leads=True, low=False))
        return made[-1]

    yield start
    for process in made:
        process.close()


def answers(child):
    return [answer for _, answer in exchange([child], 0.1)]


def test_a_child_runs_one_task_after_the_other(processes):
    child, received = processes(), []
    child.give(partial(count, 1, 0.0))
    child.give(refuse)
    until(lambda: received.extend(answers(child)) or len(received) == 3)
    assert [type(answer).__name__ for answer in received] == ["Progress", "Result", "Failure"]
    assert isinstance(received[2].error, ValueError)


def test_the_answers_before_a_death_are_read_before_the_end(processes):
    child, received = processes(), []
    child.give(partial(count, 1, 0.0))
    child.channel.flush()
    until(lambda: child.channel.waiting(0.1))
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: child.exited)
    while not child.ended:
        received += answers(child)
    assert isinstance(received[0], Progress)
    assert "it was ended by SIGKILL" in child.end().text


def test_a_run_ends_with_a_result_a_failure_an_end_or_a_loss(processes):
    child, shown = processes(), []
    outcome = child.run(partial(count, 1, 0.0), on_answer=shown.append)
    assert isinstance(outcome, Result)
    assert [answer.words for answer in shown] == ["at 0"]
    assert child.run(refuse).text == "size must be at most 7, not 8"
    assert child.run(vanish) == ProcessEnd("it ended with exit code 9", natural=True)
    late = processes()
    assert late.run(deaf, Deadlines(0.5, renewed=True), extra=60.0).kind == "late"
    assert late.exited


def test_the_processor_time_of_a_childs_children_is_a_sign_of_life():
    works = "import time; end = time.monotonic() + 300\nwhile time.monotonic() < end: pass"  # if this run is killed
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {works!r}])"
    busy = subprocess.Popen([sys.executable, "-c", code], process_group=0)
    try:
        until(lambda: psutil.Process(busy.pid).children())
        state = ProcessState(busy.pid)
        used = state.processor_seconds()
        until(lambda: state.processor_seconds() > used + 0.5)
    finally:
        os.killpg(busy.pid, signal.SIGKILL)
        busy.wait()


def test_a_process_that_the_system_has_forgotten_is_not_signalled():
    """If SIGCHLD is ignored, the system forgets a process as soon as it ends."""
    code = """if True:
        import os, signal, time
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        from compute.process.tasks import TaskProcess
        child = TaskProcess(leads=True, low=False)
        os.kill(child.pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{child.pid}"):
            time.sleep(0.01)
        sent = []
        os.killpg = lambda *what: sent.append(what)
        child.kill()
        child.close()
        print(sent)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_a_pool_keeps_a_bounded_number_of_processes_and_returns_the_latest_first(processes):
    pool, made = SparePool(2), [processes() for _ in range(3)]
    for process in made:
        pool.add(process)
    until(lambda: not alive(made[2].pid))
    assert [pool.take(), pool.take(), pool.take()] == [made[1], made[0], None]
    pool.add(made[0])
    pool.add(made[1])
    assert pool.pids == (made[0].pid, made[1].pid)
    pool.close()
    assert not any(alive(process.pid) for process in made)


def test_each_idle_process_has_its_own_lifetime(processes):
    pool, late, early = SparePool(2), processes(), processes()
    pool.add(late, 3600.0)
    pool.add(early, 0.2)
    until(lambda: not alive(early.pid))
    assert pool.take() is late


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_was_killed_or_stopped_is_not_returned(processes, sign):
    pool, child = SparePool(1), processes()
    pool.add(child)
    os.kill(child.pid, sign)
    until(lambda: not child.usable)
    assert pool.take() is None
    assert not alive(child.pid)


def test_a_pool_reports_the_processes_that_ended(processes):
    pool, child = SparePool(1), processes()
    pool.add(child)
    assert pool.take_ended() == []
    os.kill(child.pid, signal.SIGTERM)
    until(lambda: child.exited)
    assert pool.take_ended() == [child]
    assert pool.pids == ()
    assert child.end().text == "it was ended by SIGTERM"
