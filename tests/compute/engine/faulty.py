"""A lab with faults on request, a client that records its events, and a worker's sender that records reports."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from math import nan
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import param

from compute.devices.builds import building
from compute.devices.wgsl import WgslProgram, launch
from compute.engine import Event, FrameReady, LabClosed, LabHandle, SnapshotTaken, Supervisor
from compute.engine.compiling import KernelJobs
from compute.engine.lab_host import LabHost
from compute.engine.messages import FramesThrough, Run, SetPace
from compute.engine.shared_memory import FrameRing
from compute.lab.frames import Frame, Raster
from compute.lab.lab import Lab
from compute.lab.status import LabStatus
from compute.measure.timing import Timing

ENDLESS = Path(__file__).parents[2] / "data" / "endless.wgsl"
LABS = {"faulty": "tests.compute.engine.faulty:Faulty", "compiled": "tests.compute.engine.compiled:Compiled"}
BROKEN_DEVICE = "FIELDLAB_TEST_BROKEN_DEVICE"  # names a file: while it exists, all work of every lab crashes
Some = TypeVar("Some", bound=Event)
PATIENCE = 120.0  # timeout in s, for a busy machine; on an idle one these operations are immediate


class Faulty(Lab):
    """Counts steps; every cell of its 4 x 4 field contains the count. Each step sleeps `cost` seconds."""

    LAB, TITLE, PACKAGE = "faulty", "Faulty", "compute.labs.diffusion"
    STRUCTURAL: ClassVar[tuple[str, ...]] = (*Lab.STRUCTURAL, "size")

    planted = False
    level = param.Number(default=0.5, bounds=(0, 1))
    cost = param.Number(default=0.0, bounds=(0, 10))
    size = param.Integer(default=4, bounds=(1, 4096))
    text = param.String(default="", regex="^.{0,20}$")
    trap = param.Selector(default="", objects=["", "kill", "crash", "fail", "fail in frame", "build", "no memory"])

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        return 2**60 if values.get("text") == "huge" else int(values.get("size", 4)) ** 2 * 8

    def _allocate(self, old: dict[str, Any]) -> None:
        if self.text == "deadly":
            self.crash()
        self.reset()

    def _release(self) -> None:
        self.u = np.zeros((1, 1))

    def reset(self) -> None:
        self.u = np.zeros((self.size, self.size))
        self.count, self.seen_bad = 0, False

    @classmethod
    def actions(cls) -> dict[str, Callable[..., Any]]:
        return {
            **super().actions(), "hang": cls.hang, "fail": cls.fail, "spoil": cls.spoil, "poison": cls.poison,
            "illegal_access": cls.illegal_access, "dawdle": cls.dawdle, "plant": cls.plant, "crash": cls.crash,
            "hang_shader": cls.hang_shader, "lose_gpu": cls.lose_gpu,
        }  # fmt: skip

    def hang(self) -> None:
        time.sleep(1000)

    def crash(self) -> None:
        os.kill(os.getpid(), signal.SIGABRT)

    def use_device(self) -> None:
        """Crash if the device is broken."""
        if (path := os.environ.get(BROKEN_DEVICE)) and Path(path).exists():
            self.crash()

    def plant(self) -> None:
        """Make a state that crashes every process that opens it."""
        self.planted = True

    def dawdle(self, seconds: float) -> None:
        time.sleep(seconds)

    def fail(self) -> None:
        raise ZeroDivisionError("planted")

    def spoil(self) -> None:
        self.u[:] = nan

    def poison(self) -> None:
        error = type("CUDARuntimeError", (RuntimeError,), {"__module__": "cupy_backends.cuda.api.runtime"})("planted")
        error.status = 700
        raise error

    def illegal_access(self) -> None:
        """Cause a real illegal access on a GPU, after which the process has no usable context."""
        import cupy

        kernel = cupy.RawKernel('extern "C" __global__ void f(int* p) { p[threadIdx.x] = 1; }', "f")
        kernel((1,), (32,), (np.uint64(64),))
        cupy.cuda.runtime.deviceSynchronize()

    def hang_shader(self) -> None:
        """Wait for a shader of WebGPU that never ends."""
        array = self.device.upload(np.zeros(1, np.float32))
        launch(WgslProgram(ENDLESS, exact=0), "endless", (65535, 65535), (array,))
        self.device.synchronise()

    def lose_gpu(self) -> None:
        """Use a GPU of WebGPU that this process has lost."""
        self.device.gpu.device.destroy()
        self.device.upload(np.zeros(1, np.float32))

    def load(self, array: Any) -> None:
        self.u[:] = array

    def field(self) -> Any:
        return self.u.copy()

    def advance(self, steps: int = 1) -> Timing:
        self.use_device()
        if self.trap == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trap == "crash":
            self.crash()
        if self.trap == "fail":
            self.fail()
        if self.trap == "no memory":
            raise type("OutOfMemoryError", (MemoryError,), {"__module__": "cupy.cuda.memory"})("planted: out of memory")
        start = time.perf_counter()
        time.sleep(self.cost * steps)
        self.u += steps
        self.count += steps
        return Timing("cpu_numpy", "", steps, self.u.size, 0.0, time.perf_counter() - start)

    def frame(self, view: Any = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        self.use_device()
        if self.trap == "fail in frame":
            raise ZeroDivisionError("planted")
        if self.trap == "build":
            with building():
                time.sleep(4.0)
        if view and view[0] >= self.size:
            raise ValueError(f"view must overlap the grid, not {view}")
        self.seen_bad = not np.isfinite(self.u).all()
        extent = view or (0.0, 0.0, float(self.size), float(self.size))
        raster = Raster(np.full(pixels, self.count % 251, np.uint8), 0.0, 1.0, extent)
        facts = {"step": float(self.count), "value": float(self.u[0, 0]), "level": self.level}
        return Frame({"field": raster}, facts, Timing("cpu_numpy", "", 0, self.u.size, levels=0.0, transfer=0.0))

    def snapshot(self) -> dict[str, Any]:
        return {"field": self.u.copy(), "count": self.count, **({"deadly": True} if self.planted else {})}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.u, self.count = np.array(snapshot["field"]), snapshot["count"]
        if snapshot.get("deadly"):
            self.crash()

    @property
    def status(self) -> LabStatus:
        return LabStatus(healthy=not self.seen_bad, cold=self.text == "cold")


class Client:
    """One tab: opens a lab, records its events, and permits another frame for each received one if `eager`."""

    handle: LabHandle

    def __init__(self, engine: Supervisor, kind: str = "faulty", *, eager: bool = False, **values: Any) -> None:
        self.events: list[Event] = []
        self.eager = eager
        self._news, self._through = threading.Condition(), 0
        values.setdefault("backend", "cpu_numpy")
        self.handle = engine.open(kind, values, self.hear, pixels=(8, 8))
        if eager:
            self.credit(2)

    def credit(self, n: int = 1) -> None:
        """Permit `n` more frames."""
        self._through += n
        self.handle.frames_through(self._through)

    def hear(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()
        if self.eager and isinstance(event, FrameReady):
            self.credit()

    def of(self, kind: type[Some]) -> list[Some]:
        with self._news:
            return [event for event in self.events if isinstance(event, kind)]

    @property
    def frames(self) -> list[Frame]:
        return [event.frame for event in self.of(FrameReady)]

    def wait(self, kind: type[Some], n: int = 1, seconds: float = PATIENCE) -> Some:
        """Return the n-th event of a kind; raise AssertionError with the latest events after `seconds`."""
        with self._news:
            came = self._news.wait_for(lambda: sum(isinstance(event, kind) for event in self.events) >= n, seconds)
            assert came, f"no {kind.__name__} number {n} in {seconds} s; heard {self.events[-8:]}"
        return self.of(kind)[n - 1]

    def wait_frame(self, good: Callable[[Frame], bool], seconds: float = PATIENCE) -> Frame:
        """Return the first frame that is `good`."""
        with self._news:
            assert self._news.wait_for(lambda: self._first(good) is not None, seconds), f"heard {self.events[-8:]}"
        found = self._first(good)
        assert found is not None
        return found

    def _first(self, good: Callable[[Frame], bool]) -> Frame | None:
        return next((e.frame for e in self.events if isinstance(e, FrameReady) and good(e.frame)), None)

    def close(self) -> None:
        """Close the lab, and wait until that is confirmed."""
        self.handle.close()
        self.wait(LabClosed)

    def snapshot(self) -> dict[str, Any]:
        """Return the lab's state."""
        n = len(self.of(SnapshotTaken))
        self.handle.snapshot()
        return dict(self.wait(SnapshotTaken, n + 1).snapshot)

    def barrier(self) -> None:
        """Wait until the worker has handled all previous requests, and every lab has had a few turns since."""
        for _ in range(4):
            self.snapshot()


