"""The pipe between server and worker, and who sends what through it.

Channel carries pickled messages, and file descriptors beside them. On the server's side a RequestQueue sends requests
from a thread of its own, so that nobody ever waits for a worker that hangs. On the worker's side an EventSender sends
reports and signs of life, and puts errors into words.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from compute.engine.messages import (
    OPENING,
    Answered,
    AnsweredRequest,
    BlobMessage,
    CloseLab,
    DeadlineExtended,
    Event,
    EventMessage,
    Fatal,
    Heartbeat,
    LabClosed,
    OpenLab,
    Payload,
    Refused,
    Reopened,
    Report,
    Request,
    Setting,
    Stop,
    TakeCheckpoint,
    Update,
)
from compute.engine.shared_memory import BlobWriter
from compute.loaded import LoadedFile

log = logging.getLogger(__name__)

CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
LENGTH, MARK = 8, b"f"
CHUNK = 2**16  # bytes read at once
MOST_DESCRIPTORS = 8  # of one message
MOST_OF_A_LAB = 300  # requests: about as many as a client makes while a worker does not read for its whole deadline
MAX_WAITING = 4000  # of all labs
COMPILING = 115.0  # seconds allowed beyond the usual deadline where kernels may be compiled
MAX_TEXT = 400  # characters of an error shown to a client; it may quote what the client sent
LOG_PERIOD = 10.0  # seconds between two logged tracebacks of the same kind
# CUDA errors after which "the process must be terminated and relaunched" (cuda.h)
LOST_CONTEXT = frozenset({226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911})


class Channel:
    """One end of a multiprocessing pipe (a UNIX socket). One thread may send while another receives.

    A message is its length in LENGTH bytes, its pickle and, if descriptors go with it, one byte that brings them.
    What has come is read at once, however many messages it holds: each call of the system lets other threads go first.
    refers: send references to loaded files (compute/loaded.py) instead of their data, which the other end has sent.
    """

    def __init__(self, connection: Connection, refers: bool = False) -> None:
        self._connection, self._refers = connection, refers
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)
        self._come = bytearray()
        self._descriptors: list[int] = []

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send `message`; copies of `descriptors` go with it. Blocks while the other side does not read.

        Raises OSError when the other side is gone.
        """
        whole = message, len(descriptors)
        pickled = _with_references(whole) if self._refers else pickle.dumps(whole, protocol=5)
        self._socket.sendall(len(pickled).to_bytes(LENGTH, "big") + pickled)
        if descriptors:
            socket.send_fds(self._socket, [MARK], list(descriptors))

    def waiting(self, seconds: float) -> bool:
        """Whether a message, or the end, arrives within `seconds`."""
        return self._has_come(self._next_length()) or bool(self._poll.poll(1e3 * seconds))

    def receive(self) -> tuple[Any, list[int]]:
        """Return the next message and its descriptors, which the caller closes. EOFError or OSError at the end.

        Fewer come where this process may have no more, which the rest of what is sent must outlive.
        """
        message, count = pickle.loads(self._take(self._next_length(wait=True)))  # noqa: S301 - from our own process
        if not count:
            return message, []
        self._take(len(MARK), behind=0)
        descriptors, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return message, descriptors

    def _next_length(self, wait: bool = False) -> int:
        """Bytes of the next message; 0 if they are not known yet."""
        while len(self._come) < LENGTH:
            if not wait:
                return 0
            self._read()
        return int.from_bytes(self._come[:LENGTH], "big")

    def _has_come(self, length: int) -> bool:
        return 0 < length <= len(self._come) - LENGTH

    def _take(self, length: int, behind: int = LENGTH) -> bytes:
        """Take the next `length` bytes `behind` others out of what has come; waits until they are here."""
        while len(self._come) < behind + length:
            self._read()
        taken = bytes(self._come[behind : behind + length])
        del self._come[: behind + length]
        return taken

    def _read(self) -> None:
        data, descriptors, _, _ = socket.recv_fds(self._socket, CHUNK, MOST_DESCRIPTORS, CLOSE_ON_EXEC)
        self._descriptors += descriptors
        if not data:
            raise EOFError
        self._come += data

    def close(self) -> None:
        """Close this end."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._socket.close()
        self._connection.close()


def _with_references(message: object) -> bytes:
    """Pickle `message` with references to the loaded files in it."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, protocol=5)
    pickler.dispatch_table = LoadedFile.references
    pickler.dump(message)
    return out.getvalue()


