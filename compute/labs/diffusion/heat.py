"""The book-keeping of what should be conserved."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from compute.display.camera import Survey


@dataclass
class Heat:
    """Total heat against what it was when the field was loaded or painted, and whether all cells were finite."""

    start: float | None = None
    scale: float = 1.0
    nonfinite: int = 0

    def seen(self, survey: Survey, cells: int) -> None:
        """Take in a survey of the field; the first one sets the start.

        The scale of the drift is the heat at the start, or a thousandth of cells x peak where the signs cancel.
        """
        self.nonfinite = survey.nonfinite
        if self.start is None:
            peak = max(abs(survey.minimum), abs(survey.maximum))
            self.start, self.scale = survey.total, max(abs(survey.total), 1e-3 * cells * peak)

    def drift(self, total: float) -> float:
        """(total - start) / scale, dimensionless; nan where there is no scale."""
        return (total - self.start) / self.scale if self.start is not None and self.scale > 0 else nan
