"""The room of each part of a page: which bars a window has room for, and what they leave to the picture.

A window narrower than SIDE_ROOM is a phone: an open bar overlays the picture there, and what is in the right column
above the readout becomes a sheet below the picture.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.page.address import FULL, Level
from app.tab.lab_tab import HEADER, LEAST_VIEW, PADDING, READOUT, STATUS, view_size
from app.tab.lab_view import Size

SIDE_ROOM, READOUT_ROOM = 900, 1180  # least window widths in px for the side bar, and for the readout as well
# Least window widths in px for a feature in the right column, in portrait and in landscape windows. In narrower windows
# it is a sheet below the picture.
COLUMN_ROOM, COLUMN_ROOM_TURNED = 700, LEAST_VIEW[0] + READOUT + PADDING
SHEET = (0.28, 0.42)  # least and greatest height of the sheet, relative to the window's height
SQUARE = 1.08  # ratio of height to width of a square picture with its title, axis and colour bar
ROOM_FOR_LARGE = (600, 560)  # px of window size below which presenter mode keeps its type small, as in style.css


@dataclass(frozen=True)
class Layout:
    """The state of a page's bars.

    window: (width, height) in px; level: how much of the page is shown, see app.page.address; presenting: whether the
    page is in presenter mode; side_bar, column: whether the bar on the left, or the right column, is open; in_column:
    whether a feature is shown in the right column; below: height in px of the bars at the bottom.
    """

    window: Size
    level: Level
    presenting: bool
    side_bar: bool
    column: bool
    in_column: bool
    below: int

    @property
    def narrow(self) -> bool:
        """Whether open bars overlay the picture."""
        return self.window[0] < SIDE_ROOM

    @property
    def above(self) -> int:
        """Height in px of the header."""
        return HEADER if self.level == FULL else 0

    @property
    def sheet(self) -> int:
        """Height in px of the sheet below the picture; 0 without a feature in the column, or with one on the right."""
        return sheet_height(self.window, self.above, self.below) if self.in_column and self.column else 0

    @property
    def room(self) -> Size:
        """(width, height) in px of the main area."""
        right_column = self.column and not self.sheet and (self.in_column or not self.narrow)
        return view_size(
            self.window, self.side_bar and not self.narrow, right_column, self.below + self.sheet, self.above
        )

    @property
    def large(self) -> bool:
        """Whether type is scaled up: in presenter mode, unless the window is smaller than ROOM_FOR_LARGE."""
        width, height = self.window
        return self.presenting and width >= ROOM_FOR_LARGE[0] and height >= ROOM_FOR_LARGE[1]


def bars_with_room(width: int) -> tuple[bool, bool]:
    """Return whether a window of `width` px has room for the side bar, and for the readout as well."""
    return width >= SIDE_ROOM, width >= READOUT_ROOM


def sheet_height(window: Size, above: int, below: int) -> int:
    """Return the height in px of the sheet below the picture; 0 if the feature is placed next to the picture.

    window: (width, height) in px; above, below: height in px of the bars at the top and the bottom. Within the bounds
    of SHEET, the sheet leaves room for a square picture of the window's full width.
    """
    width, height = window
    if width >= COLUMN_ROOM or (width > height and width >= COLUMN_ROOM_TURNED):
        return 0
    least, most = (round(part * height) for part in SHEET)
    return min(max(height - above - below - PADDING - round(SQUARE * width), least), most)


def status_height(level: Level) -> int:
    """Return the height in px of the status bar at a level of the page."""
    return 0 if level == "none" else STATUS
