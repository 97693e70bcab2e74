"""Child processes: the protocol with the parent, the child's side, and the parent's side.

The parent sends messages through stdin: a pickled task, a function that accepts `tell` and that both sides can import;
later "hold" and "go on". The child answers through stdout with pickled Progress and Holding and finally Result or
Failure, then waits for another task. Both sides are the same program, so that unpickling is safe. A message consists of
a letter, its length in bytes, and its data.

No child outlives its parent: when stdin is closed, the child's reading thread kills the child and the process group
that it leads. A child stopped by SIGSTOP cannot read, but its group is orphaned when the parent is killed, and the
system ends orphaned groups with stopped processes.

At the parent's side only `exchange`, up to its timeout, and `close` block. Messages stay in a buffer until the pipe
accepts them. A process is never signalled after it has been waited for.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import psutil

from compute.devices.backends import BackendUnavailable
from compute.machine import scratch

NICE = 10  # the page, its engines and the browser have priority
HEAD = struct.Struct(">cQ")  # letter of the message, and bytes of its data
TASK, HOLD, GO, ANSWER = b"T", b"H", b"G", b"A"
CHUNK = 2**17  # bytes per read or write
OFTEN = 0.05  # s: minimum interval between progress messages
QUIET = 5.0  # s without a message before the liveness of a child is checked
STOPPED = 15.0  # s that a child may be stopped before it is lost
SILENT = 60.0  # s without a message and without processor use of the child and its children
LEAVING = 2.0  # s for a child that has closed its pipe to exit normally
KILLED = 10.0  # s for the system to end a killed process

# -- the protocol

Tell = Callable[[float, str], None]  # (fraction from 0 to 1, text)
ChildTask = Callable[..., Any]  # called with tell=…


@dataclass(frozen=True)
class Progress:
    """Progress of a task: `part` from 0 to 1, and a text."""

    part: float
    words: str = ""


@dataclass(frozen=True)
class Holding:
    """The child holds at hold number `number`."""

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


ChildAnswer = Progress | Holding | Result | Failure


# -- the child's side


class Parent:
    """The parent, seen from the child. Output of libraries goes to stderr, so that it does not mix with the answers."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source, self._sink = source, sink
        self._tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._go = threading.Event()
        self._go.set()
        self._hold, self._last_sent = 0, -1.0
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def serve(self) -> None:
        """Run tasks one after the other; never return: the listening thread ends the process."""
        while True:
            self.send(carried_out(self._tasks.get(), self.tell))

    def send(self, answer: ChildAnswer) -> None:
        """Send `answer`; end the process if the parent has exited."""
        try:
            data = pickle.dumps(answer, protocol=5)
        except Exception as error:  # noqa: BLE001 - a result may contain any object
            data = pickle.dumps(Failure(f"its result cannot be sent: {error}", expected=False))
        left = memoryview(HEAD.pack(ANSWER, len(data)) + data)
        try:
            while left:
                left = left[os.write(self._sink, left[:CHUNK]) :]
        except BrokenPipeError:
            terminate_tree()

    def tell(self, part: float, words: str = "") -> None:
        """Send the progress of the task; block during a hold."""
        now = time.monotonic()
        if self._last_sent < 0 or now - self._last_sent >= OFTEN:
            self._last_sent = now
            self.send(Progress(part, words))
        while not self._go.is_set():
            self.send(Holding(self._hold))
            self._go.wait()

    def _listen(self) -> None:
        while len(head := self._source.read(HEAD.size)) == HEAD.size:
            letter, size = HEAD.unpack(head)
            data = self._source.read(size)
            if letter == TASK and len(data) == size:
                self._last_sent = -1.0
                self._tasks.put(data)
            elif letter == HOLD:
                self._hold = int(data)
                self._go.clear()
            elif letter == GO:
                self._go.set()
        terminate_tree()


def carried_out(task: bytes, tell: Tell) -> ChildAnswer:
    """Run the pickled `task`; return its Result or Failure."""
    try:
        with collecting_nothing():
            function = pickle.loads(task)  # noqa: S301 - from the parent
        return Result(function(tell=tell))
    except Exception as error:  # noqa: BLE001 - reported to the parent
        expected = isinstance(error, (ValueError, OSError, MemoryError, BackendUnavailable))
        text = str(error) or type(error).__name__
        if not expected:
            sys.excepthook(type(error), error, error.__traceback__)
            text = f"{type(error).__name__}: {error}"
        return Failure(text, expected, error if _can_travel(error) else None)


