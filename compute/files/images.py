"""Uploaded pictures as fields. Files are untrusted: their structure is checked before Pillow decodes them.

`essential` reads the markers of a PNG or JPEG file and decodes nothing. It refuses a picture with too many pixels, too
long a side, or too many scans, chunks or frames, and returns a stripped file with the first picture only: Pillow never
parses text, colour profiles, EXIF records or further frames. `LoadedPicture.read` decodes the stripped file and reduces
it to at most KEPT_PIXELS pixels, as means of squares of pixels in integer arithmetic. So a notebook, an engine and a
replay of a file get identical fields on every machine.

The page decodes pictures in a child process (compute/export/decoding.py), which limits time and memory as well.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import ceil, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from compute.lab.history import MOST_CHARACTERS
from compute.lab.loaded import LoadedFile, fingerprint

MAX_BYTES = 16 * 2**20  # below the 20 MB at which the browser's socket is reset
MAX_PIXELS = 50_000_000
LONGEST_SIDE = 2**15  # pixels; one row at a time costs far more than its pixels
MOST_SCANS = 64  # of a progressive JPEG; each passes over the whole picture, and encoders write about ten
MOST_PARTS = 20_000  # chunks of a PNG, segments of a JPEG
MOST_FRAMES = 1000  # of an animated PNG, of which the first is shown
MOST_ABOUT = 4 * 2**20  # bytes of text, colour profiles and EXIF in one file
KEPT_PIXELS = 2**22  # of a decoded picture: 4 MiB in 8 bits
KEPT_FILE = MOST_CHARACTERS // 2  # bytes of a file that fit in a history; a larger file is not kept
WORTH_TRYING = 4  # cells per permitted byte: a photograph in grey needs about one byte for two cells
STRIP = 2**20  # pixels that are converted to grey at a time

BROKEN = (  # raised by Pillow for damaged files
    OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError,
    struct.error, zlib.error,
)  # fmt: skip

Levels = NDArray[Any]  # grey levels: uint8, or uint16 of a picture in 16 bits; row 0 at the top

# -- the structure of a file


@dataclass(frozen=True)
class Essential:
    """The structure of a file before it is decoded.

    kind: Pillow's class for the format; width, height: pixels as stored; orientation: EXIF's number from 1 to 8; parts:
    slices of the file, which joined are a file with only the first picture.
    """

    kind: type[PngImageFile | JpegImageFile]
    width: int
    height: int
    orientation: int
    parts: tuple[memoryview, ...]


def essential(data: bytes) -> Essential:
    """Check the structure of a PNG or JPEG file without decoding it.

    Raises ValueError, which names the bound, for another type of file, for damage that the structure shows, and for
    more than MAX_BYTES, MAX_PIXELS, LONGEST_SIDE, MOST_SCANS, MOST_PARTS, MOST_FRAMES or MOST_ABOUT.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"image must be at most {MAX_BYTES / 2**20:.0f} MiB, not {len(data) / 2**20:.1f} MiB")
    if data[:8] == PNG and data[12:16] == b"IHDR":
        found = _png(data)
    elif data[:3] == b"\xff\xd8\xff":
        found = _jpeg(data)
    else:
        raise ValueError("image must be a PNG or JPEG file; this file is neither")
    width, height = found.width, found.height
    if not (width and height):
        raise ValueError(f"image must have pixels, not {width} x {height}")
    if max(width, height) > LONGEST_SIDE:
        raise ValueError(f"image must have at most {LONGEST_SIDE:,} pixels a side, not {width} x {height}")
    if width * height > MAX_PIXELS:
        raise ValueError(f"image must have at most {MAX_PIXELS:,} pixels, not {width} x {height}")
    return found


PNG = b"\x89PNG\r\n\x1a\n"
PICTURE_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
FRAME_CHUNKS = (b"acTL", b"fcTL", b"fdAT")  # of an animated PNG
CHUNK_HEAD = struct.Struct(">I4s")
CHUNK_OVERHEAD = 12  # bytes of a chunk in addition to its contents: length, type, checksum


