"""Compilation of generated kernels in child processes; the engine's process only loads them from the cache.

Each lab has at most one job, for its newest values. A new job cancels the previous one, unless a second lab needs the
same kernels. Jobs have a deadline and are served fairly among labs (compute/export/jobs.py). Their process is started
some time after a lab has opened, is reused for later jobs, and has normal priority: at low priority, 1.7 s of compiling
took 20 s while labs used all cores. NumPy computes the lab during the job and, if the job fails, after it. If a backend
has a kernel that compiles quickly, a first job compiles that one, which replaces NumPy during the second job.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Any

from compute.devices.backends import REFERENCE, backend
from compute.devices.devices import cpu_count
from compute.export.jobs import Job, JobLane, JobQueue
from compute.export.shared_jobs import SharedJob, SharedJobs
from compute.lab.compilation import Compilation, Interim
from compute.lab.lab import Lab

KERNELS = JobLane("kernels", max(1, cpu_count() // 4), 30.0)  # concurrent compilations; seconds allowed for each
KEPT = 1800.0  # seconds for which an idle process is kept: a new one needs more than a second to be ready
IDLE = 2  # processes kept at most: each holds 160 MB of its own
PREPARED = 3.0  # seconds from the opening of a lab, which must not be delayed, to the start of a process
NUMPY = backend(REFERENCE).label
LOOK = 0.05  # seconds between two checks of a job


class KernelJobs:
    """The compile jobs of one engine, called from its loop only. lane: number of concurrent jobs and their deadline."""

    def __init__(self, lane: JobLane = KERNELS) -> None:
        self._lane = lane
        self._queue = JobQueue(KEPT, low=False, most=IDLE)
        self._jobs = SharedJobs(size=lambda _: 1, kept=0)  # a finished job is dropped: its kernels are in the cache
        self._preparing: Job | None = None

    def prepare(self, task: Callable[..., Any] | None) -> None:
        """Start a process for the next job, which `task` prepares. Do nothing without a task, or if a process exists.

        A job requested meanwhile waits for this process.
        """
        if task is not None and not self._queue.used.pids and self._queue.counts() == (0, 0):
            self._preparing = Job(task, self._lane, queue=self._queue, keeps=True)
            self._preparing.start()

    def ask(self, needed: Compilation, requester: object) -> SharedJob:
        """Return the job that compiles these kernels; labs with equal kernels share a job."""

        def begin() -> Job:
            """Start the job."""
            job = Job(needed.task, self._lane, requester, queue=self._queue, keeps=True)
            job.start()
            return job

        return self._jobs.ask(needed.key, begin, requester)

    def leave(self, shared: SharedJob, requester: object) -> None:
        """Remove a requester; the job is cancelled after the last one has left."""
        self._jobs.leave(shared, requester)

    def counts(self) -> tuple[int, int]:
        """Return the number of waiting and of running jobs."""
        return self._queue.counts()

    def close(self) -> None:
        """End the idle processes, and a process that is being prepared."""
        if self._preparing is not None:
            self._preparing.cancel()
        self._queue.end_idle()


class LabKernels:
    """The generated kernels of one lab.

    look_at: time of the next check of its job, or before its first job the time at which a process is prepared for it;
    else inf.
    """

    def __init__(self, lab: Lab, jobs: KernelJobs) -> None:
        self._lab, self._jobs = lab, jobs
        self._needed: Compilation | None = None  # what the job compiles, or has failed to compile
        self._shared: SharedJob | None = None
        self.look_at = monotonic() + PREPARED if lab.COMPILED else inf

    def request(self) -> None:
        """Load the kernels for the lab's values; if they are not cached, start a job and let NumPy compute."""
        needed = self._lab.compilation()
        if needed is not None and self._needed is not None and needed.key == self._needed.key:
            return
        self._leave()
        self._begin(needed)

    def _begin(self, needed: Compilation | None) -> None:
        """Start the job that compiles these kernels; without one, switch to the chosen backend."""
        self._needed = needed
        if needed is None:
            self._switch(None)
        else:
            words = f"{NUMPY} computes while {self._label} compiles"
            if needed.variant:
                words = f"{self._label} computes with its {needed.variant} kernel while a faster one compiles"
            self._switch(Interim(words, variant=needed.variant))
            self._shared = self._jobs.ask(needed, self)
            self.look_at = monotonic() + LOOK

    def ended(self, now: float) -> bool:
        """Return whether the job has ended and `take` must be called. Prepare a process if it is time for that."""
        if now < self.look_at:
            return False
        if self._shared is None:
            self.look_at = inf
            self._jobs.prepare(self._lab.compiler())
            return False
        self.look_at = now + LOOK
        return self._shared.job.over

    def take(self) -> None:
        """Switch the lab to the compiled kernels, and compile the remaining ones.

        After a failure keep what computes, and store the reason in the lab.
        """
        assert self._shared is not None  # noqa: S101 - `ended` was True
        assert self._needed is not None  # noqa: S101 - of the job
        job = self._shared.job
        self._leave()
        needed = self._lab.compilation() if job.state == "done" else None
        if job.state != "done":
            self._keep(f"did not compile: {job.text}", self._needed.variant)
        elif needed is not None and needed.key == self._needed.key:
            self._keep("did not compile: the kernels are not in the cache", self._needed.variant)
        else:
            self._begin(needed)

    def _switch(self, interim: Interim | None) -> None:
        """Switch the lab to kernels that are loaded; keep NumPy if the memory of their backend is too small."""
        try:
            self._lab.set_interim(interim)
        except ValueError as error:  # OutOfMemory
            self._keep(f"cannot continue: {error}")

    def _keep(self, problem: str, variant: str = "") -> None:
        """Keep NumPy, or the kernel `variant` of the chosen backend, and store the reason."""
        words = f"{NUMPY} computes, because {self._label} {problem}"
        if variant:
            words = f"{self._label} computes with its {variant} kernel, because a faster one {problem}"
        self._lab.set_interim(Interim(words, lasts=True, variant=variant))

    @property
    def _label(self) -> str:
        return backend(self._lab.values()["backend"]).label

    def close(self) -> None:
        """Cancel the job, if any, unless other labs share it."""
        self._leave()
        self.look_at = inf

    def _leave(self) -> None:
        if self._shared is not None:
            self._jobs.leave(self._shared, self)
            self._shared, self.look_at = None, inf
