"""The plots of the Mandelbrot lab, for files: pictures over the complex plane, at any depth.

Where float64 cannot tell a picture's edges apart, the axes show the distance from the centre in a power of ten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import floor, log10

from compute.frames import Frame
from compute.labs.mandelbrot.place import number
from compute.panels import Panel, plain

CLOSE = 10**6  # zoom from which axes count from the centre
HALF = Fraction(1, 2)
SHOWN = 24  # characters of a centre in an axis' name


def panels(frame: Frame) -> Mapping[str, Panel]:
    """The set over its axes first, then what else the frame has."""
    found = dict(plain(frame))
    if "escape" in found:
        found["escape"] = replace(found["escape"], title="Mandelbrot set")
        if "zoom" in frame.notes:
            x0, y0, x1, y1 = frame.rasters["escape"].extent
            found["escape"] = _over_plane(found["escape"], frame.notes, Fraction(x1 - x0) / Fraction(y1 - y0))
    return found


def _over_plane(panel: Panel, notes: Mapping[str, str], aspect: Fraction) -> Panel:
    """`panel` with axes for a view that is 4 / zoom high and `aspect` times as wide."""
    zoom = number("zoom", notes["zoom"])
    sides = 4 / zoom * aspect, 4 / zoom
    if zoom < CLOSE:
        re, im = (number("center", notes[name]) for name in ("center_re", "center_im"))
        (x0, y0), (x1, y1) = ((float(re + part * sides[0]), float(im + part * sides[1])) for part in (-HALF, HALF))
        return replace(panel, x="Re c", y="Im c", extent=(x0, y0, x1, y1))
    power = floor(log10(sides[1].numerator) - log10(sides[1].denominator))
    across, up = (float(side / Fraction(10) ** power) / 2 for side in sides)
    x, y = f"Re c − ({_short(notes['center_re'])})", f"Im c − ({_short(notes['center_im'])})"
    return replace(panel, x=f"{x}  [1e{power}]", y=f"{y}  [1e{power}]", extent=(-across, -up, across, up))


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
