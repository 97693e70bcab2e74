"""The picture that followers get: the lecturer's main picture, encoded once for all of them.

PNG with its palette where the picture is small, as its colours are exact. Else WebP at quality 75 and
method 0. Of 512 x 512 levels on two cores WebP takes 4 kB and 11 ms for a diffused field, 37 kB and 24 ms for a
Mandelbrot view, 49 kB and 20 ms for noise; PNG 40, 110 and 227 kB in 1 to 10 ms. Noise for 200 phones at 8 frames/s
would be 2.9 Gbit/s as PNG: a lecture hall's network is the narrowest place. Pillow encodes without the interpreter's
lock, in a thread of the feed's own.

A lab that shows lines has them drawn, as for a file; what that costs, the feed waits for.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from compute.display.palettes import table
from compute.export.scene import Scene, Style
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
            image = coloured_image(self.frame.rasters[self.part].levels, self.style, self.lab.APART)
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


def coloured_image(levels: NDArray[np.uint8], style: Style, apart: tuple[int, int, int]) -> Image.Image:
    """Return `levels` (height, width), row 0 the lowest, as an image with the palette of `style`; no number in `apart`.

    It is `coloured` of compute/export/scene.py, without the interpreter's lock and seven times as fast.
    """
    colours = table(style.palette)
    colours = np.roll(colours[::-1] if style.reverse else colours, -round(style.offset * len(colours)), axis=0)
    whole = np.concatenate([colours, np.array([apart], np.uint8)])
    height, width = levels.shape
    image = Image.frombytes("P", (width, height), np.minimum(levels[::-1], NOT_FINITE).tobytes())
    image.putpalette(whole.tobytes())
    return image
