"""A child that runs tasks one after the other: its messages, its own side of the channel, and its parent's side.

A task is a function with its arguments that both processes can import; it is called with `report`, which reports
progress. The child answers each task with Progress and finally a Result or a Failure, then waits for the next one. It
holds at its next report of progress after a Hold, until a GoOn.

In the parent, only `exchange`, up to its timeout, and `end` block: messages stay in a buffer until the channel accepts
them, so that a stopped child blocks no thread.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from math import inf
from typing import Any, Protocol, TypeAlias

from compute.devices.backends import BackendUnavailable
from compute.process.channel import Channel
from compute.process.child import ChildProcess, ProcessEnd, lower_priority, terminate_tree
from compute.process.watchdog import Deadlines, Loss, Watchdog

OFTEN = 0.05  # s: minimum interval between reports of progress
QUIET = 5.0  # s without a message before a child is examined
STOPPED = 15.0  # s that a child may be stopped before it is lost
TICK = 0.1  # s between checks of a child
EXITING = 2.0  # s for a child that has closed its channel to exit normally
IDLE = 60.0  # s without a message and without processor use of the child and its children

Report: TypeAlias = Callable[[float, str], None]  # (fraction from 0 to 1, text)


class ChildTask(Protocol):
    """A picklable function that a child runs; its arguments are bound, except `report`."""

    def __call__(self, *, report: Report) -> Any:
        """Run the task and return its result."""


# -- messages to the child


@dataclass(frozen=True)
class PickledTask:
    """A task, pickled separately, so that the child's main thread imports its modules and reports their errors."""

    pickled: bytes


@dataclass(frozen=True)
class Hold:
    """Hold at the next report of progress, and answer with Holding(number)."""

    number: int


class GoOn:
    """Continue after a hold."""


# -- answers


@dataclass(frozen=True)
class Progress:
    """Progress of a task: `part` from 0 to 1, and a text."""

    part: float
    words: str = ""


@dataclass(frozen=True)
class Holding:
    """The child holds, as Hold `number` requested."""

    number: int


@dataclass(frozen=True)
class Result:
    """The task has finished; `value` is the return value of its function."""

    value: Any = None


@dataclass(frozen=True)
class Failure:
    """The task failed; `text` is the reason. expected: the request caused it, not a bug in the program.

    error: the exception, if picklable.
    """

    text: str
    expected: bool
    error: Exception | None = None


ChildAnswer: TypeAlias = Progress | Holding | Result | Failure


# -- the child


def run_tasks(descriptor: int, *, low: bool, ahead: str) -> None:
    """Run the tasks that arrive on the channel `descriptor`. Do not return: the process ends with its parent.

    low: with low priority; ahead: module to import before the first task, or "".
    """
    if low:
        lower_priority()
    os.dup2(2, 1)  # a command writes its result to stdout; the output of libraries must not mix with it
    server = TaskServer(Channel.inherited(descriptor))
    if ahead:
        with no_collection():
            import_module(ahead)
    server.run()


