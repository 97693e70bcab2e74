"""Jobs: work in child processes of low priority, so that pages stay responsive.

A job is a function of compute.export.tasks with its arguments. It reports progress, can be paused, resumed and
cancelled, and has a deadline. If its process dies, is stopped or falls silent, the job fails with the reason. Only the
job's thread communicates with the process: no method that a page calls blocks or writes.

Jobs take turns in lanes, so that short jobs never wait behind films. In a lane the client with the fewest running jobs
is served first, then the client whose last turn was longest ago. A paused job returns its turn when its process holds,
and queues for another one when it is resumed.

    waiting ──turn──> running ──> done | failed | cancelled      cancelled from any state; these three are final
                 running <──> paused ──resume──> waiting (its process holds) or running (it does not hold yet)
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Protocol

from compute.devices.devices import cpu_count
from compute.process.child import ProcessEnd, SparePool
from compute.process.tasks import ChildTask, Failure, Holding, Progress, Result, TaskProcess, task_limits, when_idle
from compute.process.watchdog import Loss

AHEAD = "compute.export.tasks"  # module that a process started in advance imports
KEPT = 30.0  # s for which an idle process is kept for another job
USES = 50  # jobs per process
MOST_WAITS, LONGEST_WAIT = 9, 1800.0  # limits of the processor wait added to a deadline: deadlines, s
OVER = ("done", "failed", "cancelled")


class Queued(Protocol):
    """An entry of a JobQueue."""

    lane: JobLane
    client: Hashable

    def your_turn(self) -> None:
        """Start or continue, unless the entry was removed from the queue."""


@dataclass(frozen=True)
class JobLane:
    """Jobs that share turns. turns: concurrent jobs; deadline: seconds of running, without pauses.

    background: whether they run only in idle processor time, so that pages are not delayed.
    """

    name: str
    turns: int
    deadline: float = inf
    background: bool = False


DECODE = JobLane("decode", max(2, cpu_count() // 4), 5.0)  # a picture or a matrix that a user loads
QUICK = JobLane("quick", max(2, cpu_count() // 4), 120.0)  # estimates
BRIEF = JobLane("brief state", max(2, cpu_count() // 4), 30.0)  # a state from a link or file that needs a moment
STATE = JobLane("state", max(2, cpu_count() // 4), 1800.0)  # a longer one; a server sets a shorter deadline
RACE = JobLane("race", 1, 1800.0)  # one at a time: concurrent races would distort each other's times
FILE = JobLane("file", max(2, cpu_count() // 4))  # one picture, the numbers of one state
FILM = JobLane("film", max(1, cpu_count() // 4), background=True)  # films, tables: minutes to hours
MOST_KEPT = max(lane.turns for lane in (DECODE, QUICK, BRIEF, STATE, RACE, FILE))  # idle processes


class JobQueue:
    """Give turns to jobs. Its lock may be acquired while a job's lock is held, never the other way round.

    kept: seconds for which an idle process is kept for another job; low: processes have low priority; most: number of
    idle processes.
    fresh: a process started in advance; used: idle processes of jobs with `keeps`.
    """

    def __init__(self, kept: float = KEPT, *, low: bool = True, most: int = MOST_KEPT) -> None:
        self._kept, self._low = kept, low
        self._lock = threading.Lock()
        self._waiting: list[Queued] = []
        self._running: set[Queued] = set()
        self._served: dict[Hashable, int] = {}  # clients with jobs here: number of their last turn
        self._count = 0
        self.fresh: SparePool[TaskProcess] = SparePool(1)
        self.used: SparePool[TaskProcess] = SparePool(most)

    def add(self, job: Queued) -> None:
        """Append `job` to the waiting jobs; `deal` grants its turn."""
        with self._lock:
            self._waiting.append(job)

    def remove(self, job: Queued) -> None:
        """Remove a waiting or running job. Do nothing for other jobs."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
            self._running.discard(job)
            known = {one.client for one in (*self._waiting, *self._running)}
            self._served = {client: when for client, when in self._served.items() if client in known}

    def gave_turn(self, job: Queued) -> bool:
        """Return whether `job` has a turn."""
        with self._lock:
            return job in self._running

    def before(self, job: Queued) -> int:
        """Return how many jobs of its lane run or have waited longer than `job`; 0 if `job` does not wait.

        The order of turns can differ: clients with running jobs are served after clients without any.
        """
        with self._lock:
            if job not in self._waiting:
                return 0
            earlier = self._waiting[: self._waiting.index(job)]
            return sum(one.lane == job.lane for one in (*self._running, *earlier))

    def deal(self) -> None:
        """Give the free turns to waiting jobs. Call it without holding a job's lock."""
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
        """Return the number of waiting and of running jobs."""
        with self._lock:
            return len(self._waiting), len(self._running)

    def prepare(self) -> None:
        """Start a process in advance for the next job. Return immediately."""
        threading.Thread(target=self._prepare, name="spare", daemon=True).start()

    def process(self, keeps: bool = False) -> TaskProcess:
        """Return the process started in advance, or a new one.

        keeps: the job returns its process for reuse; it gets an idle one if possible.
        """
        if keeps and (used := self.used.take()):
            used.go_on()  # release a hold of the last job
            return used
        return self.fresh.take() or TaskProcess(leads=True, low=self._low)

    def keep(self, process: TaskProcess) -> None:
        """Keep a process for the next job with `keeps`: starting one costs a second of processor time.

        The process ends if as many are idle as the queue keeps, after USES jobs, and after `kept` seconds without a
        job.
        """
        if process.tasks < USES:
            self.used.add(process, self._kept)
        else:
            process.close()

    def end_idle(self) -> None:
        """End the idle processes."""
        self.fresh.close()
        self.used.close()

    def _prepare(self) -> None:
        if not self.fresh.pids:
            with suppress(OSError):  # the next job reports the error
                self.fresh.add(TaskProcess(leads=True, low=self._low, ahead=AHEAD))

    def _next(self) -> Queued | None:
        """Return the job for the next free turn, None if no job waits or no turn is free."""
        used = Counter(job.lane for job in self._running)
        able = [job for job in self._waiting if used[job.lane] < job.lane.turns]
        shares = Counter((job.client, job.lane) for job in self._running)
        order = [(shares[job.client, job.lane], self._served.get(job.client, 0), at) for at, job in enumerate(able)]
        return able[min(order)[-1]] if able else None


