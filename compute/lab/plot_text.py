"""Text versions of the plots of a frame, as sentences and as tables of numbers, for readers who cannot see them.

A lab describes its plots by panels (compute/lab/panels.py); exported figures use the same ones. A value of a picture is
known to one level: a 254th of its colours' range.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from compute.lab.frames import NOT_FINITE, TOP_LEVEL, WAITING, Extent, Frame, Raster
from compute.lab.lab import Lab
from compute.lab.panels import Line, Panel

SIDE = 7  # most rows and columns of a picture's table
ROWS = 33  # most rows of a table of curves
LINES = 3  # lines of a plot that get a sentence; a table has all of them


@dataclass(frozen=True)
class NumberTable:
    """A table: columns and rows as texts, the first entry of each row is its heading; note: on omissions."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def number(value: float) -> str:
    """Format a number with four digits, or "not finite"."""
    return f"{value:.4g}" if np.isfinite(value) else "not finite"


def sentences(lab: type[Lab], frame: Frame) -> tuple[str, ...]:
    """Return a sentence or more for each plot of a frame of `lab`."""
    found = []
    for panel in lab.panels(frame).values():
        if panel.image:
            found.append(picture_sentence(panel, frame.rasters[panel.image], lab.APART_WORDS))
        elif lines := drawn_lines(panel, frame):
            found += [line_sentence(panel, line, frame) for line in lines[:LINES]]
            if len(lines) > LINES:
                found.append(f"{panel.title}: {len(lines) - LINES} more lines.")
    return tuple(found)


def tables(lab: type[Lab], frame: Frame) -> tuple[NumberTable, ...]:
    """Return the tables of each plot of a frame of `lab`: one a picture, one for all lines with the same x."""
    found = []
    for panel in lab.panels(frame).values():
        if panel.image:
            found.append(picture_table(panel, frame.rasters[panel.image], lab.APART_WORDS))
        else:
            found += line_tables(panel, frame)
    return tuple(found)


# -- pictures


def picture_sentence(panel: Panel, raster: Raster, apart: str) -> str:
    """Return a sentence on the values of a picture and the place of the largest.

    apart: name of pixels without a value. The sentence states the extremes of all cells (Panel.extremes) if the
    pixels, which are means clipped to the limits of the colours, do not show them, and mentions pixels beyond these
    limits.
    """
    known = panel.extremes
    rows, columns = raster.levels.shape
    count = np.bincount(raster.levels.ravel(), minlength=NOT_FINITE + 1)
    waits, count[WAITING] = (count[WAITING], 0) if raster.waiting else (0, count[WAITING])
    head = f"{panel.title}: a picture of {columns} × {rows} pixels"
    parts = ((count[NOT_FINITE], apart), (waits, "not computed yet"))
    without = "".join(f"; {number / raster.levels.size:.0%} {words}" for number, words in parts if number)
    levels = np.flatnonzero(count[: TOP_LEVEL + 1])
    if not levels.size:
        return f"{head}{without}."
    mean = float(count[: TOP_LEVEL + 1] @ np.arange(TOP_LEVEL + 1)) / count[: TOP_LEVEL + 1].sum()
    least, most, middle = (number(value_of(raster, level)) for level in (levels[0], levels[-1], mean))
    row, column = divmod(int(np.argmax(raster.levels == levels[-1])), columns)
    x, y = (number(float(place)) for place in pixel_centre(panel.extent or raster.extent, (rows, columns), row, column))
    label = f"{raster.label} " if raster.label and raster.label != panel.title else ""
    place = f", mean {middle}, largest at x = {x}, y = {y}"
    if known is not None and beyond(raster, known):
        # these values have the colours of the ends, so that mean and place of the largest are unknown
        least += " or less" if known[0] < raster.low and not levels[0] else ""
        most += " or more" if known[1] > raster.high and levels[-1] == TOP_LEVEL else ""
        place = ""
    ends = value_of(raster, float(levels[0])), value_of(raster, float(levels[-1]))
    every = (
        f"; over all cells from {number(known[0])} to {number(known[1])}"
        if known and hides(raster, known, ends)
        else ""
    )
    return f"{head}; {label}from {least} to {most}{place}{every}{without}."


def beyond(raster: Raster, known: tuple[float, float] | None) -> bool:
    """Whether the extremes of the cells exceed the limits of a picture's colours, by more than rounding."""
    slack = (raster.high - raster.low) / TOP_LEVEL
    return known is not None and (known[0] < raster.low - slack or known[1] > raster.high + slack)


