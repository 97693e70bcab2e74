"""From a scene to the pixels of its picture: the lab is made anew, so that the same scene gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from compute.export.colours import coloured
from compute.export.scene import Scene, SceneError
from compute.lab import Lab

Pixels = NDArray[np.uint8]  # (height, width, 3)
SLICE = 64  # steps of a lab in one call
LEVEL = 1  # of a PNG's compression: 2 to 3 times as quick as the default for a tenth more bytes
TEXT = "fieldlab"  # key of the text in a PNG


def pixels(scene: Scene) -> Pixels:
    """The picture of `scene`. ValueError for values that the lab refuses, or if it has no such picture."""
    with posed(scene) as lab:
        return shown(lab, scene)


@contextmanager
def posed(scene: Scene) -> Iterator[Lab]:
    """A lab that has gone as far as `scene` says, closed at the end of the block."""
    with closing(scene.open()) as lab:
        run(lab, scene.steps)
        yield lab


def run(lab: Lab, steps: int) -> None:
    """Let a lab that ends come to its end, another one do `steps` steps."""
    if lab.ENDS:
        while not lab.resting:
            lab.advance(SLICE)
    for begin in range(0, 0 if lab.ENDS else steps, SLICE):
        lab.advance(min(SLICE, steps - begin))


def shown(lab: Lab, scene: Scene) -> Pixels:
    """What the lab shows now, in the scene's colours and exactly its size."""
    rasters = lab.frame(pixels=scene.size).rasters
    name = scene.part or next(iter(rasters), "")
    if name not in rasters:
        known = ", ".join(rasters)
        raise SceneError(
            f"part must be one of {known} for {scene.lab}, not {scene.part!r}"
            if known
            else f"{scene.lab} has no picture with these parameters, only curves"
        )
    return fitted(coloured(rasters[name].levels, scene.look, lab.APART), scene.size)


def fitted(picture: Pixels, size: tuple[int, int]) -> Pixels:
    """The picture scaled to `size` (height, width): cells stay sharp where they become larger."""
    if picture.shape[:2] == size:
        return picture
    height, width = size
    larger = height >= picture.shape[0] and width >= picture.shape[1]
    how = Image.Resampling.NEAREST if larger else Image.Resampling.BOX
    return np.asarray(Image.fromarray(picture).resize((width, height), how))


def png(picture: Pixels, text: str = "") -> bytes:
    """The bytes of a PNG file with `text` in it; the same for the same pixels and text."""
    about = PngInfo()
    if text:
        about.add_itxt(TEXT, text)
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG", compress_level=LEVEL, pnginfo=about)
    return out.getvalue()
