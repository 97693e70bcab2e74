"""Film files: frames in, one file out, whole or not at all. A writer is found by the ending of the file's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from compute.export.paint import Pixels
from compute.export.scene import SceneError
from compute.files import whole_file

QUALITY = {"h264": {"crf": "18", "preset": "medium"}, "vp9": {"crf": "24", "b": "0", "cpu-used": "4", "row-mt": "1"}}
VIDEO_INSTALL = "pip install 'fieldlab[video]'"
EVEN = "its colours are kept for every second pixel, so that width and height must be even"

Frames = Iterable[Pixels]


def write(path: Path, frames: Frames, rate: float, comment: str) -> None:
    """Write `frames`, (height, width, 3) uint8 each, all of one size, as the film `path` with `comment` in it.

    SceneError for an ending that is unknown, a library that is missing, or a size that the format does not have.
    """
    writer = WRITERS[ending(path)]
    with whole_file(path) as made:
        writer(made, frames, rate, comment)


def ending(path: Path) -> str:
    """The ending of a film's name; SceneError names those there are."""
    if path.suffix.lower() not in WRITERS:
        raise SceneError(f"a film must end in one of {', '.join(WRITERS)}, not {path.name!r}")
    return path.suffix.lower()


def require(path: Path, size: tuple[int, int]) -> None:
    """Raise SceneError if a film `path` of that (height, width) could not be written: before hours of work."""
    if ending(path) in VIDEO:
        _av()
        if size[0] % 2 or size[1] % 2:
            raise SceneError(f"{path.suffix} cannot be {size[1]} x {size[0]}: {EVEN}")


def _video(codec: str, name: str) -> Callable[[Path, Frames, float, str], None]:
    def writer(path: Path, frames: Frames, rate: float, comment: str) -> None:
        av = _av()
        with av.open(str(path), "w") as container:
            container.metadata["comment"] = comment
            stream = container.add_stream(codec, rate=Fraction(rate).limit_denominator(1001))
            stream.pix_fmt, stream.options = "yuv420p", QUALITY[name]
            for number, frame in enumerate(frames):
                if not number:
                    stream.height, stream.width = frame.shape[:2]
                container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), "rgb24")))
            container.mux(stream.encode())

    return writer


def _gif(path: Path, frames: Frames, rate: float, comment: str) -> None:
    """Every frame with the colours of its own; a GIF's time is in hundredths of a second."""
    pictures = (Image.fromarray(frame).quantize(256, Image.Quantize.FASTOCTREE) for frame in frames)
    first = next(pictures)
    first.save(
        path,
        "GIF",
        save_all=True,
        append_images=pictures,
        duration=round(1000 / rate),
        loop=0,
        comment=comment.encode(),
    )


def _webp(path: Path, frames: Frames, rate: float, comment: str) -> None:
    pictures = (Image.fromarray(frame) for frame in frames)
    first = next(pictures)
    about = Image.Exif()
    about[0x010E] = comment  # ImageDescription
    first.save(path, "WEBP", save_all=True, append_images=pictures, duration=round(1000 / rate), loop=0,
               quality=90, method=4, exif=about)  # fmt: skip


def _av() -> Any:
    try:
        return import_module("av")
    except ModuleNotFoundError as error:
        raise SceneError(f"films as MP4 or WebM need the package av: {VIDEO_INSTALL}") from error


WRITERS: dict[str, Callable[[Path, Frames, float, str], None]] = {
    ".mp4": _video("libx264", "h264"),
    ".webm": _video("libvpx-vp9", "vp9"),
    ".gif": _gif,
    ".webp": _webp,
}
VIDEO = (".mp4", ".webm")
