"""Who makes the frames of a film, or the rows of a table: processes of this machine, by its cores or GPUs.

A part is made from the plan alone, wherever that happens; so the parts of a worker that was lost are simply made
again, and the result does not depend on who made which.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numba

from compute import machine, scratch
from compute.backends import BACKENDS
from compute.devices import cpu_count
from compute.export.film import film_of
from compute.export.history import begun
from compute.export.paint import pixels, png, shown
from compute.export.scene import SceneError
from compute.lab import Lab

MOST_LOSSES = 3  # workers that may be lost in a row without a frame in between: then it is the frames' fault
MOST_WORKERS = 256
VISIBLE = "CUDA_VISIBLE_DEVICES"
AHEAD = 2  # frames handed out for each worker: the next is there when one is done

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


class Studio(Protocol):
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


def studio_for(scheduler: str | None, workers: int | None, gpu: bool) -> Studio:
    """Processes of this machine, or the Dask cluster of a `scheduler`."""
    if scheduler:
        from compute.export.cluster import Cluster

        return Cluster(scheduler, workers)
    return Here(workers, gpu)


class WorkerLost(RuntimeError):
    """Workers ended again and again without making anything."""


class Here:
    """`workers` processes of this machine; by default one for every four threads, or for each GPU if `gpu`."""

    def __init__(self, workers: int | None = None, gpu: bool = False) -> None:
        self.gpus = gpus_here() if gpu else ()
        self.workers = workers if workers is not None else len(self.gpus) or max(1, cpu_count() // 4)
        if not 1 <= self.workers <= MOST_WORKERS:
            raise SceneError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")

    def make(self, work: Work, numbers: Sequence[int]) -> Generator[Made]:
        """See Studio. A worker that dies is replaced, and its parts are made again."""
        left, losses = list(numbers), 0
        while left:
            try:
                for made in self._round(work, left):
                    left.remove(made[0])
                    losses = 0
                    yield made
            except BrokenProcessPool as error:
                losses += 1
                if losses >= MOST_LOSSES:
                    raise WorkerLost(f"{losses} times in a row a worker ended without making anything") from error

    def _round(self, work: Work, numbers: Sequence[int]) -> Iterator[Made]:
        workers = 1 if work.sequential else self.workers
        threads = max(1, cpu_count() // workers)
        # not fork: OpenMP and CUDA do not survive it
        context = multiprocessing.get_context("spawn")
        cards = context.SimpleQueue()  # of GPUs: each worker takes one
        for number in range(workers if self.gpus else 0):
            cards.put(self.gpus[number % len(self.gpus)])
        leash, end = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(workers, context, _begin, (threads, cards if self.gpus else None, leash))
        with scratch.lent("parts") as folder:
            try:
                yield from _dealt(pool, work, numbers, AHEAD * workers, folder)
            finally:
                end.close()  # what is being made is not waited for
                pool.shutdown(wait=True, cancel_futures=True)
                leash.close()


def _dealt(pool: ProcessPoolExecutor, work: Work, numbers: Sequence[int], most: int, folder: Path) -> Iterator[Made]:
    task, plain = task_of(work), work.plain()
    waiting: set[Future[int]] = set()
    coming = iter(numbers)
    for number in coming:
        with _deaf():
            waiting.add(pool.submit(_put_down, task, plain, number, folder))
        if len(waiting) < most:
            continue
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        yield from (_taken_up(future.result(), folder) for future in done)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        yield from (_taken_up(future.result(), folder) for future in done)


def _put_down(
    task: Callable[[Mapping[str, Any], int], Made], plain: Mapping[str, Any], number: int, folder: Path
) -> int:
    """Make one part and leave it in `folder`; its number alone goes to the master.

    A message that small is written in one go. Of a larger one a worker that is ended may have sent a half, and the
    pool would wait for the other half for ever.
    """
    made, data = task(plain, number)
    (folder / str(made)).write_bytes(data)
    return made


def _taken_up(number: int, folder: Path) -> Made:
    """The part that a worker has left in `folder`."""
    path = folder / str(number)
    data = path.read_bytes()
    path.unlink()
    return number, data


@contextmanager
def _deaf() -> Iterator[None]:
    """Workers that are started in the block never hear Ctrl-C, which is their master's business; it hears it after."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def task_of(work: Work) -> Callable[[Mapping[str, Any], int], Made]:
    """The function that makes a part."""
    module, _, name = work.task.partition(":")
    found: Callable[[Mapping[str, Any], int], Made] = getattr(import_module(module), name)
    return found


def frame(plain: Mapping[str, Any], number: int) -> Made:
    """Make one frame of the film `plain` from nothing."""
    return number, png(pixels(film_of(plain).at(number)))


_running: dict[str, Any] = {}  # of a sequential film: its plan, and the run that has come so far


def frame_after(plain: Mapping[str, Any], number: int) -> Made:
    """Make one frame by going on from the last one that this process made, if that was earlier."""
    scene = film_of(plain).at(number)
    if _running.get("plain") != plain or _running["run"].steps > scene.steps:
        _close()
        _running.update(plain=plain, run=begun(scene))
    _running["run"].to(scene.steps)
    return number, png(shown(_running["run"].lab, scene))


def _close() -> None:
    if run := _running.pop("run", None):
        with closing(run):
            _running.clear()


def _begin(threads: int, cards: Any, leash: Connection) -> None:
    """A new worker: it ends with its master's leash, the cores are shared, and a GPU is one worker's."""
    threading.Thread(target=_end_with, args=(leash,), name="leash", daemon=True).start()
    if cards is not None:
        os.environ[VISIBLE] = cards.get()
    os.environ["OMP_NUM_THREADS"] = str(threads)
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))


def _end_with(leash: Connection) -> None:
    """End at once when the master lets go of its end, or is gone."""
    leash.poll(None)
    os._exit(0)
