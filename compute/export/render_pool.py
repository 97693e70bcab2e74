"""Who makes the frames of a film, or the rows of a table: processes of this machine, by its cores or GPUs.

A part is made from the plan alone, wherever that happens; so the parts of a worker that was lost are simply made
again, and the result does not depend on who made which.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numba

from compute import machine
from compute.backends import BACKENDS
from compute.devices import cpu_count
from compute.export.child import Failure, Result, Tell
from compute.export.film import film_of
from compute.export.processes import ChildProcess, exchange
from compute.export.render import Replay, current_pixels, pixels, png
from compute.export.scene import SceneError
from compute.lab import Lab

MOST_LOSSES = 3  # workers that may be lost in a row without a frame in between: then it is the frames' fault
MOST_WORKERS = 256
VISIBLE, THREADS = "CUDA_VISIBLE_DEVICES", "NUMBA_NUM_THREADS"
AHEAD = 2  # frames handed out for each worker: the next is there when one is done
TICK = 1.0  # s between looks at workers that say nothing

Made = tuple[int, bytes]  # a part's number, and its file: a frame as PNG


class Work(Protocol):
    """What consists of parts that can be made from its plan and their numbers alone: a film, a table.

    sequential: whether a part is made by going on from the one before, so that one worker must make all.
    """

    @property
    def count(self) -> int:
        """How many parts."""

    @property
    def sequential(self) -> bool:
        """See above."""

    @property
    def task(self) -> str:
        """The function, as "module:function", that makes part `number` of the plan `plain` in a worker."""

    def plain(self) -> dict[str, Any]:
        """The plan, for JSON."""


class RenderPool(Protocol):
    """Makes parts of a work: frames of a film, for instance."""

    @property
    def workers(self) -> int | None:
        """How many frames at a time; None where others decide."""

    def make(self, work: Work, numbers: Sequence[int]) -> Generator[Made]:
        """The parts `numbers`, in any order. Closing the iterator stops the work."""


def gpus_here() -> tuple[str, ...]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; all there are where it is not set."""
    allowed = tuple(name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip())
    return allowed or tuple(str(number) for number in range(max(1, len(machine.nvidia()[0]))))


def on_gpu(lab: type[Lab], named: Iterable[str | None]) -> bool:
    """Whether one of the backends `named`, None for the lab's default, runs on a GPU; unknown names do not."""
    names = {name or lab.param["backend"].default for name in named}
    return any(backend.name in names and backend.device == "cuda" for backend in BACKENDS)


def pool_for(scheduler: str | None, workers: int | None, gpu: bool) -> RenderPool:
    """Processes of this machine, or the Dask cluster of a `scheduler`."""
    if scheduler:
        from compute.export.cluster import Cluster

        return Cluster(scheduler, workers)
    return LocalPool(workers, gpu)


class WorkerLost(RuntimeError):
    """Workers ended again and again without making anything."""


class LocalPool:
    """`workers` processes of this machine; by default one for every four threads, or for each GPU if `gpu`."""

    def __init__(self, workers: int | None = None, gpu: bool = False) -> None:
        self.gpus = gpus_here() if gpu else ()
        self.workers = workers if workers is not None else len(self.gpus) or max(1, cpu_count() // 4)
        if not 1 <= self.workers <= MOST_WORKERS:
            raise SceneError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")

    def make(self, work: Work, numbers: Sequence[int]) -> Generator[Made]:
        """See RenderPool. A worker that dies, or is stopped, is replaced, and its parts are made again."""
        count = 1 if work.sequential else min(self.workers, max(1, len(numbers)))
        share = max(1, cpu_count() // (1 if work.sequential else self.workers))
        rooms = [Workplace(self._environment(place, share)) for place in range(count)]
        left, losses = deque(numbers), 0
        try:
            while left or any(room.parts for room in rooms):
                for most in range(1, AHEAD + 1):  # nobody gets a second one before all have a first
                    for room in rooms:
                        room.take(work, left, most)
                for made in received(rooms):
                    losses = 0
                    yield made
                for room in rooms:
                    why = room.trouble()
                    if why:
                        losses += 1
                        left.extend(room.parts)
                        room.clear()
                    if losses >= MOST_LOSSES:
                        raise WorkerLost(f"{losses} times in a row a worker ended without making anything: {why}")
        finally:
            for room in rooms:  # all at once: what is being made is not waited for
                room.kill()
            for room in rooms:
                room.clear()

    def _environment(self, place: int, threads: int) -> dict[str, str]:
        """Variables of a worker: the cores are shared, and a GPU is one worker's."""
        card = {VISIBLE: self.gpus[place % len(self.gpus)]} if self.gpus else {}
        return {"OMP_NUM_THREADS": str(threads), THREADS: str(min(threads, numba.config.NUMBA_NUM_THREADS))} | card


class Workplace:
    """A worker, and the parts that it is to make, in order; another worker after it is gone."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.parts: deque[int] = deque()
        self.process: ChildProcess | None = None
        self._environment = environment

    def take(self, work: Work, left: deque[int], most: int) -> None:
        """Take of the parts that are left, until it has `most`."""
        while left and len(self.parts) < most:
            if self.process is None:
                self.process = ChildProcess(leads=False, low=False, environment=self._environment)
            self.parts.append(left.popleft())
            self.process.give(partial(made_part, work.task, work.plain(), self.parts[-1]))

    def trouble(self) -> str:
        """Why nothing more comes from its worker, or ""."""
        if self.process is None or not self.parts:
            return ""
        return self.process.lost() or ("it ended" if self.process.ended else "")

    def kill(self) -> None:
        """End its worker at once."""
        if self.process is not None:
            self.process.kill()

    def clear(self) -> None:
        """End its worker, and forget its parts."""
        self.parts.clear()
        if self.process is not None:
            self.process.close()
            self.process = None


def received(rooms: Sequence[Workplace]) -> Iterator[Made]:
    """What workers have made since; waits for it a moment. What one could not make is raised."""
    busy = {room.process: room for room in rooms if room.process is not None}
    for process, answer in exchange(list(busy), TICK):
        match answer:
            case Result(value=made):
                busy[process].parts.popleft()
                yield made
            case Failure(text=text, error=error):
                raise error or RuntimeError(text)


def made_part(task: str, plain: Mapping[str, Any], number: int, tell: Tell) -> Made:
    """Part `number` of the plan `plain`, in a worker."""
    tell(0.0, f"part {number}")  # a sign of life
    return found(task)(plain, number)


def found(task: str) -> Callable[[Mapping[str, Any], int], Made]:
    """The function that makes a part, from "module:function"."""
    module, _, name = task.partition(":")
    function: Callable[[Mapping[str, Any], int], Made] = getattr(import_module(module), name)
    return function


def frame(plain: Mapping[str, Any], number: int) -> Made:
    """Make one frame of the film `plain` from nothing."""
    return number, png(pixels(film_of(plain).at(number)))


_running: dict[str, Any] = {}  # of a sequential film: its plan, and the run that has come so far


def frame_after(plain: Mapping[str, Any], number: int) -> Made:
    """Make one frame by going on from the last one that this process made, if that was earlier."""
    scene = film_of(plain).at(number)
    if _running.get("plain") != plain or _running["run"].steps > scene.steps:
        _close()
        _running.update(plain=plain, run=Replay.of(scene))
    _running["run"].to(scene.steps)
    return number, png(current_pixels(_running["run"].lab, scene))


def _close() -> None:
    if run := _running.pop("run", None):
        with closing(run):
            _running.clear()
