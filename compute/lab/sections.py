"""Sections and probes of a grid: the row or column of cells whose values a frame has as a curve, and single cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.lab.frames import Curve

DIRECTIONS = ("horizontal", "vertical")  # of a section: along a row, along a column
MOST_POINTS = 1024  # of a curve on the screen; a longer section is drawn with every k-th cell


def index_at(part: float, cells: int) -> int:
    """Return the index of the cell at a fraction 0 … 1 of a side with that many cells."""
    return min(int(part * cells), cells - 1)


def probe_cell(values: Mapping[str, Any]) -> tuple[int, int]:
    """Return (row, column) of the probe. values: of a lab with ny, nx, probe_x and probe_y, fractions of the sides."""
    return index_at(values["probe_y"], values["ny"]), index_at(values["probe_x"], values["nx"])


def section_cells(values: Mapping[str, Any], index: int) -> tuple[int, int, int, int]:
    """Return the cells (y0, x0, height, width) of row `index`, or of that column if the section is vertical.

    values: of a lab with ny, nx and section.
    """
    return (index, 0, 1, values["nx"]) if values["section"] == "horizontal" else (0, index, values["ny"], 1)


def section_curve(line: NDArray[Any], label: str) -> Curve:
    """Return the values of a section (n,) as a curve over the centres of its cells, in cells."""
    stride = -(-line.size // MOST_POINTS)
    return Curve(np.arange(0.5, line.size, stride), line[::stride], label)
