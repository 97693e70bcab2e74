"""A child process, its own end, and what travels between it and its parent (processes.py).

The parent sends frames through stdin: a pickled task, a function that takes `tell` and that both sides can import;
later "hold" and "go on". The child answers through stdout with pickled Progress, Holding, and in the end Result or
Failure; then it waits for another task. Both are one program, so that pickles are safe. A frame is a letter, its
length, its bytes.

No child outlives its parent: its reading thread ends it when stdin does, and with it the group of processes that it
leads. One that is stopped (SIGSTOP) cannot read, but a killed parent leaves its group an orphan, which the system ends.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO

from compute.backends import BackendUnavailable

TASKS = "compute.export.tasks"  # the module of the usual tasks
NICE = 10  # the page, its engines and the browser come first
HEAD = struct.Struct(">cQ")  # a letter for what follows, and how many bytes that is
TASK, HOLD, GO, ANSWER = b"T", b"H", b"G", b"A"
CHUNK = 2**17  # bytes read or written in one go
OFTEN = 0.05  # s: progress that follows sooner is not sent

Tell = Callable[[float, str], None]  # (part from 0 to 1, words)
Task = Callable[..., Any]  # called with tell=…


@dataclass(frozen=True)
class Progress:
    """How far a task is: `part` from 0 to 1, and in words."""

    part: float
    words: str = ""


@dataclass(frozen=True)
class Holding:
    """The child stands still, as hold number `number` asked it to."""

    number: int


@dataclass(frozen=True)
class Result:
    """The task is done; `value` is what its function returned."""

    value: Any = None


@dataclass(frozen=True)
class Failure:
    """The task could not be done, and `text` says why. expected: that is the request's fault, not the program's.

    error: the exception itself, if it can be sent.
    """

    text: str
    expected: bool
    error: Exception | None = None


Answer = Progress | Holding | Result | Failure


class Parent:
    """The other end, as the child sees it. What libraries print goes to stderr, not between the answers."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source, self._sink = source, sink
        self._tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._go = threading.Event()
        self._go.set()
        self._hold, self._told = 0, -1.0
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def serve(self) -> None:
        """Do one task after the other. The listening thread ends the process."""
        while True:
            self.send(carried_out(self._tasks.get(), self.tell))

    def send(self, answer: Answer) -> None:
        """Say `answer`; if nobody hears it, end."""
        try:
            data = pickle.dumps(answer, protocol=5)
        except Exception as error:  # noqa: BLE001 - whatever a result holds
            data = pickle.dumps(Failure(f"its result cannot be sent: {error}", expected=False))
        left = memoryview(HEAD.pack(ANSWER, len(data)) + data)
        try:
            while left:
                left = left[os.write(self._sink, left[:CHUNK]) :]
        except BrokenPipeError:
            end_group()

    def tell(self, part: float, words: str = "") -> None:
        """Say how far it is; returns when it may go on."""
        now = time.monotonic()
        if self._told < 0 or now - self._told >= OFTEN:
            self._told = now
            self.send(Progress(part, words))
        while not self._go.is_set():
            self.send(Holding(self._hold))
            self._go.wait()

    def _listen(self) -> None:
        while len(head := self._source.read(HEAD.size)) == HEAD.size:
            letter, size = HEAD.unpack(head)
            data = self._source.read(size)
            if letter == TASK and len(data) == size:
                self._told = -1.0
                self._tasks.put(data)
            elif letter == HOLD:
                self._hold = int(data)
                self._go.clear()
            elif letter == GO:
                self._go.set()
        end_group()


def carried_out(task: bytes, tell: Tell) -> Answer:
    """Do the pickled `task`; what came of it."""
    try:
        return Result(pickle.loads(task)(tell=tell))  # noqa: S301 - of our own parent
    except Exception as error:  # noqa: BLE001 - the parent is told
        expected = isinstance(error, (ValueError, OSError, MemoryError, BackendUnavailable))
        text = str(error) or type(error).__name__
        if not expected:
            sys.excepthook(type(error), error, error.__traceback__)
            text = f"{type(error).__name__}: {error}"
        return Failure(text, expected, error if _can_travel(error) else None)


def _can_travel(error: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301 - of this process
    except Exception:  # noqa: BLE001 - whatever it holds
        return False


def end_group() -> None:
    """End at once, with all that this process has started, if it leads a group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def lower_priority() -> None:
    """Let everything else go first, on this process's threads and on its children.

    Niceness alone lets the page's loop wait: on two busy cores the 99th percentile of its lag rose from 23 to 47 ms,
    with the idle class to 30.
    """
    with suppress(OSError, AttributeError):  # no such thing on this system
        os.nice(NICE)
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main(low: bool, ahead: bool) -> None:
    """Be a child, of low priority if `low`; `ahead`: load the usual tasks before one comes. Does not return."""
    if low:
        lower_priority()
    sink = os.dup(1)
    os.dup2(2, 1)
    parent = Parent(sys.stdin.buffer, sink)
    if ahead:
        import_module(TASKS)
    parent.serve()
