"""The engine's own process: one loop over all labs of one device.

Orders are read between slices; every lab with work gets one slice in turn; signs of life come from this loop and
nowhere else, so a loop that hangs is seen to hang. The process ends when the pipe does.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import os
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack, closing
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import inf
from multiprocessing.connection import Connection
from typing import Any, Literal

import numpy as np

from compute.bench.rates import Roof
from compute.builds import watching
from compute.engine import jobs
from compute.engine.line import Line
from compute.engine.memory import Writer, read
from compute.engine.messages import (
    OPENING,
    Answered,
    Closed,
    Delivery,
    Opened,
    Order,
    Parcel,
    Prepared,
    Ready,
    Refused,
    Setup,
    SnapshotTaken,
)
from compute.engine.port import LONG, Port
from compute.engine.ring import Ring
from compute.engine.seat import Seat, belongs
from compute.lab import Lab
from compute.labs import lab_class

MOST_ORDERS = 64  # orders read between two slices: a flood of them must not stop the labs
DIE_WITH_PARENT, NAME = 1, 15  # PR_SET_PDEATHSIG and PR_SET_NAME of prctl(2)
HOST = "host"
# methods of Seat that a lab's client may call
SEAT_ORDERS = frozenset(
    {"update", "act", "run", "pause", "step", "set_pace", "look", "frames_through", "record", "stop_recording"}
)


class Worker:
    """The labs of one device."""

    def __init__(self, line: Line, setup: Setup) -> None:
        self._line, self._setup = line, setup
        self._port = Port(line, setup.beat)
        self._seats: dict[int, Seat] = {}
        self._bench = jobs.Bench(self._port)
        self._circle: deque[Seat | jobs.Bench] = deque([self._bench])
        self._open = True
        self._served = 0  # the number of the lab that has a turn or whose order is obeyed

    def run(self) -> None:
        """Serve until told to stop or until the pipe ends. A kernel that must be built, whenever, is announced."""
        self._port.say(Ready())
        try:
            with watching(lambda: self._port.expect(self._served, "compiling", LONG), self._port.expected):
                self._serve()
        finally:
            for seat in self._seats.values():
                seat.close()

    def _serve(self) -> None:
        while self._open:
            self._listen(0.0 if self._turn() else self._rest())
            self._port.beat()

    def _turn(self) -> bool:
        """One slice of the next in the circle that has work; False if nobody has."""
        now = time.monotonic()
        for _ in range(len(self._circle)):
            self._circle.rotate(-1)
            who = self._circle[-1]
            if isinstance(who, Seat) and who.wakes_at(now) <= now:
                self._served = who.number
                who.turn(now)
                return True
            if isinstance(who, jobs.Bench) and who.wakes_at() <= now:
                self._served = who.lab
                who.turn()
                return True
        return False

    def _rest(self) -> float:
        """Seconds until somebody has work again, at most one beat."""
        now = time.monotonic()
        first = min([self._bench.wakes_at(), *(seat.wakes_at(now) for seat in self._seats.values())], default=inf)
        return min(self._setup.beat, max(0.0, first - now))

    def _listen(self, seconds: float) -> None:
        for _ in range(MOST_ORDERS):
            if not self._line.waiting(seconds):
                return
            try:
                order, descriptors = self._line.receive()
            except (EOFError, OSError):  # the server is gone
                self._open = False
                return
            self._obey(order, descriptors)
            if order.verb == "open_lab":  # took longer than a slice: those that are open get theirs first
                return
            seconds = 0.0

    def _obey(self, order: Order, descriptors: list[int]) -> None:
        self._served = order.lab
        try:
            if order.verb in SEAT_ORDERS:
                if seat := self._seats.get(order.lab):  # else it was refused or closed meanwhile
                    getattr(seat, order.verb)(**order.arguments)
            else:
                getattr(self, f"_{order.verb}")(order.lab, *descriptors, **order.arguments)
        except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
            opening = order.verb == "open_lab"
            change = OPENING if opening else None
            self._port.trouble(order.lab, error, partial(Refused, change=change, request=order.verb))
            if order.verb in {"sample", "solve"}:
                self._port.say(Answered(order.lab, order.verb))
            if opening:
                self._port.tell(order.lab, Closed())

    # -- orders that make, end or measure a lab

    def _open_lab(
        self,
        number: int,
        ring: int,
        deposit: int = -1,
        *,
        kind: str,
        values: Mapping[str, Any],
        parcel: Parcel | None,
        frames: int,
    ) -> None:
        with ExitStack() as always, ExitStack() as undo:
            if parcel:
                always.callback(os.close, deposit)
            shared = undo.enter_context(closing(Ring(ring)))
            belongs(self._setup.name, values)
            with self._port.expecting(number, "opening", LONG):
                lab = undo.enter_context(closing(self._class(kind)(**values)))
                if parcel:
                    self._restore(number, lab, parcel, deposit)
            seat = Seat(number, lab, self._port, shared, self._setup.name)
            seat.pace.frames = seat.pace.frames_through = frames
            undo.pop_all()
        self._seats[number] = seat
        self._circle.appendleft(seat)
        self._port.say(Opened(number, lab.values()))

    def _restore(self, number: int, lab: Lab, parcel: Parcel, deposit: int) -> None:
        """A state that cannot be restored leaves the lab at its initial field, and its client is told."""
        try:
            lab.restore(read(parcel, deposit))
        except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
            self._port.trouble(number, error, Refused)

    def _class(self, kind: str) -> type[Lab]:
        if kind not in self._setup.labs:
            return lab_class(kind)
        module, _, name = self._setup.labs[kind].partition(":")
        found: type[Lab] = getattr(import_module(module), name)
        return found

    def _refuse(self, number: int, text: str) -> None:
        """Said by the server about an order it did not pass on; it comes back in its turn."""
        self._port.tell(number, Refused(text))

    def _sample(self, number: int, steps: int, repeat: int, roof: Roof | Literal[""] = "", dtype: str = "") -> None:
        lab = self._settled(number)
        self._bench.add(number, "sample", jobs.sample(type(lab), lab.values(), steps, repeat, roof, dtype))

    def _solve(self, number: int, steps: int, seed: int) -> None:
        lab = self._settled(number)
        self._bench.add(number, "solve", jobs.solve(type(lab), lab.values(), steps, seed))

    def _snapshot(self, number: int) -> None:
        try:
            self._port.deliver(number, SnapshotTaken(self._settled(number).snapshot()))
        finally:
            self._port.say(Answered(number, "snapshot"))

    def _take_checkpoint(self, number: int) -> None:
        try:
            seat = self._seats[number]
            seat.settle()
            writer = Writer(seat.lab.snapshot())
            try:
                while not writer.write():
                    self._port.beat()
                delivery = Delivery(number, "checkpoint", writer.parcel, seat.lab.values(), seat.filming.mark())
                self._port.say(delivery, [writer.descriptor])
            finally:
                writer.close()
        finally:
            self._port.say(Answered(number, "take_checkpoint"))

    def _settled(self, number: int) -> Lab:
        seat = self._seats[number]
        seat.settle()
        return seat.lab

    def _close_lab(self, number: int) -> None:
        if seat := self._seats.pop(number, None):
            self._circle.remove(seat)
            self._bench.drop(number)
            seat.close()
        self._port.forget(number)
        self._port.tell(number, Closed())

    def _stop(self, _number: int) -> None:
        self._open = False


def main(descriptor: int, device: str) -> None:
    """Be the worker at the other end of the pipe `descriptor`, for an engine on `device`. Does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's business; it ends this process
    die_with_parent()
    die_quickly()
    status = 0
    line = Line(Connection(descriptor))
    try:
        if not line.waiting(0.0):  # a spare: nobody waits for it yet
            call_itself("spare")
            prepare(device)
            line.send(Prepared())
        setup, _ = line.receive()
        call_itself(setup.name)
        logging.basicConfig(format=f"{setup.name} engine: %(levelname)s %(message)s")
        Worker(line, setup).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the server is gone: nobody to tell
        status = 0
    except SystemExit as stop:
        status = int(stop.code or 0)
    except BaseException:
        logging.getLogger(__name__).exception("the engine's loop failed")
        status = 1
    sys.stderr.flush()
    os._exit(status)  # not by way of atexit handlers, which can hang on a lost device


def prepare(device: str) -> None:
    """Do in advance what the first frame would wait for; no GPU is touched, CUDA is not even initialised.

    On the host Numba fills its tables and starts its threads when the first kernel is called, which takes longer than
    to import it. For a GPU, CuPy is imported where it is installed.
    """
    if device == HOST:
        kernels = import_module("compute.display.cpu_numba")
        kernels.levels(np.zeros((2, 2), np.float32), np.zeros((2, 2), np.uint8), 0.0, 1.0)
    elif find_spec("cupy"):
        import_module("cupy")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends, even in an endless computation."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def die_quickly() -> None:
    """At a crash print where it was, but write no core file: of this much memory that takes seconds."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def call_itself(name: str) -> None:
    """The name of this process in lists of processes: "fieldlab " and `name`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(NAME, f"fieldlab {name}".encode())
