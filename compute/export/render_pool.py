"""Who makes the frames of a film, or the rows of a table: processes of this machine, or a Dask cluster.

A part is made from the plan alone, wherever that happens; so the parts of a worker that was lost are simply made
again, and the result does not depend on who made which. ResumableParts keeps what was made beside the file that it is
for, so that what was stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from errno import ENOLCK, ENOSYS, EOPNOTSUPP
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TextIO

import numba

from compute import machine
from compute.backends import BACKENDS
from compute.devices import cpu_count
from compute.export.child_process import ChildProcess, Failure, Result, Tell, exchange
from compute.export.packages import DISTRIBUTED
from compute.export.scene import SceneError
from compute.files import DiskFull, size, whole, whole_file
from compute.lab import Lab

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

MOST_LOSSES = 3  # workers that may be lost in a row without a frame in between: then it is the frames' fault
MOST_WORKERS = 256
VISIBLE, THREADS = "CUDA_VISIBLE_DEVICES", "NUMBA_NUM_THREADS"
AHEAD = 2  # frames handed out for each worker: the next is there when one is done
TICK = 1.0  # s between looks at workers that say nothing

LOCAL = "local"  # instead of a scheduler's address: a cluster made here
ANY_PORT = "127.0.0.1:0"  # of its pages: None is 8787, of which a second cluster warns that it is taken
PATIENCE = "20s"  # to find the scheduler
LOSSES = 5  # workers that one part may take with it before a cluster gives it up
PLAN, LOCK = "plan.json", ".lock"  # beside the parts that are kept
LOCKLESS = (ENOLCK, ENOSYS, EOPNOTSUPP)  # what file systems without locks say

MadePart = tuple[int, bytes]  # its number, and its file: a frame as PNG, a row as JSON
MakePart = Callable[[Mapping[str, Any], int], MadePart]  # makes part `number` of a plan; it can be imported


class RenderWork(Protocol):
    """A work of parts that can be made from its plan and their numbers alone: a film, a table.

    sequential: whether a part is made by going on from the one before, so that one worker must make all.
    """

    @property
    def count(self) -> int:
        """The number of parts."""

    @property
    def sequential(self) -> bool:
        """Whether one worker must make all."""

    @property
    def task(self) -> MakePart:
        """The function that makes a part of the plan `plain`, in a worker."""

    def plain(self) -> dict[str, Any]:
        """Return the plan, for JSON."""


class RenderPool(Protocol):
    """Makes parts of a work: frames of a film, for instance."""

    @property
    def workers(self) -> int | None:
        """How many frames at a time; None where others decide."""

    def make(self, work: RenderWork, numbers: Sequence[int]) -> Generator[MadePart]:
        """Yield the parts `numbers`, in any order. Closing the iterator stops the work."""


def gpus_here() -> tuple[str, ...]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; where it is not set, all."""
    allowed = tuple(name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip())
    return allowed or tuple(str(number) for number in range(max(1, len(machine.nvidia()[0]))))


def on_gpu(lab: type[Lab], named: Iterable[str | None]) -> bool:
    """Return whether one of the backends `named`, None for the lab's default, runs on a GPU; unknown names do not."""
    names = {name or lab.param["backend"].default for name in named}
    return any(backend.name in names and backend.device == "cuda" for backend in BACKENDS)


def pool_for(scheduler: str | None, workers: int | None, gpu: bool) -> RenderPool:
    """Return a pool: processes of this machine, or the Dask cluster of a `scheduler`."""
    if scheduler:
        return Cluster(scheduler, workers)
    return LocalPool(workers, gpu)


def require_workers(workers: int | None) -> None:
    """Raise SceneError unless it is None or a number of processes that may be started."""
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise SceneError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")


class WorkerLost(RuntimeError):
    """Workers ended again and again without making anything."""


