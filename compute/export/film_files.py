"""Film encoders, called with a path, frames (height, width, 3) uint8 of one size, frames per second and a comment.

formats.py lists the suffixes and limits of the formats. MP4 and WebM are encoded by FFmpeg through the package av. GIF
and WebP are written frame by frame: Pillow compresses the pictures, and this module writes the container. Pillow's own
films need all frames in memory, merge equal ones, and round every frame's duration alike: as GIF, a film of 30 frames
per second runs a tenth too fast. This module needs the memory of one frame and keeps the film's duration.

Sources: GIF89a specification (CompuServe 1990); WebP container specification (RFC 9649); ITU-T H.273.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from compute.devices.devices import cpu_count
from compute.export.packages import AV
from compute.export.render import Pixels

Frames = Iterable[Pixels]

LIMITED = 1  # FFmpeg's value for levels 16 … 235: MPEG
BT709 = 1  # in ITU-T H.273: primaries, transfer and matrix
THREADS = max(1, cpu_count() // 2)  # of an encoder: the other half is left for the page and its engines
QUALITY, METHOD = 90, 2  # of WebP: 0 … 100; 0 fast … 6 small, 4 takes 2.5 times as long for a tenth fewer bytes
COLOURS = 256  # of a GIF's colour table
GIF_TICK, WEBP_TICK = 100, 1000  # per second
TIME, IMAGE, END = b"\x21\xf9\x04", b"\x2c", b"\x3b"  # block markers of a GIF
FOREVER = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"


def mp4(path: Path, frames: Frames, rate: float, comment: str) -> None:
    """Write H.264 with the index first, so that a browser can start before the download ends."""
    options = {"crf": "18", "preset": "medium"}
    _video(path, frames, rate, comment, "libx264", options, {"movflags": "+faststart"})


def webm(path: Path, frames: Frames, rate: float, comment: str) -> None:
    """Write VP9."""
    _video(path, frames, rate, comment, "libvpx-vp9", {"crf": "24", "b": "0", "cpu-used": "4", "row-mt": "1"}, {})


def _video(
    path: Path,
    frames: Frames,
    rate: float,
    comment: str,
    codec: str,
    quality: Mapping[str, str],
    container_options: Mapping[str, str],
) -> None:
    av = AV.load()
    with av.open(str(path), "w", options=dict(container_options)) as container:
        container.metadata["comment"] = comment
        exact = Fraction(rate).limit_denominator(1001)
        stream = container.add_stream(codec, rate=exact)
        stream.pix_fmt, stream.options = "yuv420p", dict(quality)
        context = stream.codec_context
        context.thread_count, context.color_range = THREADS, LIMITED
        context.colorspace = context.color_primaries = context.color_trc = BT709
        for number, frame in enumerate(frames):
            if not number:
                stream.height, stream.width = frame.shape[:2]
            picture = _yuv(av, frame)
            picture.pts, picture.time_base = number, 1 / exact
            container.mux(stream.encode(picture))
        container.mux(stream.encode())


def _yuv(av: Any, frame: Pixels) -> Any:
    """Convert a frame to the format of high-definition video: BT.709, levels 16 … 235, chroma of every second pixel."""
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), "rgb24").reformat(
        format="yuv420p",
        dst_colorspace="ITU709",
        src_color_range="JPEG",
        dst_color_range="MPEG",
        interpolation="BICUBIC",
    )


def gif(path: Path, frames: Frames, rate: float, comment: str) -> None:
    """Write a GIF. Frames with at most 256 colours are stored exactly; others are quantised to 256 colours each."""
    colours, times = GifPalette(), ticks(rate, GIF_TICK)
    with path.open("wb") as out:
        shared: bytes | None = None
        for frame, ticks_shown in zip(frames, times, strict=False):
            indices, table = colours.of(frame)
            if shared is None:
                height, width = frame.shape[:2]
                out.write(b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF7, 0, 0) + table)
                out.write(FOREVER + b"\x21\xfe" + _blocks(comment.encode()))
                shared = table
            own = b"" if table == shared else table
            out.write(TIME + struct.pack("<BHBB", 0x04, ticks_shown, 0, 0))  # 0x04: do not dispose the frame
            place = struct.pack("<HHHHB", 0, 0, indices.shape[1], indices.shape[0], 0x87 if own else 0)
            out.write(IMAGE + place + own + _compressed(indices))
        out.write(END)


class GifPalette:
    """A colour table that is extended frame by frame, and restarted when it would exceed 256 colours."""

    def __init__(self) -> None:
        self._number = np.full(1 << 24, -1, np.int16)  # index of each colour 0xrrggbb; 32 MiB
        self._known = np.empty(0, np.uint32)

    def of(self, frame: Pixels) -> tuple[NDArray[np.uint8], bytes]:
        """Return the colour indices (height, width) of a frame, and the table of 256 times red, green, blue."""
        wide = frame.astype(np.uint32)
        packed = wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]
        numbers = self._number[packed]
        if (numbers < 0).any():
            if not self._learn(np.unique(packed[numbers < 0])) and not self._begin(np.unique(packed)):
                return _quantised(frame)
            numbers = self._number[packed]
        table = np.zeros((COLOURS, 3), np.uint8)
        for channel, shift in enumerate((16, 8, 0)):
            table[: self._known.size, channel] = self._known >> shift & 255
        return numbers.astype(np.uint8), table.tobytes()

    def _learn(self, new: NDArray[np.uint32]) -> bool:
        if self._known.size + new.size > COLOURS:
            return False
        self._number[new] = np.arange(self._known.size, self._known.size + new.size)
        self._known = np.concatenate([self._known, new])
        return True

    def _begin(self, colours: NDArray[np.uint32]) -> bool:
        """Start a new table for this frame; return whether its colours fit."""
        if colours.size > COLOURS:
            return False
        self._number[self._known] = -1
        self._known = colours[:0]
        return self._learn(colours)


def _quantised(frame: Pixels) -> tuple[NDArray[np.uint8], bytes]:
    picture = Image.fromarray(frame).quantize(COLOURS, Image.Quantize.MEDIANCUT)
    return np.asarray(picture), bytes(picture.getpalette() or ()).ljust(3 * COLOURS, b"\0")


def _compressed(indices: NDArray[np.uint8]) -> bytes:
    """Return the LZW data of one picture: the bytes after the image descriptor in Pillow's GIF."""
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(indices), "L").save(out, "GIF", optimize=False, interlace=False)
    data = out.getvalue()
    start = 13 + (3 << (data[10] & 7) + 1)  # header, screen descriptor and colour table; Pillow writes no extension
    return data[start + 10 : -1]