def _png(data: bytes) -> Essential:
    """Keep the chunks of the first picture. Pillow refuses a truncated file later."""
    whole = memoryview(data)
    parts, about, exif = [whole[:8]], 0, b""
    at, chunks, frames = 8, 0, 0
    while at + 8 <= len(data):
        length, kind = CHUNK_HEAD.unpack_from(data, at)
        end = at + CHUNK_OVERHEAD + length
        chunks += 1
        _require_count("chunks", chunks, MOST_PARTS)
        if kind in PICTURE_CHUNKS:
            parts.append(whole[at:end])
        elif kind in FRAME_CHUNKS:
            frames += kind == b"fcTL"
            _require_count("frames", frames, MOST_FRAMES)
        else:
            about += length
            _require_about(about)
            exif = data[at + 8 : end - 4] if kind == b"eXIf" else exif
        if kind == b"IEND":
            break
        at = end
    width, height = struct.unpack_from(">II", data, 16) if len(data) >= 24 else (0, 0)
    return Essential(PngImageFile, width, height, _orientation(exif), tuple(parts))


MARKER = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])")  # except FF 00 and restarts, which occur within a scan
ALONE = (0x01, 0xD8)  # markers without a segment: TEM, and a further start of image
SCAN, END, COMMENT = 0xDA, 0xD9, 0xFE
FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # SOF: the size, one marker for each coding process
ABOUT = frozenset({*range(0xE1, 0xF0), COMMENT} - {0xEE})  # APP1 to APP15 except Adobe's, which names the colour model


def _jpeg(data: bytes) -> Essential:
    """Keep the segments of the first picture, and refuse a file that states more than one size."""
    whole = memoryview(data)
    parts, about, exif = [whole[:2]], 0, b""
    sizes: list[tuple[int, int]] = []
    segments = scans = 0
    begun, at = 2, 2  # start of the slice to keep; position of the scanner
    while found := MARKER.search(data, at):
        kind, start, at = found[1][0], found.start(), found.end()
        if kind == END and scans:
            at = len(data)
            parts.append(whole[begun : found.end()])
            break
        if kind in (*ALONE, END):
            continue
        segments += 1
        _require_count("segments", segments, MOST_PARTS)
        at += int.from_bytes(data[at : at + 2], "big")
        if kind == SCAN:
            scans += 1
            _require_count("scans", scans, MOST_SCANS)
        elif kind in FRAMES:
            sizes.append(_size_of_frame(data[found.end() : at]))
        elif kind in ABOUT:
            about += at - start
            _require_about(about)
            exif = data[found.end() + 8 : at] if data[found.end() + 2 : found.end() + 8] == EXIF else exif
            parts.append(whole[begun:start])
            begun = at
    else:
        parts.append(whole[begun:])  # truncated: Pillow refuses it
    if len(set(sizes)) != 1:
        raise ValueError("image is damaged and cannot be read: it does not have one size")
    return Essential(JpegImageFile, *sizes[0], _orientation(exif), tuple(parts))


EXIF = b"Exif\0\0"


def _size_of_frame(segment: bytes) -> tuple[int, int]:
    """Return (width, height) of a segment: its length, bits a sample, height, width."""
    height, width = struct.unpack_from(">HH", segment, 3) if len(segment) >= 7 else (0, 0)
    return width, height


def _require_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"image must have at most {most:,} {what}; this file has more")


def _require_about(size: int) -> None:
    if size > MOST_ABOUT:
        raise ValueError(f"image must hold at most {MOST_ABOUT // 2**20} MiB of text and profiles; this file has more")


ORIENTATION, SHORT_NUMBER = 0x0112, 3  # EXIF's tag and type of number


