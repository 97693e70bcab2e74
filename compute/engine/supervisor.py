"""Starts an engine's process, listens to it, and starts it again when it dies or hangs.

One thread does all of that and calls every `on_event`; another sends orders (outbox.py). Death is seen at once, by
the end of the pipe; a hang by a missing sign of life. The next process opens every lab again from its last good
snapshot with the last values, view, pace and run state, and each client is told once.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from compute.engine.handle import LabHandle
from compute.engine.ledger import Death, Ledger, Record, reopening
from compute.engine.messages import (
    Busy,
    Checkpoint,
    Closed,
    Event,
    Expect,
    Fatal,
    Order,
    Prepared,
    Ready,
    Refused,
    Report,
    Setup,
)
from compute.engine.outbox import Outbox
from compute.engine.process import Process
from compute.engine.standby import AFTER, Standby
from compute.engine.watchdog import Breaker, Watchdog

log = logging.getLogger(__name__)

DEADLINE = 3.0  # seconds: with the time to see it, to end it and to open the labs again, a hang is over within five
LOOK = 0.1  # seconds between two looks at the watchdog
SHORT = 0.3  # seconds: what takes no longer is not announced as Busy
STOPPING = 2.0  # seconds a worker has for ending in order
BEATS = 10  # signs of life in one deadline


class Supervisor:
    """The engine of one device.

    name: "host", "cuda:0" …, or one of these with a suffix after a colon ("host:reference"); deadline: seconds
    without a sign of life after which it is restarted; labs: further lab classes by name, as "module:Class"; spare:
    seconds after which a ready engine gets a spare process (standby.py), None for never.
    state: starting, ready, busy, restarting, broken or closed. restarts: since the start.
    """

    def __init__(
        self, name: str, deadline: float = DEADLINE, labs: Mapping[str, str] | None = None, spare: float | None = AFTER
    ) -> None:
        self.name, self.state, self.restarts = name, "starting", 0
        self.lock = threading.RLock()
        self._wake = threading.Condition(self.lock)
        self._deadline, self._setup = deadline, Setup(name, dict(labs or {}), deadline / BEATS)
        self._ledger = Ledger()
        self._breaker = Breaker()
        self._standby = Standby(name.partition(":")[0], spare)
        self._process: Process | None = None
        self._live = self._stopping = self._retrying = False
        self._stop_by = 0.0
        self._busy: tuple[int, str, float] | None = None
        self._outbox: Outbox | None = None
        self._thread: threading.Thread | None = None

    # -- for the app

    def start(self) -> None:
        """Start the process. Returns at once; labs may be opened before it is there."""
        with self.lock:
            if self._thread or self._stopping:
                return
            self._outbox = Outbox(self.name, self._unsent)
            self._thread = threading.Thread(target=self._watch, name=f"{self.name} engine", daemon=True)
            self._thread.start()
        atexit.register(self.close)

    def open(
        self,
        kind: str,
        values: Mapping[str, Any],
        on_event: Callable[[Event], None],
        pixels: tuple[int, int] = (512, 512),
        checkpoint: Checkpoint | None = None,
        frames: int = 0,
    ) -> LabHandle:
        """Open a lab. Does not wait: a lab that cannot be opened gets Refused, then Closed.

        checkpoint: a state, of a lab with the same shape on any engine, to go on from; frames: how many it has shown.
        on_event runs on this engine's reader thread and must return quickly; it may call the handle.
        """
        with self.lock:
            record = self._ledger.add(kind, values, on_event, pixels, checkpoint, frames)
            if self._live:
                for item in reopening(record):
                    self._put(item.order, item.descriptors)
            self._wake.notify_all()
        return LabHandle(self, record)

    def retry(self) -> None:
        """Start a broken engine again, with the labs it had."""
        with self.lock:
            self._retrying = self.state == "broken"
            self._wake.notify_all()

    @property
    def pid(self) -> int | None:
        """The process's id; None while there is none."""
        process = self._process
        return process.pid if process else None

    @property
    def spare_pid(self) -> int | None:
        """The id of the process that would take over; None while there is none."""
        return self._standby.pid

    def ask_to_stop(self) -> None:
        """Begin closing, without waiting."""
        with self.lock:
            if not self._stopping:
                self._stopping, self._stop_by = True, time.monotonic() + STOPPING
                self._put(Order(0, "stop"))
                self._wake.notify_all()

    def close(self) -> None:
        """End the process, in order or by force, and the threads; every client gets Closed."""
        self.ask_to_stop()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join()
        self.state = "closed"
        atexit.unregister(self.close)

    # -- for LabHandle

    def order(self, record: Record, verb: str, arguments: Mapping[str, Any]) -> None:
        """Pass an order on; before the process is there, what the record does not remember waits."""
        with self.lock:
            if record.closing or self.state == "closed":
                return
            if self.state != "broken":
                self._put(Order(record.number, verb, arguments))
            elif verb in {"act", "step"}:  # what else is asked for is remembered until the engine is tried again
                self._emit(record, Refused(f"the engine {self.name!r} has stopped; nothing was done"))

    def dismiss(self, record: Record) -> None:
        """Close a lab."""
        with self.lock:
            if record.closing or self._ledger.get(record.number) is None:
                return
            record.closing = True
            if self._outbox:
                self._outbox.forget(record.number)
            if self._live:
                self._put(Order(record.number, "close_lab"))
            self._wake.notify_all()

    def _put(self, order: Order, descriptors: tuple[int, ...] = ()) -> None:
        if self._outbox and not self._outbox.put(order, descriptors) and not self._stopping:
            log.warning("%s engine: an order (%s) was dropped, because too many wait", self.name, order.verb)

    # -- the watching thread

    def _watch(self) -> None:
        while not self._stopping:
            death = self._one_life()
            if self._stopping:
                break
            log.error("%s engine: %s", self.name, death.reason)
            self._mourn(death)
            if self._breaker.died(time.monotonic()):
                self._stay_broken(death.reason)
            self.restarts += 1
        self._finish()

    def _one_life(self) -> Death:
        """Take a process and listen until it ends. A spare that ends before it is ready has never lived."""
        try:
            process, spare = self._standby.take()
        except OSError as error:
            time.sleep(LOOK)
            return Death(f"it could not be started: {error}", time.monotonic())
        self._process, self._lived = process, False
        self._dog = Watchdog(self._deadline, time.monotonic())
        process.begin(self._setup)
        death = self._listen_until_it_ends(process)
        return self._one_life() if spare and not self._lived and not self._stopping else death

    def _listen_until_it_ends(self, process: Process) -> Death:
        try:
            return self._listen(process)
        except Exception as error:  # a fault of this package: start afresh, in the end the breaker opens
            log.exception("%s engine: a report could not be dealt with", self.name)
            return Death(f"its report could not be dealt with: {error}", time.monotonic())
        finally:
            with self.lock:
                self._live, self._busy, self._process = False, None, None
            process.kill()
            process.end(STOPPING)
            self._outbox.disconnect()  # type: ignore[union-attr]
            process.line.close()

    def _listen(self, process: Process) -> Death:
        while True:
            if not self._busy:
                self._standby.tend(time.monotonic())
            if process.line.waiting(LOOK):
                try:
                    report, descriptors = process.line.receive()
                except (EOFError, OSError):
                    since = time.monotonic()
                    return Death(process.end(STOPPING), since, process.ended_by_itself)
                if isinstance(report, Fatal):
                    return Death(report.reason, time.monotonic(), lab=report.lab)
                self._hear(report, descriptors)
                continue
            now = time.monotonic()
            if death := self._dog.overdue(now, process):
                return death
            if self._stopping and now > self._stop_by:
                return Death("it did not stop in time", now)
            self._announce(now)

    def _hear(self, report: Report, descriptors: list[int]) -> None:
        now = time.monotonic()
        self._dog.heard(now, report.seconds if isinstance(report, Expect) else 0.0)
        if isinstance(report, Prepared):
            return
        self._busy = (report.lab, report.what, now) if isinstance(report, Expect) and report.what else None
        if isinstance(report, Ready):
            self._lived = True
            self._connect()
            self._standby.ready(now)
        self.state = "busy" if self._busy else "ready"
        record = self._ledger.get(getattr(report, "lab", 0))
        try:
            with self.lock:
                event = self._ledger.account(record, report, descriptors, now) if record else None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if record and event and (not record.closing or isinstance(event, Closed)):
            self._emit(record, event)

    def _connect(self) -> None:
        """The process is ready: open the labs there are."""
        with self.lock:
            gone = self._ledger.drop_closing()
            items = self._ledger.reopening()
            self._outbox.connect(self._process.line, items, self._ledger.questions())  # type: ignore[union-attr]
            self._live = True
            if self._stopping:
                self._put(Order(0, "stop"))
        self._emit_all((record, Closed()) for record in gone)

    def _mourn(self, death: Death) -> None:
        with self.lock:
            self.state = "restarting"
            told = self._ledger.mourn(death)
        self._emit_all(told)

    def _announce(self, now: float) -> None:
        """Tell a client that something long is under way, once it is."""
        if self._busy and now - self._busy[2] > SHORT:
            lab, what, _ = self._busy
            self._busy = None
            if record := self._ledger.get(lab):
                self._emit(record, Busy(what))

    def _stay_broken(self, reason: str) -> None:
        """Wait for `retry` or `close`, and tell everybody who is or comes here."""
        while True:
            with self.lock:
                self.state = "broken"
                if self._stopping or self._retrying:
                    break
                news = self._ledger.news_of_breaking(
                    f"the engine {self.name!r} failed repeatedly; the last time: {reason}"
                )
                if not news:
                    self._wake.wait()
            self._emit_all(news)
        with self.lock:
            self.state, self._retrying = "restarting", False
            self._ledger.mended()
        self._breaker.reset()

    def _unsent(self, order: Order, error: Exception) -> None:
        """An order could not be pickled: a fault of the caller, who is told in turn."""
        log.error("%s engine: order %s cannot be sent", self.name, order.verb, exc_info=error)
        if order.verb != "refuse":
            self._put(Order(order.lab, "refuse", {"text": f"{order.verb} was given a value that cannot be sent"}))

    def _finish(self) -> None:
        self._standby.close()
        with self.lock:
            records = self._ledger.all()
            for record in records:
                self._ledger.drop(record)
        self._emit_all((record, Closed()) for record in records)
        self._outbox.close()  # type: ignore[union-attr]
        self.state = "closed"

    def _emit_all(self, news: Iterable[tuple[Record, Event]]) -> None:
        for record, event in news:
            self._emit(record, event)

    def _emit(self, record: Record, event: Event) -> None:
        try:
            record.on_event(event)
        except Exception:
            log.exception("%s engine: a client failed to take %s", self.name, type(event).__name__)