def hides(raster: Raster, known: tuple[float, float], ends: tuple[float, float]) -> bool:
    """Whether pixels from `ends[0]` to `ends[1]` hide the extremes `known` of the cells, by more than two levels."""
    slack = 2 * (raster.high - raster.low) / TOP_LEVEL
    return known[0] < ends[0] - slack or known[1] > ends[1] + slack


def picture_table(panel: Panel, raster: Raster, apart: str) -> NumberTable:
    """Return evenly spaced pixels of a picture; the uppermost row first, as displayed."""
    rows, columns = raster.levels.shape
    ups = np.unique(np.linspace(0, rows - 1, min(rows, SIDE)).round().astype(int))[::-1]
    rights = np.unique(np.linspace(0, columns - 1, min(columns, SIDE)).round().astype(int))
    extent = panel.extent or raster.extent
    heads = [number(pixel_centre(extent, (rows, columns), 0, int(column))[0]) for column in rights]
    body = []
    for row in ups:
        y = number(pixel_centre(extent, (rows, columns), int(row), 0)[1])
        body.append((y, *(pixel_words(raster, int(one), apart) for one in raster.levels[row, rights])))
    what = f"{raster.label} {f'[{raster.unit}]' if raster.unit else ''}".strip() or panel.title
    note = f"{len(ups)} × {len(rights)} of {rows} × {columns} pixels, each to a 254th of the colours' span."
    if beyond(raster, panel.extremes):
        note += " Values beyond the span show as its ends."
    return NumberTable(f"{panel.title}: {what}", (f"{panel.y or 'y'} \\ {panel.x or 'x'}", *heads), tuple(body), note)


def pixel_words(raster: Raster, level: int, apart: str) -> str:
    """Return the value of a level as text, or the name of a level without a value."""
    if level == NOT_FINITE:
        return apart
    return "not computed yet" if raster.waiting and level == WAITING else number(value_of(raster, float(level)))


def value_of(raster: Raster, level: float) -> float:
    """Return the value of a level."""
    return raster.low + level / TOP_LEVEL * (raster.high - raster.low)


def pixel_centre(extent: Extent, shape: tuple[int, int], row: int, column: int) -> tuple[float, float]:
    """Return (x, y) of a pixel of a picture of that shape; row 0 is the lowest."""
    x0, y0, x1, y1 = extent
    return x0 + (column + 0.5) / shape[1] * (x1 - x0), y0 + (row + 0.5) / shape[0] * (y1 - y0)


# -- lines


def drawn_lines(panel: Panel, frame: Frame) -> list[Line]:
    """Return the lines of a panel with points in the frame."""
    return [line for line in panel.lines if line.curve in frame.curves and line.points(frame)[0].size]


def line_sentence(panel: Panel, line: Line, frame: Frame) -> str:
    """Return a sentence on the ends and the range of a line, or on the place of its single point."""
    x, y = line.points(frame)
    name = f"{panel.title}, {line.label}" if line.label else panel.title
    across, up = panel.x or "x", panel.y or "y"
    if x.size == 1:
        return f"{name}: one point, {across} {number(x[0])}, {up} {number(y[0])}."
    known = y[np.isfinite(y)]
    if not known.size:
        return f"{name}: {x.size} points, none finite."
    ends = f"{across} from {number(x[0])} to {number(x[-1])}"
    peak = number(x[int(np.nanargmax(np.where(np.isfinite(y), y, -np.inf)))])
    span = f"{up} from {number(known.min())} to {number(known.max())}"
    return f"{name}: {x.size} points, {ends}; {span}, largest at {peak}."


def line_tables(panel: Panel, frame: Frame) -> list[NumberTable]:
    """Return the tables of a panel's lines; adjacent lines with the same x share one."""
    found = []
    points = [(line, *line.points(frame)) for line in drawn_lines(panel, frame)]
    for _, same in groupby(points, key=lambda each: each[1].tobytes()):
        group = list(same)
        x = group[0][1]
        picked = evenly(x.size, ROWS)
        names = [line.label or panel.y or line.curve for line, _, _ in group]
        rows = tuple((number(x[i]), *(number(y[i]) for _, _, y in group)) for i in picked)
        note = "" if len(picked) == x.size else f"{len(picked)} of {x.size} points."
        found.append(NumberTable(panel.title, (panel.x or "x", *names), rows, note))
    return found


def evenly(size: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` of the indices 0 … size - 1, evenly spaced, including both ends."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.intp))
