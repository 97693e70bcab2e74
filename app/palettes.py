"""Palettes for the pictures: perceptually uniform ones for amounts, diverging ones for signed fields.

A picture has 255 levels (0 … 254) and one value, 255, for a number that is not finite; the latter gets its own colour.
"""

from __future__ import annotations

import numpy as np

from compute.display.palettes import PERCEPTUAL, table

SIGNED_NAMES = ("Cool–warm", "Deep blue–red", "Dark centre")


def _texts(name: str) -> list[str]:
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in table(name)]


AMOUNTS = {name: _texts(name) for name in (*PERCEPTUAL, "Grey")}
SIGNED = {name: _texts(name) for name in SIGNED_NAMES}
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
    return colours[::-1] if reverse else list(colours)
