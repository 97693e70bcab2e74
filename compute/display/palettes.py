"""Palettes as arrays, the same for the page and for files."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from compute.lab.frames import TOP_LEVEL

PERCEPTUAL = {"Inferno": "inferno", "Viridis": "viridis", "Cividis": "cividis", "Magma": "magma"}  # in matplotlib
OTHERS = {"Grey": "gray", "Cool–warm": "coolwarm", "Deep blue–red": "CET_D1A", "Dark centre": "CET_D4"}  # in colorcet
PALETTES = (*PERCEPTUAL, *OTHERS)


@cache
def table(name: str) -> NDArray[np.uint8]:
    """Return (255, 3) red, green, blue of the levels 0 … 254; ValueError lists the available palettes."""
    if name not in PALETTES:
        raise ValueError(f"palette must be one of {', '.join(PALETTES)}, not {name!r}")
    if name in PERCEPTUAL:  # imported late: it takes half a second that most commands do not need
        colours = np.rint(255 * import_module("matplotlib").colormaps[PERCEPTUAL[name]](np.arange(256))[:, :3])
    else:
        texts = getattr(import_module("colorcet"), OTHERS[name])
        colours = np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in texts])
    picked = np.rint(np.linspace(0, len(colours) - 1, TOP_LEVEL + 1)).astype(int)
    found: NDArray[np.uint8] = colours.astype(np.uint8)[picked]
    return found
