"""Palettes for the pictures: perceptually uniform ones for amounts, diverging ones for signed fields.

A picture has 255 levels (0 … 254) and one value, 255, for a number that is not finite; the latter gets its own colour.
"""

from __future__ import annotations

import colorcet
import numpy as np
from bokeh.palettes import Cividis256, Inferno256, Magma256, Viridis256

from compute.frames import TOP_LEVEL

AMOUNTS = {
    "Inferno": list(Inferno256),
    "Viridis": list(Viridis256),
    "Cividis": list(Cividis256),
    "Magma": list(Magma256),
    "Grey": list(colorcet.gray),
}
SIGNED = {
    "Cool–warm": list(colorcet.coolwarm),
    "Deep blue–red": list(colorcet.CET_D1A),
    "Dark centre": list(colorcet.CET_D4),
}
PALETTES = {**AMOUNTS, **SIGNED}


WHITE, BLACK = "#ffffff", "#111111"
DARK = 0.55  # mean luminance up to which a white line shows on a picture


def line_colour(colours: list[str]) -> str:
    """White or near black, whichever shows on a picture in these #rrggbb colours (by their mean luminance)."""
    rgb = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in colours]) / 255
    return WHITE if float((rgb @ (0.2126, 0.7152, 0.0722)).mean()) < DARK else BLACK


def palette(name: str, reverse: bool = False) -> list[str]:
    """The 255 colours of `name` as #rrggbb, for levels 0 … 254; ValueError names the palettes there are."""
    if name not in PALETTES:
        raise ValueError(f"palette {name!r} is not one of {', '.join(PALETTES)}")
    colours = PALETTES[name]
    count = TOP_LEVEL + 1
    picked = [colours[round(index * (len(colours) - 1) / (count - 1))] for index in range(count)]
    return picked[::-1] if reverse else picked
