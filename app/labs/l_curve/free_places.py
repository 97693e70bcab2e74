"""Label placement in free space of a plot, on a grid of cells; drawn objects occupy the cells that they touch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.tab.plots import Position

CELL = 4  # px
STEADY = 48  # px by which a new position must be nearer before a label leaves a free position
Corner = tuple[float, float]  # px of the left and the lower edge of a label


class FreeRoom:
    """The free space inside a plot, in px from its lower left corner, y upwards."""

    def __init__(self, width: float, height: float) -> None:
        """Create an empty plot of width x height px, both > 0."""
        self.size = (width, height)
        self._taken = np.zeros((max(1, int(width // CELL)), max(1, int(height // CELL))), bool)

    def copy(self) -> FreeRoom:
        """Return a copy, which can be modified independently."""
        room = FreeRoom(*self.size)
        room._taken[:] = self._taken
        return room

    def take_line(self, points: NDArray[np.float64], clearance: float) -> None:
        """Occupy the points within `clearance` px of the line through `points`, float64 (n, 2)."""
        steps = np.hypot(*np.diff(points, axis=0).T)
        along = np.concatenate([[0.0], np.cumsum(steps)])
        even = np.linspace(0.0, along[-1], max(2, int(along[-1] / (CELL / 2)) + 1))
        for x, y in zip(np.interp(even, along, points[:, 0]), np.interp(even, along, points[:, 1]), strict=True):
            self.take_box((x - clearance, y - clearance), (2 * clearance, 2 * clearance))

    def take_box(self, corner: Corner, size: tuple[float, float]) -> None:
        """Occupy a box of (width, height) px with that lower left corner."""
        (x0, x1), (y0, y1) = (
            (max(0, int(low // CELL)), max(0, int(-(-(low + side) // CELL))))
            for low, side in zip(corner, size, strict=True)
        )
        self._taken[x0:x1, y0:y1] = True

    def nearest(self, size: tuple[float, float], to: Position, before: Corner | None = None) -> Corner | None:
        """Return the lower left corner of the free box of (width, height) px nearest to `to`; None if none is free.

        before: the current position, which is kept unless another one is STEADY px nearer, as labels that jump while a
        curve grows are unreadable.
        """
        cells = [int(-(-side // CELL)) for side in size]
        free = self._free(cells)
        if not free.any():
            return None
        lows = [CELL * np.arange(count) for count in free.shape]
        away = [
            np.maximum(0.0, np.maximum(low - place, place - low - side))
            for low, place, side in zip(lows, to, size, strict=True)
        ]
        distance = np.where(free, np.hypot(away[0][:, None], away[1][None, :]), np.inf)
        i, j = np.unravel_index(int(np.argmin(distance)), distance.shape)
        if before is not None:
            k, m = (int(side // CELL) for side in before)
            if 0 <= k < free.shape[0] and 0 <= m < free.shape[1] and distance[k, m] <= distance[i, j] + STEADY:
                return before
        return float(lows[0][i]), float(lows[1][j])

    def _free(self, cells: Sequence[int]) -> NDArray[np.bool_]:
        """Return for each corner cell whether the box of (wide, high) cells is free, by a summed-area table."""
        wide, high = cells
        if wide > self._taken.shape[0] or high > self._taken.shape[1]:
            return np.zeros((0, 0), bool)
        table = np.zeros([count + 1 for count in self._taken.shape], np.int64)
        table[1:, 1:] = self._taken.cumsum(0).cumsum(1)
        taken = table[wide:, high:] - table[:-wide, high:] - table[wide:, :-high] + table[:-wide, :-high]
        return np.asarray(taken == 0)
