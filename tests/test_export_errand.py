"""Exports in a process of their own: progress, pause, cancel, failure; nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from compute.export import runner
from compute.export.errand import Errand
from compute.export.runner import Runner

HERE = "tests.test_export_errand"


# -- tasks, run in the child


def count(to, pause, tell):
    """Counts, slowly; the last number, and the child's priority."""
    for number in range(to):
        tell(number / to, f"at {number}")
        time.sleep(pause)
    print("what a library prints must not disturb the answers")
    return to, os.nice(0), os.sched_getscheduler(0)


def refuse(tell):
    """A request that is wrong."""
    raise ValueError("size must be at most 7, not 8")


def stumble(tell):
    """An error of the program."""
    raise KeyError("unheard of")


def full(tell):
    """A disk without room."""
    raise OSError(28, "No space left on device", "film.mp4")


def vanish(tell):
    """Ends without a word, as for lack of memory."""
    os._exit(9)


def parent(folder, tell):
    """Has a child of its own, and waits for ever."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(folder, "pids").write_text(f"{os.getpid()} {child.pid}")
    while True:
        tell(0.5, "waiting")
        time.sleep(0.01)


def ran(task, **arguments):
    """A runner of one of these tasks, at its end."""
    made = Runner(Errand(f"{HERE}:{task}", arguments))
    made.start()
    made.join(60)
    return made


def until(condition, seconds=30.0):
    """Wait until it is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not true in time"
        time.sleep(0.01)


def test_a_result_comes_back_from_a_process_of_low_priority():
    made = ran("count", to=3, pause=0.0)
    assert (made.state, made.part, made.text) == ("done", 1.0, "")
    assert made.result == (3, min(19, os.nice(0) + 10), os.SCHED_IDLE)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("refuse", "size must be at most 7, not 8"),
        ("full", "No space left on device: 'film.mp4'"),
        ("stumble", "KeyError: 'unheard of' (this is an error of Fieldlab)"),
        ("vanish", "its process ended before it was done"),
    ],
)
def test_what_fails_says_why(task, text):
    made = ran(task)
    assert made.state == "failed"
    assert made.text.endswith(text)


def test_it_stands_still_while_it_is_paused():
    made = Runner(Errand(f"{HERE}:count", {"to": 10_000, "pause": 0.005}))
    made.start()
    until(lambda: made.part > 0)
    made.pause()
    assert made.state == "paused"
    time.sleep(0.2)
    part = made.part
    time.sleep(0.3)
    assert made.part == part
    made.go()
    until(lambda: made.part > part)
    assert made.words.startswith("at ")
    made.cancel()
    made.join(10)
    assert made.state == "cancelled"


def test_cancelling_ends_it_with_all_that_it_has_started(tmp_path):
    made = Runner(Errand(f"{HERE}:parent", {"folder": str(tmp_path)}))
    made.start()
    until(lambda: (tmp_path / "pids").is_file() and (tmp_path / "pids").read_text().count(" ") == 1)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(psutil.pid_exists(pid) for pid in pids)
    made.cancel()
    made.join(10)
    assert made.state == "cancelled"
    until(lambda: not any(alive(pid) for pid in pids), 10)


def test_it_ends_with_its_server(tmp_path):
    code = (
        "from compute.export.runner import Runner; from compute.export.errand import Errand; import time;"
        f"r = Runner(Errand('{HERE}:parent', {{'folder': {str(tmp_path)!r}}})); r.start(); time.sleep(600)"
    )
    server = subprocess.Popen([sys.executable, "-c", code])
    try:
        until(lambda: (tmp_path / "pids").is_file() and (tmp_path / "pids").read_text().count(" ") == 1)
    finally:
        server.kill()
        server.wait()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    until(lambda: not any(alive(pid) for pid in pids), 10)


def test_only_so_many_run_at_once_and_one_that_waits_can_be_cancelled():
    running = [Runner(Errand(f"{HERE}:count", {"to": 10_000, "pause": 0.01})) for _ in range(runner.AT_ONCE)]
    waiting = Runner(Errand(f"{HERE}:count", {"to": 1, "pause": 0.0}))
    for one in running:
        one.start()
    until(lambda: all(one.state == "running" for one in running))
    waiting.start()
    time.sleep(0.3)
    assert waiting.state == "waiting"
    waiting.cancel()
    waiting.join(5)
    assert waiting.state == "cancelled"
    for one in running:
        one.cancel()
        one.join(10)
    assert ran("count", to=1, pause=0.0).state == "done"  # the turns were given back


def alive(pid):
    """Whether the process runs, and is no mere entry that nobody has read."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
