"""From a scene to the pixels of its picture: the lab is made anew, so that the same scene gives the same bytes.

A Replay takes the lab through its history to the step of the scene, `current_pixels` colours what the lab shows then,
and `png` makes a file of that.
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
from compute.frames import Raster
from compute.history import Entries, Entry
from compute.lab import Lab

Pixels = NDArray[np.uint8]  # (height, width, 3)
OnProgress = Callable[[float], None]  # called with the part that is done, from 0 to 1

LEVEL = 1  # of a PNG's compression: 2 to 3 times as quick as the default for a tenth more bytes
TEXT = "fieldlab"  # key of the text in a PNG, and of the like in other files
SLICE = 64  # steps of a lab in one call
PROBE = (64, 64)  # pixels of a picture of which only the extent matters


@dataclass(frozen=True)
class LiveState:
    """The state of a lab that runs elsewhere. values: all of them, also those that no scene can hold."""

    values: Mapping[str, Any]
    snapshot: Mapping[str, Any] | None = None


class Replay:
    """A new lab on its way through what is to happen to it: to any step, never back."""

    def __init__(self, lab: Lab, history: Entries = ()) -> None:
        self.lab, self.steps = lab, 0
        self._coming: deque[Entry] = deque(history)

    @classmethod
    def of(cls, scene: Scene, values: Mapping[str, Any] | None = None) -> Replay:
        """Return the replay of a scene, at its beginning; perhaps with other values."""
        return cls(scene.opened(scene.values if values is None else values), scene.history)

    def to(self, steps: int, progress: OnProgress = lambda _: None) -> None:
        """Run a lab that ends to its end, another one to step `steps`, with what happened up to then."""
        if self.lab.ENDS:
            while not self.lab.resting:
                self.lab.advance(SLICE)
                progress(self.lab.headway)
            return
        while self._coming and self._coming[0]["step"] <= steps:
            entry = self._coming.popleft()
            self._advance(entry["step"], steps, progress)
            self.lab.replay(entry)
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
    """Return the picture of `scene`. ValueError for values that the lab refuses, or if it has no such picture."""
    with opened_at(scene, current, progress) as lab:
        return current_pixels(lab, scene)


@contextmanager
def opened_at(scene: Scene, current: LiveState | None = None, progress: OnProgress = lambda _: None) -> Iterator[Lab]:
    """Give a lab that has gone as far as `scene` says, closed at the end of the block.

    With `current`, which is what the scene was taken from, it has those values, and a state that a snapshot holds is
    taken over instead of being made again.
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
    """Return what the lab shows now, in the scene's colours and its size; lines, and what is asked for, with axes.

    SceneError for a part that the lab does not have.
    """
    frame = lab.frame(scene.view, scene.size)
    name = scene.part or next(iter(frame.rasters), "")
    if scene.axes or name not in frame.rasters:
        from compute.export import figures  # heavy, and seldom needed

        return figures.pixels(lab, frame, scene)
    raster = frame.rasters[name]
    return fitted(coloured(raster.levels, scene.colours, lab.APART, raster.waiting), scene.size)


def shown_raster(scene: Scene, drawing: bool) -> Raster | None:
    """Return the picture that a file of `scene` shows, as the lab begins with it; None for lines.

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
    """Return the picture scaled to `size` (height, width): cells stay sharp where they become larger."""
    if picture.shape[:2] == size:
        return picture
    height, width = size
    larger = height >= picture.shape[0] and width >= picture.shape[1]
    how = Image.Resampling.NEAREST if larger else Image.Resampling.BOX
    return np.asarray(Image.fromarray(picture).resize((width, height), how))


def read_png(file: bytes) -> Pixels:
    """Return the picture in the bytes of a PNG file."""
    with Image.open(io.BytesIO(file)) as picture:
        return np.asarray(picture.convert("RGB"))


def png(picture: Pixels, text: str = "") -> bytes:
    """Return the bytes of a PNG file with `text` in it; the same for the same pixels and text."""
    about = PngInfo()
    if text:
        about.add_itxt(TEXT, text)
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG", compress_level=LEVEL, pnginfo=about)
    return out.getvalue()
