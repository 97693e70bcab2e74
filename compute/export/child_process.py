"""A child process: what travels between it and its parent, the child's own end, and the parent's end.

The parent sends frames through stdin: a pickled task, a function that takes `tell` and that both sides can import;
later "hold" and "go on". The child answers through stdout with pickled Progress, Holding, and in the end Result or
Failure; then it waits for another task. Both are one program, so that pickles are safe. A frame is a letter, its
length, its bytes.

No child outlives its parent: its reading thread ends it when stdin does, and with it the group of processes that it
leads. One that is stopped (SIGSTOP) cannot read, but a killed parent leaves its group an orphan, which the system ends.

Nothing at the parent's end waits for the child, except `exchange` for as long as it is told to, and `close`. What is to
be sent lies in a buffer until the pipe has room for it. A process that has been waited for is never signalled.
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

from compute import scratch
from compute.backends import BackendUnavailable

NICE = 10  # the page, its engines and the browser come first
HEAD = struct.Struct(">cQ")  # a letter for what follows, and how many bytes that is
TASK, HOLD, GO, ANSWER = b"T", b"H", b"G", b"A"
CHUNK = 2**17  # bytes read or written in one go
OFTEN = 0.05  # s: progress that follows sooner is not sent
QUIET = 5.0  # s without a word after which it is asked whether a child still lives
STOPPED = 15.0  # s that a child may be stopped before it counts as lost
SILENT = 60.0  # s in which a child says nothing, and neither it nor what it has started uses a processor
LEAVING = 2.0  # s that a child which has closed its end gets to end in its own way
KILLED = 10.0  # s that the system gets to end a killed process

# -- what travels

Tell = Callable[[float, str], None]  # (part from 0 to 1, words)
ChildTask = Callable[..., Any]  # called with tell=…


@dataclass(frozen=True)
class Progress:
    """How far a task is: `part` from 0 to 1, and in words."""

    part: float
    words: str = ""


@dataclass(frozen=True)
class Holding:
    """The child has stopped at hold number `number`."""

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


ChildAnswer = Progress | Holding | Result | Failure


# -- the child's end


class Parent:
    """The parent, as the child sees it. What libraries print goes to stderr, not between the answers."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source, self._sink = source, sink
        self._tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._go = threading.Event()
        self._go.set()
        self._hold, self._last_sent = 0, -1.0
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def serve(self) -> None:
        """Do one task after the other; never returns: the listening thread ends the process."""
        while True:
            self.send(carried_out(self._tasks.get(), self.tell))

    def send(self, answer: ChildAnswer) -> None:
        """Send `answer`; end the process if the parent is gone."""
        try:
            data = pickle.dumps(answer, protocol=5)
        except Exception as error:  # noqa: BLE001 - whatever a result holds
            data = pickle.dumps(Failure(f"its result cannot be sent: {error}", expected=False))
        left = memoryview(HEAD.pack(ANSWER, len(data)) + data)
        try:
            while left:
                left = left[os.write(self._sink, left[:CHUNK]) :]
        except BrokenPipeError:
            terminate_tree()

    def tell(self, part: float, words: str = "") -> None:
        """Send how far the task is; return when it may go on."""
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
    """Do the pickled `task`; return its Result or Failure."""
    try:
        with collecting_nothing():
            function = pickle.loads(task)  # noqa: S301 - of our own parent
        return Result(function(tell=tell))
    except Exception as error:  # noqa: BLE001 - the parent is told
        expected = isinstance(error, (ValueError, OSError, MemoryError, BackendUnavailable))
        text = str(error) or type(error).__name__
        if not expected:
            sys.excepthook(type(error), error, error.__traceback__)
            text = f"{type(error).__name__}: {error}"
        return Failure(text, expected, error if _can_travel(error) else None)


@contextmanager
def collecting_nothing() -> Iterator[None]:
    """Look for no garbage while modules are imported: their objects stay. A fifth of the import's processor time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _can_travel(error: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301 - of this process
    except Exception:  # noqa: BLE001 - whatever it holds
        return False


def terminate_tree() -> None:
    """End at once, with all that this process has started, if it leads a group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def lower_priority() -> None:
    """Let everything else go before this process's threads and its children."""
    with suppress(OSError, AttributeError):  # no such thing on this system
        os.nice(NICE)


def when_idle(task: ChildTask, tell: Any) -> Any:
    """Do `task` in what processor time nobody else wants: what takes minutes to hours, and nobody stands by for.

    Niceness alone lets the page's loop wait: on two busy cores the 99th percentile of its lag rose from 23 to 47 ms,
    with the idle class to 30. A process of that class gets nothing on a machine whose processors are all in use, and
    cannot leave it again.
    """
    with suppress(OSError, AttributeError):  # no such thing on this system
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    return task(tell=tell)


