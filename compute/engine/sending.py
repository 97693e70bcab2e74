"""The objects that send through the channel between server and worker (compute/process/channel.py).

On the server, a RequestQueue sends requests from its own thread, so that no caller blocks on a hung worker. In the
worker, an EventSender sends reports and signs of life, and converts exceptions into messages.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from compute.devices.backends import BACKENDS
from compute.engine.messages import (
    OPENING,
    Answered,
    AnsweredRequest,
    BlobMessage,
    CloseLab,
    CreateLab,
    DeadlineExtended,
    Event,
    EventMessage,
    Fatal,
    Heartbeat,
    LabClosed,
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
from compute.process.channel import Channel

log = logging.getLogger(__name__)

MOST_OF_A_LAB = 300  # queued requests of one lab: as many as a client makes in about one deadline of a hung worker
MAX_WAITING = 4000  # queued requests of all labs
COMPILING = 115.0  # seconds allowed beyond the usual deadline where kernels may be compiled
MAX_TEXT = 400  # characters of an error shown to a client; it may quote the client's input
LOG_PERIOD = 10.0  # seconds between two logged tracebacks of the same kind


@dataclass(frozen=True, eq=False)
class QueuedRequest:
    """A request with its descriptors, which the queue closes."""

    request: Request
    descriptors: tuple[int, ...] = ()

    def drop(self) -> None:
        """Close the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class RequestQueue:
    """A queue with a sending thread. It calls `failed(request, error)` for a request that cannot be pickled."""

    def __init__(self, name: str, failed: Callable[[Request, Exception], None]) -> None:
        self._failed = failed
        self._items: deque[QueuedRequest] = deque()
        self._channel: Channel | None = None
        self._sending = self._closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"{name} requests", daemon=True)
        self._thread.start()

    def put(self, item: QueuedRequest) -> bool:
        """Queue a request; return False and drop it if too many wait."""
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
        """Whether all queued requests are sent."""
        with self._change:
            return not self._items and not self._sending

    def _full(self, request: Request) -> bool:
        """Return whether the queue is full, in total or for the lab of `request`.

        The limit per lab leaves space for the other labs. Requests that open, move or close a lab are always accepted:
        each occurs once, and all other requests depend on it.
        """
        if len(self._items) < MOST_OF_A_LAB or isinstance(request, CreateLab | CloseLab | TakeCheckpoint | Stop):
            return False
        of_lab = sum(item.request.lab == request.lab for item in self._items)
        return of_lab >= MOST_OF_A_LAB or len(self._items) >= MAX_WAITING

    def _replace_older(self, newer: Setting) -> None:
        """Drop the unsent request that `newer` overrides, unless a non-Setting request of its lab follows it."""
        for item in reversed(self._items):
            older = item.request
            if older.lab == newer.lab:
                if not isinstance(older, Setting):
                    return
                if sets_all_of(newer, older):
                    self._items.remove(item)
                    return

    def connect(self, channel: Channel, first: Iterable[QueuedRequest], last: Iterable[QueuedRequest] = ()) -> None:
        """Send over `channel`: `first`, then the queued requests that `first` does not replace, then `last`."""
        with self._change:
            for item in self._items:
                if isinstance(item.request, Reopened):
                    item.drop()
            kept = [item for item in self._items if not isinstance(item.request, Reopened)]
            self._items = deque([*first, *kept, *last])
            self._channel = channel
            self._change.notify_all()

    def disconnect(self) -> None:
        """Stop sending. Call it after the worker has died, so that a blocked send returns."""
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
        """Remove all requests to a lab, and return the ones that its opening requests do not replace."""
        with self._change:
            own = [item for item in self._items if item.request.lab == lab]
            self._items = deque(item for item in self._items if item.request.lab != lab)
        for item in own:
            if isinstance(item.request, Reopened):
                item.drop()
        return [item for item in own if not isinstance(item.request, Reopened)]

    def close(self) -> None:
        """End the thread and drop unsent requests."""
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
        except OSError as error:  # the worker has died; the other requests wait for its restart
            log.debug("request %s was not sent: %s", item.request.words, error)
            with self._change:
                self._channel = None
        except Exception as error:  # noqa: BLE001 - reported to the lab's client
            self._failed(item.request, error)
        finally:
            item.drop()


def sets_all_of(newer: Setting, older: Setting) -> bool:
    """Return whether `newer` sets everything that `older` sets."""
    if isinstance(newer, Update) and isinstance(older, Update):
        return older.values.keys() <= newer.values.keys()
    return type(newer) is type(older)


class EventSender:
    """Sends reports over `channel`, and a Heartbeat if no report was sent for `period` seconds."""

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
        """Send an event that may contain large arrays."""
        self.send_blob(event, lambda payload: BlobMessage(lab, payload))

    def send_blob(self, thing: object, report: Callable[[Payload], BlobMessage]) -> None:
        """Write `thing` into a memory file, with signs of life in between, and send it with `report(payload)`."""
        writer = BlobWriter(thing)
        try:
            while not writer.write():
                self.heartbeat()
            self.send(report(writer.payload), [writer.descriptor])
        finally:
            writer.close()

    def heartbeat(self) -> None:
        """Send a sign of life if one is due."""
        if time.monotonic() - self._last >= self._period:
            self.send(Heartbeat())

    @contextmanager
    def extended_deadline(self, lab: int, what: str, seconds: float) -> Iterator[None]:
        """Announce that the block may take `seconds` more than usual; the client receives `what` unless it is empty."""
        self.extend_deadline(lab, what, seconds)
        try:
            yield
        finally:
            self.end_extension()

    def extend_deadline(self, lab: int, what: str, seconds: float) -> None:
        """Announce that the following work may take `seconds` more than usual, until `end_extension`."""
        self._extensions.append(DeadlineExtended(lab, what, seconds))
        self.send(self._extensions[-1])

    def end_extension(self) -> None:
        """End the last announced extension; an enclosing one becomes active again."""
        self._extensions.pop()
        self.send(self._extensions[-1] if self._extensions else Heartbeat())

    def report_error(self, lab: int, error: Exception, event: Callable[[str], Event]) -> None:
        """Report `error` to the lab's client; log a traceback, at most one of each kind in LOG_PERIOD seconds.

        A ValueError is a refused value and is not logged. A lost device context ends this process.
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
        """Report to the lab's client why `request` failed; a lab that could not be opened is closed."""
        opening = isinstance(request, CreateLab)
        change = OPENING if opening else None
        self.report_error(lab, error, partial(Refused, change=change, request=type(request)))
        if isinstance(request, AnsweredRequest):
            self.send(Answered(lab, type(request)))
        if opening:
            self.send_event(lab, LabClosed())

    def forget(self, lab: int) -> None:
        """Discard the log times of a closed lab."""
        self._logged = {key: moment for key, moment in self._logged.items() if key[0] != lab}


def error_text(error: Exception) -> str:
    """Return the message of an exception, without a traceback and at most MAX_TEXT characters long."""
    text = " ".join(str(error).split())
    if not isinstance(error, ValueError) or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …"


def context_lost(error: Exception) -> bool:
    """Return whether `error` means that this process can no longer use its device."""
    return any(one.device_class.lost(error) for one in BACKENDS)
