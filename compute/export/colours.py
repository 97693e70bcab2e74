"""Palettes as arrays, and a raster's levels in colour. The page has the same palettes under the same names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import colorcet
import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from compute.frames import NOT_FINITE, TOP_LEVEL

if TYPE_CHECKING:
    from compute.export.scene import Look

PERCEPTUAL = {"Inferno": "inferno", "Viridis": "viridis", "Cividis": "cividis", "Magma": "magma"}  # in matplotlib
OTHERS = {"Grey": "gray", "Cool–warm": "coolwarm", "Deep blue–red": "CET_D1A", "Dark centre": "CET_D4"}  # in colorcet
PALETTES = (*PERCEPTUAL, *OTHERS)
APART = (255, 0, 200)  # of a level that is no number: in no palette


@cache
def table(name: str) -> NDArray[np.uint8]:
    """(255, 3) red, green, blue of the levels 0 … 254; ValueError names the palettes there are."""
    if name not in PALETTES:
        raise ValueError(f"palette must be one of {', '.join(PALETTES)}, not {name!r}")
    if name in PERCEPTUAL:
        colours = np.rint(255 * mpl.colormaps[PERCEPTUAL[name]](np.arange(256))[:, :3]).astype(np.uint8)
    else:
        texts = getattr(colorcet, OTHERS[name])
        colours = np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in texts], np.uint8)
    picked = np.rint(np.linspace(0, len(colours) - 1, TOP_LEVEL + 1)).astype(int)
    found: NDArray[np.uint8] = colours[picked]
    return found


def coloured(levels: NDArray[np.uint8], look: Look, apart: tuple[int, int, int] = APART) -> NDArray[np.uint8]:
    """(height, width, 3): `levels` (height, width) in the colours of `look`, the level of no number in `apart`.

    Row 0 of `levels` is the lowest, that of the result the highest, as files have it.
    """
    colours = table(look.palette)
    colours = np.roll(colours[::-1] if look.reverse else colours, -round(look.offset * len(colours)), axis=0)
    whole = np.concatenate([colours, np.array([apart], np.uint8)])
    found: NDArray[np.uint8] = whole[np.minimum(levels[::-1], NOT_FINITE)]
    return found