@dataclass(frozen=True, eq=False)
class QueuedRequest:
    """A request and the descriptors that go with it, which the queue closes."""

    request: Request
    descriptors: tuple[int, ...] = ()

    def drop(self) -> None:
        """Close the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class RequestQueue:
    """A queue with a sending thread. `failed(request, error)` is called with what could not be pickled."""

    def __init__(self, name: str, failed: Callable[[Request, Exception], None]) -> None:
        self._failed = failed
        self._items: deque[QueuedRequest] = deque()
        self._channel: Channel | None = None
        self._sending = self._closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"{name} requests", daemon=True)
        self._thread.start()

    def put(self, item: QueuedRequest) -> bool:
        """Queue a request; False, and not queued, if too many wait."""
        with self._change:
            if self._closed or self._full(item.request):
                item.drop()
                return False
            if isinstance(item.request, Setting):
                self._replace_older(item.request)
            self._items.append(item)
            self._change.notify_all()
        return True

    @property
    def idle(self) -> bool:
        """Whether all that was queued is sent."""
        with self._change:
            return not self._items and not self._sending

    def _full(self, request: Request) -> bool:
        """Whether too many wait for this one to wait, too: of its lab, so that none takes the others' room, or in all.

        What opens, moves or closes a lab is not counted: each comes once, and everything else rests on it.
        """
        if len(self._items) < MOST_OF_A_LAB or isinstance(request, OpenLab | CloseLab | TakeCheckpoint | Stop):
            return False
        of_lab = sum(item.request.lab == request.lab for item in self._items)
        return of_lab >= MOST_OF_A_LAB or len(self._items) >= MAX_WAITING

    def _replace_older(self, newer: Setting) -> None:
        """Drop the unsent request that `newer` makes void, as far back as the last one of its lab that sets nothing."""
        for item in reversed(self._items):
            older = item.request
            if older.lab == newer.lab:
                if not isinstance(older, Setting):
                    return
                if sets_all_of(newer, older):
                    self._items.remove(item)
                    return

    def connect(self, channel: Channel, first: Iterable[QueuedRequest], last: Iterable[QueuedRequest] = ()) -> None:
        """Send over `channel`: `first`, then what still waits and is not covered by it, then `last`."""
        with self._change:
            for item in self._items:
                if isinstance(item.request, Reopened):
                    item.drop()
            kept = [item for item in self._items if not isinstance(item.request, Reopened)]
            self._items = deque([*first, *kept, *last])
            self._channel = channel
            self._change.notify_all()

    def disconnect(self) -> None:
        """Stop sending. Call it once the worker is dead, so that a send under way ends."""
        with self._change:
            self._channel = None
            self._change.wait_for(lambda: not self._sending)

    def forget(self, lab: int) -> None:
        """Drop all requests to a lab."""
        with self._change:
            for item in self._items:
                if item.request.lab == lab:
                    item.drop()
            self._items = deque(item for item in self._items if item.request.lab != lab)

    def withdraw(self, lab: int) -> list[QueuedRequest]:
        """Remove all requests to a lab, and return those that its opening requests do not replace."""
        with self._change:
            own = [item for item in self._items if item.request.lab == lab]
            self._items = deque(item for item in self._items if item.request.lab != lab)
        for item in own:
            if isinstance(item.request, Reopened):
                item.drop()
        return [item for item in own if not isinstance(item.request, Reopened)]

    def close(self) -> None:
        """End the thread; unsent requests are dropped."""
        with self._change:
            self._closed = True
            for item in self._items:
                item.drop()
            self._items.clear()
            self._change.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._closed or (self._channel and self._items))
                if self._closed:
                    return
                item, channel, self._sending = self._items.popleft(), self._channel, True
            try:
                self._send(channel, item)
            finally:
                with self._change:
                    self._sending = False
                    self._change.notify_all()

    def _send(self, channel: Channel | None, item: QueuedRequest) -> None:
        try:
            assert channel is not None  # noqa: S101 - waited for
            channel.send(item.request, item.descriptors)
        except OSError as error:  # the worker has died; its supervisor restarts it, and the rest waits for the next
            log.debug("request %s was not sent: %s", item.request.words, error)
            with self._change:
                self._channel = None
        except Exception as error:  # noqa: BLE001 - reported to the lab's client
            self._failed(item.request, error)
        finally:
            item.drop()


def sets_all_of(newer: Setting, older: Setting) -> bool:
    """Whether `newer` sets everything that `older` sets."""
    if isinstance(newer, Update) and isinstance(older, Update):
        return older.values.keys() <= newer.values.keys()
    return type(newer) is type(older)


class EventSender:
    """Sends reports over `channel`; a Heartbeat goes out when nothing else did for `period` seconds."""

    def __init__(self, channel: Channel, period: float) -> None:
        self._channel, self._period = channel, period
        self._last = 0.0
        self._extensions: list[DeadlineExtended] = []
        self._logged: dict[tuple[int, str], float] = {}

    def send(self, report: Report, descriptors: Sequence[int] = ()) -> None:
        """Send `report`."""
        self._channel.send(report, descriptors)
        self._last = time.monotonic()

    def send_event(self, lab: int, event: Event) -> None:
        """Send a small event to the client of lab number `lab`."""
        self.send(EventMessage(lab, event))

    def send_large_event(self, lab: int, event: Event) -> None:
        """Send an event that may hold large arrays."""
        self.send_blob(event, lambda payload: BlobMessage(lab, payload))

    def send_blob(self, thing: object, report: Callable[[Payload], BlobMessage]) -> None:
        """Write `thing` into a memory file, with signs of life on the way, and send it with `report` of its payload."""
        writer = BlobWriter(thing)
        try:
            while not writer.write():
                self.heartbeat()
            self.send(report(writer.payload), [writer.descriptor])
        finally:
            writer.close()

    def heartbeat(self) -> None:
        """Give a sign of life if one is due."""
        if time.monotonic() - self._last >= self._period:
            self.send(Heartbeat())

    @contextmanager
    def extended_deadline(self, lab: int, what: str, seconds: float) -> Iterator[None]:
        """Announce that the block may take `seconds` more than usual; the client hears `what` unless it is empty."""
        self.extend_deadline(lab, what, seconds)
        try:
            yield
        finally:
            self.end_extension()

    def extend_deadline(self, lab: int, what: str, seconds: float) -> None:
        """Announce that what follows may take `seconds` more than usual, until `end_extension`."""
        self._extensions.append(DeadlineExtended(lab, what, seconds))
        self.send(self._extensions[-1])

    def end_extension(self) -> None:
        """End what was announced last; what it was a part of goes on."""
        self._extensions.pop()
        self.send(self._extensions[-1] if self._extensions else Heartbeat())

    def report_error(self, lab: int, error: Exception, event: Callable[[str], Event]) -> None:
        """Tell the lab's client about `error`; log a traceback, at most one of a kind in LOG_PERIOD seconds.

        A ValueError is a refused value and not logged. A lost device context ends this process.
        """
        if context_lost(error):
            log.error("device context lost", exc_info=error)
            self.send(Fatal(lab, f"the device reported an error that only a restart cures: {error_text(error)}"))
            raise SystemExit(3)
        key, now = (lab, type(error).__name__), time.monotonic()
        if not isinstance(error, ValueError) and now - self._logged.get(key, -LOG_PERIOD) >= LOG_PERIOD:
            self._logged[key] = now
            log.error("lab %d: %s", lab, error_text(error), exc_info=error)
        self.send_event(lab, event(error_text(error)))

    def report_refusal(self, lab: int, request: Request, error: Exception) -> None:
        """Tell the lab's client that `request` was not carried out, and why; one that could not be opened is closed."""
        opening = isinstance(request, OpenLab)
        change = OPENING if opening else None
        self.report_error(lab, error, partial(Refused, change=change, request=type(request)))
        if isinstance(request, AnsweredRequest):
            self.send(Answered(lab, type(request)))
        if opening:
            self.send_event(lab, LabClosed())

    def forget(self, lab: int) -> None:
        """Drop what is remembered of a closed lab."""
        self._logged = {key: moment for key, moment in self._logged.items() if key[0] != lab}


def error_text(error: Exception) -> str:
    """Return what an error says, without a traceback and of at most MAX_TEXT characters."""
    text = " ".join(str(error).split())
    if not isinstance(error, ValueError) or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …"


def context_lost(error: Exception) -> bool:
    """Whether a CUDA error, of CuPy (`status`) or Numba (`code`), has destroyed this process's context."""
    if type(error).__module__.partition(".")[0] not in {"cupy", "cupy_backends", "numba", "numba_cuda", "cuda"}:
        return False
    return getattr(error, "status", getattr(error, "code", None)) in LOST_CONTEXT