@contextmanager
def collecting_nothing() -> Iterator[None]:
    """Disable garbage collection during imports, whose objects live on: saves a fifth of their processor time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _can_travel(error: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301 - of this process
    except Exception:  # noqa: BLE001 - an error may contain any object
        return False


def terminate_tree() -> None:
    """Exit immediately; kill all child processes if this process leads a group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def lower_priority() -> None:
    """Lower the priority of this process's threads and its children."""
    with suppress(OSError, AttributeError):  # not supported by this system
        os.nice(NICE)


def when_idle(task: ChildTask, tell: Any) -> Any:
    """Run `task` in the idle scheduling class, for tasks of minutes to hours that no page waits for.

    Niceness alone delays the page's loop: on two busy cores the 99th percentile of its lag rose from 23 to 47 ms, in
    the idle class to 30. On a machine whose processors are all in use, a process of that class gets no time; it cannot
    leave the class.
    """
    with suppress(OSError, AttributeError):  # not supported by this system
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    return task(tell=tell)


def main(low: bool, ahead: str) -> None:
    """Run as a child, of low priority if `low`; ahead: module to import before the first task, or "". Do not return."""
    if low:
        lower_priority()
    sink = os.dup(1)
    os.dup2(2, 1)
    parent = Parent(sys.stdin.buffer, sink)
    if ahead:
        with collecting_nothing():
            import_module(ahead)
    parent.serve()


# -- the parent's side


class ChildProcess:
    """A new interpreter that waits for tasks; it does not import the parent's main module.

    leads: it leads a process group with all its children, which is killed as a whole; otherwise it is in the parent's
    group. low: it has low priority. ahead: module to import before the first task. environment: variables in addition
    to the parent's.

    `kill` may be called from any thread at any time, all other methods from one thread only. A process is never
    signalled after it has been waited for: until then its pid cannot be reused.
    """

    def __init__(
        self, *, leads: bool, low: bool, ahead: ModuleType | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        module = ahead.__name__ if ahead else ""
        code = f"from compute.export.child_process import main; main(low={low}, ahead={module!r})"
        with _no_interrupts():
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env={**os.environ, "PYTHONPATH": path, **(environment or {})},
                process_group=0 if leads else None,
            )
        self.pid, self._leads = self._process.pid, leads
        self.ended = False  # it has closed its pipe or exited
        self.tasks = 0  # number of tasks received
        self._lock = threading.Lock()  # for signalling the process and waiting for it
        self._in, self._out = (pipe.fileno() for pipe in (self._process.stdin, self._process.stdout) if pipe)
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._to_send, self._heard = bytearray(), bytearray()
        self._liveness = Liveness(self.pid)

    def give(self, task: ChildTask) -> None:
        """Queue `task` after earlier ones. The next `exchange` sends it."""
        self._post(TASK, pickle.dumps(task, protocol=5))
        self.tasks += 1
        self._liveness.reset()

    def hold(self, number: int) -> None:
        """Make the child hold at its next report of progress; it answers with Holding(number)."""
        self._post(HOLD, b"%d" % number)

    def go_on(self) -> None:
        """Release a hold."""
        self._post(GO, b"")
        self._liveness.reset()

    def lost(self) -> str:
        """Return the reason if a child with a task is lost, "" otherwise."""
        return self._liveness.missing()

    def kill(self) -> None:
        """Kill the process, with its group if it leads one. Do nothing if it has exited."""
        with self._lock:
            self._look()
            if self._process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):  # it has exited and was not waited for
                    os.killpg(self.pid, signal.SIGKILL) if self._leads else self._process.kill()

    def close(self) -> str:
        """End the process, delete its scratch folders, close its pipes; return how it ended, "" if it still runs."""
        if self.ended:
            self._gone_within(LEAVING)  # so that its exit code is available
        self.kill()
        gone = self._gone_within(KILLED)
        scratch.clear(self.pid)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        with self._lock:
            return _ending(self._process.wait()) if gone else ""

    # -- inside

    def _post(self, letter: bytes, data: bytes) -> None:
        self._to_send += HEAD.pack(letter, len(data)) + data

    def _write(self) -> None:
        with suppress(BlockingIOError):
            try:
                del self._to_send[: os.write(self._in, self._to_send[:CHUNK])]
            except OSError as error:
                if isinstance(error, BlockingIOError):
                    raise
                self._to_send.clear()  # it has closed its pipe; `_read` reports that

    def _read(self) -> list[ChildAnswer]:
        """Return the answers received since the last call."""
        try:
            data = os.read(self._out, CHUNK)
        except BlockingIOError:
            self.ended = self._exited()  # a process that it started may still have the pipe open
            return []
        self.ended = not data
        self._heard += data
        answers: list[ChildAnswer] = []
        while len(self._heard) >= HEAD.size:
            _, size = HEAD.unpack_from(self._heard)
            if len(self._heard) < HEAD.size + size:
                break
            with memoryview(self._heard) as seen, seen[HEAD.size : HEAD.size + size] as frame:
                answers.append(pickle.loads(frame))  # noqa: S301 - from the child
            del self._heard[: HEAD.size + size]
        self._liveness.reset()
        return answers

    def _exited(self) -> bool:
        """Return whether the process has exited."""
        with self._lock:
            return self._look()

    def _look(self) -> bool:
        """The same, with the lock held. It does not wait for the process, so that its pid is not reused."""
        try:
            gone = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # waited for already, or the system keeps no zombies (SIGCHLD is ignored)
            return self._process.poll() is not None
        return gone

    def _gone_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self._exited():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True


