"""The engine's process: one loop over all labs of one device.

Requests are read between slices. Labs with work run their slices in the order of pacing.py. Signs of life are sent only
from this loop, so a loop that hangs is detected. The process ends when the channel is closed.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import resource
import sys
import time
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from functools import partial
from importlib import import_module
from typing import assert_never

from compute.devices import kernel_cache, numba_extensions
from compute.devices.backends import BACKENDS, BEST_FIRST, backend
from compute.devices.builds import Builds, watching
from compute.devices.devices import device_kind
from compute.engine import messages
from compute.engine.benchmark_target import BenchmarkQueue
from compute.engine.compiling import KernelJobs
from compute.engine.lab_host import LabHost, check_device
from compute.engine.pacing import Turns
from compute.engine.sending import COMPILING, EventSender
from compute.engine.shared_memory import NO_DESCRIPTOR, FrameRing, NoSharedMemory, read_blob
from compute.lab.lab import Lab
from compute.lab.loaded import LoadedFile
from compute.labs import LABS, lab_class
from compute.machine.freed_memory import FreedMemory
from compute.process.channel import Channel
from compute.process.child import die_with_parent, rename_process

MAX_REQUESTS = 64  # read between two slices, so that a flood of them cannot stop the labs
log = logging.getLogger(__name__)


class Worker:
    """Runs the labs of one device in turns."""

    def __init__(self, channel: Channel, setup: messages.Setup) -> None:
        self._channel, self._setup = channel, setup
        self._sender = EventSender(channel, setup.heartbeat)
        self._hosts: dict[int, LabHost] = {}
        self._benchmarks = BenchmarkQueue(self._sender)
        self._kernel_jobs = KernelJobs()
        self._turns = Turns()
        self._turns.join(self._benchmarks)
        self._memory = FreedMemory()
        self._open, self._core_left = True, False
        self._marked_resting: bool | None = None  # the value in the rings; None after a lab was opened
        self._served = 0  # number of the lab with the current turn or request

    def run(self) -> None:
        """Serve until a Stop or the end of the channel. Builds of kernels, whenever they occur, are announced."""
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
            self._kernel_jobs.close()

    def _build_began(self, builds: Builds) -> None:
        """Announce a build, with the seconds that this kernel's last compilation took on this machine."""
        usual = kernel_cache.usual_seconds(builds.kernel)
        words = "compiling (a few seconds)" if usual is None else f"compiling (about {max(1, round(usual))} s)"
        self._sender.extend_deadline(self._served, words, COMPILING)

    def _build_ended(self, builds: Builds) -> None:
        self._sender.end_extension()
        kernel_cache.remember(builds.kernel, builds.seconds)

    def _turn(self, builds: Builds) -> bool:
        """Run one slice of the next lab; return False without work. A slice that built a kernel is not charged."""
        now, built = time.monotonic(), builds.count
        turn = self._turns.next(now)
        if turn is None:
            return False
        taker = turn.share.taker
        self._served = taker.number
        self._leave_a_core(turn.crowded and taker is not self._benchmarks)
        self._benchmarks.beside_live = turn.labs > 0
        with self._at_work(taker.number):
            taker.turn(now, turn.seconds)
        seconds = time.monotonic() - now if builds.count == built else 0.0
        self._turns.done(turn, seconds)
        if isinstance(taker, LabHost):
            taker.count(seconds)
        return True

    def _at_work(self, number: int) -> AbstractContextManager[None]:
        """Return a context manager: if the process dies inside it, the death is charged to lab `number`, if open."""
        host = self._hosts.get(number)
        return host.at_work() if host else nullcontext()

    def _leave_a_core(self, leave: bool) -> None:
        """On the host, leave a core to the server or use all cores: the server's load grows with the watched labs.

        A kernel waits for its slowest thread, and a thread that shares its core with the server is slow (two cores, 40
        labs of 512 x 512, 1.5 ms of the server a frame: 7 frames a second of each on two threads, 15 on one; 8 labs: 14
        and 17, and a third more steps). Measurements use all cores.
        """
        if leave != self._core_left and device_kind(self._setup.name) == "cpu" and "numba" in sys.modules:
            import_module("compute.devices.numba_threads").leave_a_core(leave)
            self._core_left = leave

    def _listen(self, *, resting: bool) -> None:
        """Read the frame limits, then receive requests, so that a request is handled before a later limit takes effect.

        A resting worker marks that first: from then on each limit is sent as a request, which ends the rest.
        """
        now = time.monotonic()
        if resting != self._marked_resting:
            self._marked_resting = resting
            for host in self._hosts.values():
                host.mark_resting(resting)
        for host in self._hosts.values():
            if not host.pacer.may_show:  # otherwise the limit is read once all permitted frames are shown
                host.see_limit(now)
        self._receive(self._rest() if resting else 0.0)

    def _rest(self) -> float:
        """Return the seconds until the next turn, at most one heartbeat."""
        now = time.monotonic()
        return min(self._setup.heartbeat, max(0.0, self._turns.wakes_at(now) - now))

    def _receive(self, seconds: float) -> None:
        for _ in range(MAX_REQUESTS):
            if not self._channel.waiting(seconds):
                return
            try:
                request, descriptors = self._channel.receive()
            except (EOFError, OSError):  # the server has ended
                self._open = False
                return
            self._handle(request, descriptors)
            if isinstance(request, messages.CreateLab):  # took longer than a slice: open labs have their turns first
                return
            seconds = 0.0

    def _handle(self, request: messages.HostRequest | messages.WorkerRequest, descriptors: list[int]) -> None:
        self._served = request.lab
        try:
            if isinstance(request, messages.HostRequest):
                if host := self._hosts.get(request.lab):  # otherwise it was refused or has been closed
                    with host.at_work():
                        host.handle(request)
            else:
                self._dispatch(request, descriptors)
        except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
            self._sender.report_refusal(request.lab, request, error)

    def _dispatch(self, request: messages.WorkerRequest, descriptors: list[int]) -> None:
        """Carry out a request that opens, closes or measures a lab, takes its state, or concerns the process."""
        match request:
            case messages.CreateLab():
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

    def _open_lab(self, request: messages.CreateLab, ring: int, state: int = -1) -> None:
        """Open a lab. ring, state: descriptors of its frames' memory and of its initial state."""
        with ExitStack() as always, ExitStack() as undo:
            if request.payload:
                always.callback(os.close, state)
            shared = undo.enter_context(closing(FrameRing(ring)))
            check_device(self._setup.name, request.values)
            with shared.at_work(), self._sender.extended_deadline(request.lab, "opening", COMPILING):
                lab = undo.enter_context(closing(self._class(request.kind)(**request.values)))
                if request.payload:
                    self._restore(request.lab, lab, request.payload, state)
                host = LabHost(request.lab, lab, self._sender, shared, self._setup.name, self._kernel_jobs)
            host.pacer.frames = host.pacer.frames_through = request.frames
            undo.pop_all()
        self._hosts[request.lab] = host
        self._marked_resting = None
        self._share_checkpoints()
        self._turns.join(host)
        self._sender.send(messages.Opened(request.lab, lab.values()))

    def _share_checkpoints(self) -> None:
        for host in self._hosts.values():
            host.checkpointer.labs = len(self._hosts)

    def _restore(self, number: int, lab: Lab, payload: messages.Payload, state: int) -> None:
        """Restore a state; on failure the lab keeps its initial field and its client receives Refused."""
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
    """Run the worker at the other end of the channel `descriptor`, for an engine on `device`. Does not return."""
    die_with_parent()
    die_quickly()
    numba_extensions.put_off()
    status = 0
    channel = Channel.inherited(descriptor, LoadedFile.references)
    try:
        if not channel.waiting(0.0):  # a spare, without a Setup yet
            rename_process("spare")
            prepare(device)
            channel.send(messages.Prepared())
        setup, _ = channel.receive()
        rename_process(setup.name)
        logging.basicConfig(format=f"{setup.name} engine: %(levelname)s %(message)s")
        if not channel.waiting(0.0):  # no request yet, as at the start of the server
            prepare(device)
            open_ahead(setup.name)
        Worker(channel, setup).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the server has ended, so there is no report
        status = 0
    except SystemExit as stop:
        status = int(stop.code or 0)
    except BaseException:
        logging.getLogger(__name__).exception("the engine's loop failed")
        status = 1
    sys.stderr.flush()
    os._exit(status)  # skips atexit handlers, which can hang on a lost device


def prepare(device: str) -> None:
    """Prepare what would delay the first frame, as the labs and the backends of `device` define it; touch no GPU."""
    for lab in LABS:
        for module in lab.PRELOADED:
            import_module(module)
    for one in BACKENDS:
        if one.device == device:
            one.prepare()


def open_ahead(engine: str) -> None:
    """Open the device of `engine` for the first lab, which then waits about 1 s less for a GPU and reports its errors.

    The device is that of the backend that a new page would choose; nothing is opened if the engine has no backend.
    """
    kind, _, index = engine.partition(":")
    usable = [one for one in map(backend, BEST_FIRST) if one.device == kind and not one.missing]
    try:
        if usable:
            usable[0].open_device(int(index or 0))
    except Exception as error:  # noqa: BLE001 - of any library; a lab that opens the device raises it again
        log.warning("the device cannot be opened in advance: %s", error)


def die_quickly() -> None:
    """Print the position of a crash, but write no core file, which takes seconds for this much memory."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
