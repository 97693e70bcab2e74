"""One export in a process of its own: the parent's side. Nothing here waits; a thread of its own listens."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from compute import scratch
from compute.devices import cpu_count
from compute.export.errand import Ended, Errand, Failed, Told

AT_ONCE = max(1, cpu_count() // 4)  # errands of one server that run at the same time; the others wait for their turn
LOST = "its process ended before it was done"

_spares: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()  # a process that waits for its errand
_turns = threading.BoundedSemaphore(AT_ONCE)


class Runner:
    """Carries out one errand.

    state: "waiting" for its turn, "running", "paused", "done", "failed" or "cancelled", the last three for good;
    part (0 to 1) and words: how far it is; result: of one that is done; text: why one has failed.
    """

    def __init__(self, errand: Errand) -> None:
        self.errand = errand
        self.state, self.part, self.words, self.text = "waiting", 0.0, "", ""
        self.result: Any = None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="errand", daemon=True)

    def start(self) -> None:
        """Begin, as soon as it is its turn."""
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")

    def pause(self) -> None:
        """Let it stop at the next step of its progress, and keep what it has."""
        self._order(b"pause\n", "running", "paused")

    def go(self) -> None:
        """Go on."""
        self._order(b"go\n", "paused", "running")

    def cancel(self) -> None:
        """End it at once, with all its processes. Harmless if it is over."""
        with self._lock:
            self._cancelled.set()
            if not self.over:
                self.state = "cancelled"
            if self._process is not None:
                kill(self._process.pid)

    def join(self, seconds: float | None = None) -> None:
        """Wait until it is over, at most so long."""
        self._thread.join(seconds)

    # -- inside

    def _order(self, order: bytes, before: str, after: str) -> None:
        with self._lock:
            if self.state != before or self._process is None or self._process.stdin is None:
                return
            with suppress(OSError):  # it has just ended: its thread finds out
                self._process.stdin.write(order)
                self._process.stdin.flush()
            self.state = after

    def _run(self) -> None:
        while not _turns.acquire(timeout=0.1):
            if self._cancelled.is_set():
                return
        try:
            self._serve()
        finally:
            _turns.release()

    def _serve(self) -> None:
        with self._lock:
            if self._cancelled.is_set():
                return
            self._process = process = _taken()
            self.state = "running"
        with process:
            try:
                self._talk(process)
            except (OSError, EOFError, pickle.UnpicklingError):
                pass  # it has ended: what it said last counts
            finally:
                kill(process.pid)
                with suppress(OSError):
                    process.stdin.close()  # type: ignore[union-attr]
        scratch.clear(process.pid)
        with self._lock:
            if not self.over:
                self.state, self.text = "failed", LOST

    def _talk(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process without pipes")
        pickle.dump(self.errand, process.stdin, protocol=5)
        process.stdin.flush()
        while True:
            self._hear(pickle.load(process.stdout))  # noqa: S301 of our own child

    def _hear(self, answer: Any) -> None:
        with self._lock:
            if self.over:
                return
            match answer:
                case Told(part=part, words=words):
                    self.part, self.words = part, words
                case Ended(result=result):
                    self.result, self.part, self.state = result, 1.0, "done"
                case Failed(text=text, expected=expected):
                    self.text = text if expected else ours(text)
                    self.state = "failed"


def ours(text: str) -> str:
    """What is said of an error that is not the request's fault."""
    return f"{text} (this is an error of Fieldlab)"


def warm() -> None:
    """Start a process ahead, so that the next errand need not wait for one. Harmless if there is one."""
    if _spares.empty():
        _spares.put(_process())


def _taken() -> subprocess.Popen[bytes]:
    """The process that was started ahead, or a new one."""
    while not _spares.empty():
        with suppress(queue.Empty):
            spare = _spares.get_nowait()
            if spare.poll() is None:
                return spare
    return _process()


def _process() -> subprocess.Popen[bytes]:
    """A fresh interpreter; it imports nothing of the server's main module. It ends when its stdin does."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", "from compute.export.errand import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C in a terminal reaches the server alone
    )


def kill(pid: int) -> None:
    """End a process and all that it has started."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        family = [*process.children(recursive=True), process]
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()
