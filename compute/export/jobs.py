"""Jobs: work in child processes of low priority, so that whoever asked stays live. The one way to run such work.

A job is a function of compute.export.tasks with its arguments. It tells how far it is, can be paused, resumed and
cancelled, has a deadline, and if its process dies, is stopped or falls silent, it ends and says why. A job's thread
alone talks to its process: nothing that a page calls here waits or writes.

Jobs take turns in lanes, so that what is quick never waits behind a film. In a lane the client who has the fewest jobs
running comes first, then whoever has waited longest for a turn. A paused job gives its turn back as soon as its process
stands still, and queues for another to go on.

    waiting ──turn──> running ──> done | failed | cancelled      cancelled from any state; over for good
                 running <──> paused ──resume──> waiting (its process stands still) or running (it does not yet)
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Protocol

from compute.devices import cpu_count, longest_wait, processor_waits
from compute.export import tasks
from compute.export.child_process import (
    ChildProcess,
    ChildTask,
    Failure,
    Holding,
    Progress,
    Result,
    exchange,
    when_idle,
)

TICK = 0.1  # s between looks at what is wanted of a job
KEPT = 30.0  # s for which a process waits for the next job that may have it
USES = 50  # jobs that one process does
MOST_WAITING, LONGEST_WAITING = 9, 1800.0  # deadlines, and s, that a wait for a processor adds to a deadline at most
OVER = ("done", "failed", "cancelled")


class Queued(Protocol):
    """What waits in a JobQueue for its turn."""

    lane: JobLane
    client: Hashable

    def your_turn(self) -> None:
        """Begin or go on, unless it has been removed from the queue since."""


@dataclass(frozen=True)
class JobLane:
    """What a job shares its turns with. turns: jobs of it that run at the same time; deadline: seconds that one may
    run, pauses left out; background: whether it gets only what is left of the processors, so that no page waits for it.
    """

    name: str
    turns: int
    deadline: float = inf
    background: bool = False


DECODE = JobLane("decode", max(2, cpu_count() // 4), 5.0)  # a picture or a matrix that a user loads
QUICK = JobLane("quick", max(2, cpu_count() // 4), 120.0)  # estimates
BRIEF = JobLane("brief state", max(2, cpu_count() // 4), 30.0)  # a link's or a file's state that takes a moment
STATE = JobLane("state", max(2, cpu_count() // 4), 1800.0)  # one that takes longer; a server sets a shorter deadline
RACE = JobLane("race", 1, 1800.0)  # one at a time: two would spoil each other's times
FILE = JobLane("file", max(2, cpu_count() // 4))  # one picture, the numbers of one state
FILM = JobLane("film", max(1, cpu_count() // 4), background=True)  # films, tables: minutes to hours
MOST_KEPT = max(lane.turns for lane in (DECODE, QUICK, BRIEF, STATE, RACE, FILE))  # idle processes


class JobQueue:
    """Gives turns to jobs. Its lock may be taken with that of a job held, never the other way round."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Queued] = []
        self._running: set[Queued] = set()
        self._served: dict[Hashable, int] = {}  # clients of waiting or running jobs, by when they last got a turn
        self._count = 0
        self._spare: ChildProcess | None = None  # a process that was started ahead
        self._kept: list[tuple[ChildProcess, threading.Timer]] = []  # whose jobs are done, and what ends each

    def add(self, job: Queued) -> None:
        """Let `job` wait for a turn; `deal` gives it one."""
        with self._lock:
            self._waiting.append(job)

    def remove(self, job: Queued) -> None:
        """Take `job` out, whether it waits or has a turn. Harmless if it does neither."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
            self._running.discard(job)
            known = {one.client for one in (*self._waiting, *self._running)}
            self._served = {client: when for client, when in self._served.items() if client in known}

    def gave_turn(self, job: Queued) -> bool:
        """Whether `job` has a turn."""
        with self._lock:
            return job in self._running

    def before(self, job: Queued) -> int:
        """Return how many jobs of its lane have a turn or have waited longer than `job`; 0 unless it waits for one.

        Who has jobs running gives way to who has none, so that the next turn may be another's.
        """
        with self._lock:
            if job not in self._waiting:
                return 0
            earlier = self._waiting[: self._waiting.index(job)]
            return sum(one.lane == job.lane for one in (*self._running, *earlier))

    def deal(self) -> None:
        """Give the turns there are to jobs that wait. Called without the lock of any job."""
        with self._lock:
            chosen = []
            while job := self._next():
                self._waiting.remove(job)
                self._running.add(job)
                self._count += 1
                self._served[job.client] = self._count
                chosen.append(job)
        for job in chosen:
            job.your_turn()

    def counts(self) -> tuple[int, int]:
        """How many jobs wait, and how many run."""
        with self._lock:
            return len(self._waiting), len(self._running)

    def prepare(self) -> None:
        """Start a process ahead, so that the next job need not wait for one. Returns at once."""
        threading.Thread(target=self._prepare, name="spare", daemon=True).start()

    def process(self, keeps: bool = False) -> ChildProcess:
        """Return the process that was started ahead, or a new one.

        keeps: whether the job keeps its process for the next; it gets one that was kept, if there is one.
        """
        while keeps and (kept := self._take_kept()):
            if self._lives(kept):
                kept.go_on()  # whatever its last job was told
                return kept
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None and self._lives(spare):
            return spare
        return ChildProcess(leads=True, low=True)

    def keep(self, process: ChildProcess) -> None:
        """Take a process that has done its job, for the next that keeps its own: a start costs a second of a processor.

        It is ended if there are MOST_KEPT already, if it has done USES jobs, and after KEPT seconds without another.
        """
        timer = threading.Timer(KEPT, self._end_kept, [process])
        timer.daemon = True
        with self._lock:
            taken = len(self._kept) < MOST_KEPT and process.tasks < USES
            if taken:
                self._kept.append((process, timer))
                timer.start()
        if not taken:
            process.close()

    def end_kept(self) -> None:
        """End the processes that were kept."""
        while kept := self._take_kept():
            kept.close()

    def _end_kept(self, process: ChildProcess) -> None:
        """End that process, unless a job has it."""
        if self._take_kept(process):
            process.close()

    def _take_kept(self, wanted: ChildProcess | None = None) -> ChildProcess | None:
        """Return a process that was kept, the latest or the one that is wanted; None if it is not there."""
        with self._lock:
            found = [kept for kept in self._kept if wanted is None or kept[0] is wanted]
            if not found:
                return None
            process, timer = found[-1]
            self._kept.remove((process, timer))
        timer.cancel()
        return process

    @staticmethod
    def _lives(process: ChildProcess) -> bool:
        """Whether it can be given something to do; it is closed if not."""
        exchange([process], 0)
        if process.ended:
            process.close()
        return not process.ended

    def _prepare(self) -> None:
        if self._spare is not None:
            return
        with suppress(OSError):  # the next job will say so
            made = ChildProcess(leads=True, low=True, ahead=tasks)
            with self._lock:
                if self._spare is None:
                    self._spare = made
                    return
            made.close()  # somebody was faster

    def _next(self) -> Queued | None:
        """Who comes next, None if there is nobody or no turn."""
        used = Counter(job.lane for job in self._running)
        able = [job for job in self._waiting if used[job.lane] < job.lane.turns]
        shares = Counter((job.client, job.lane) for job in self._running)
        order = [(shares[job.client, job.lane], self._served.get(job.client, 0), at) for at, job in enumerate(able)]
        return able[min(order)[-1]] if able else None


JOBS = JobQueue()


class Job:
    """One task in a process of its own.

    state: see the module; part (0 to 1) and words: how far it is; seconds: for how long it has run; result: of one that
    is done; text: why one has failed; late: whether that was its deadline; ended: when it was either (time.monotonic).
    client: whoever asked, for fairness,
    until its process is gone: a closed page must not live on in a result that is kept; deadline: seconds, by default
    its lane's; keeps: whether its process, once it is done, goes on to another job that keeps its own.
    """

    def __init__(
        self,
        task: ChildTask,
        lane: JobLane = FILM,
        client: Hashable = None,
        deadline: float | None = None,
        queue: JobQueue = JOBS,
        keeps: bool = False,
    ) -> None:
        self.lane, self.client, self.keeps = lane, client, keeps
        self.deadline = lane.deadline if deadline is None else deadline
        self.state, self.part, self.words, self.text, self.seconds = "waiting", 0.0, "", "", 0.0
        self.result: Any = None
        self.ended = 0.0
        self.late = False
        self._task, self._queue = task, queue
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process: ChildProcess | None = None
        self._answer: Result | None = None
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

    @property
    def before(self) -> int:
        """How many jobs of its lane come before it, running ones too, while it waits for a turn; else 0."""
        return self._queue.before(self)

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
                self._leave_for_good()
        self._queue.deal()

    def join(self, seconds: float | None = None) -> bool:
        """Wait until it is over and its process is gone, at most so many seconds; return whether that is so."""
        return self._gone.wait(seconds)

    def your_turn(self) -> None:
        """Begin or go on; called by the queue. What is no longer wanted has been taken out of it already."""
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
            self._end("failed", text=internal_error(f"{type(error).__name__}: {error}"))
        finally:
            with self._lock:
                self._has_turn = False
                self._leave_for_good()
            self._gone.set()
            self._queue.deal()

    def _leave_for_good(self) -> None:
        """Be in the queue no more, and let go of who asked. The lock is held."""
        self._queue.remove(self)
        self.client = None

    def _begin_and_follow(self) -> None:
        process, ending = self._queue.process(self.keeps), ""
        try:
            process.give(partial(when_idle, self._task) if self.lane.background else self._task)
            with self._lock:
                self._process = process
            self._follow(process)
        finally:
            with self._lock:
                self._process = None
            if self.keeps and self._answer and not self.over:
                self._queue.keep(process)  # before it is said to be done: who hears that may have the next job
            else:
                ending = process.close()
        if self._answer is not None:
            self._end("done", result=self._answer.value)
        self._end("failed", text=f"its process ended before it was done: {ending or 'nobody knows how'}")

    def _follow(self, process: ChildProcess) -> None:
        """Until it is over: pass on what is wanted, hear what is said, and end what does not go on."""
        passed, last = 0, time.monotonic()
        waits = processor_waits(process.pid)
        while not self.over and self._answer is None and not process.ended:
            with self._lock:
                wanted = self._holds if self._held else 0
            if wanted != passed:
                if passed:  # also to be held again: it waits for this, and says only then that it does
                    process.go_on()
                if wanted:
                    process.hold(wanted)
                passed = wanted
            for _, answer in exchange([process], TICK):
                self._hear(answer)
            now = time.monotonic()
            passed_by = min(now - last, 2 * TICK + 1.0)  # after a sleep of the machine nobody is late
            last = now
            if self._answer is None:
                self._watch(process, waits, passed_by)

    def _hear(self, answer: object) -> None:
        match answer:
            case Progress(part=part, words=words):
                self.part, self.words = part, words
            case Result():
                self._answer = answer
            case Failure(text=text, expected=expected):
                self._end("failed", text=text if expected else internal_error(text))
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

    def _watch(self, process: ChildProcess, waits: Mapping[str, float], passed: float) -> None:
        """End it if it is late or lost. waits: how long its threads had waited for a processor when it began.

        That is no fault of a process of low priority: beside busy ones it gets a tenth of what it could use.
        """
        if not self._has_turn:
            return
        self.seconds += passed
        if self.seconds > self.deadline and self.seconds > self.deadline + self._waited(process, waits):
            self.late = True
            self._end("failed", text=f"it took longer than {self.deadline:g} s, which is all that it may take")
        elif why := process.lost():
            self._end("failed", text=f"its process was given up: {why}")

    def _waited(self, process: ChildProcess, before: Mapping[str, float]) -> float:
        """Return the seconds that the thread which waited longest has waited for a processor."""
        waited = longest_wait(before, processor_waits(process.pid))
        return min(waited, MOST_WAITING * self.deadline, LONGEST_WAITING)

    def _end(self, state: str, result: Any = None, text: str = "") -> None:
        with self._lock:
            if not self.over:
                self.ended = time.monotonic()
                self.result, self.text, self.state = result, text, state
                self.part = 1.0 if state == "done" else self.part


def internal_error(text: str) -> str:
    """Return what is said of an error that is not the request's fault."""
    return f"{text} (this is an error of Fieldlab)"
