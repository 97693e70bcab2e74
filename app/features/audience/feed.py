"""Frame source of one page's viewers: polls the page several times a second and encodes each picture once.

Polling and encoding stop without viewers. Encoding runs in a thread, one picture at a time per process;
after an expensive picture the feed pauses.

Small pictures are sent as PNG with a palette, which preserves their colours exactly, larger ones as WebP with quality
75 and method 0. For 512 x 512 levels on two cores, WebP takes 4 kB and 11 ms for a diffused field, 37 kB and 24 ms for
a Mandelbrot view, and 49 kB and 20 ms for noise; PNG takes 40, 110 and 227 kB in 1 to 10 ms. Noise for 200 phones at 8
frames/s would need 2.9 Gbit/s as PNG: the network of a lecture hall is the bottleneck. Pillow releases the GIL while
encoding.

A lab that shows lines is drawn by matplotlib as for an exported file; the feed pauses in proportion to the time taken.
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

from app.features.audience.broadcast import Broadcast, Counts
from compute.export.scene import Scene, Style, colours_of
from compute.lab.frames import NOT_FINITE, Frame
from compute.lab.lab import Lab

MOST_EXACT = 300 * 300  # pixels of the largest PNG: 20 kB, 80 kB for noise
QUALITY, METHOD = 75, 0  # of WebP, see above
MOST_SIDE = 800  # px
DRAWING = (600, 800)  # (height, width) in px of a line plot, legible on a phone
REST, DRAWING_REST = 2.0, 6.0  # pause per second of encoding; higher for drawings, which block the event loop


@dataclass(frozen=True)
class Picture:
    """One frame of a lab as the lecturer's page shows it. part: name of the main raster, "" for a drawing of lines."""

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
        """Return the main picture of a frame."""
        return cls(lab, frame, next(iter(frame.rasters), ""), style)

    def encode(self) -> tuple[bytes, float]:
        """Return the picture as PNG or WebP, and the pause in s before the next picture may be encoded."""
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
        """Return a drawing of the lab's first panel."""
        from compute.export import figures  # imports matplotlib, which most lectures do not need

        scene = Scene(self.lab.LAB, {}, size=DRAWING, look=self.style)
        return Image.fromarray(figures.pixels(self.lab, self.frame, scene))


def saved(image: Image.Image, form: str, **options: int) -> bytes:
    """Return the image encoded in the format `form`."""
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def coloured_image(
    levels: NDArray[np.uint8], style: Style, apart: tuple[int, int, int], waiting: bool = False
) -> Image.Image:
    """Return `levels` (height, width), row 0 at the bottom, as an image with the palette of `style`.

    apart: colour of cells without a number; waiting: as in Raster. Equivalent to `coloured` of compute/export/scene.py,
    but releases the GIL and is seven times as fast.
    """
    whole = colours_of(style, apart, waiting)
    height, width = levels.shape
    image = Image.frombytes("P", (width, height), np.minimum(levels[::-1], NOT_FINITE).tobytes())
    image.putpalette(whole.tobytes())
    return image


INTERVAL = 0.11  # s between pictures: nine per second, of which an unconfirmed text message costs one
WORDS_INTERVAL = 0.4  # s between polls of the text
ACTS = ("next", "previous", "freeze", "vote")  # commands of a lecturer's window
log = logging.getLogger(__name__)


class Subject(Protocol):
    """The page that a feed polls. Its methods must be cheap."""

    def picture(self) -> Picture | None:
        """Return the picture of the page; None before the first frame."""

    def words(self) -> dict[str, Any]:
        """Return the page's text and values for followers."""

    def notes(self) -> dict[str, Any]:
        """Return additional data for the lecturer's windows."""

    def acts(self) -> Mapping[str, Callable[[], object]]:
        """Return the callback of each command in ACTS."""

    def vote(self, number: int, token: str, choice: int) -> str:
        """Count a follower's choice in vote `number`; return the confirmation, or raise VoteRefused."""


@cache
def encoder() -> ThreadPoolExecutor:
    """Return the thread of this process that encodes pictures."""
    return ThreadPoolExecutor(1, "audience")


class PageFeed:
    """The viewers of one page: `followers` of its room and `windows` of its lecturer."""

    def __init__(self, subject: Subject, counts: Counts) -> None:
        self._subject = subject
        self.followers, self.windows = Broadcast(counts), Broadcast()
        self.encoded = 0  # number of pictures
        self._task: asyncio.Task[None] | None = None
        self._shown: Picture | None = None
        self._words_at = 0.0
        self._complained = False

    def wake(self) -> None:
        """Start polling for a new viewer unless it is running."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def act(self, name: str) -> None:
        """Run a command of ACTS and send its result with the next poll."""
        self._subject.acts()[name]()
        self._words_at = 0.0

    def vote(self, number: int, token: str, choice: int) -> str:
        """Count a follower's choice in vote `number`; return the confirmation, or raise VoteRefused."""
        return self._subject.vote(number, token, choice)

    @property
    def viewed(self) -> bool:
        """Whether at least one follower or lecturer's window is connected."""
        return bool(len(self.followers) or len(self.windows))

    async def _run(self) -> None:
        """Poll until the last viewer leaves."""
        due = time.monotonic()
        self._words_at = 0.0
        while self.viewed:
            rest = 0.0
            try:
                rest = await self._turn()
            except Exception:
                if not self._complained:  # log only the first error: it may recur with every poll
                    self._complained = True
                    log.exception("the content of a page cannot be sent to its followers")
            now = time.monotonic()
            due = max(due + max(INTERVAL, rest), now)
            await asyncio.sleep(due - now)

    async def _turn(self) -> float:
        """Poll once and return the pause in s. The picture goes first: an unconfirmed text message would delay it."""
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
        """Broadcast the latest picture if a viewer is ready to receive it; return the pause in s before the next."""
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
