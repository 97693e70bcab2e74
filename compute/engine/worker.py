"""The engine's own process: one loop over all labs of one device.

Requests are read between slices; the labs with work have their slices in the order of pacing.py; signs of life come
from this loop and nowhere else, so a loop that hangs is seen to hang. The process ends when the pipe does.
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
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import assert_never

import numpy as np

from compute import kernel_cache, numba_extensions
from compute.builds import Builds, watching
from compute.engine import messages
from compute.engine.benchmark_target import BenchmarkQueue
from compute.engine.channel import COMPILING, Channel, EventSender
from compute.engine.lab_host import LabHost, check_device
from compute.engine.pacing import Turns
from compute.engine.shared_memory import NO_DESCRIPTOR, FrameRing, NoSharedMemory, read_blob
from compute.freed_memory import FreedMemory
from compute.lab import Lab
from compute.labs import lab_class

MAX_REQUESTS = 64  # read between two slices: a flood of them must not stop the labs
DIE_WITH_PARENT, NAME = 1, 15  # PR_SET_PDEATHSIG and PR_SET_NAME of prctl(2)
HOST = "host"


class Worker:
    """Serves the labs of one device in turn."""

    def __init__(self, channel: Channel, setup: messages.Setup) -> None:
        self._channel, self._setup = channel, setup
        self._sender = EventSender(channel, setup.heartbeat)
        self._hosts: dict[int, LabHost] = {}
        self._benchmarks = BenchmarkQueue(self._sender)
        self._turns = Turns()
        self._turns.join(self._benchmarks)
        self._memory = FreedMemory()
        self._open, self._core_left = True, False
        self._told_resting: bool | None = None  # what the labs were told last; None while a new one was told nothing
        self._served = 0  # the number of the lab that has a turn or whose request is carried out

    def run(self) -> None:
        """Serve until told to stop or until the pipe ends. A kernel that must be built, whenever, is announced."""
        self._sender.send(messages.Ready())
        try:
            with watching(lambda: self._build_began(builds), lambda: self._build_ended(builds)) as builds:
                while self._open:
                    self._listen(resting=not self._turn(builds))
                    self._memory.look(time.monotonic())
                    self._sender.heartbeat()
        finally:
            for host in self._hosts.values():
                host.close()

    def _build_began(self, builds: Builds) -> None:
        """Announce it, with how long this kernel took the last time it was compiled on this machine."""
        usual = kernel_cache.usual_seconds(builds.kernel)
        words = "compiling (a few seconds)" if usual is None else f"compiling (about {max(1, round(usual))} s)"
        self._sender.extend_deadline(self._served, words, COMPILING)

    def _build_ended(self, builds: Builds) -> None:
        self._sender.end_extension()
        kernel_cache.remember(builds.kernel, builds.seconds)

    def _turn(self, builds: Builds) -> bool:
        """Run one slice of whoever is next; False if nobody has work. A slice in which a kernel was built is free."""
        now, built = time.monotonic(), builds.count
        turn = self._turns.next(now)
        if turn is None:
            return False
        who = turn.share.who
        self._served = who.number
        self._leave_a_core(turn.crowded and who is not self._benchmarks)
        self._benchmarks.beside_live = turn.labs > 0
        with self._at_work(who.number):
            who.turn(now, turn.seconds)
        seconds = time.monotonic() - now if builds.count == built else 0.0
        self._turns.done(turn, seconds)
        if isinstance(who, LabHost):
            who.count(seconds)
        return True

    def _at_work(self, number: int) -> AbstractContextManager[None]:
        """Return a context manager: if the process dies inside it, the death is charged to lab `number`, if open."""
        host = self._hosts.get(number)
        return host.at_work() if host else nullcontext()

    def _leave_a_core(self, leave: bool) -> None:
        """On the host, leave a core to the server, or no longer: it has more to do the more labs are looked at.

        Kernels wait for the slowest of their threads, and one that shares its core with the server is slow (two cores,
        40 labs of 512 x 512, 1.5 ms of the server a frame: 7 frames a second of each on two threads, 15 on one; 8 labs:
        14 and 17, and a third more steps). Measurements use all.
        """
        if leave != self._core_left and self._setup.name.partition(":")[0] == HOST and "numba" in sys.modules:
            import_module("compute.numba_threads").leave_a_core(leave)
            self._core_left = leave

    def _listen(self, *, resting: bool) -> None:
        """See what the labs may show, then take requests: what was asked for before a limit is known before it counts.

        Who rests says so first: from then on each limit comes with a request, which ends the rest.
        """
        now = time.monotonic()
        if resting != self._told_resting:
            self._told_resting = resting
            for host in self._hosts.values():
                host.tell_resting(resting)
        for host in self._hosts.values():
            if not host.pacer.may_show:  # else there is time to look when it may show no more
                host.see_limit(now)
        self._receive(self._rest() if resting else 0.0)

    def _rest(self) -> float:
        """Return the seconds until somebody has work again, at most one heartbeat."""
        now = time.monotonic()
        return min(self._setup.heartbeat, max(0.0, self._turns.wakes_at(now) - now))

    def _receive(self, seconds: float) -> None:
        for _ in range(MAX_REQUESTS):
            if not self._channel.waiting(seconds):
                return
            try:
                request, descriptors = self._channel.receive()
            except (EOFError, OSError):  # the server is gone
                self._open = False
                return
            self._handle(request, descriptors)
            if isinstance(request, messages.OpenLab):  # took longer than a slice: those that are open get theirs first
                return
            seconds = 0.0

    def _handle(self, request: messages.HostRequest | messages.WorkerRequest, descriptors: list[int]) -> None:
        self._served = request.lab
        try:
            if isinstance(request, messages.HostRequest):
                if host := self._hosts.get(request.lab):  # else it was refused or closed meanwhile
                    with host.at_work():
                        host.handle(request)
            else:
                self._dispatch(request, descriptors)
        except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
            self._sender.report_refusal(request.lab, request, error)

    def _dispatch(self, request: messages.WorkerRequest, descriptors: list[int]) -> None:
        """Do what makes, ends or measures a lab, or what is asked of the process."""
        match request:
            case messages.OpenLab():
                if len(descriptors) < 1 + (request.payload is not None):
                    for descriptor in descriptors:
                        os.close(descriptor)
                    raise NoSharedMemory(NO_DESCRIPTOR)
                self._open_lab(request, *descriptors)
            case messages.CloseLab():
                self._close_lab(request.lab)
            case messages.TakeSample() | messages.Solve():
                host = self._hosts[request.lab]
                host.defer(request, partial(self._benchmarks.add, request, host.lab))
            case messages.TakeSnapshot():
                host = self._hosts[request.lab]
                host.defer(request, partial(self._take_snapshot, host))
            case messages.TakeCheckpoint():
                host = self._hosts[request.lab]
                host.defer(request, partial(self._take_checkpoint, host))
            case messages.Refuse():
                self._sender.send_event(request.lab, messages.Refused(request.text, change=request.change))
            case messages.Stop():
                self._open = False
            case _:
                assert_never(request)

    def _open_lab(self, request: messages.OpenLab, ring: int, state: int = -1) -> None:
        """Open a lab. ring, state: descriptors of its frames' memory and of the state to go on from."""
        with ExitStack() as always, ExitStack() as undo:
            if request.payload:
                always.callback(os.close, state)
            shared = undo.enter_context(closing(FrameRing(ring)))
            check_device(self._setup.name, request.values)
            with shared.at_work(), self._sender.extended_deadline(request.lab, "opening", COMPILING):
                lab = undo.enter_context(closing(self._class(request.kind)(**request.values)))
                if request.payload:
                    self._restore(request.lab, lab, request.payload, state)
            host = LabHost(request.lab, lab, self._sender, shared, self._setup.name)
            host.pacer.frames = host.pacer.frames_through = request.frames
            undo.pop_all()
        self._hosts[request.lab] = host
        self._told_resting = None
        self._share_checkpoints()
        self._turns.join(host)
        self._sender.send(messages.Opened(request.lab, lab.values()))

    def _share_checkpoints(self) -> None:
        for host in self._hosts.values():
            host.checkpointer.labs = len(self._hosts)

    def _restore(self, number: int, lab: Lab, payload: messages.Payload, state: int) -> None:
        """Restore a state; one that cannot be leaves the lab at its initial field, and its client is told."""
        try:
            lab.restore(read_blob(payload, state))
        except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
            self._sender.report_error(number, error, messages.Refused)

    def _class(self, kind: str) -> type[Lab]:
        if kind not in self._setup.labs:
            return lab_class(kind)
        module, _, name = self._setup.labs[kind].partition(":")
        found: type[Lab] = getattr(import_module(module), name)
        return found

    def _take_snapshot(self, host: LabHost) -> None:
        self._sender.send_large_event(host.number, messages.SnapshotTaken(host.lab.snapshot()))
        self._sender.send(messages.Answered(host.number, messages.TakeSnapshot))

    def _take_checkpoint(self, host: LabHost) -> None:
        values, offset = host.lab.values(), host.recorder.offset()
        self._sender.send_blob(
            host.lab.snapshot(),
            lambda payload: messages.CheckpointMessage(host.number, payload, values, offset, requested=True),
        )
        self._sender.send(messages.Answered(host.number, messages.TakeCheckpoint))

    def _close_lab(self, number: int) -> None:
        if host := self._hosts.pop(number, None):
            self._share_checkpoints()
            self._turns.leave(host)
            with host.at_work():
                self._benchmarks.drop(number)
            host.close()
            self._memory.freed(time.monotonic())
        self._sender.forget(number)
        self._sender.send_event(number, messages.LabClosed())


def main(descriptor: int, device: str) -> None:
    """Be the worker at the other end of the pipe `descriptor`, for an engine on `device`. Does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's business; it ends this process
    die_with_parent()
    die_quickly()
    numba_extensions.put_off()
    status = 0
    channel = Channel(Connection(descriptor), refers=True)
    try:
        if not channel.waiting(0.0):  # a spare: nobody waits for it yet
            call_itself("spare")
            prepare(device)
            channel.send(messages.Prepared())
        setup, _ = channel.receive()
        call_itself(setup.name)
        if not channel.waiting(0.0):  # as when the server starts, and nobody has come yet
            prepare(device)
        logging.basicConfig(format=f"{setup.name} engine: %(levelname)s %(message)s")
        Worker(channel, setup).run()
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
    to import it. For a GPU, CuPy is imported where it is installed. SciPy imports its parts when they are first used.
    """
    for part in ("scipy.linalg", "scipy.sparse"):  # of the L-curve lab
        import_module(part)
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
    """Name this process in lists of processes: "fieldlab " and `name`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(NAME, f"fieldlab {name}".encode())