class QuietSender:
    """A worker's sender that announces nothing and records reports and events."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def send(self, report: Any, descriptors: tuple[int, ...] = ()) -> None:
        self.said.append(report)

    def send_event(self, lab: int, event: Event) -> None:
        self.said.append(event)

    def extended_deadline(self, lab: int, what: str, seconds: float) -> AbstractContextManager[None]:
        return nullcontext()


def hosted(lab: Lab, sender: QuietSender) -> tuple[LabHost, Callable[[], None]]:
    """Return a lab's host of 7 steps per frame, and a function that runs it until 5 more frames or a pause."""
    host = LabHost(1, lab, sender, FrameRing(FrameRing.create()), "host", KernelJobs())
    host.handle(SetPace(1, 7))

    def run() -> None:
        host.handle(Run(1))
        host.handle(FramesThrough(1, host.pacer.frames + 5))
        while host.wakes_at(time.monotonic()) <= time.monotonic():
            host.turn(time.monotonic(), 1.0)

    return host, run


def at_work(engine: Supervisor, count: int = 1, **values: Any) -> list[Client]:
    """Return running labs that have shown three frames."""
    clients = [Client(engine, eager=True, **values) for _ in range(count)]
    for client in clients:
        client.handle.run()
        client.wait(FrameReady, 3)
    return clients


def has_extensions(engine: Supervisor) -> bool:
    """Return whether the engine's process has loaded Awkward, one of Numba's extensions."""
    return "libawkward" in Path(f"/proc/{engine.pid}/maps").read_text()


def running(name: str = "host", **options: Any) -> Iterator[Supervisor]:
    """Yield an engine that offers the faulty lab; close it afterwards and check that its process has ended.

    It has no spare process unless `spare` is given: few tests need one, and all would wait for it.
    """
    engine = Supervisor(name, labs=LABS, **{"spare": None, **options})
    engine.start()
    try:
        yield engine
    finally:  # also after a failed test, whose engine would make other tests fail
        engine.close()
    assert engine.state == "closed"
    assert engine.pid is None