JOBS = JobQueue()


class Job:
    """One task in a child process.

    state: see the module; part (0 to 1), words: progress; seconds: running time; result: of a finished job; text:
    reason of a failure; late: whether it exceeded its deadline; ended: time of the end (time.monotonic). client: the
    requester, for fair turns; dropped with the process, so that a stored result does not keep a closed page alive.
    deadline: seconds, by default the lane's; keeps: reuse the process for another job with `keeps`.
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
        self._process: TaskProcess | None = None
        self._started = self._has_turn = False
        self._holds = 0  # number of holds; `_held`: whether the last one is active; read by the thread
        self._held, self._sent_hold = False, 0
        self._gone = threading.Event()

    def start(self) -> None:
        """Queue the job. Do nothing on a second call or after the end."""
        with self._lock:
            if self._started or self.over:
                return
            self._started = True
            self._queue.add(self)
        self._queue.deal()

    @property
    def over(self) -> bool:
        """Return whether the state is final."""
        return self.state in OVER

    @property
    def before(self) -> int:
        """Return the number of jobs, running ones included, before this one in its lane; 0 if it does not wait."""
        return self._queue.before(self)

    def pause(self) -> None:
        """Let the process stop at its next report of progress. Do nothing if the job has not started."""
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
        """Continue: immediately if the process does not hold yet, else after queueing for a turn."""
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
        """Kill the process with its children immediately. Do nothing if the job is over."""
        with self._lock:
            if self.over:
                return
            self.state = "cancelled"
            if self._process is not None:
                self._process.kill()
            if self._thread is None:
                self._gone.set()
            if not self._has_turn:  # otherwise the turn is returned when the process has ended
                self._leave_for_good()
        self._queue.deal()

    def join(self, seconds: float | None = None) -> bool:
        """Wait up to `seconds` for the job and its process to end; return whether they have."""
        return self._gone.wait(seconds)

    def your_turn(self) -> None:
        """Start or continue; called by the queue. Do nothing if the job was paused or cancelled since."""
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
            self._run_task()
        except Exception as error:  # noqa: BLE001 - reported to the waiting requester
            self._end("failed", text=internal_error(f"{type(error).__name__}: {error}"))
        finally:
            with self._lock:
                self._has_turn = False
                self._leave_for_good()
            self._gone.set()
            self._queue.deal()

    def _leave_for_good(self) -> None:
        """Leave the queue and drop the client. Call it with the lock held."""
        self._queue.remove(self)
        self.client = None

    def _run_task(self) -> None:
        process, outcome = self._queue.process(self.keeps), None
        task = partial(when_idle, self._task) if self.lane.background else self._task
        # next to busy processes, a process of low priority gets a tenth of the processor time that it could use
        limits = task_limits(self.deadline, min(MOST_WAITS * self.deadline, LONGEST_WAIT))
        try:
            with self._lock:
                self._process = process
                if self.over:  # cancelled before the process was assigned
                    process.kill()
            outcome = process.run(
                task, limits, on_answer=self._on_answer, is_paused=partial(self._forward_holds, process)
            )
        finally:
            with self._lock:
                self._process, self.seconds = None, process.watchdog.seconds
            if self.keeps and isinstance(outcome, Result) and not self.over:
                self._queue.keep(process)  # before the state is "done": its observer may start the next job
            else:
                process.close()
        match outcome:
            case Result(value=value):
                self._end("done", result=value)
            case Failure(text=text, expected=expected):
                self._end("failed", text=text if expected else internal_error(text))
            case Loss(kind="late", text=text):
                self.late = True
                self._end("failed", text=text)
            case Loss(text=text):
                self._end("failed", text=f"its process was ended: {text}")
            case ProcessEnd(text=text):
                self._end("failed", text=f"its process ended before it was done: {text}")

    def _forward_holds(self, process: TaskProcess) -> bool:
        """Send changes of `pause` and `resume` to the process; return whether it holds."""
        self.seconds = process.watchdog.seconds
        with self._lock:
            requested = self._holds if self._held else 0
        if requested != self._sent_hold:
            if self._sent_hold:  # before a new hold, too: a held process reports it only after this
                process.go_on()
            if requested:
                process.hold(requested)
            self._sent_hold = requested
        return not self._has_turn

    def _on_answer(self, answer: object) -> None:
        match answer:
            case Progress(part=part, words=words):
                self.part, self.words = part, words
            case Holding(number=number):
                self._stands(number)

    def _stands(self, number: int) -> None:
        """Return the turn when the process holds, unless the job was resumed since."""
        with self._lock:
            gives = self.state == "paused" and self._held and number == self._holds and self._has_turn
            if gives:
                self._has_turn = False
                self._queue.remove(self)
        if gives:
            self._queue.deal()

    def _end(self, state: str, result: Any = None, text: str = "") -> None:
        with self._lock:
            if not self.over:
                self.ended = time.monotonic()
                self.result, self.text, self.state = result, text, state
                self.part = 1.0 if state == "done" else self.part


def internal_error(text: str) -> str:
    """Return the message for an error that the request did not cause."""
    return f"{text} (this is an error of Fieldlab)"
