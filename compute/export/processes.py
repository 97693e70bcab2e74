"""A child process, its parent's end. What travels, and the child's own end, are in child.py.

Nothing here waits for the child, except `exchange` for as long as it is told to, and `close`. What is to be sent lies
in a buffer until the pipe has room for it. A process that has been waited for is never signalled.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from compute import scratch
from compute.export.child import CHUNK, GO, HEAD, HOLD, TASK, Answer, Task

QUIET = 5.0  # s without a word after which a child's pulse is felt
STOPPED = 15.0  # s that a child may be stopped before it counts as lost
SILENT = 60.0  # s in which a child says nothing, and neither it nor what it has started uses a processor
LEAVING = 2.0  # s that a child which has closed its end gets to end in its own way
KILLED = 10.0  # s that the system gets to end a killed process


class ChildProcess:
    """A fresh interpreter that waits for tasks; it imports nothing of the parent's main module.

    leads: it and all that it starts are a group of their own, which is ended as one; otherwise it belongs to the
    parent's group. low: it lets everything else go first. ahead: it loads the usual tasks before one comes.
    environment: variables beside those of the parent.

    `kill` may be called from any thread at any time; everything else from one. A process that has been waited for is
    never signalled: until then its number cannot be another's.
    """

    def __init__(
        self, *, leads: bool, low: bool, ahead: bool = False, environment: Mapping[str, str] | None = None
    ) -> None:
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        code = f"from compute.export.child import main; main(low={low}, ahead={ahead})"
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
        self._lock = threading.Lock()  # held while the process is signalled or waited for
        self._in, self._out = (pipe.fileno() for pipe in (self._process.stdin, self._process.stdout) if pipe)
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._to_send, self._heard = bytearray(), bytearray()
        self._pulse = Pulse(self.pid)

    def give(self, task: Task) -> None:
        """Have `task` done, after those that were given before. It is sent by the next `exchange`."""
        self._post(TASK, pickle.dumps(task, protocol=5))
        self._pulse.reset()

    def hold(self, number: int) -> None:
        """Have it stand still at the next step of its progress; it answers with Holding(number)."""
        self._post(HOLD, b"%d" % number)

    def go_on(self) -> None:
        """Have it go on."""
        self._post(GO, b"")
        self._pulse.reset()

    def lost(self) -> str:
        """Why nothing more is to be expected of it, "" if there is hope. For a child that has something to do."""
        return self._pulse.missing()

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

    def _read(self) -> list[Answer]:
        """What it has said since."""
        try:
            data = os.read(self._out, CHUNK)
        except BlockingIOError:
            self.ended = self._exited()  # the pipe may be open in a process that it has left behind
            return []
        self.ended = not data
        self._heard += data
        answers: list[Answer] = []
        while len(self._heard) >= HEAD.size:
            _, size = HEAD.unpack_from(self._heard)
            if len(self._heard) < HEAD.size + size:
                break
            with memoryview(self._heard) as seen, seen[HEAD.size : HEAD.size + size] as frame:
                answers.append(pickle.loads(frame))  # noqa: S301 - of our own child
            del self._heard[: HEAD.size + size]
        self._pulse.reset()
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


def exchange(children: Sequence[ChildProcess], seconds: float) -> list[tuple[ChildProcess, Answer]]:
    """Send what is to be sent and hear what was said, waiting `seconds` at most for the first of it.

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


class Pulse:
    """Tells a process that works without a word from one that is stopped, or that waits for something for ever.

    Time counts only while it is looked at: after the whole machine has slept nobody is late.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._used = pid, 0.0
        self.reset()

    def reset(self) -> None:
        """There was a sign of life."""
        self._quiet = self._stopped = self._silent = 0.0
        self._seen = time.monotonic()

    def missing(self) -> str:
        """Why nothing more is to be expected, or ""."""
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
