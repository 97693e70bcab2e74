"""`fieldlab render`: one picture of a lab as a PNG file, without the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from compute.frames import NOT_FINITE, TOP_LEVEL, Raster

PIXELS = (1024, 1024)  # largest height and width of the picture
STOPS = (  # nine colours of the colour map viridis, evenly spaced, red green blue
    *((68, 1, 84), (71, 44, 122), (59, 81, 139), (44, 113, 142), (33, 144, 141)),
    *((39, 173, 129), (92, 200, 99), (170, 220, 50), (253, 231, 37)),
)
NOT_FINITE_COLOUR = (255, 0, 255)


def picture(lab: str, path: Path, steps: int, backend: str, command: str) -> None:
    """Advance a lab of default parameters by `steps` and write its first raster to `path`.

    The command is kept in the file as text. ValueError for an unknown lab or backend, and for a lab without a picture.
    """
    from compute.labs import lab_class

    model = lab_class(lab)(backend=backend)
    try:
        if steps:
            model.advance(steps)
        rasters = model.frame(pixels=PIXELS).rasters
    finally:
        model.close()
    if not rasters:
        raise ValueError(f"{lab} has no picture with its usual parameters, only curves")
    about = PngInfo()
    about.add_itxt("fieldlab", command)
    image(next(iter(rasters.values()))).save(path, pnginfo=about)


def image(raster: Raster) -> Image.Image:
    """The raster in colour, its first row at the bottom."""
    picture = Image.fromarray(np.ascontiguousarray(raster.levels[::-1]), "P")
    picture.putpalette(palette().tobytes())
    return picture.convert("RGB")


def palette() -> NDArray[np.uint8]:
    """(256, 3): viridis over the levels, and the colour of what is not finite."""
    positions = np.linspace(0, TOP_LEVEL, len(STOPS))
    levels = np.arange(256)
    colours = np.stack([np.interp(levels, positions, channel) for channel in zip(*STOPS, strict=True)], axis=1)
    colours[NOT_FINITE] = NOT_FINITE_COLOUR
    return np.round(colours).astype(np.uint8)
