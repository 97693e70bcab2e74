"""Says what holds the loop that all tabs share: a switch for who works on the page, off by itself.

FIELDLAB_LOOP_LIMIT=20 logs every callback that keeps the loop longer than 20 ms, with the innermost lines of the
project and of its libraries that a look at it has found. The time is the thread's own on a processor, so that a busy
machine accuses nobody.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

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
        """End."""
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
