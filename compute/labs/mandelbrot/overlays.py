"""Additions to the picture: the orbit of the point under the pointer, its Julia set, and the area of the set.

The area is estimated by the Monte Carlo method, with its error bar. Each pass puts a lattice of points over the upper
half of the set, shifted by a random part of its spacing: every pass is an unbiased estimate, and the passes are
independent, so that their scatter gives the standard error of their mean (randomly shifted lattice). Points that stay
for max_iterations count as inside, so the estimate is slightly larger than the area A of the set, for which the bounds
1.50640 < A < 1.53121 are known.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import ModuleType

import numpy as np

from compute.devices.devices import Array, Device
from compute.display.camera import Camera
from compute.lab.frames import Curve, Raster
from compute.labs.mandelbrot.painting import Painting, PictureTask
from compute.labs.mandelbrot.place import Place, Precision
from compute.labs.mandelbrot.reference_orbit import Orbit
from compute.measure.timing import Timing

SIDE = 192  # pixels of the Julia set, which covers -2 … 2 in both directions
EXTENT = (-2.0, -2.0, 2.0, 2.0)
JULIA_ITERATIONS = 256
ALL = 2**62  # a budget that no Julia set exceeds
PointerPoint = tuple[Fraction, Fraction]

ROWS, COLUMNS = 256, 512  # points of a pass
NEAR = Fraction(-3, 4), Fraction(5, 8), Fraction(16, 5)  # centre and zoom of -2 … 0.5 and 0 … 1.25
WIDE = Fraction(0), Fraction(1), Fraction(2)  # of -2 … 2 and 0 … 2: upper half of the points that stay one iteration
FITS = 6  # iterations after which all remaining points are within NEAR: after 5 they extend to 0.5005
MOST = 2000  # passes, after which the estimate stops
FEWEST = 8  # minimum passes for an estimate from their scatter
SHIFTS = 2**30  # parts of a spacing, one of which is drawn


def under(place: Place, pointer: tuple[float, float]) -> PointerPoint:
    """Return the exact point of the plane at these fractions of the view, from its lower left corner."""
    across, up = Fraction(pointer[0]) - Fraction(1, 2), Fraction(pointer[1]) - Fraction(1, 2)
    return place.re + across * place.nx * place.step, place.im + up * place.ny * place.step


def orbit(point: PointerPoint, bits: int, length: int) -> Curve:
    """Return z_0 = 0, z_1 = c, … z_n, n <= length, up to the first with |z| > 2; real over imaginary parts."""
    walk = Orbit(*point, bits, length)
    while not walk.finished:
        walk.advance(length)
    values = np.ldexp(walk.values(), np.maximum(walk.exponents(), -1100)[:, None])
    outside = np.flatnonzero((values**2).sum(axis=1) > 4)
    kept = values[: outside[0] + 1] if outside.size else values
    return Curve(kept[:, 0].copy(), kept[:, 1].copy(), "orbit")


class JuliaInset:
    """The Julia set of z^2 + c for one c, as a small picture of the whole plane -2 … 2."""

    def __init__(
        self, device: Device, painting: Painting, arithmetic: Precision, camera: Camera, colour: ModuleType
    ) -> None:
        self._painting, self._arithmetic, self._camera, self._colour = painting, arithmetic, camera, colour
        axis = (np.arange(SIDE) + 0.5) / SIDE * 4 - 2
        self._start = np.broadcast_to(axis, (SIDE, SIDE)), np.broadcast_to(axis[:, None], (SIDE, SIDE))
        self._logs: Array = device.allocate((SIDE, SIDE), np.float32)
        self._at: PointerPoint | None = None
        self._raster: Raster | None = None

    def raster(self, point: PointerPoint) -> Raster:
        """Return the logarithm of its smooth count; level 255 stays bounded. Recomputed only if c changes."""
        if self._raster is None or point != self._at:
            place = Place(Fraction(0), Fraction(0), Fraction(1), SIDE, SIDE)
            task = PictureTask(place, self._arithmetic, JULIA_ITERATIONS, True)
            self._painting.begin_at(task, (float(point[0]), float(point[1])), self._start)
            while not self._painting.finished:
                self._painting.advance(ALL)
            self._colour.logarithm(self._painting.state.smooth, self._logs)
            limits = self._camera.survey(self._logs).limits()
            drawn = self._camera.raster(self._logs, None, (SIDE, SIDE), limits, "log2 of the smooth count")
            self._raster, self._at = Raster(drawn.levels, *limits, extent=EXTENT, label=drawn.label), point
        return self._raster


# -- the area


class AreaEstimate:
    """The running estimate. passes: so far; mean, error: of the area, nan before FEWEST passes."""

    def __init__(self, painting: Painting, arithmetic: Precision, camera: Camera, seed: int = 0) -> None:
        self._painting, self._arithmetic, self._camera = painting, arithmetic, camera
        self._random = np.random.default_rng(seed)
        self._under_way = False
        self.restart()

    def restart(self) -> None:
        """Discard the estimate."""
        self.passes, self._sum, self._squares, self._under_way = 0, 0.0, 0.0, False

    @property
    def mean(self) -> float:
        """Mean area of the passes."""
        return self._sum / self.passes if self.passes >= FEWEST else math.nan

    @property
    def error(self) -> float:
        """Standard error of `mean`."""
        if self.passes < FEWEST:
            return math.nan
        variance = (self._squares - self._sum**2 / self.passes) / (self.passes - 1)
        return math.sqrt(max(variance, 0.0) / self.passes)

    def advance(self, max_iterations: int, budget: int) -> Timing:
        """Run about `budget` iterations of the present pass."""
        if not self._under_way:
            place = self._place(NEAR if max_iterations >= FITS else WIDE)
            task = PictureTask(place, self._arithmetic, max_iterations, True)
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

    def _place(self, where: tuple[Fraction, Fraction, Fraction]) -> Place:
        """Return the lattice, moved to the right and up by less than one spacing."""
        place = Place(*where, ROWS, COLUMNS)
        right, up = (Fraction(int(k), SHIFTS) - Fraction(1, 2) for k in self._random.integers(0, SHIFTS, 2))
        return Place(place.re + right * place.step, place.im + up * place.step, place.zoom, ROWS, COLUMNS)
