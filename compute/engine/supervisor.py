"""Starts an engine's process, reads its reports, and restarts it when it dies or hangs; the pool of all engines.

One thread does all of that and calls every `on_event`; another one sends requests (RequestQueue). A death is detected
immediately by the end of the channel, a hang by a missing sign of life. The next process reopens every lab from its
last checkpoint with the last values, view, pace and run state, and each client is notified once.

A death is charged to the lab that the process worked for (registry.py); at the second charge that lab is closed with
LabFailed. Uncharged deaths, or deaths charged to one lab after another, open the CircuitBreaker (process.py). Failing
to start a process for lack of descriptors or memory is not a death: the supervisor retries with growing pauses.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from compute.engine import messages
from compute.engine.api import LabHandle
from compute.engine.process import (
    SPARE_AFTER,
    CircuitBreaker,
    Standby,
    WorkerExit,
    WorkerProcess,
    out_of_resources,
    worker_watchdog,
)
from compute.engine.registry import FIRST_RETRY, MOST_RETRY, WORK, LabRegistry, LabState
from compute.engine.sending import QueuedRequest, RequestQueue
from compute.engine.shared_memory import NO_DESCRIPTOR

log = logging.getLogger(__name__)

DEADLINE = 3.0  # seconds: including detection, the end of the process and the restart, a hang takes less than five
POLL = 0.1  # seconds between two checks of the watchdog
SHORT = 0.3  # seconds: shorter operations are not announced as Busy
STOPPING = 2.0  # seconds a worker has to end in order
HEARTBEATS = 10  # signs of life in one deadline
WAITING = "waiting, because the engine has failed several times"  # Busy.what of an unproven lab
SHORT_OF_MEMORY = "waiting for shared memory or a file descriptor"


class Supervisor:
    """Keeps the engine of one device running, and opens labs on it.

    name: "host", "cuda:0" …, or one of these with a suffix after a colon ("host:reference"); deadline: seconds without
    a sign of life after which it is restarted; labs: further lab classes by name, as "module:Class"; spare: seconds
    after which a ready engine gets a spare process (Standby), None for never.

    Attributes: state, which is starting, ready, busy, restarting, broken or closed; restarts, their number since the
    start.
    """

    def __init__(
        self,
        name: str,
        deadline: float = DEADLINE,
        labs: Mapping[str, str] | None = None,
        spare: float | None = SPARE_AFTER,
    ) -> None:
        self.name, self.state, self.restarts = name, "starting", 0
        self.lock = threading.RLock()
        self._wake = threading.Condition(self.lock)
        self._deadline, self._setup = deadline, messages.Setup(name, dict(labs or {}), deadline / HEARTBEATS)
        self._registry = LabRegistry()
        self._breaker = CircuitBreaker()
        self._standby = Standby(name.partition(":")[0], spare)
        self._process: WorkerProcess | None = None
        self._live = self._stopping = self._retrying = False
        self._stop_by = 0.0
        self._busy: tuple[int, str, float] | None = None
        self._requests: RequestQueue | None = None
        self._thread: threading.Thread | None = None

    # -- for the app

    def start(self) -> None:
        """Start the process in the background. Labs may be opened immediately."""
        with self.lock:
            if self._thread or self._stopping:
                return
            self._requests = RequestQueue(self.name, self._unsent)
            self._thread = threading.Thread(target=self._supervise, name=f"{self.name} engine", daemon=True)
            self._thread.start()
        atexit.register(self.close)

    def open(
        self,
        kind: str,
        values: Mapping[str, Any],
        on_event: Callable[[messages.Event], None],
        pixels: tuple[int, int] = (512, 512),
        checkpoint: messages.Checkpoint | None = None,
        frames: int = 0,
    ) -> LabHandle:
        """Open a lab in the background; if that fails, its client receives Refused, then LabClosed.

        checkpoint: initial state, of a lab with the same shape on any engine; frames: how many it has shown.

        on_event runs on this engine's reader thread and must return quickly; it may call the handle.
        """
        with self.lock:
            lab = self._registry.add(kind, values, on_event, pixels, checkpoint, frames)
            if self._live:
                self._open_due()
            self._wake.notify_all()
        return LabHandle(self, lab)

    def retry(self) -> None:
        """Restart a broken engine with its labs."""
        with self.lock:
            self._retrying = self.state == "broken"
            self._wake.notify_all()

    @property
    def pid(self) -> int | None:
        """The process id; None without a process."""
        process = self._process
        return process.pid if process else None

    @property
    def open_labs(self) -> int:
        """Number of open labs."""
        with self.lock:
            return len(self._registry.all())

    @property
    def spare_pid(self) -> int | None:
        """The process id of the spare; None without a spare."""
        return self._standby.pid

    def ask_to_stop(self) -> None:
        """Begin closing, without waiting."""
        with self.lock:
            if not self._stopping:
                self._stopping, self._stop_by = True, time.monotonic() + STOPPING
                self._put(QueuedRequest(messages.Stop(0)))
                self._wake.notify_all()

    def close(self) -> None:
        """End the process, in order or by force, and the threads; every client receives LabClosed."""
        self.ask_to_stop()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join()
        self.state = "closed"
        atexit.unregister(self.close)

    # -- for LabHandle

    def send(self, lab: LabState, request: messages.Request) -> None:
        """Queue a request. Before the lab is open, it is stored unless reopening the lab covers it."""
        with self.lock:
            if lab.closing or self.state == "closed":
                return
            if self.state == "broken":
                why = f"the engine {self.name!r} has stopped; nothing was done"
            elif self._live and not lab.sent:
                if isinstance(request, messages.Reopened) or lab.hold(QueuedRequest(request)):
                    return
                why = "too many requests wait until this lab is opened; nothing was done"
            elif self._put(QueuedRequest(request)):
                return
            else:
                why = f"too many requests wait for the engine {self.name!r}; nothing was done"
            if isinstance(request, messages.Act | messages.Restore | messages.Step):  # LabState keeps the others
                self._emit(lab, messages.Refused(why))

    def permit(self, lab: LabState, number: int) -> None:
        """Permit all frames of a lab up to `number`. The caller has acquired the lock.

        While the worker polls its rings, writing the number into shared memory suffices. That requires that all earlier
        requests were sent: otherwise a newly opened lab would show a frame without its values. A message for each frame
        used a tenth of this process's time with forty tabs.
        """
        sent = lab.opened and self._live and self._requests is not None and self._requests.idle
        if not (sent and lab.ring is not None and lab.ring.permit(number)):
            self.send(lab, messages.FramesThrough(lab.number, number))

    def close_lab(self, lab: LabState) -> None:
        """Close a lab."""
        with self.lock:
            if self._registry.get(lab.number) is None:
                lab.release()  # the checkpoint of a failed lab
                return
            if lab.closing:
                return
            lab.closing = True
            if self._requests:
                self._requests.forget(lab.number)
            if self._live:
                self._put(QueuedRequest(messages.CloseLab(lab.number)))
            self._wake.notify_all()

    def _put(self, item: QueuedRequest) -> bool:
        """Queue `item`, or ignore it without a queue; return False if too many wait."""
        if not self._requests or self._requests.put(item) or self._stopping:
            return True
        log.warning("%s engine: a request (%s) was dropped, because too many wait", self.name, item.request.words)
        return False

    # -- on the supervising thread

    def _supervise(self) -> None:
        while not self._stopping:
            ended = self._run_process()
            if self._stopping:
                break
            if self._charge(ended):
                self._stay_broken(ended.reason)
            self.restarts += 1
        self._finish()

    def _charge(self, ended: WorkerExit) -> bool:
        """Charge a death to a lab or to the engine, and notify every client; return True if the breaker opens.

        A separate function, so that the supervising thread keeps no reference to a lab.
        """
        with self.lock:
            self.state = "restarting"
            culprit = self._registry.culprit(ended)
            number = culprit.number if culprit else 0
            events = self._registry.on_worker_exit(ended, culprit)
        log.error("%s engine: %s%s", self.name, ended.reason, f" (at work for lab {number})" if number else "")
        self._emit_all(events)
        now = time.monotonic()
        if not number:
            return self._breaker.died(now)
        with self.lock:
            return self._breaker.charged(number, now, self._registry.others_worked)

    def _take_process(self) -> tuple[WorkerProcess, bool]:
        """Return a process, and True for the spare. Without resources, retry with growing pauses.

        During the retries, previously open labs wait and new labs are refused. Raises OSError for any other failure.
        """
        pause, again_at = FIRST_RETRY, 0.0
        while True:
            try:
                return self._standby.take()
            except OSError as error:
                if not out_of_resources(error) or self._stopping:
                    raise
                text = f"the engine {self.name!r} cannot be started: {error.strerror}"
                if error.errno in {errno.EMFILE, errno.ENFILE}:
                    text = f"{text}; {NO_DESCRIPTOR}"
            if time.monotonic() >= again_at:  # opening a lab ends the pause early, but does not double it
                log.warning("%s; tried again in %.1f s", text, pause)
                again_at, pause = time.monotonic() + pause, min(2 * pause, MOST_RETRY)
            with self.lock:
                events = self._registry.refuse_unknown(text)
                events += [(lab, messages.LabClosed()) for lab in self._registry.drop_closing()]
            self._emit_all(events)
            del events
            with self.lock:
                if not self._stopping and not any(not lab.known for lab in self._registry.all()):
                    self._wake.wait(max(0.0, again_at - time.monotonic()))

    def _run_process(self) -> WorkerExit:
        """Run a process until it ends, and return its end. A spare that ends before it is ready does not count."""
        try:
            process, spare = self._take_process()
        except OSError as error:
            time.sleep(POLL)
            return WorkerExit(f"it could not be started: {error}", time.monotonic(), natural=False)
        self._process, self._lived, self._reported = process, False, 0
        self._watchdog = worker_watchdog(process.state, self._deadline, time.monotonic())
        process.begin(self._setup)
        ended = self._listen_until_exit(process)
        return self._run_process() if spare and not self._lived and not self._stopping else ended

    def _listen_until_exit(self, process: WorkerProcess) -> WorkerExit:
        try:
            return self._listen(process)
        except Exception as error:  # a fault of this package: restart; if it repeats, the breaker opens
            log.exception("%s engine: a report could not be dealt with", self.name)
            return WorkerExit(f"its report could not be dealt with: {error}", time.monotonic(), lab=self._reported)
        finally:
            with self.lock:
                self._live, self._busy, self._process = False, None, None
            process.end()
            self._requests.disconnect()  # type: ignore[union-attr]
            process.channel.close()

    def _listen(self, process: WorkerProcess) -> WorkerExit:
        look_at = 0.0
        while True:
            now = time.monotonic()
            if not self._busy:
                self._standby.tend(now)
            if now >= look_at:
                look_at = now + POLL
                self._open_waiting()
            if process.channel.waiting(POLL):
                try:
                    report, descriptors = process.channel.receive()
                except (EOFError, OSError):
                    since, end = time.monotonic(), process.end(STOPPING)
                    return WorkerExit(end.text, since, end.natural)
                if isinstance(report, messages.Fatal):
                    return WorkerExit(report.reason, time.monotonic(), lab=report.lab)
                self._on_report(report, descriptors)
                continue
            now = time.monotonic()
            if loss := self._watchdog.lost(now):
                return WorkerExit(loss.text, self._watchdog.last, natural=loss.kind != "stopped")
            if self._stopping and now > self._stop_by:
                return WorkerExit("it did not stop in time", now)
            self._announce(now)

    def _on_report(self, report: messages.Report, descriptors: list[int]) -> None:
        now = time.monotonic()
        extended = report if isinstance(report, messages.DeadlineExtended) else None
        self._watchdog.sign_of_life(now, extended.seconds if extended else 0.0)
        if isinstance(report, messages.Prepared):
            return
        self._busy = (extended.lab, extended.what, now) if extended and extended.what else None
        if isinstance(report, messages.Ready):
            self._lived = True
            self._connect()
            self._standby.engine_ready(now)
        self.state = "busy" if self._busy else "ready"
        self._reported = report.lab if isinstance(report, messages.LabReport) else 0
        lab: LabState | None = None
        event: messages.Event | None = None
        try:
            if isinstance(report, messages.LabReport) and (lab := self._registry.get(report.lab)):
                if isinstance(report, WORK):
                    lab.worked_at = now
                if isinstance(report, messages.FrameMessage):  # copied without the lock, which would block the page
                    event = lab.frame(report)
                else:
                    with self.lock:
                        event = self._registry.on_report(lab, report, descriptors, now)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if lab and event and (not lab.closing or isinstance(event, messages.LabClosed)):
            self._emit(lab, event)

    def _connect(self) -> None:
        """Open the labs in a ready process. The requests of delayed labs are stored."""
        with self.lock:
            gone = self._registry.drop_closing()
            now = time.monotonic()
            due = self._registry.due(now, self._breaker.unproven_from(now))
            first = [item for lab in due for item in self._registry.opening(lab, now)]
            for lab in self._registry.waiting():
                lab.held += self._requests.withdraw(lab.number)  # type: ignore[union-attr]
            first += [item for lab in due if lab.sent for item in self._release(lab)]
            last = self._registry.after_waiting([lab for lab in due if lab.sent])
            self._requests.connect(self._process.channel, first, last)  # type: ignore[union-attr]
            self._live = True
            if self._stopping:
                self._put(QueuedRequest(messages.Stop(0)))
        self._emit_all((lab, messages.LabClosed()) for lab in gone)

    @staticmethod
    def _release(lab: LabState) -> list[QueuedRequest]:
        """Remove and return the stored requests of a lab."""
        held, lab.held = lab.held, []
        return held

    def _open_due(self) -> None:
        """Open the delayed labs that are due. The caller has acquired the lock, and the process is live."""
        now = time.monotonic()
        for lab in self._registry.due(now, self._breaker.unproven_from(now)):
            for item in self._registry.opening(lab, now):
                self._put(item)
            if lab.sent:
                for item in (*self._release(lab), *self._registry.after_waiting([lab])):
                    self._put(item)

    def _open_waiting(self) -> None:
        """Open the delayed labs that are due, and notify the clients of the others once."""
        with self.lock:
            if not self._live or not self._registry.waiting():
                return
            self._open_due()
            news = [lab for lab in self._registry.waiting() if not lab.waiting_reported]
            for lab in news:
                lab.waiting_reported = True
        self._emit_all((lab, messages.Busy(SHORT_OF_MEMORY if lab.retry_after else WAITING)) for lab in news)

    def _announce(self, now: float) -> None:
        """Send Busy to the client of an operation that has lasted longer than SHORT."""
        if self._busy and now - self._busy[2] > SHORT:
            number, what, _ = self._busy
            self._busy = None
            if lab := self._registry.get(number):
                self._emit(lab, messages.Busy(what))

    def _stay_broken(self, reason: str) -> None:
        """Wait for `retry` or `close`, and notify the clients of all present and new labs.

        A device may recover: once no lab is left, because all were moved to other engines, the engine is tried again
        from time to time.
        """
        tried_at = time.monotonic() + self._breaker.back_off(time.monotonic())
        while True:
            with self.lock:
                self.state = "broken"
                if self._stopping or self._retrying or (time.monotonic() >= tried_at and not self._registry.all()):
                    break
                news = self._registry.on_broken(f"the engine {self.name!r} failed repeatedly; the last time: {reason}")
                if not news:
                    self._wake.wait(max(POLL, tried_at - time.monotonic()))
            self._emit_all(news)
        with self.lock:
            self.state, self._retrying = "restarting", False
            self._registry.on_retry()
        self._breaker.reset()

    def _unsent(self, request: messages.Request, error: Exception) -> None:
        """Report to the client, in order, that a request could not be pickled."""
        log.error("%s engine: request %s cannot be sent", self.name, request.words, exc_info=error)
        if not isinstance(request, messages.Refuse):
            self._put(
                QueuedRequest(messages.Refuse(request.lab, f"{request.words} was given a value that cannot be sent"))
            )

    def _finish(self) -> None:
        self._standby.close()
        with self.lock:
            labs = self._registry.all()
            for lab in labs:
                self._registry.drop(lab)
        self._emit_all((lab, messages.LabClosed()) for lab in labs)
        self._requests.close()  # type: ignore[union-attr]
        self.state = "closed"

    def _emit_all(self, news: Iterable[tuple[LabState, messages.Event]]) -> None:
        for lab, event in news:
            self._emit(lab, event)

    def _emit(self, lab: LabState, event: messages.Event) -> None:
        try:
            lab.on_event(event)
        except Exception:
            log.exception("%s engine: a client failed to take %s", self.name, type(event).__name__)


class EnginePool:
    """Engines by device name ("host", "cuda:0" …), each started on first use; closed at exit.

    options: passed to every Supervisor (deadline, labs).
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._engines: dict[str, Supervisor] = {}
        self._closed = False

    def get(self, name: str) -> Supervisor:
        """Return the engine of a device, starting it if necessary, without waiting. RuntimeError after `close`."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the engine pool is closed")
            if name not in self._engines:
                self._engines[name] = Supervisor(name, **self._options)
                self._engines[name].start()
            return self._engines[name]

    def list(self) -> Mapping[str, Supervisor]:
        """Return the started engines by name."""
        with self._lock:
            return dict(self._engines)

    def close(self) -> None:
        """End all processes and threads of the engines, and wait for them."""
        with self._lock:
            self._closed = True
            engines, self._engines = list(self._engines.values()), {}
        for engine in engines:
            engine.ask_to_stop()
        for engine in engines:
            engine.close()
