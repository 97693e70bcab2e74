"""What child processes do in tests, in a file that imports next to nothing: each of them imports it anew."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path


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
    Path(folder, "half").write_text(f"{os.getpid()} {child.pid}")
    Path(folder, "half").rename(Path(folder, "pids"))
    while True:
        tell(0.5, "waiting")
        time.sleep(0.01)


def deaf(tell):
    """Tells where it is, and nothing more."""
    tell(0.5, str(os.getpid()))
    time.sleep(600)


def heavy(ballast, tell):
    """Has much to be sent to it, and much to send back."""
    return ballast


def babble(tell):
    """Says far more than anybody wants to hear."""
    for number in range(10_000):
        tell(number / 10_000, "x" * 1000)
        print("y" * 1000, file=sys.stdout)
    return "done"


def unsendable(tell):
    """A result that no pickle takes."""
    return threading.Lock()


def die(_plain, _number):
    """Ends the worker that makes this part of a film."""
    os._exit(1)


def refuse_part(_plain, number):
    """A part that cannot be made."""
    from compute.export.scene import SceneError

    raise SceneError(f"there is no frame {number}")


def large(_plain, number):
    """A part of 32 MB."""
    return number, bytes(2**25)


def endless(plain, _number):
    """A part that never comes; who makes it writes down who that is."""
    Path(plain["folder"], str(os.getpid())).touch()
    time.sleep(600)
