"""Feeds the viewers of one page: looks at what it shows some times a second, and encodes it once for all of them.

Nothing is looked at or encoded while nobody views. Pictures are encoded in a thread, at most one at a time a process;
after one that is costly comes a rest.

A picture is PNG with its palette where it is small, as its colours are exact. Else WebP at quality 75 and method 0. Of
512 x 512 levels on two cores WebP takes 4 kB and 11 ms for a diffused field, 37 kB and 24 ms for a Mandelbrot view, 49
kB and 20 ms for noise; PNG 40, 110 and 227 kB in 1 to 10 ms. Noise for 200 phones at 8 frames/s would be 2.9 Gbit/s as
PNG: a lecture hall's network is the narrowest place. Pillow encodes without the interpreter's lock.

A lab that shows lines has them drawn, as for a file; what that costs, the feed waits for.
"""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from app.audience.broadcast import Broadcast, Counts
from compute.export.scene import Scene, Style, colours_of
from compute.frames import NOT_FINITE, Frame
from compute.lab import Lab

MOST_EXACT = 300 * 300  # pixels of a picture that is sent as PNG: 20 kB, noise 80 kB
QUALITY, METHOD = 75, 0  # of WebP: see above
MOST_SIDE = 800  # px
DRAWING = (600, 800)  # (height, width) in px of lines, to be read on a phone
REST, DRAWING_REST = 2.0, 6.0  # times the seconds that a picture took, to the next: a drawing keeps the loop waiting


@dataclass(frozen=True)
class Picture:
    """What one frame of a lab looks like on the lecturer's page. part: its main raster, "" for a drawing of lines."""

    lab: type[Lab]
    frame: Frame
    part: str
    style: Style

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and self.frame is other.frame and self.style == other.style

    def __hash__(self) -> int:
        return hash((id(self.frame), self.style))

    @classmethod
    def of(cls, lab: type[Lab], frame: Frame, style: Style) -> Picture:
        """The main picture of a frame."""
        return cls(lab, frame, next(iter(frame.rasters), ""), style)

    def encode(self) -> tuple[bytes, float]:
        """Return the picture as PNG or WebP, and the seconds until the next one may be encoded."""
        start = time.thread_time()
        if self.part:
            raster = self.frame.rasters[self.part]
            image = coloured_image(raster.levels, self.style, self.lab.APART, raster.waiting)
        else:
            image = self._drawn()
        if max(image.size) > MOST_SIDE:
            image = image.convert("RGB")
            image.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.BOX)
        if image.mode == "P" and image.width * image.height <= MOST_EXACT:
            data = saved(image, "PNG", compress_level=1)
        else:
            data = saved(image.convert("RGB"), "WEBP", quality=QUALITY, method=METHOD)
        return data, (REST if self.part else DRAWING_REST) * (time.thread_time() - start)

    def _drawn(self) -> Image.Image:
        """Return the drawing of the lab's first panel."""
        from compute.export import figures  # matplotlib, which most lectures do without

        scene = Scene(self.lab.LAB, {}, size=DRAWING, look=self.style)
        return Image.fromarray(figures.pixels(self.lab, self.frame, scene))


def saved(image: Image.Image, form: str, **options: int) -> bytes:
    """Return a file of the image in the format `form`."""
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def coloured_image(
    levels: NDArray[np.uint8], style: Style, apart: tuple[int, int, int], waiting: bool = False
) -> Image.Image:
    """Return `levels` (height, width), row 0 the lowest, as an image with the palette of `style`; no number in `apart`.

    waiting: as of a Raster. It is `coloured` of compute/export/scene.py, without the interpreter's lock and seven times
    as fast.
    """
    whole = colours_of(style, apart, waiting)
    height, width = levels.shape
    image = Image.frombytes("P", (width, height), np.minimum(levels[::-1], NOT_FINITE).tobytes())
    image.putpalette(whole.tobytes())
    return image


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
    def viewed(self) -> bool:
        """Whether somebody follows, or a window of the lecturer is open."""
        return bool(len(self.followers) or len(self.windows))

    async def _run(self) -> None:
        """Look until nobody views."""
        due = time.monotonic()
        self._words_at = 0.0
        while self.viewed:
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
