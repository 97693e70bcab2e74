"""Film files: frames in, one file out, whole or not at all. A writer is found by the ending of the file's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from compute.devices import cpu_count
from compute.export import animations
from compute.export.render import Pixels
from compute.export.scene import SceneError
from compute.files import whole_file

QUALITY = {"h264": {"crf": "18", "preset": "medium"}, "vp9": {"crf": "24", "b": "0", "cpu-used": "4", "row-mt": "1"}}
CONTAINER = {".mp4": {"movflags": "+faststart"}}  # a browser begins before it has all of it
LIMITED = 1  # FFmpeg's name for levels 16 … 235: MPEG
BT709 = 1  # of ITU-T H.273: primaries, transfer and matrix
THREADS = max(1, cpu_count() // 2)  # of an encoder: the other half is for the page and what it shows
VIDEO_INSTALL = "pip install 'fieldlab[video]'"
EVEN = "its colours are kept for every second pixel, so that width and height must be even"

Frames = Iterable[Pixels]


def write(path: Path, frames: Frames, rate: float, comment: str) -> None:
    """Write `frames`, (height, width, 3) uint8 each, all of one size, as the film `path` with `comment` in it.

    SceneError for an ending that is unknown, a library that is missing, or a size that the format does not have.
    """
    writer = WRITERS[ending(path)]
    _require_rate(ending(path), rate)
    with whole_file(path) as made:
        writer(made, frames, rate, comment)


def ending(path: Path) -> str:
    """The ending of a film's name; SceneError names those there are."""
    if path.suffix.lower() not in WRITERS:
        raise SceneError(f"a film must end in one of {', '.join(WRITERS)}, not {path.name!r}")
    return path.suffix.lower()


def require(path: Path, size: tuple[int, int], rate: float = 1.0) -> None:
    """Raise SceneError if a film `path` of that (height, width) and rate could not be written: before hours of work."""
    kind = ending(path)
    if kind in VIDEO:
        _av()
        if size[0] % 2 or size[1] % 2:
            raise SceneError(f"{path.suffix} cannot be {size[1]} x {size[0]}: {EVEN}")
    if max(size) > LARGEST[kind]:
        raise SceneError(f"{path.suffix} has at most {LARGEST[kind]} pixels a side, not {size[1]} x {size[0]}")
    _require_rate(kind, rate)


def _require_rate(kind: str, rate: float) -> None:
    if rate > FASTEST.get(kind, rate):
        raise SceneError(f"rate must be at most {FASTEST[kind]:g} frames a second for {kind}, not {rate:g}")


def _video(codec: str, name: str) -> Callable[[Path, Frames, float, str], None]:
    def writer(path: Path, frames: Frames, rate: float, comment: str) -> None:
        av = _av()
        with av.open(str(path), "w", options=CONTAINER.get(path.suffix.lower(), {})) as container:
            container.metadata["comment"] = comment
            exact = Fraction(rate).limit_denominator(1001)
            stream = container.add_stream(codec, rate=exact)
            stream.pix_fmt, stream.options = "yuv420p", QUALITY[name]
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

    return writer


def _yuv(av: Any, frame: Pixels) -> Any:
    """The frame as players of high-definition video take it: BT.709, levels 16 … 235, colours of every second pixel."""
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), "rgb24").reformat(
        format="yuv420p",
        dst_colorspace="ITU709",
        src_color_range="JPEG",
        dst_color_range="MPEG",
        interpolation="BICUBIC",
    )


def _av() -> Any:
    try:
        return import_module("av")
    except ModuleNotFoundError as error:
        raise SceneError(f"films as MP4 or WebM need the package av: {VIDEO_INSTALL}") from error


WRITERS: dict[str, Callable[[Path, Frames, float, str], None]] = {
    ".mp4": _video("libx264", "h264"),
    ".webm": _video("libvpx-vp9", "vp9"),
    ".gif": animations.gif,
    ".webp": animations.webp,
}
VIDEO = (".mp4", ".webm")
LARGEST = {".mp4": 16384, ".webm": 16384, ".gif": 65535, ".webp": 16383}  # pixels a side
FASTEST = {".gif": 50.0}  # frames a second: browsers show a GIF's frame that is shorter than 1/50 s for 1/10 s
