"""From a scene to the pixels of its picture: the lab is made anew, so that the same scene gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from compute.export.colours import coloured
from compute.export.history import Told, begun
from compute.export.scene import Scene
from compute.lab import Lab

Pixels = NDArray[np.uint8]  # (height, width, 3)
LEVEL = 1  # of a PNG's compression: 2 to 3 times as quick as the default for a tenth more bytes
TEXT = "fieldlab"  # key of the text in a PNG


@dataclass(frozen=True)
class Present:
    """A lab as it is now, elsewhere. values: all of them, also those that no scene can hold; snapshot: of its state."""

    values: Mapping[str, Any]
    snapshot: Mapping[str, Any] | None = None


def pixels(scene: Scene, present: Present | None = None, progress: Told = lambda _: None) -> Pixels:
    """The picture of `scene`. ValueError for values that the lab refuses, or if it has no such picture."""
    with posed(scene, present, progress) as lab:
        return shown(lab, scene)


@contextmanager
def posed(scene: Scene, present: Present | None = None, progress: Told = lambda _: None) -> Iterator[Lab]:
    """A lab that has gone as far as `scene` says, closed at the end of the block.

    With `present`, which is what the scene was taken from, it has those values, and a state that a snapshot holds is
    taken over instead of being made again.
    """
    if present and present.snapshot is not None and scene.kind.RESTORES:
        with closing(scene.opened(present.values)) as lab:
            lab.restore(dict(present.snapshot))
            yield lab
        return
    with closing(begun(scene, present.values if present else None)) as run:
        run.to(scene.steps, progress)
        yield run.lab


def shown(lab: Lab, scene: Scene) -> Pixels:
    """What the lab shows now, in the scene's colours and exactly its size; with axes where that is asked for, or lines.

    SceneError for a part that the lab does not have.
    """
    frame = lab.frame(scene.view, scene.size)
    name = scene.part or next(iter(frame.rasters), "")
    if scene.axes or name not in frame.rasters:
        from compute.export import figure  # heavy, and seldom needed

        return figure.pixels(lab, frame, scene)
    return fitted(coloured(frame.rasters[name].levels, scene.colours, lab.APART), scene.size)


def fitted(picture: Pixels, size: tuple[int, int]) -> Pixels:
    """The picture scaled to `size` (height, width): cells stay sharp where they become larger."""
    if picture.shape[:2] == size:
        return picture
    height, width = size
    larger = height >= picture.shape[0] and width >= picture.shape[1]
    how = Image.Resampling.NEAREST if larger else Image.Resampling.BOX
    return np.asarray(Image.fromarray(picture).resize((width, height), how))


def pixels_of(file: bytes) -> Pixels:
    """The picture in the bytes of a PNG file."""
    with Image.open(io.BytesIO(file)) as picture:
        return np.asarray(picture.convert("RGB"))


def png(picture: Pixels, text: str = "") -> bytes:
    """The bytes of a PNG file with `text` in it; the same for the same pixels and text."""
    about = PngInfo()
    if text:
        about.add_itxt(TEXT, text)
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG", compress_level=LEVEL, pnginfo=about)
    return out.getvalue()
