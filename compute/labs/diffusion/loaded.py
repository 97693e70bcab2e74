"""An image that somebody has loaded as the initial field."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from compute.images import Kept, as_field, fingerprint, read_image

WORTH_TRYING = 4  # cells for each byte allowed: a photograph in grey has about one byte for two cells


@dataclass(frozen=True)
class Loaded:
    """data: the bytes of the file; picture: what it shows, in grey."""

    data: bytes
    picture: Image.Image

    @classmethod
    def read(cls, data: bytes) -> Loaded:
        """A PNG or JPEG file; ValueError says why it is refused."""
        return cls(data, read_image(data))

    def field(self, ny: int, nx: int) -> NDArray[np.float64]:
        """(ny, nx) brightness, 0 … 1."""
        return as_field(self.picture, ny, nx)

    @cached_property
    def fingerprint(self) -> str:
        """Tells this file from others."""
        return fingerprint(self.data)

    def kept(self, ny: int, nx: int) -> Kept:
        """The part of the picture that the (ny, nx) field shows."""
        return Kept.of(self.picture, ny, nx)

    def small(self, ny: int, nx: int, most: int) -> bytes | None:
        """A file of at most `most` bytes that gives the same (ny, nx) field: this one, or a PNG of the field's size.

        None if there is none.
        """
        if len(self.data) <= most:
            return self.data
        if ny * nx > WORTH_TRYING * most:
            return None
        grey = np.rint(255 * self.field(ny, nx)[::-1]).astype(np.uint8)
        out = io.BytesIO()
        Image.fromarray(grey).save(out, "PNG")
        return out.getvalue() if out.tell() <= most else None