def main(low: bool, ahead: str) -> None:
    """Be a child, of low priority if `low`; ahead: a module to load before a task comes, or "". Does not return."""
    if low:
        lower_priority()
    sink = os.dup(1)
    os.dup2(2, 1)
    parent = Parent(sys.stdin.buffer, sink)
    if ahead:
        with collecting_nothing():
            import_module(ahead)
    parent.serve()


# -- the parent's end


class ChildProcess:
    """A fresh interpreter that waits for tasks; it imports nothing of the parent's main module.

    leads: it and all that it starts are a group of their own, which is ended as one; otherwise it belongs to the
    parent's group. low: it lets everything else go first. ahead: a module that it loads before a task comes.
    environment: variables beside those of the parent.

    `kill` may be called from any thread at any time; everything else from one. A process that has been waited for is
    never signalled: until then its number cannot be another's.
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
        self.ended = False  # it has closed its end, or is gone
        self.tasks = 0  # that it was given
        self._lock = threading.Lock()  # held while the process is signalled or waited for
        self._in, self._out = (pipe.fileno() for pipe in (self._process.stdin, self._process.stdout) if pipe)
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._to_send, self._heard = bytearray(), bytearray()
        self._liveness = Liveness(self.pid)

    def give(self, task: ChildTask) -> None:
        """Have `task` done, after those that were given before. It is sent by the next `exchange`."""
        self._post(TASK, pickle.dumps(task, protocol=5))
        self.tasks += 1
        self._liveness.reset()

    def hold(self, number: int) -> None:
        """Have it stand still at the next step of its progress; it answers with Holding(number)."""
        self._post(HOLD, b"%d" % number)

    def go_on(self) -> None:
        """Have it go on after a hold."""
        self._post(GO, b"")
        self._liveness.reset()

    def lost(self) -> str:
        """Return why nothing more is to be expected of a child that has something to do, "" if there is hope."""
        return self._liveness.missing()

    def kill(self) -> None:
        """End it at once, with its group if it leads one. Harmless if it is gone."""
        with self._lock:
            self._look()
            if self._process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):  # it is gone, and not yet waited for
                    os.killpg(self.pid, signal.SIGKILL) if self._leads else self._process.kill()

    def close(self) -> str:
        """End it, delete the folders it has left, close its pipes; how it ended, in words, "" if it is still there."""
        if self.ended:
            self._gone_within(LEAVING)  # what it ended of is to be known
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
                self._to_send.clear()  # it has closed its end: reading tells

    def _read(self) -> list[ChildAnswer]:
        """Return what it has sent since."""
        try:
            data = os.read(self._out, CHUNK)
        except BlockingIOError:
            self.ended = self._exited()  # the pipe may be open in a process that it has left behind
            return []
        self.ended = not data
        self._heard += data
        answers: list[ChildAnswer] = []
        while len(self._heard) >= HEAD.size:
            _, size = HEAD.unpack_from(self._heard)
            if len(self._heard) < HEAD.size + size:
                break
            with memoryview(self._heard) as seen, seen[HEAD.size : HEAD.size + size] as frame:
                answers.append(pickle.loads(frame))  # noqa: S301 - of our own child
            del self._heard[: HEAD.size + size]
        self._liveness.reset()
        return answers

    def _exited(self) -> bool:
        """Whether the process is gone."""
        with self._lock:
            return self._look()

    def _look(self) -> bool:
        """The same, with the lock held. It is not waited for, so that its number stays its own."""
        try:
            gone = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # waited for, or the system does not keep what has ended (SIGCHLD is ignored)
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
    """Send what is to be sent and return what was received, waiting `seconds` at most for the first of it.

    One that has nothing more to say is `ended` afterwards.
    """
    poll = select.poll()
    for child in children:
        poll.register(child._out, select.POLLIN)  # noqa: SLF001 - this is the other half of the class
        if child._to_send:  # noqa: SLF001
            poll.register(child._in, select.POLLOUT)  # noqa: SLF001
    poll.poll(1000 * seconds)
    for child in children:
        if child._to_send:  # noqa: SLF001
            child._write()  # noqa: SLF001
    return [(child, answer) for child in children for answer in child._read()]  # noqa: SLF001


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Processes that are started in the block never hear Ctrl-C, which is their parent's business."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ending(code: int) -> str:
    """How a process ended, in words, from its exit code."""
    if code >= 0:
        return f"it ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"it was ended by {name}{', from outside or for want of memory' if -code == signal.SIGKILL else ''}"


class Liveness:
    """Tells a process that works without a word from one that is stopped, or that waits for something for ever.

    Time counts only while it is looked at: after the whole machine has slept nobody is late.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._used = pid, 0.0
        self.reset()

    def reset(self) -> None:
        """Count from now: there was a sign of life."""
        self._quiet = self._stopped = self._silent = 0.0
        self._seen = time.monotonic()

    def missing(self) -> str:
        """Return why nothing more is to be expected, or ""."""
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
        """Its status, and seconds of processors that it and all below it have used."""
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