def exchange(children: Sequence[ChildProcess], seconds: float) -> list[tuple[ChildProcess, ChildAnswer]]:
    """Send queued messages and return the received answers; wait up to `seconds` for the first event.

    A child without further answers is `ended` afterwards.
    """
    poll = select.poll()
    for child in children:
        poll.register(child._out, select.POLLIN)  # noqa: SLF001 - the other part of the class
        if child._to_send:  # noqa: SLF001
            poll.register(child._in, select.POLLOUT)  # noqa: SLF001
    poll.poll(1000 * seconds)
    for child in children:
        if child._to_send:  # noqa: SLF001
            child._write()  # noqa: SLF001
    return [(child, answer) for child in children for answer in child._read()]  # noqa: SLF001


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block Ctrl-C in processes started in the block: the parent handles it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ending(code: int) -> str:
    """Return how a process ended, as text, from its exit code."""
    if code >= 0:
        return f"it ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"it was ended by {name}{', from outside or for want of memory' if -code == signal.SIGKILL else ''}"


class Liveness:
    """Distinguish a process that works silently from one that is stopped or blocked for ever.

    Time counts only between calls of `missing`, so that no process is lost because the machine slept.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._used = pid, 0.0
        self.reset()

    def reset(self) -> None:
        """Restart all timers, after a sign of life."""
        self._quiet = self._stopped = self._silent = 0.0
        self._seen = time.monotonic()

    def missing(self) -> str:
        """Return the reason if the process is lost, or ""."""
        now = time.monotonic()
        if now - self._seen < 1.0:
            return ""
        passed, self._seen = min(now - self._seen, 2.0), now
        self._quiet += passed
        if self._quiet < QUIET:
            return ""
        status, used = self._look()
        alive = used > self._used or status in (psutil.STATUS_RUNNING, psutil.STATUS_TRACING_STOP)
        self._used = used
        self._stopped = self._stopped + passed if status == psutil.STATUS_STOPPED else 0.0
        self._silent = 0.0 if alive else self._silent + passed
        if self._stopped > STOPPED:
            return f"it was stopped from outside, for more than {STOPPED:.0f} s"
        return f"it did nothing for more than {SILENT:.0f} s" if self._silent > SILENT else ""

    def _look(self) -> tuple[str, float]:
        """Return its status, and the processor seconds used by it and its descendants."""
        try:
            process = psutil.Process(self._pid)
            status, family, used = process.status(), [process, *process.children(recursive=True)], 0.0
        except psutil.Error:
            return psutil.STATUS_DEAD, 0.0
        for one in family:
            with suppress(psutil.Error):
                times = one.cpu_times()
                used += times.user + times.system
        return status, used