class TaskServer:
    """Runs tasks in the main thread. A second thread receives messages, and ends the process with its parent."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._may_run = threading.Event()
        self._may_run.set()
        self._hold, self._last_sent = 0, -1.0
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def run(self) -> None:
        """Run tasks one after the other; never return."""
        while True:
            task = self._tasks.get()
            self._last_sent = -1.0
            self._send(outcome(task, self.report))

    def report(self, part: float, words: str = "") -> None:
        """Send the progress of the task; block during a hold."""
        now = time.monotonic()
        if self._last_sent < 0 or now - self._last_sent >= OFTEN:
            self._last_sent = now
            self._send(Progress(part, words))
        while not self._may_run.is_set():
            self._send(Holding(self._hold))
            self._may_run.wait()

    def _send(self, answer: ChildAnswer) -> None:
        """Send `answer`; end the process if the parent has exited."""
        try:
            self._channel.send(answer)
        except ConnectionError:
            terminate_tree()
        except Exception as error:  # noqa: BLE001 - a result may contain any object
            self._send(Failure(f"its result cannot be sent: {error}", expected=False))

    def _listen(self) -> None:
        try:
            while True:
                match self._channel.receive()[0]:
                    case PickledTask(pickled=pickled):
                        self._tasks.put(pickled)
                    case Hold(number=number):
                        self._hold = number
                        self._may_run.clear()
                    case GoOn():
                        self._may_run.set()
        except (EOFError, OSError):  # the parent has exited
            terminate_tree()


def outcome(pickled: bytes, report: Report) -> ChildAnswer:
    """Run a pickled task; return its Result or Failure."""
    try:
        with no_collection():
            task = pickle.loads(pickled)  # noqa: S301 - from the parent
        return Result(task(report=report))
    except Exception as error:  # noqa: BLE001 - reported to the parent
        expected = isinstance(error, (ValueError, OSError, MemoryError, BackendUnavailable))
        text = str(error) or type(error).__name__
        if not expected:
            sys.excepthook(type(error), error, error.__traceback__)
            text = f"{type(error).__name__}: {error}"
        return Failure(text, expected, error if _is_picklable(error) else None)


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable garbage collection during imports, whose objects live on: saves a fifth of their processor time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _is_picklable(error: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301 - of this process
    except Exception:  # noqa: BLE001 - an error may contain any object
        return False


def when_idle(task: ChildTask, report: Report) -> Any:
    """Run `task` in the idle scheduling class, for tasks of minutes to hours that no page waits for.

    Niceness alone delays the page's loop: on two busy cores the 99th percentile of its lag rose from 23 to 47 ms, in
    the idle class to 30. On a machine whose processors are all in use, a process of that class gets no time; it cannot
    leave the class.
    """
    with suppress(OSError, AttributeError):  # not supported by this system
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    return task(report=report)


# -- the parent


def task_limits(deadline: float = inf, most_wait: float = 0.0) -> Deadlines:
    """Return the usual limits of a task with that deadline, in s of running time."""
    return Deadlines(deadline, most_wait=most_wait, quiet=QUIET, stopped=STOPPED, idle=IDLE)


class TaskProcess(ChildProcess):
    """A new interpreter that runs tasks.

    leads, environment: see ChildProcess; low: it has low priority; ahead: module to import before the first task, or
    "".
    All methods but `kill` are called from one thread. ended: the child has exited or closed its channel, and all its
    answers have been read; tasks: number of tasks given.
    """

    def __init__(
        self, *, leads: bool, low: bool, ahead: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        super().__init__("compute.process", "low" if low else "normal", ahead, leads=leads, environment=environment)
        self.ended, self.tasks = False, 0
        self.watchdog = Watchdog(self.state, task_limits(), time.monotonic())

    def give(self, task: ChildTask, limits: Deadlines | None = None, extra: float = 0.0) -> None:
        """Queue `task` after earlier ones; the next `exchange` sends it. The watchdog starts with `limits`.

        extra: seconds that the first sign of life may take in addition to a renewed deadline.
        """
        self.channel.post(PickledTask(pickle.dumps(task, protocol=5)))
        self.tasks += 1
        self.begin_work()
        self.watchdog = Watchdog(self.state, limits or task_limits(), time.monotonic(), extra)

    def run(
        self,
        task: ChildTask,
        limits: Deadlines | None = None,
        extra: float = 0.0,
        on_answer: Callable[[ChildAnswer], None] = lambda _answer: None,
        is_paused: Callable[[], bool] = lambda: False,
    ) -> Result | Failure | Loss | ProcessEnd:
        """Run `task` and return how it ended. limits, extra: as for `give`.

        on_answer: called with each Progress and Holding; is_paused: called several times a second; time in which it
        returns True does not count. A lost child is ended, and so is one that has closed its channel.
        """
        self.give(task, limits, extra)
        loss = None
        while not (self.ended or self.killed or loss):
            paused = is_paused()
            for _, answer in exchange([self], TICK):
                if isinstance(answer, Result | Failure):
                    return answer
                on_answer(answer)
            loss = self.lost(paused)
        end = self.end(0.0 if loss else EXITING)
        return loss or end

    def hold(self, number: int) -> None:
        """Make the child hold at its next report of progress; it answers with Holding(number)."""
        self.channel.post(Hold(number))

    def go_on(self) -> None:
        """Release a hold."""
        self.channel.post(GoOn())
        self.watchdog.sign_of_life(time.monotonic())

    def lost(self, paused: bool = False) -> Loss | None:
        """Return why a child with a task counts as lost, else None. paused: the time until now does not count."""
        return self.watchdog.lost(time.monotonic(), paused)

    def answers(self) -> list[ChildAnswer]:
        """Return the answers received since the last call. Set `ended` if there will be no more."""
        found: list[ChildAnswer] = []
        gone = self.exited  # before reading: a child's last answers come before its exit
        try:
            while self.channel.waiting(0.0):
                found.append(self.channel.receive()[0])
        except (EOFError, OSError):
            gone = True
        self.ended = gone
        if found:
            self.watchdog.sign_of_life(time.monotonic())
        return found


def exchange(children: Sequence[TaskProcess], seconds: float) -> list[tuple[TaskProcess, ChildAnswer]]:
    """Send queued messages and return the received answers; wait up to `seconds` for the first event."""
    poll = select.poll()
    for child in children:
        all_sent = child.channel.flush()
        poll.register(child.channel, select.POLLIN | (0 if all_sent else select.POLLOUT))
    poll.poll(1000 * seconds)
    for child in children:
        child.channel.flush()
    return [(child, answer) for child in children for answer in child.answers()]
