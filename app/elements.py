"""A lab's frame as an element of HoloViews, to compose and style it with the tools of HoloViz.

A lab is a Parameterized object of param, so `pn.Param(lab)` makes its widgets and `lab.param.r` can be bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import holoviews as hv
import numpy as np

from compute.cli.arguments import named
from compute.lab.frames import NOT_FINITE, TOP_LEVEL, WAITING, Frame, Raster
from compute.lab.panels import Panel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from compute.lab.lab import Lab

PIXELS = (512, 512)  # largest size of a picture


def element(lab: Lab, panel: str = "", pixels: tuple[int, int] = PIXELS) -> Any:
    """Return a panel of the lab's current frame, by default the first: an hv.Image, or an hv.Overlay of hv.Curve.

    An image has the 255 levels of the page, means of blocks of cells, with NaN for values that are not finite or
    pending; `lab.field()` returns the full precision. Raise ValueError, with the known names, for an unknown panel.
    """
    frame = lab.frame(None, pixels)
    panels = lab.panels(frame)
    chosen = named("panel", panel or next(iter(panels)), dict(panels))
    return _image(chosen, frame.rasters[chosen.image]) if chosen.image else _overlay(chosen, frame)


def values(raster: Raster) -> NDArray[np.float64]:
    """Return the values of the levels, (py, px) float64, NaN for values that are not finite or pending."""
    low, high = raster.span
    top = TOP_LEVEL - raster.waiting
    found = low + raster.levels.astype(np.float64) / top * (high - low)
    found[raster.levels == NOT_FINITE] = np.nan
    if raster.waiting:
        found[raster.levels == WAITING] = np.nan
    return found


def _image(panel: Panel, raster: Raster) -> Any:
    """Return the picture; row 0 of a raster is the lowest, that of an hv.Image the highest."""
    extent = panel.extent or raster.extent
    value = hv.Dimension("value", label=raster.label or panel.title, unit=raster.unit or None)
    return hv.Image(values(raster)[::-1], kdims=_axes(panel), vdims=[value], bounds=extent, label=panel.title)


def _overlay(panel: Panel, frame: Frame) -> Any:
    """Return the lines of a panel."""
    x, y = _axes(panel)
    curves = [
        hv.Curve(line.points(frame), kdims=[x], vdims=[y], label=line.label or line.curve) for line in panel.lines
    ]
    return hv.Overlay(curves, label=panel.title)


def _axes(panel: Panel) -> list[Any]:
    return [hv.Dimension("x", label=panel.x or "x"), hv.Dimension("y", label=panel.y or "y")]
