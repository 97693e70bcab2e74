"""Feeds the viewers of one page: looks at what it shows some times a second, and encodes it once for all of them.

Nothing is looked at or encoded while nobody views. Pictures are encoded in a thread, at most one at a time a process;
after one that is costly comes a rest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Protocol

from app.audience.broadcast import Broadcast, Counts
from app.audience.pictures import Picture

INTERVAL = 0.11  # seconds between two pictures: nine a second, of which words under way cost one
WORDS_INTERVAL = 0.4  # seconds between two looks at the words
ACTS = ("next", "previous", "freeze")  # what a lecturer's window may ask for
log = logging.getLogger(__name__)


class Subject(Protocol):
    """What is fed: a page. Looking at it must cost next to nothing."""

    def picture(self) -> Picture | None:
        """What it shows; None before there is something."""

    def words(self) -> dict[str, Any]:
        """What it says, for followers."""

    def notes(self) -> dict[str, Any]:
        """What it says to the lecturer's windows beside that."""

    def acts(self) -> Mapping[str, Callable[[], object]]:
        """What each of ACTS does."""


@cache
def encoder() -> ThreadPoolExecutor:
    """The thread of this process in which pictures are encoded."""
    return ThreadPoolExecutor(1, "audience")


class PageFeed:
    """The viewers of one page: `followers` of its room, and `windows` of its lecturer."""

    def __init__(self, subject: Subject, counts: Counts) -> None:
        self._subject = subject
        self.followers, self.windows = Broadcast(counts), Broadcast()
        self.encoded = 0  # pictures
        self._task: asyncio.Task[None] | None = None
        self._shown: Picture | None = None
        self._words_at = 0.0
        self._complained = False

    def wake(self) -> None:
        """Somebody has come: begin to look, unless that goes on."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def act(self, name: str) -> None:
        """Do one of ACTS, and show what came of it soon."""
        self._subject.acts()[name]()
        self._words_at = 0.0

    @property
    def _viewed(self) -> bool:
        return bool(len(self.followers) or len(self.windows))

    async def _run(self) -> None:
        """Look until nobody views."""
        due = time.monotonic()
        self._words_at = 0.0
        while self._viewed:
            rest = 0.0
            try:
                rest = await self._turn()
            except Exception:
                if not self._complained:  # it would be said some times a second
                    self._complained = True
                    log.exception("what a page shows cannot be sent to its followers")
            now = time.monotonic()
            due = max(due + max(INTERVAL, rest), now)
            await asyncio.sleep(due - now)

    async def _turn(self) -> float:
        """Look once; returns the seconds until the next picture. Words that were under way would have that one wait."""
        rest = await self._show_picture()
        self._tell_words()
        return rest

    def _tell_words(self) -> None:
        now = time.monotonic()
        if now - self._words_at < WORDS_INTERVAL:
            return
        self._words_at = now
        words = self._subject.words()
        if len(self.followers):
            self.followers.show_state(words)
        if len(self.windows):
            self.windows.show_state({**words, **self._subject.notes()})

    async def _show_picture(self) -> float:
        """Show the newest picture, if somebody can take it; returns the seconds until the next."""
        picture = self._subject.picture()
        if picture is None or picture == self._shown or not (self.followers.ready or self.windows.ready):
            return 0.0
        at = time.monotonic()
        data, rest = await asyncio.get_running_loop().run_in_executor(encoder(), picture.encode)
        self._shown = picture
        self.encoded += 1
        for viewers in (self.followers, self.windows):
            viewers.show_picture(data, at)
        return rest
