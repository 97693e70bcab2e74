"""The area of the set by Monte Carlo, with its error bar.

Each pass lays a lattice of points over the upper half of the set, moved by a random part of its spacing: every such
pass is an unbiased estimate, and they are independent, so that their scatter gives the standard error of their mean
(randomly shifted lattice). Points that stay for max_iterations count as inside: the estimate is of the area of those,
a little more than the set's, for which 1.50640 < A < 1.53121 is known.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from compute.display.camera import Camera
from compute.labs.mandelbrot.painting import Painting, Task
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.precision import PRECISIONS
from compute.timings import Timing

ROWS, COLUMNS = 256, 512  # points of a pass, over -2 … 0.5 and 0 … 1.25
CENTRE, ZOOM = (Fraction(-3, 4), Fraction(5, 8)), Fraction(16, 5)
MOST = 2000  # passes, then the estimate is left alone
FEWEST = 8  # passes from which on their scatter says something
SHIFTS = 2**30  # parts of a spacing, one of which is drawn


class Area:
    """The running estimate. passes: so far; mean, error: of the area, nan before there are FEWEST passes."""

    def __init__(self, painting: Painting, camera: Camera, seed: int = 0) -> None:
        self._painting, self._camera = painting, camera
        self._random = np.random.default_rng(seed)
        self._under_way = False
        self.restart()

    def restart(self) -> None:
        """Forget the estimate."""
        self.passes, self._sum, self._squares, self._under_way = 0, 0.0, 0.0, False

    @property
    def mean(self) -> float:
        """Area so far."""
        return self._sum / self.passes if self.passes >= FEWEST else math.nan

    @property
    def error(self) -> float:
        """Standard error of `mean`."""
        if self.passes < FEWEST:
            return math.nan
        variance = (self._squares - self._sum**2 / self.passes) / (self.passes - 1)
        return math.sqrt(max(variance, 0.0) / self.passes)

    def advance(self, max_iterations: int, budget: int) -> Timing:
        """Spend about `budget` iterations on the present pass."""
        if not self._under_way:
            task = Task(self._place(), PRECISIONS["float64"], max_iterations, True)
            self._painting.begin(task, strides=(1,))
            self._under_way = True
        timing = self._painting.advance(budget)
        if self._painting.finished:
            inside = self._camera.survey(self._painting.state.smooth).nonfinite
            area = 2 * inside * float(self._painting.task.place.step) ** 2
            self.passes += 1
            self._sum += area
            self._squares += area * area
            self._under_way = False
        return timing

    def _place(self) -> Place:
        """The lattice, moved to the right and up by less than one spacing."""
        place = Place(*CENTRE, ZOOM, ROWS, COLUMNS)
        right, up = (Fraction(int(k), SHIFTS) - Fraction(1, 2) for k in self._random.integers(0, SHIFTS, 2))
        return Place(place.re + right * place.step, place.im + up * place.step, ZOOM, ROWS, COLUMNS)
