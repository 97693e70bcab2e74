"""Keeps the loop free that all tabs share: collects memory when that is worth it, and says what holds it.

Python's search for what nobody uses any more takes time in proportion to everything there is: 0.4 s with 16 tabs, 0.9 s
with 40. Python does it by itself as pages are opened, Bokeh whenever a session ends, Panel a few seconds after that.
`Collector` does it when tabs were closed, some of them at a time: what closed ones leave is kept until they are a
quarter as many as the open ones. Young objects are collected as ever.

`LoopWatch` is a switch for who works on the page, off by itself. FIELDLAB_LOOP_LIMIT=20 logs every callback that keeps
the loop longer than 20 ms, with the innermost lines of the project and of its libraries that a look at it has found.
The time is the thread's own on a processor, so that a busy machine accuses nobody.
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

from app.admission import session_limiter
from app.upstream.internals import document_of, replace_collections
from compute.freed_memory import give_back

log = logging.getLogger(__name__)

VARIABLE = "FIELDLAB_LOOP_LIMIT"
LOOKS = 4  # looks at a callback in the time that it may take
LINES = 4  # of the stack that are logged: the innermost of the project, then the innermost of all
ROOT = Path(__file__).resolve().parent.parent


def limit() -> float | None:
    """Return the seconds that a callback may take, None if nobody wants to know; ValueError for what is no number."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{VARIABLE} must be a whole number of milliseconds of at least 1, not {text!r}")
    return int(text) / 1000


class LoopWatch:
    """Times each callback of the loop of the thread that calls `install`; told(seconds, where) is called for slow ones.

    told: by itself it is logged.
    """

    def __init__(self, seconds: float, told: Callable[[float, str], None] | None = None) -> None:
        self._limit, self._told = seconds, told or _log
        self._thread = threading.get_ident()
        self._began = 0.0
        self._seen = ""
        self._ended = threading.Event()

    def install(self) -> None:
        """Begin. Looks come from a thread of their own."""
        run = asyncio.events.Handle._run  # noqa: SLF001 asyncio times callbacks in its debug mode only, which is slow

        def timed(handle: asyncio.Handle) -> None:
            """Run a callback."""
            if threading.get_ident() != self._thread or self._ended.is_set():
                run(handle)
                return
            start, self._seen, self._began = time.thread_time(), "", time.perf_counter()
            try:
                run(handle)
            finally:
                self._began, took = 0.0, time.thread_time() - start
            if took > self._limit:
                self._told(took, self._seen or repr(handle))

        asyncio.events.Handle._run = timed  # type: ignore[assignment,method-assign]  # noqa: SLF001 as above
        threading.Thread(target=self._look, name="loop watch", daemon=True).start()

    def close(self) -> None:
        """End the watching thread."""
        self._ended.set()

    def _look(self) -> None:
        """See where the loop is, while a callback takes long."""
        while not self._ended.wait(self._limit / LOOKS):
            began = self._began
            if began and time.perf_counter() - began > self._limit / 2:
                frame = sys._current_frames().get(self._thread)  # noqa: SLF001 documented, for debugging
                if frame is not None and self._began == began:
                    self._seen = place(frame)


def place(frame: FrameType) -> str:
    """Return the innermost lines of a stack: those of the project, and where it is now."""
    stack = traceback.extract_stack(frame)
    own = [line for line in stack if Path(line.filename).is_relative_to(ROOT / "app") and line.filename != __file__]
    lines = [*reversed(own[-LINES:]), stack[-1]]
    return " < ".join(f"{Path(line.filename).name}:{line.lineno} {line.name}" for line in lines)


def _log(seconds: float, where: str) -> None:
    log.warning("the loop was held %.0f ms: %s", 1000 * seconds, where)


def install() -> None:
    """Watch the loop of this thread if FIELDLAB_LOOP_LIMIT asks for it."""
    seconds = limit()
    if seconds is not None:
        LoopWatch(seconds).install()


# -- when Python looks through all of its memory

SHARE = 4  # open pages for each closed one that is worth it
RARELY = 500  # collections of what is not so young any more, 3.5 million new objects, after which Python does it anyway


class Collector:
    """Counts sessions that have ended, and collects what they leave. pages: how many pages are open."""

    def __init__(self, pages: Callable[[], int]) -> None:
        self._pages = pages
        self.ended = 0  # since the last time

    def session_ended(self, session_context: Any) -> None:
        """Do what Bokeh does at the end of a session, but for looking through all memory."""
        document = document_of(session_context)
        callbacks, document.session_destroyed_callbacks = document.session_destroyed_callbacks, set()
        for callback in callbacks:
            try:
                callback(session_context)
            except Exception:
                log.exception("the end of a session")
        self.ended += 1

    def look(self) -> None:
        """Collect, and give the memory back, if enough sessions have ended."""
        if self.ended and SHARE * self.ended >= self._pages():
            self.ended = 0
            gc.collect()
            give_back()

    def install(self, application: Application) -> None:
        """Take the place of Bokeh's collection at the end of each session of `application`, Panel's, and Python's."""
        gc.set_threshold(*gc.get_threshold()[:2], RARELY)
        replace_collections(self.look, application.handlers, self.session_ended)


@cache
def collector() -> Collector:
    """This process's collector."""
    return Collector(lambda: len(session_limiter().pages))