class LocalPool:
    """`workers` processes of this machine; by default one for every four threads, or for each GPU if `gpu`."""

    def __init__(self, workers: int | None = None, gpu: bool = False) -> None:
        self.gpus = gpus_here() if gpu else ()
        self.workers = workers if workers is not None else len(self.gpus) or max(1, cpu_count() // 4)
        require_workers(self.workers)

    def make(self, work: RenderWork, numbers: Sequence[int]) -> Generator[MadePart]:
        """Yield the parts `numbers`, in any order; those of a worker that dies are made again by another."""
        count = 1 if work.sequential else min(self.workers, max(1, len(numbers)))
        share = max(1, cpu_count() // (1 if work.sequential else self.workers))
        slots = [WorkerSlot(self._environment(place, share)) for place in range(count)]
        left, losses = deque(numbers), 0
        try:
            while left or any(slot.parts for slot in slots):
                for most in range(1, AHEAD + 1):  # nobody gets a second one before all have a first
                    for slot in slots:
                        slot.take(work, left, most)
                for made in received(slots):
                    losses = 0
                    yield made
                for slot in slots:
                    why = slot.loss()
                    if why:
                        losses += 1
                        left.extend(slot.parts)
                        slot.clear()
                    if losses >= MOST_LOSSES:
                        raise WorkerLost(f"{losses} times in a row a worker ended without making anything: {why}")
        finally:
            for slot in slots:  # all at once: what is being made is not waited for
                slot.kill()
            for slot in slots:
                slot.clear()

    def _environment(self, place: int, threads: int) -> dict[str, str]:
        """Variables of a worker: the cores are shared, and a GPU is one worker's."""
        card = {VISIBLE: self.gpus[place % len(self.gpus)]} if self.gpus else {}
        return {"OMP_NUM_THREADS": str(threads), THREADS: str(min(threads, numba.config.NUMBA_NUM_THREADS))} | card


class WorkerSlot:
    """A worker, and the parts that it is to make, in order; another worker after it is gone."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.parts: deque[int] = deque()
        self.process: ChildProcess | None = None
        self._environment = environment

    def take(self, work: RenderWork, left: deque[int], most: int) -> None:
        """Take of the parts that are left, until it has `most`."""
        while left and len(self.parts) < most:
            if self.process is None:
                self.process = ChildProcess(leads=False, low=False, environment=self._environment)
            self.parts.append(left.popleft())
            self.process.give(partial(made_part, work.task, work.plain(), self.parts[-1]))

    def loss(self) -> str:
        """Return why nothing more comes from its worker, or ""."""
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


def received(slots: Sequence[WorkerSlot]) -> Iterator[MadePart]:
    """Yield what workers have made, waiting for it a moment. Raise the error of one that could not."""
    busy = {slot.process: slot for slot in slots if slot.process is not None}
    for process, answer in exchange(list(busy), TICK):
        match answer:
            case Result(value=made):
                busy[process].parts.popleft()
                yield made
            case Failure(text=text, error=error):
                raise error or RuntimeError(text)


def made_part(task: MakePart, plain: Mapping[str, Any], number: int, tell: Tell) -> MadePart:
    """Make part `number` of the plan `plain`, in a worker."""
    tell(0.0, f"part {number}")  # a sign of life
    return task(plain, number)


# -- Dask


class Cluster:
    """The Dask cluster whose scheduler is at `address` (tcp://host:port); "local" for one of `workers` processes here.

    The workers need the same Fieldlab. SceneError if Dask is not installed or nobody answers at the address.
    """

    def __init__(self, address: str, workers: int | None = None) -> None:
        require_workers(workers)
        if workers is not None and address != LOCAL:
            raise SceneError(f"workers are the cluster's own at {address}, and cannot be {workers}: leave them out")
        self._dask: Any = DISTRIBUTED.load()
        self.address, self.workers = address, workers

    def make(self, work: RenderWork, numbers: Sequence[int]) -> Generator[MadePart]:
        """Yield the parts `numbers`, in any order; a film whose frames follow from one another is refused.

        WorkerLost if one part has taken more than LOSSES workers with it, on a cluster of any settings.
        """
        if work.sequential:
            raise SceneError(
                "frames that follow from one another (--every) are made on one machine: leave --scheduler out"
            )
        task, plain = work.task, work.plain()
        with self._client() as client:
            size = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
            coming, lost = iter(numbers), Counter[int]()
            numbered: dict[str, int] = {}

            def given(number: int) -> Any:
                """The part as it is being made."""
                future = client.submit(task, plain, number, pure=False)
                numbered[future.key] = number
                return future

            waiting = self._dask.as_completed([given(number) for number in islice(coming, AHEAD * size)])
            for done in waiting:
                number = numbered.pop(done.key)
                try:
                    made = done.result()
                except self._dask.KilledWorker as error:  # as many as the scheduler allows, which is its own affair
                    lost[number] += 1 + error.allowed_failures
                    if lost[number] > LOSSES:
                        raise WorkerLost(f"part {number} took {lost[number]} workers with it") from error
                    waiting.add(given(number))
                    continue
                yield made
                done.release()
                for following in islice(coming, 1):
                    waiting.add(given(following))

    def _client(self) -> Any:
        if self.address == LOCAL:
            with import_module("dask").config.set({"distributed.scheduler.allowed-failures": LOSSES}):
                cluster = self._dask.LocalCluster(
                    n_workers=self.workers, threads_per_worker=1, processes=True, dashboard_address=ANY_PORT,
                    preload=[__name__],
                )  # fmt: skip
            return _Owned(self._dask.Client(cluster), cluster)
        try:
            return self._dask.Client(self.address, timeout=PATIENCE)
        except (OSError, ValueError) as error:
            raise SceneError(f"no Dask scheduler answers at {self.address}: {error}") from error


class _Owned:
    """A client and the cluster that was made for it."""

    def __init__(self, client: Any, cluster: Any) -> None:
        self._client, self._cluster = client, cluster

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(OSError) if kind else nullcontext():  # workers that are gone are not why it ends
            self._client.close()
            self._cluster.close()


def dask_setup(_worker: object) -> None:
    """Dask calls this in every worker made here: Ctrl-C is their master's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# -- parts that are kept


class ResumableParts:
    """The `count` parts of the file `path`, kept in `folder` beside it as they are made.

    what: their name; ending: of their files.
    """

    def __init__(self, path: Path, work: RenderWork, what: str, ending: str) -> None:
        self.path, self.count, self._work, self._what, self._ending = path, work.count, work, what, ending
        self.folder = path.with_name(f"{path.name}.{what}")

    def missing(self) -> list[int]:
        """Return the numbers of the parts that are not there yet."""
        return [number for number in range(self.count) if not self._file(number).is_file()]

    def make(self, pool: RenderPool, tell: Callable[[int], None]) -> None:
        """Make those that are missing; tell(how many are there). SceneError if the folder holds another work's.

        In the block of `alone`.
        """
        self._claim(self._work.plain())
        missing = self.missing()
        done = self.count - len(missing)
        tell(done)
        try:
            with closing(pool.make(self._work, missing)) as coming:
                for one in coming:
                    self._keep(one)
                    done += 1
                    tell(done)
        finally:  # an interrupt may come while whole_file takes its own folder away
            for half in self.folder.glob(".*.part"):
                shutil.rmtree(half)

    def read(self, number: int) -> bytes:
        """Return the bytes of part `number`."""
        return self._file(number).read_bytes()

    def clear(self) -> None:
        """Delete all parts, and nothing else in their folder: the plan last, so that no part is ever without it."""
        for number in range(self.count):
            self._file(number).unlink(missing_ok=True)
        for half in self.folder.glob(".*.part"):
            shutil.rmtree(half)
        (self.folder / PLAN).unlink()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other runs from the folder in the block, in which parts are made, read and cleared; an empty one goes.

        SceneError if another run has it. Windows has no such locks, and some networks neither.
        """
        lock = self._locked() if fcntl is not None else None
        try:
            yield
        finally:
            if lock is not None:
                (self.folder / LOCK).unlink(missing_ok=True)  # while it is held: later it may be another run's
                lock.close()
            with suppress(OSError):  # parts are kept in it, or another run has begun
                self.folder.rmdir()

    def _locked(self) -> TextIO:
        """The folder's lock, open and held. The run before may delete it, and the folder, until it is."""
        path = self.folder / LOCK
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                try:
                    lock = stack.enter_context(path.open("w"))
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    held = os.path.samestat(os.fstat(lock.fileno()), path.stat())
                except FileNotFoundError:
                    continue
                except BlockingIOError as error:
                    what = f"another run is making the {self._what} in {self.folder}"
                    raise SceneError(f"{what}: wait for it, or take another name") from error
                except OSError as error:
                    if error.errno not in LOCKLESS:
                        raise
                    held = True
                if held:
                    stack.pop_all()
                    return lock

    @contextmanager
    def room(self) -> Iterator[None]:
        """Say of a full disk in the block what more is needed."""
        try:
            yield
        except DiskFull as error:
            raise DiskFull(f"{self.path.name} is not finished: {error}. {self._wanted()}", error.errno or 0) from error

    @property
    def words(self) -> str:
        """What is kept, in a sentence."""
        there = self.count - len(self.missing())
        return f"{there} of {self.count} {self._what} are kept: the same command goes on from there"

    def _wanted(self) -> str:
        sizes = [self._file(number).stat().st_size for number in range(self.count) if self._file(number).is_file()]
        missing = self.count - len(sizes)
        needed = f", about {size(missing * sum(sizes) / len(sizes))}," if missing and sizes else ""
        what = f"{missing} more {self._what}{needed} and the file itself" if missing else "the file itself"
        return f"Room is needed for {what}; {self.words}"

    def _claim(self, wanted: Mapping[str, Any]) -> None:
        """Use the folder for this work, or say that it holds another one's parts."""
        plan = self.folder / PLAN
        if not plan.is_file():
            if len(self.missing()) < self.count:
                what = f"{self.folder.name} holds {self._what} of an unknown plan"
                raise SceneError(f"{what}; take another name, or delete that folder")
            there = self.folder.iterdir() if self.folder.is_dir() else ()  # without locks it comes with its first file
            if other := sorted(file.name for file in there if file.name != LOCK):
                what = f"{self.folder.name} holds {other[0]}, which is none of the {self._what}"
                raise SceneError(f"{what}; take another name, or move that folder")
            with whole(plan) as out:
                json.dump(wanted, out, indent=1, ensure_ascii=False)
        elif json.loads(plan.read_text(encoding="utf-8")) != json.loads(json.dumps(wanted)):
            raise SceneError(
                f"{self.folder.name} holds {self._what} of another plan; take another name, or delete that folder"
            )

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}{self._ending}"

    def _keep(self, made: MadePart) -> None:
        number, data = made
        with whole_file(self._file(number)) as path:
            path.write_bytes(data)