def _blocks(data: bytes) -> bytes:
    pieces = (data[i : i + 255] for i in range(0, len(data), 255))
    return b"".join(bytes([len(piece)]) + piece for piece in pieces) + b"\0"


def webp(path: Path, frames: Frames, rate: float, comment: str) -> None:
    """Write lossy WebP; chroma has half the resolution."""
    about = Image.Exif()
    about[0x010E] = "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in comment)  # ImageDescription, ASCII only
    with path.open("wb") as out:
        out.write(bytes(12))
        for number, (frame, milliseconds) in enumerate(zip(frames, ticks(rate, WEBP_TICK), strict=False)):
            height, width = frame.shape[:2]
            size = _three(width - 1) + _three(height - 1)
            if not number:
                out.write(_chunk(b"VP8X", bytes([0x02 | 0x08, 0, 0, 0]) + size))  # animation and EXIF
                out.write(_chunk(b"ANIM", bytes(4) + bytes(2)))  # black background, endless loop
            place = bytes(6) + size + _three(milliseconds) + b"\x02"  # at 0, 0, without blending
            out.write(_chunk(b"ANMF", place + _picture(frame)))
        out.write(_chunk(b"EXIF", about.tobytes().removeprefix(b"Exif\0\0")))
        length = out.tell()
        out.seek(0)
        out.write(b"RIFF" + struct.pack("<I", length - 8) + b"WEBP")


def _picture(frame: Pixels) -> bytes:
    """Return the picture's chunk from Pillow's WebP file of one frame."""
    out = io.BytesIO()
    Image.fromarray(frame).save(out, "WEBP", quality=QUALITY, method=METHOD)
    return out.getvalue()[12:]


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _three(number: int) -> bytes:
    return number.to_bytes(3, "little")


def ticks(rate: float, second: int) -> Iterator[int]:
    """Yield each frame's duration in ticks, `second` per second; the sum is never off by more than half a tick."""
    ends = (round(second * number / rate) for number in count())
    before = next(ends)
    for end in ends:
        yield end - before
        before = end
