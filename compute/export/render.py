"""Render a scene to pixels: a new lab is opened for each scene, so that the same scene gives the same bytes.

A Replay runs the lab through its history to the step of the scene, `current_pixels` colours the lab's picture at that
step, and `png` encodes it.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from compute.export.scene import Scene, coloured
from compute.lab.frames import Raster
from compute.lab.history import Entries, Entry
from compute.lab.lab import Lab

Pixels = NDArray[np.uint8]  # (height, width, 3)
OnProgress = Callable[[float], None]  # receives the finished part, from 0 to 1

LEVEL = 1  # PNG compression: 2 to 3 times as fast as the default, files a tenth larger
TEXT = "fieldlab"  # key of the text chunk in a PNG and of the metadata in other files
SLICE = 64  # steps of a lab per call
PROBE = (64, 64)  # pixels of a picture that is used for its extent only


@dataclass(frozen=True)
class LiveState:
    """The state of a lab in another process. values: all of them, including those that a scene cannot contain."""

    values: Mapping[str, Any]
    snapshot: Mapping[str, Any] | None = None


class Replay:
    """A new lab that is advanced through its history, forward only."""

    def __init__(self, lab: Lab, history: Entries = ()) -> None:
        self.lab, self.steps = lab, 0
        self._coming: deque[Entry] = deque(history)

    @classmethod
    def of(cls, scene: Scene, values: Mapping[str, Any] | None = None) -> Replay:
        """Return the replay of a scene at step 0. values: replace the scene's values."""
        return cls(scene.opened(scene.values if values is None else values), scene.history)

    def to(self, steps: int, progress: OnProgress = lambda _: None) -> None:
        """Run a lab that ends to its end, others to step `steps`, applying the history up to that step."""
        if self.lab.ENDS:
            while not self.lab.status.resting:
                self.lab.advance(SLICE)
                progress(self.lab.status.progress)
            return
        while self._coming and self._coming[0]["step"] <= steps:
            entry = self._coming.popleft()
            self._advance(entry["step"], steps, progress)
            self.lab.HISTORY.apply(self.lab, entry)
        self._advance(steps, steps, progress)

    def _advance(self, to: int, end: int, progress: OnProgress) -> None:
        while self.steps < to:
            count = min(SLICE, to - self.steps)
            self.lab.advance(count)
            self.steps += count
            progress(self.steps / end)

    def close(self) -> None:
        """Close the lab."""
        self.lab.close()


def pixels(scene: Scene, current: LiveState | None = None, progress: OnProgress = lambda _: None) -> Pixels:
    """Return the picture of `scene`. Raise ValueError for values that the lab refuses, or an unknown part."""
    with opened_at(scene, current, progress) as lab:
        return current_pixels(lab, scene)


@contextmanager
def opened_at(scene: Scene, current: LiveState | None = None, progress: OnProgress = lambda _: None) -> Iterator[Lab]:
    """Yield a lab in the state of `scene`; close it after the block.

    current: live state of the lab that the scene describes; its values are used, and its snapshot, if the lab supports
    restoring, replaces the replay.
    """
    if current and current.snapshot is not None and scene.kind.RESTORES:
        with closing(scene.opened(current.values)) as lab:
            lab.restore(dict(current.snapshot))
            yield lab
        return
    with closing(Replay.of(scene, current.values if current else None)) as replay:
        replay.to(scene.steps, progress)
        yield replay.lab


def current_pixels(lab: Lab, scene: Scene) -> Pixels:
    """Return the lab's current picture in the scene's colours and size; lines, and scenes with `axes`, have axes.

    Raise SceneError for an unknown part.
    """
    frame = lab.frame(scene.view, scene.size)
    name = scene.part or next(iter(frame.rasters), "")
    if scene.axes or name not in frame.rasters:
        from compute.export import figures  # slow to import, rarely needed

        return figures.pixels(lab, frame, scene)
    raster = frame.rasters[name]
    return fitted(coloured(raster.levels, scene.colours, lab.APART, raster.waiting), scene.size)


def shown_raster(scene: Scene, drawing: bool) -> Raster | None:
    """Return the picture in a file of `scene`, at the lab's start; None for lines.

    drawing: the file is a drawing with axes, which shows a panel.
    """
    with closing(scene.open()) as lab:
        frame = lab.frame(scene.view, PROBE)
        panels = lab.panels(frame)
    if not drawing:
        return frame.rasters.get(scene.part or next(iter(frame.rasters), ""))
    panel = panels.get(scene.part or next(iter(panels), ""))
    return frame.rasters.get(panel.image) if panel and panel.image else None


def fitted(picture: Pixels, size: tuple[int, int]) -> Pixels:
    """Return the picture scaled to `size` (height, width): enlarged without smoothing, reduced by averaging."""
    if picture.shape[:2] == size:
        return picture
    height, width = size
    larger = height >= picture.shape[0] and width >= picture.shape[1]
    how = Image.Resampling.NEAREST if larger else Image.Resampling.BOX
    return np.asarray(Image.fromarray(picture).resize((width, height), how))


def read_png(file: bytes) -> Pixels:
    """Decode a PNG file."""
    with Image.open(io.BytesIO(file)) as picture:
        return np.asarray(picture.convert("RGB"))


def png(picture: Pixels, text: str = "") -> bytes:
    """Return the bytes of a PNG file that contains `text`; the same for the same pixels and text."""
    about = PngInfo()
    if text:
        about.add_itxt(TEXT, text)
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG", compress_level=LEVEL, pnginfo=about)
    return out.getvalue()
