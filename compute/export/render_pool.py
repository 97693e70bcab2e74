"""Workers that make the frames of a film or the rows of a table: local processes, or a Dask cluster.

Each part is made from the plan and its number alone. Parts of a lost worker are therefore made again by another, and
the result does not depend on the worker. ResumableParts stores finished parts in a folder next to the output file, so
that an interrupted run can be resumed.
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

from compute.devices.backends import BACKENDS
from compute.devices.devices import cpu_count
from compute.export.packages import DISTRIBUTED
from compute.export.scene import SceneError
from compute.files.files import DiskFull, size, whole, whole_file
from compute.lab.lab import Lab
from compute.machine import machine
from compute.process.tasks import Failure, Report, Result, TaskProcess, exchange

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

MOST_LOSSES = 3  # workers lost in a row without a finished part, after which the parts are to blame
MOST_WORKERS = 256
VISIBLE, THREADS = "CUDA_VISIBLE_DEVICES", "NUMBA_NUM_THREADS"
AHEAD = 2  # parts assigned to each worker, so that none waits for its next one
TICK = 1.0  # s between checks of silent workers

LOCAL = "local"  # in place of a scheduler's address: a local cluster
ANY_PORT = "127.0.0.1:0"  # of the dashboard; None means 8787 and causes a warning with a second cluster
PATIENCE = "20s"  # timeout for connecting to the scheduler
LOSSES = 5  # workers that one part may crash before the work fails
PLAN, LOCK = "plan.json", ".lock"  # in the folder of the parts
LOCKLESS = (ENOLCK, ENOSYS, EOPNOTSUPP)  # errors of file systems without locks

MadePart = tuple[int, bytes]  # number, and file contents: a frame as PNG, a row as JSON
MakePart = Callable[[Mapping[str, Any], int], MadePart]  # makes part `number` of a plan; can be imported


class RenderWork(Protocol):
    """Work that consists of parts, each made from the plan and its number alone: a film, a table.

    sequential: each part continues from the one before, so that one worker must make all of them.
    """

    @property
    def count(self) -> int:
        """Return the number of parts."""

    @property
    def sequential(self) -> bool:
        """Return whether one worker must make all parts."""

    @property
    def task(self) -> MakePart:
        """Return the function that makes a part of the plan `plain` in a worker."""

    def plain(self) -> dict[str, Any]:
        """Return the plan, for JSON."""


class RenderPool(Protocol):
    """Makes the parts of a work, for example the frames of a film."""

    @property
    def workers(self) -> int | None:
        """Return the number of workers; None if the cluster determines it."""

    def make(self, work: RenderWork, numbers: Sequence[int]) -> Generator[MadePart]:
        """Yield the parts `numbers`, in any order. Closing the generator stops the work."""


def gpus_here() -> tuple[str, ...]:
    """Return the GPUs in CUDA_VISIBLE_DEVICES; without that variable, all GPUs of this machine."""
    allowed = tuple(name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip())
    return allowed or tuple(str(number) for number in range(max(1, len(machine.nvidia()[0]))))


def on_gpu(lab: type[Lab], named: Iterable[str | None]) -> bool:
    """Return whether one of the backends `named` (None: the lab's default) runs on a GPU; unknown names do not."""
    names = {name or lab.param["backend"].default for name in named}
    return any(backend.name in names and backend.kind == "gpu" for backend in BACKENDS)


def pool_for(scheduler: str | None, workers: int | None, gpu: bool) -> RenderPool:
    """Return a pool of local processes, or the Dask cluster at the address `scheduler`."""
    if scheduler:
        return Cluster(scheduler, workers)
    return LocalPool(workers, gpu)


def require_workers(workers: int | None) -> None:
    """Raise SceneError unless `workers` is None or an allowed number of processes."""
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise SceneError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")


class WorkerLost(RuntimeError):
    """Workers ended repeatedly without finishing a part."""


class LocalPool:
    """`workers` local processes; by default one for every four threads, or one for each GPU with `gpu`."""

    def __init__(self, workers: int | None = None, gpu: bool = False) -> None:
        self.gpus = gpus_here() if gpu else ()
        self.workers = workers if workers is not None else len(self.gpus) or max(1, cpu_count() // 4)
        require_workers(self.workers)

    def make(self, work: RenderWork, numbers: Sequence[int]) -> Generator[MadePart]:
        """Yield the parts `numbers`, in any order; parts of a worker that died are made by another."""
        count = 1 if work.sequential else min(self.workers, max(1, len(numbers)))
        share = max(1, cpu_count() // (1 if work.sequential else self.workers))
        slots = [WorkerSlot(self._environment(place, share)) for place in range(count)]
        left, losses = deque(numbers), 0
        try:
            while left or any(slot.parts for slot in slots):
                for most in range(1, AHEAD + 1):  # every worker gets one part before any gets a second
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
            for slot in slots:  # kill all before waiting for any
                slot.kill()
            for slot in slots:
                slot.clear()

    def _environment(self, place: int, threads: int) -> dict[str, str]:
        """Return the environment of a worker: an equal share of the cores, and one GPU."""
        card = {VISIBLE: self.gpus[place % len(self.gpus)]} if self.gpus else {}
        return {"OMP_NUM_THREADS": str(threads), THREADS: str(min(threads, numba.config.NUMBA_NUM_THREADS))} | card


class WorkerSlot:
    """A worker with its assigned parts, in order; a lost worker is replaced."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.parts: deque[int] = deque()
        self.process: TaskProcess | None = None
        self._environment = environment

    def take(self, work: RenderWork, left: deque[int], most: int) -> None:
        """Assign parts from `left` until the worker has `most`."""
        while left and len(self.parts) < most:
            if self.process is None:
                self.process = TaskProcess(leads=False, low=False, environment=self._environment)
            self.parts.append(left.popleft())
            self.process.give(partial(made_part, work.task, work.plain(), self.parts[-1]))

    def loss(self) -> str:
        """Return the reason if the worker is lost, or ""."""
        if self.process is None or not self.parts:
            return ""
        loss = self.process.lost()
        return loss.text if loss else "it ended" if self.process.ended else ""

    def kill(self) -> None:
        """Kill the worker."""
        if self.process is not None:
            self.process.kill()

    def clear(self) -> None:
        """Close the worker and drop its parts."""
        self.parts.clear()
        if self.process is not None:
            self.process.close()
            self.process = None


def received(slots: Sequence[WorkerSlot]) -> Iterator[MadePart]:
    """Yield the parts received from workers within TICK seconds. Raise the error of a failed part."""
    busy = {slot.process: slot for slot in slots if slot.process is not None}
    for process, answer in exchange(list(busy), TICK):
        match answer:
            case Result(value=made):
                busy[process].parts.popleft()
                yield made
            case Failure(text=text, error=error):
                raise error or RuntimeError(text)


def made_part(task: MakePart, plain: Mapping[str, Any], number: int, report: Report) -> MadePart:
    """Make part `number` of the plan `plain` in a worker."""
    report(0.0, f"part {number}")  # resets the worker's liveness timer
    return task(plain, number)


# -- Dask


class Cluster:
    """The Dask cluster with the scheduler at `address` (tcp://host:port); "local" starts `workers` local processes.

    The workers need the same version of Fieldlab. Raise SceneError if Dask is not installed or the connection fails.
    """

    def __init__(self, address: str, workers: int | None = None) -> None:
        require_workers(workers)
        if workers is not None and address != LOCAL:
            raise SceneError(f"workers are the cluster's own at {address}, and cannot be {workers}: leave them out")
        self._dask: Any = DISTRIBUTED.load()
        self.address, self.workers = address, workers

    def make(self, work: RenderWork, numbers: Sequence[int]) -> Generator[MadePart]:
        """Yield the parts `numbers`, in any order. Raise SceneError for sequential work.

        Raise WorkerLost if one part has crashed more than LOSSES workers, regardless of the cluster's settings.
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
                """Submit a part and return its future."""
                future = client.submit(task, plain, number, pure=False)
                numbered[future.key] = number
                return future

            waiting = self._dask.as_completed([given(number) for number in islice(coming, AHEAD * size)])
            for done in waiting:
                number = numbered.pop(done.key)
                try:
                    made = done.result()
                except self._dask.KilledWorker as error:  # the scheduler has retried it this often
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
    """A client and the local cluster that it owns."""

    def __init__(self, client: Any, cluster: Any) -> None:
        self._client, self._cluster = client, cluster

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(OSError) if kind else nullcontext():  # errors of lost workers must not hide the original one
            self._client.close()
            self._cluster.close()


def dask_setup(_worker: object) -> None:
    """Ignore Ctrl-C in the workers of a local cluster, where Dask calls this function; the main process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# -- parts on disk


class ResumableParts:
    """The parts of the file `path`, stored one by one in a folder next to it.

    what: name of the parts in messages and of the folder; ending: suffix of their files.
    """

    def __init__(self, path: Path, work: RenderWork, what: str, ending: str) -> None:
        self.path, self.count, self._work, self._what, self._ending = path, work.count, work, what, ending
        self.folder = path.with_name(f"{path.name}.{what}")

    def missing(self) -> list[int]:
        """Return the numbers of the parts without a file."""
        return [number for number in range(self.count) if not self._file(number).is_file()]

    def make(self, pool: RenderPool, report: Callable[[int], None]) -> None:
        """Make the missing parts; call report(finished parts). Raise SceneError if the folder belongs to another plan.

        Call it in the block of `alone`.
        """
        self._claim(self._work.plain())
        missing = self.missing()
        done = self.count - len(missing)
        report(done)
        try:
            with closing(pool.make(self._work, missing)) as coming:
                for one in coming:
                    self._keep(one)
                    done += 1
                    report(done)
        finally:  # an interrupt can come while whole_file removes its temporary folder
            for half in self.folder.glob(".*.part"):
                shutil.rmtree(half)

    def read(self, number: int) -> bytes:
        """Return the bytes of part `number`."""
        return self._file(number).read_bytes()

    def clear(self) -> None:
        """Delete the files of the parts only, the plan last, so that parts never exist without it."""
        for number in range(self.count):
            self._file(number).unlink(missing_ok=True)
        for half in self.folder.glob(".*.part"):
            shutil.rmtree(half)
        (self.folder / PLAN).unlink()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder for the block, in which parts are made, read and cleared; remove an empty folder.

        Raise SceneError if another run has the lock. Windows and some network file systems have no such locks.
        """
        lock = self._locked() if fcntl is not None else None
        try:
            yield
        finally:
            if lock is not None:
                (self.folder / LOCK).unlink(missing_ok=True)  # while locked: afterwards it may be another run's lock
                lock.close()
            with suppress(OSError):  # it contains parts, or another run has started
                self.folder.rmdir()

    def _locked(self) -> TextIO:
        """Return the locked lock file. Before the lock succeeds, an earlier run may delete it with the folder."""
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
                    raise SceneError(f"{what}: wait until it ends, or choose another name") from error
                except OSError as error:
                    if error.errno not in LOCKLESS:
                        raise
                    held = True
                if held:
                    stack.pop_all()
                    return lock

    @contextmanager
    def room(self) -> Iterator[None]:
        """Add the space needed and the state of the parts to a DiskFull error in the block."""
        try:
            yield
        except DiskFull as error:
            raise DiskFull(f"{self.path.name} is not finished: {error}. {self._wanted()}", error.errno or 0) from error

    @property
    def words(self) -> str:
        """Return one sentence on the finished parts."""
        there = self.count - len(self.missing())
        return f"{there} of {self.count} {self._what} are kept: the same command resumes there"

    def _wanted(self) -> str:
        sizes = [self._file(number).stat().st_size for number in range(self.count) if self._file(number).is_file()]
        missing = self.count - len(sizes)
        needed = f", about {size(missing * sum(sizes) / len(sizes))}," if missing and sizes else ""
        what = f"{missing} more {self._what}{needed} and the file itself" if missing else "the file itself"
        return f"Room is needed for {what}; {self.words}"

    def _claim(self, wanted: Mapping[str, Any]) -> None:
        """Write the plan to the folder. Raise SceneError if it contains another plan or unknown files."""
        plan = self.folder / PLAN
        if not plan.is_file():
            if len(self.missing()) < self.count:
                what = f"{self.folder.name} holds {self._what} of an unknown plan"
                raise SceneError(f"{what}; take another name, or delete that folder")
            there = self.folder.iterdir() if self.folder.is_dir() else ()  # without locks it does not exist yet
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
