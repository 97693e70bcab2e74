"""One export in a process of its own, at low priority, so that whoever asked stays live: the child's side.

The parent (runner.py) sends a pickled Errand through stdin, then lines: "pause" and "go". The child answers through
stdout with pickled Told, and in the end Ended or Failed. Both are processes of one program, so that pickles are safe.
When the parent goes, so do the child and its own workers.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, BinaryIO

import psutil

USUAL = "compute.export.tasks"  # the module of the page's tasks
NICE = 10  # the page, its engines and the browser come first


@dataclass(frozen=True)
class Errand:
    """What to do: `task` is "module:function"; the function gets `arguments` and `tell(part from 0 to 1, words)`."""

    task: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """How far it is: `part` from 0 to 1, and in words."""

    part: float
    words: str = ""


@dataclass(frozen=True)
class Ended:
    """It is done; `result` is what the function returned."""

    result: Any = None


@dataclass(frozen=True)
class Failed:
    """It could not be done. expected: whether that is the request's fault, and `text` says all there is to say."""

    text: str
    expected: bool


Tell = Callable[[float, str], None]


class Line:
    """The child's end of both pipes. What libraries print goes to stderr, not between the answers."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._go = threading.Event()
        self._go.set()

    def receive(self) -> Errand:
        """The request; from then on "pause" and "go" are listened to."""
        errand: Errand = pickle.load(self._source)  # noqa: S301 of our own parent
        threading.Thread(target=self._listen, name="orders", daemon=True).start()
        return errand

    def send(self, answer: object) -> None:
        """Tell the parent; if it is gone, so are we."""
        try:
            pickle.dump(answer, self._sink)
            self._sink.flush()
        except BrokenPipeError:
            vanish()

    def tell(self, part: float, words: str = "") -> None:
        """Say how far it is; returns when it may go on."""
        self.send(Told(part, words))
        self._go.wait()

    def _listen(self) -> None:
        for order in self._source:
            self._go.clear() if order.strip() == b"pause" else self._go.set()
        vanish()


def vanish() -> None:
    """End at once, with all workers."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    os._exit(1)


def carry_out(errand: Errand, line: Line) -> None:
    """Do it, and say how it ended."""
    try:
        module, _, name = errand.task.partition(":")
        result = getattr(import_module(module), name)(**errand.arguments, tell=line.tell)
    except (ValueError, OSError, MemoryError) as error:
        line.send(Failed(str(error) or type(error).__name__, expected=True))
    except Exception as error:
        line.send(Failed(f"{type(error).__name__}: {error}", expected=False))
        raise
    else:
        line.send(Ended(result))


def step_back() -> None:
    """Let everything else go first, on this process's threads and on its children.

    Niceness alone lets the page's loop wait: on two busy cores the 99th percentile of its lag rose from 23 to 47 ms,
    with the idle class to 30.
    """
    with suppress(OSError, AttributeError):  # no such thing on this system
        os.nice(NICE)
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> None:
    """The child."""
    step_back()
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    line = Line(sys.stdin.buffer, sink)
    import_module(USUAL)  # before the errand comes: it may have been started ahead
    with suppress(EOFError):  # it was never needed
        carry_out(line.receive(), line)
    sink.close()
    os._exit(0)  # not through the thread that still waits for orders
