"""Keeps the event loop that all tabs share responsive: schedules garbage collection, and logs slow callbacks.

A full garbage collection takes time in proportion to all live objects: 0.4 s with 16 tabs, 0.9 s with 40. Python runs
it automatically while pages are opened, Bokeh at the end of each session, Panel a few seconds later. `Collector` runs
it only after several tabs were closed: the objects of closed pages are kept until these are a quarter as many as the
open ones. Young generations are collected as usual.

`LoopWatch` is a development aid, off by default. FIELDLAB_LOOP_LIMIT=20 logs every callback that blocks the loop for
longer than 20 ms, with the innermost stack lines of the project and of its libraries that a sample found. The time is
the thread's CPU time, so a busy machine causes no false reports.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from bokeh.application import Application

from app.server.admission import session_limiter
from app.upstream.internals import document_of, replace_collections
from compute.machine.freed_memory import give_back

log = logging.getLogger(__name__)

VARIABLE = "FIELDLAB_LOOP_LIMIT"
LOOKS = 4  # samples within the time that a callback may take
LINES = 4  # logged stack lines: the innermost of the project, then the innermost of all
ROOT = Path(__file__).resolve().parents[2]


def limit() -> float | None:
    """Return the seconds that a callback may take, None if the variable is unset; ValueError for an invalid value."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{VARIABLE} must be a whole number of milliseconds of at least 1, not {text!r}")
    return int(text) / 1000


class LoopWatch:
    """Time each callback of the event loop in the thread that calls `install`, and report slow ones.

    report(seconds, where) is called for each slow callback; the default logs it.
    """

    def __init__(self, seconds: float, report: Callable[[float, str], None] | None = None) -> None:
        self._limit, self._report = seconds, report or _log
        self._thread = threading.get_ident()
        self._began = 0.0
        self._seen = ""
        self._ended = threading.Event()

    def install(self) -> None:
        """Start timing callbacks, and a thread that samples the stack."""
        run = asyncio.events.Handle._run  # noqa: SLF001 asyncio times callbacks in its debug mode only, which is slow

        def timed(handle: asyncio.Handle) -> None:
            """Run a callback, and report a slow one."""
            if threading.get_ident() != self._thread or self._ended.is_set():
                run(handle)
                return
            start, self._seen, self._began = time.thread_time(), "", time.perf_counter()
            try:
                run(handle)
            finally:
                self._began, took = 0.0, time.thread_time() - start
            if took > self._limit:
                self._report(took, self._seen or repr(handle))

        asyncio.events.Handle._run = timed  # type: ignore[assignment,method-assign]  # noqa: SLF001 as above
        threading.Thread(target=self._look, name="loop watch", daemon=True).start()

    def close(self) -> None:
        """Stop the sampling thread."""
        self._ended.set()

    def _look(self) -> None:
        """Sample the stack of the loop's thread while a callback is slow."""
        while not self._ended.wait(self._limit / LOOKS):
            began = self._began
            if began and time.perf_counter() - began > self._limit / 2:
                frame = sys._current_frames().get(self._thread)  # noqa: SLF001 documented, for debugging
                if frame is not None and self._began == began:
                    self._seen = place(frame)


def place(frame: FrameType) -> str:
    """Return the innermost lines of a stack: those of the project, then the current one."""
    stack = traceback.extract_stack(frame)
    own = [line for line in stack if Path(line.filename).is_relative_to(ROOT / "app") and line.filename != __file__]
    lines = [*reversed(own[-LINES:]), stack[-1]]
    return " < ".join(f"{Path(line.filename).name}:{line.lineno} {line.name}" for line in lines)


def _log(seconds: float, where: str) -> None:
    log.warning("the loop was held %.0f ms: %s", 1000 * seconds, where)


def install() -> None:
    """Watch the event loop of this thread if FIELDLAB_LOOP_LIMIT is set."""
    seconds = limit()
    if seconds is not None:
        LoopWatch(seconds).install()


# -- when Python collects the oldest generation

SHARE = 4  # collect when there are at most this many open pages per closed one
# Collections of the middle generation (3.5 million new objects) after which Python collects the oldest one anyway.
RARELY = 500


class Collector:
    """Counts ended sessions and collects their objects. pages: return the number of open pages."""

    def __init__(self, pages: Callable[[], int]) -> None:
        self._pages = pages
        self.ended = 0  # sessions since the last collection

    def session_ended(self, session_context: Any) -> None:
        """Run the session's destroyed callbacks as Bokeh does, but without a full garbage collection."""
        document = document_of(session_context)
        callbacks, document.session_destroyed_callbacks = document.session_destroyed_callbacks, set()
        for callback in callbacks:
            try:
                callback(session_context)
            except Exception:
                log.exception("the end of a session")
        self.ended += 1

    def look(self) -> None:
        """Run a garbage collection and return freed memory to the system, if enough sessions have ended."""
        if self.ended and SHARE * self.ended >= self._pages():
            self.ended = 0
            gc.collect()
            give_back()

    def install(self, application: Application) -> None:
        """Replace the collections that Bokeh (for `application`), Panel and Python run."""
        gc.set_threshold(*gc.get_threshold()[:2], RARELY)
        replace_collections(self.look, application.handlers, self.session_ended)


@cache
def collector() -> Collector:
    """Return the collector of this process."""
    return Collector(lambda: len(session_limiter().pages))
