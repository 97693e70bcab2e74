"""The limit on open pages: one object a server process, which counts them and owns the engines that they share.

A page counts from when its browser says that it is ready, never by a bare GET, until its session ends. Whether a page
is built at all is decided before: app.admission.
"""

from __future__ import annotations

import atexit
import os
from functools import cache
from typing import TYPE_CHECKING

from compute.engine import EnginePool

if TYPE_CHECKING:
    from app.page import Page

DEFAULT_LIMIT = 64  # one process serves about 60 clients at 14 frames/s


class SessionLimiter:
    """The engines of this process and the pages that use them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.pages: dict[Page, str] = {}
        self._engines: EnginePool | None = None

    @property
    def engines(self) -> EnginePool:
        """The engines, started when first asked for."""
        if self._engines is None:
            self._engines = EnginePool()
            atexit.register(self._engines.close)
        return self._engines

    def warm(self) -> None:
        """Start the host's engine, so that the first visitor does not wait for its process. Returns at once."""
        self.engines.get("host")

    @property
    def full(self) -> bool:
        """Whether no further page may be opened."""
        return len(self.pages) >= self.limit

    @property
    def ready(self) -> set[str]:
        """Ids of the sessions whose pages are open."""
        return set(self.pages.values())

    def add(self, page: Page, session: str) -> None:
        """Count `page`, which belongs to the session of that id, as open."""
        self.pages[page] = session

    def remove(self, page: Page) -> None:
        """Forget `page`; harmless if it was never counted."""
        self.pages.pop(page, None)


def session_limit() -> int:
    """FIELDLAB_MAX_SESSIONS, or the default; ValueError if it is not a positive whole number."""
    text = os.environ.get("FIELDLAB_MAX_SESSIONS", str(DEFAULT_LIMIT))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"FIELDLAB_MAX_SESSIONS must be a whole number of at least 1, not {text!r}")
    return int(text)


@cache
def session_limiter() -> SessionLimiter:
    """This process's limiter."""
    return SessionLimiter(session_limit())