def _orientation(exif: bytes) -> int:
    """Return the orientation in the first directory of an EXIF record; 1 (upright) by default."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None or len(exif) < 10:
        return 1
    (at,) = struct.unpack_from(f"{order}I", exif, 4)
    if at + 2 > len(exif):
        return 1
    (entries,) = struct.unpack_from(f"{order}H", exif, at)
    for entry in range(at + 2, min(at + 2 + 12 * entries, len(exif) - 11), 12):
        tag, kind, count, value = struct.unpack_from(f"{order}HHIH", exif, entry)
        if (tag, kind, count) == (ORIENTATION, SHORT_NUMBER, 1):
            return value if value in TURNS else 1
    return 1


TURNS: dict[int, Callable[[Levels], Levels]] = {  # turns the pixels of each orientation upright
    1: lambda levels: levels,
    2: lambda levels: levels[:, ::-1],
    3: lambda levels: levels[::-1, ::-1],
    4: lambda levels: levels[::-1],
    5: lambda levels: levels.T,
    6: lambda levels: levels.T[:, ::-1],
    7: lambda levels: levels[::-1, ::-1].T,
    8: lambda levels: levels.T[::-1],
}

# -- decoding


def _decoded(found: Essential) -> Levels:
    """Decode a checked file: upright grey levels of its first picture, with transparency over white.

    Raises ValueError if the file is damaged.
    """
    try:
        with found.kind(io.BytesIO(b"".join(found.parts))) as picture:
            if picture.size != (found.width, found.height):
                raise ValueError(f"it has {picture.width} x {picture.height} pixels")
            picture.load()
            strips = list(_strips(picture))
    except BROKEN as error:
        raise ValueError(f"image is damaged and cannot be read: {str(error)[:200]}") from error
    return TURNS[found.orientation](np.concatenate(strips))


def _strips(picture: Image.Image) -> Iterator[Levels]:
    """Yield the grey levels of a picture in strips of whole rows, so that no second copy in colour is needed."""
    height = max(1, STRIP // picture.width)
    for top in range(0, picture.height, height):
        yield _grey(picture.crop((0, top, picture.width, min(top + height, picture.height))))


def _grey(picture: Image.Image) -> Levels:
    """Return the grey levels of a picture, composed over white: uint16 if it has 16 bits, else uint8.

    Pillow reads 16 bits only of grey pictures without an alpha channel; it reduces all others to 8 bits.
    """
    clear = picture.info.get("transparency")
    if picture.mode == "I" or picture.mode.startswith("I;16"):
        levels = np.asarray(picture).astype(np.uint16)
        if isinstance(clear, int):
            levels[levels == clear] = 65535
        return levels
    if clear is None and picture.mode not in ("LA", "La", "PA", "RGBA", "RGBa"):
        return np.asarray(picture.convert("L"))
    coloured = picture.convert("RGBA")
    grey, alpha = (np.asarray(each, np.uint32) for each in (coloured.convert("L"), coloured.getchannel("A")))
    return ((grey * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def factor(height: int, width: int, most: int) -> int:
    """Return the smallest k for which the picture has at most `most` squares of k x k pixels."""
    k = max(1, isqrt(height * width // most))
    while ceil(height / k) * ceil(width / k) > most:
        k += 1
    return k


def reduced(levels: Levels, k: int) -> Levels:
    """Return the means of squares of k x k pixels, rounded half up; squares at the border may be smaller.

    k = 1 returns the levels unchanged.
    """
    height, width = levels.shape
    if k == 1:
        return np.ascontiguousarray(levels)
    columns = np.arange(0, width, k)
    across = np.diff(columns, append=width)
    out = np.empty((ceil(height / k), columns.size), levels.dtype)
    for row in range(out.shape[0]):
        square = levels[row * k : (row + 1) * k]
        sums = np.add.reduceat(square.sum(axis=0, dtype=np.uint64), columns)
        counts = (across * square.shape[0]).astype(np.uint64)
        out[row] = (sums + counts // 2) // counts
    return out


# -- pictures for the labs


@dataclass(frozen=True)
class Kept:
    """The part of a picture that a field shows, in whole pixels.

    Columns x0 to x1 and rows y0 to y1, counted from the top, of width x height pixels.
    """

    width: int
    height: int
    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def whole(self) -> bool:
        """Whether the part is the whole picture."""
        return (self.x0, self.y0, self.x1, self.y1) == (0, 0, self.width, self.height)

    @property
    def words(self) -> str:
        """The part as text, for example "the middle 90 × 90 of 120 × 90 pixels"."""
        if self.whole:
            return f"all of its {self.width} × {self.height} pixels"
        return f"the middle {self.x1 - self.x0} × {self.y1 - self.y0} of {self.width} × {self.height} pixels"


@dataclass(frozen=True, eq=False)
class LoadedPicture(LoadedFile):
    """A decoded picture in grey.

    levels: (rows, columns), at most KEPT_PIXELS, uint8 or uint16, upright with row 0 at the top; each is the mean of
    squares of `side` x `side` pixels; width, height: pixels of the file's picture, upright; file: the file itself, b""
    if it has more than KEPT_FILE bytes.
    """

    levels: Levels = field(repr=False)
    side: int
    width: int
    height: int
    fingerprint: str
    file: bytes = field(default=b"", repr=False)

    @classmethod
    def read(cls, data: bytes) -> LoadedPicture:
        """Decode a PNG or JPEG file: its first picture, turned upright by its EXIF orientation.

        Raises ValueError as `essential`, and for damage.
        """
        levels = _decoded(essential(data))
        height, width = levels.shape
        side = factor(height, width, KEPT_PIXELS)
        file = data if len(data) <= KEPT_FILE else b""
        return cls(reduced(levels, side), side, width, height, fingerprint(data), file)

    @classmethod
    def of(cls, given: object) -> LoadedPicture:
        """Return `given` if it is a LoadedPicture; decode it if it is the bytes of a file."""
        if isinstance(given, LoadedPicture):
            return given
        if not isinstance(given, bytes | bytearray):
            raise TypeError(f"image must be the bytes of a PNG or JPEG file, not {type(given).__name__}")
        return cls.read(bytes(given))

    @property
    def scale(self) -> int:
        """The level of white."""
        return int(np.iinfo(self.levels.dtype).max)

    def cropped(self, ny: int, nx: int) -> tuple[float, float, float, float]:
        """Return the largest centred part with the aspect of ny x nx: (x0, y0, x1, y1) in pixels of the file."""
        across, down = min(self.width, self.height * nx / ny), min(self.height, self.width * ny / nx)
        x0, y0 = (self.width - across) / 2, (self.height - down) / 2
        return x0, y0, x0 + across, y0 + down

    def kept(self, ny: int, nx: int) -> Kept:
        """Return the part shown by an (ny, nx) field, in whole pixels."""
        x0, y0, x1, y1 = self.cropped(ny, nx)
        left, top = round(x0), round(y0)
        return Kept(self.width, self.height, left, top, left + max(1, round(x1 - x0)), top + max(1, round(y1 - y0)))

    def fitted(self, ny: int, nx: int) -> Levels:
        """Return (ny, nx) levels, row 0 at the top: the part of `cropped`, resampled to a pixel a cell.

        By area where there are more pixels than cells, else by a bicubic filter.
        """
        rows, columns = self.levels.shape
        x0, y0, x1, y1 = (edge / self.side for edge in self.cropped(ny, nx))
        box = (x0, y0, min(x1, columns), min(y1, rows))
        eight = self.levels.dtype == np.uint8
        whole = Image.fromarray(self.levels if eight else self.levels.astype(np.float32))
        method = Image.Resampling.BOX if nx < columns else Image.Resampling.BICUBIC
        made = np.asarray(whole.resize((nx, ny), method, box=box))
        return made if eight else np.clip(np.rint(made), 0, self.scale).astype(np.uint16)

    def field(self, ny: int, nx: int) -> NDArray[np.float64]:
        """Return the brightness, 0 … 1, as (ny, nx) float64 with row 0 at the bottom."""
        return self.fitted(ny, nx)[::-1] / np.float64(self.scale)

    def small(self, ny: int, nx: int, most: int) -> bytes | None:
        """Return a file of at most `most` bytes with the same (ny, nx) field: the original, or a PNG of that size.

        Returns None if neither is small enough.
        """
        if self.file and len(self.file) <= most:
            return self.file
        if ny * nx > min(WORTH_TRYING * most, KEPT_PIXELS):
            return None
        out = io.BytesIO()
        Image.fromarray(self.fitted(ny, nx)).save(out, "PNG")
        return out.getvalue() if out.tell() <= most else None
