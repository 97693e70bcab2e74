"""Compilation of generated kernels in child processes; the engine's process only loads them from the cache.

Each lab has at most one job, for its newest values. A new job cancels the previous one, unless a second lab needs the
same kernels. Jobs have a deadline and are served fairly among labs (compute/export/jobs.py). Their process is reused
for later jobs and has normal priority: at low priority, 1.7 s of compiling took 20 s while labs used all cores.
NumPy computes the lab during the job and, if the job fails, after it.
"""

from __future__ import annotations

from math import inf
from time import monotonic

from compute.devices.backends import REFERENCE, backend
from compute.devices.devices import cpu_count
from compute.export.jobs import Job, JobLane, JobQueue
from compute.export.shared_jobs import SharedJob, SharedJobs
from compute.lab.compilation import Compilation, Interim
from compute.lab.lab import Lab

KERNELS = JobLane("kernels", max(1, cpu_count() // 4), 30.0)  # concurrent compilations; seconds allowed for each
KEPT = 300.0  # seconds for which an idle process is kept: a new one needs more than a second to be ready
NUMPY = backend(REFERENCE).label
LOOK = 0.05  # seconds between two checks of a job


class KernelJobs:
    """The compile jobs of one engine, called from its loop only. lane: number of concurrent jobs and their deadline."""

    def __init__(self, lane: JobLane = KERNELS) -> None:
        self._lane = lane
        self._queue = JobQueue(KEPT, low=False)
        self._jobs = SharedJobs(size=lambda _: 1, kept=0)  # a finished job is dropped: its kernels are in the cache

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
        """End the idle processes."""
        self._queue.end_idle()


class LabKernels:
    """The generated kernels of one lab. look_at: time of the next check of its job; inf without a job."""

    def __init__(self, lab: Lab, jobs: KernelJobs) -> None:
        self._lab, self._jobs = lab, jobs
        self._needed: Compilation | None = None  # what the job compiles, or has failed to compile
        self._shared: SharedJob | None = None
        self.look_at = inf

    def request(self) -> None:
        """Load the kernels for the lab's values; if they are not cached, start a job and let NumPy compute."""
        needed = self._lab.compilation()
        if needed is not None and self._needed is not None and needed.key == self._needed.key:
            return
        self.close()
        self._needed = needed
        if needed is None:
            self._switch()
        else:
            self._lab.set_interim(Interim(f"{NUMPY} computes while {self._label} compiles"))
            self._shared = self._jobs.ask(needed, self)
            self.look_at = monotonic() + LOOK

    def ended(self, now: float) -> bool:
        """Return whether the job has ended and `take` must be called."""
        if self._shared is None or now < self.look_at:
            return False
        self.look_at = now + LOOK
        return self._shared.job.over

    def take(self) -> None:
        """Switch the lab to the compiled kernels; after a failure keep NumPy and store the reason in the lab."""
        assert self._shared is not None  # noqa: S101 - `ended` was True
        job = self._shared.job
        self.close()
        if job.state != "done":
            self._keep_numpy(f"did not compile: {job.text}")
        elif self._lab.compilation() is not None:
            self._keep_numpy("did not compile: the kernels are not in the cache")
        else:
            self._needed = None
            self._switch()

    def _switch(self) -> None:
        """Switch the lab to the chosen backend, whose kernels are loaded; keep NumPy if its memory is too small."""
        try:
            self._lab.set_interim(None)
        except ValueError as error:  # OutOfMemory
            self._keep_numpy(f"cannot continue: {error}")

    def _keep_numpy(self, problem: str) -> None:
        self._lab.set_interim(Interim(f"{NUMPY} computes, because {self._label} {problem}", lasts=True))

    @property
    def _label(self) -> str:
        return backend(self._lab.values()["backend"]).label

    def close(self) -> None:
        """Cancel the job, if any, unless other labs share it."""
        if self._shared is not None:
            self._jobs.leave(self._shared, self)
        self._shared, self.look_at = None, inf
