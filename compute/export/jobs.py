"""Jobs: work in child processes of low priority, so that whoever asked stays live. The one way to run such work.

A job is a function of compute.export.tasks with its arguments. It tells how far it is, can be paused, resumed and
cancelled, has a deadline, and if its process dies, is stopped or falls silent, it ends and says why. A job's thread
alone talks to its process: nothing that a page calls here waits or writes.

Jobs take turns (job_queue.py). A paused job gives its turn back as soon as its process stands still, and queues for
another to go on.

    waiting ──turn──> running ──> done | failed | cancelled      cancelled from any state; over for good
                 running <──> paused ──resume──> waiting (its process stands still) or running (it does not yet)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Any

from compute.export.child import Failure, Holding, Progress, Result, Task
from compute.export.job_queue import FILM, JOBS, JobQueue, Lane
from compute.export.processes import ChildProcess, exchange

TICK = 0.1  # s between looks at what is wanted of a job
OVER = ("done", "failed", "cancelled")


class Job:
    """One task in a process of its own.

    state: see the module; part (0 to 1) and words: how far it is; seconds: for how long it has run; result: of one that
    is done; text: why one has failed. client: whoever asked, for fairness; deadline: seconds, by default its lane's.
    """

    def __init__(
        self,
        task: Task,
        lane: Lane = FILM,
        client: Hashable = None,
        deadline: float | None = None,
        queue: JobQueue = JOBS,
    ) -> None:
        self.lane, self.client = lane, client
        self.deadline = lane.deadline if deadline is None else deadline
        self.state, self.part, self.words, self.text, self.seconds = "waiting", 0.0, "", "", 0.0
        self.result: Any = None
        self._task, self._queue = task, queue
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process: ChildProcess | None = None
        self._started = self._has_turn = False
        self._holds = 0  # number of the newest hold, and whether it is in force; the thread passes both on
        self._held = False
        self._gone = threading.Event()

    def start(self) -> None:
        """Begin as soon as it is its turn. Does nothing the second time, or once it is over."""
        with self._lock:
            if self._started or self.over:
                return
            self._started = True
            self._queue.add(self)
        self._queue.deal()

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in OVER

    def pause(self) -> None:
        """Let it stop at the next step of its progress, and keep what it has. Does nothing before it has begun."""
        with self._lock:
            if self.over or self.state == "paused" or self._thread is None:
                return
            if self.state == "running":
                self._holds, self._held = self._holds + 1, True
            else:
                self._queue.remove(self)
            self.state = "paused"
        self._queue.deal()

    def resume(self) -> None:
        """Go on: at once if it has not come to a stand yet, else in its turn."""
        with self._lock:
            if self.state != "paused":
                return
            if self._has_turn:
                self.state, self._held = "running", False
            else:
                self.state = "waiting"
                self._queue.add(self)
        self._queue.deal()

    def cancel(self) -> None:
        """End it at once, with all its processes. Harmless if it is over."""
        with self._lock:
            if self.over:
                return
            self.state = "cancelled"
            if self._process is not None:
                self._process.kill()
            if self._thread is None:
                self._gone.set()
            if not self._has_turn:  # else it is given back once the process is gone
                self._queue.remove(self)
        self._queue.deal()

    def join(self, seconds: float | None = None) -> bool:
        """Wait until it is over and its process is gone, at most so long; whether that is so."""
        return self._gone.wait(seconds)

    def your_turn(self) -> None:
        """Called by the queue. What is no longer wanted has been taken out of it already."""
        with self._lock:
            if self.state != "waiting" or not self._queue.gave_turn(self):
                return
            self._has_turn, self.state, self._held = True, "running", False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="job", daemon=True)
                self._thread.start()

    # -- the thread of the job

    def _run(self) -> None:
        try:
            self._begin_and_follow()
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            self._end("failed", text=ours(f"{type(error).__name__}: {error}"))
        finally:
            with self._lock:
                self._has_turn = False
                self._queue.remove(self)
            self._gone.set()
            self._queue.deal()

    def _begin_and_follow(self) -> None:
        process = self._queue.process()
        try:
            process.give(self._task)
            with self._lock:
                self._process = process
            self._follow(process)
        finally:
            with self._lock:
                self._process = None
            ending = process.close()
        self._end("failed", text=f"its process ended before it was done: {ending or 'nobody knows how'}")

    def _follow(self, process: ChildProcess) -> None:
        """Until it is over: pass on what is wanted, hear what is said, and end what does not go on."""
        passed, last = 0, time.monotonic()
        while not self.over and not process.ended:
            with self._lock:
                wanted = self._holds if self._held else 0
            if wanted != passed:
                process.hold(wanted) if wanted else process.go_on()
                passed = wanted
            for _, answer in exchange([process], TICK):
                self._hear(answer)
            now = time.monotonic()
            self._watch(process, min(now - last, 2 * TICK + 1.0))  # after a sleep of the machine nobody is late
            last = now

    def _hear(self, answer: object) -> None:
        match answer:
            case Progress(part=part, words=words):
                self.part, self.words = part, words
            case Result(value=value):
                self._end("done", result=value)
            case Failure(text=text, expected=expected):
                self._end("failed", text=text if expected else ours(text))
            case Holding(number=number):
                self._stands(number)

    def _stands(self, number: int) -> None:
        """The process stands still: somebody else may run, unless it is to go on already."""
        with self._lock:
            gives = self.state == "paused" and self._held and number == self._holds and self._has_turn
            if gives:
                self._has_turn = False
                self._queue.remove(self)
        if gives:
            self._queue.deal()

    def _watch(self, process: ChildProcess, passed: float) -> None:
        if not self._has_turn:
            return
        self.seconds += passed
        if self.seconds > self.deadline:
            self._end("failed", text=f"it took longer than {self.deadline:g} s, which is all that it may take")
        elif why := process.lost():
            self._end("failed", text=f"its process was given up: {why}")

    def _end(self, state: str, result: Any = None, text: str = "") -> None:
        with self._lock:
            if not self.over:
                self.result, self.text, self.state = result, text, state
                self.part = 1.0 if state == "done" else self.part


def ours(text: str) -> str:
    """What is said of an error that is not the request's fault."""
    return f"{text} (this is an error of Fieldlab)"
