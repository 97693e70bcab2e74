"""A raster's levels in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compute.colour.palettes import table
from compute.frames import NOT_FINITE

if TYPE_CHECKING:
    from compute.export.scene import Look

APART = (255, 0, 200)  # of a level that is no number: in no palette


def coloured(levels: NDArray[np.uint8], look: Look, apart: tuple[int, int, int] = APART) -> NDArray[np.uint8]:
    """(height, width, 3): `levels` (height, width) in the colours of `look`, the level of no number in `apart`.

    Row 0 of `levels` is the lowest, that of the result the highest, as files have it.
    """
    colours = table(look.palette)
    colours = np.roll(colours[::-1] if look.reverse else colours, -round(look.offset * len(colours)), axis=0)
    whole = np.concatenate([colours, np.array([apart], np.uint8)])
    found: NDArray[np.uint8] = whole[np.minimum(levels[::-1], NOT_FINITE)]
    return found
