"""Work of child processes in tests, in a file with few imports: every child process imports it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path


def count(to, pause, report):
    """Count slowly; return the last number, and the child's priority and scheduler."""
    for number in range(to):
        report(number / to, f"at {number}")
        time.sleep(pause)
    print("what a library prints must not disturb the answers")
    return to, os.nice(0), os.sched_getscheduler(0)


def refuse(report):
    """Fail because of a wrong request."""
    raise ValueError("size must be at most 7, not 8")


def stumble(report):
    """Fail because of a program error."""
    raise KeyError("unheard of")


def full(report):
    """Fail because of a full disk."""
    raise OSError(28, "No space left on device", "film.mp4")


def vanish(report):
    """Exit without a message, like a process that ran out of memory."""
    os._exit(9)


def parent(folder, report):
    """Start a child process, and wait forever."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(folder, "half").write_text(f"{os.getpid()} {child.pid}")
    Path(folder, "half").rename(Path(folder, "pids"))
    while True:
        report(0.5, "waiting")
        time.sleep(0.01)


def deaf(report):
    """Report the process id, and nothing afterwards."""
    report(0.5, str(os.getpid()))
    time.sleep(600)


def heavy(ballast, report):
    """Return a large argument."""
    return ballast


def own_pid(report):
    """Return the process id."""
    return os.getpid()


def babble(report):
    """Report and print far more than any client reads."""
    for number in range(10_000):
        report(number / 10_000, "x" * 1000)
        print("y" * 1000, file=sys.stdout)
    return "done"


def unsendable(report):
    """Return an object that cannot be pickled."""
    return threading.Lock()


def die(_plain, _number):
    """Exit from the worker that makes this part of a film."""
    os._exit(1)


def refuse_part(_plain, number):
    """Fail to make a part."""
    from compute.export.scene import SceneError

    raise SceneError(f"there is no frame {number}")


def large(_plain, number):
    """Return a part of 32 MB."""
    return number, bytes(2**25)


def endless(plain, _number):
    """Never return a part; write the worker's process id to a folder."""
    Path(plain["folder"], str(os.getpid())).touch()
    time.sleep(600)
