"""Pictures that people bring, as fields. What arrives is untrusted: type, bytes and pixels are bounded."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

MAX_BYTES = 16 * 2**20  # below the 20 MB at which the browser's socket is reset
MAX_PIXELS = 50_000_000
FORMATS = ("PNG", "JPEG")
BROKEN = (  # what Pillow raises for damaged files
    OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError,
    MemoryError, struct.error, zlib.error,
)  # fmt: skip


def read_image(data: bytes) -> Image.Image:
    """A grey picture from the bytes of a PNG or JPEG file, turned upright by its EXIF orientation.

    Raises ValueError for another type, a damaged file, more than MAX_BYTES bytes or more than MAX_PIXELS pixels.
    """
    picture = open_image(data)
    try:
        return _grey(ImageOps.exif_transpose(picture))
    except BROKEN as error:
        raise ValueError(f"image is damaged and cannot be read: {str(error)[:200]}") from error


def open_image(data: bytes) -> Image.Image:
    """The picture of a PNG or JPEG file, of which only the head is read: a few bytes may hold millions of pixels.

    Raises ValueError as `read_image`, but for damage behind the head.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"image must be at most {MAX_BYTES / 2**20:.0f} MiB, not {len(data) / 2**20:.1f} MiB")
    try:
        picture = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError("image must be a PNG or JPEG file; this file is neither") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"image must have at most {MAX_PIXELS:,} pixels; this one has far more") from error
    except BROKEN as error:
        raise ValueError(f"image is damaged and cannot be read: {type(error).__name__}") from error
    if picture.width * picture.height > MAX_PIXELS:
        raise ValueError(f"image must have at most {MAX_PIXELS:,} pixels, not {picture.width} x {picture.height}")
    return picture


def _grey(picture: Image.Image) -> Image.Image:
    """The picture in 256 levels of grey; of 65 536 levels Pillow would make white all above the lowest 255."""
    if picture.mode == "I" or picture.mode.startswith("I;16"):
        return Image.fromarray(np.clip(np.asarray(picture) // 257, 0, 255).astype(np.uint8))
    return picture.convert("L")


def fitted(picture: Image.Image, ny: int, nx: int) -> Image.Image:
    """The picture centre-cropped to the shape of ny x nx cells, then resampled by area to a pixel a cell."""
    method = Image.Resampling.BOX if nx < picture.width else Image.Resampling.BICUBIC
    return ImageOps.fit(picture, (nx, ny), method=method)


def as_field(picture: Image.Image, ny: int, nx: int) -> NDArray[np.float64]:
    """The picture's brightness, 0 … 1, as (ny, nx) float64 with row 0 at the bottom; `fitted` to the grid."""
    return np.asarray(fitted(picture, ny, nx), np.float64)[::-1] / 255


@dataclass(frozen=True)
class Kept:
    """The part of a picture that `as_field` takes: columns x0 to x1 and rows y0 to y1, from the top, of width x height
    pixels, rounded to whole ones.
    """

    width: int
    height: int
    x0: int
    y0: int
    x1: int
    y1: int

    @classmethod
    def of(cls, picture: Image.Image, ny: int, nx: int) -> Kept:
        """The largest part in the middle with the shape of ny x nx."""
        width, height = picture.size
        across, down = min(width, height * nx / ny), min(height, width * ny / nx)
        x0, y0 = round((width - across) / 2), round((height - down) / 2)
        return cls(width, height, x0, y0, x0 + max(1, round(across)), y0 + max(1, round(down)))

    @property
    def whole(self) -> bool:
        """Whether nothing is cut off."""
        return (self.x0, self.y0, self.x1, self.y1) == (0, 0, self.width, self.height)

    @property
    def words(self) -> str:
        """As in "the middle 90 × 90 of 120 × 90 pixels"."""
        if self.whole:
            return f"all of its {self.width} × {self.height} pixels"
        return f"the middle {self.x1 - self.x0} × {self.y1 - self.y0} of {self.width} × {self.height} pixels"


def fingerprint(*files: bytes) -> str:
    """Sixteen hexadecimal digits that tell these files from others, so that a frame can say what it was made of."""
    digest = blake2b(digest_size=8)
    for data in files:
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
