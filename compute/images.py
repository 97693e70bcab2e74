"""Pictures that people bring, as fields. What arrives is untrusted: type, bytes and pixels are bounded."""

from __future__ import annotations

import io
import struct
import zlib

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
    if len(data) > MAX_BYTES:
        raise ValueError(f"image must be at most {MAX_BYTES / 2**20:.0f} MB, not {len(data) / 2**20:.1f} MB")
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
    try:
        return ImageOps.exif_transpose(picture).convert("L")
    except BROKEN as error:
        raise ValueError(f"image is damaged and cannot be read: {str(error)[:200]}") from error


def as_field(picture: Image.Image, ny: int, nx: int) -> NDArray[np.float64]:
    """The picture's brightness, 0 … 1, as (ny, nx) float64 with row 0 at the bottom.

    Centre-cropped to the grid's shape, then resampled by area.
    """
    resized = ImageOps.fit(picture, (nx, ny), method=Image.Resampling.BOX if nx < picture.width else
                           Image.Resampling.BICUBIC)
    return np.asarray(resized, np.float64)[::-1] / 255
