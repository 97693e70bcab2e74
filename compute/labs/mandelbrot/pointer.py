"""What the point under the pointer does: its orbit, and the Julia set that belongs to it."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType

import numpy as np

from compute.devices import Array, Device
from compute.display.camera import Camera
from compute.frames import Curve, Raster
from compute.labs.mandelbrot.orbit import Orbit
from compute.labs.mandelbrot.painting import Painting, Task
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.precision import PRECISIONS

SIDE = 192  # pixels of the Julia set, which covers -2 … 2 in both directions
EXTENT = (-2.0, -2.0, 2.0, 2.0)
JULIA_ITERATIONS = 256
ALL = 2**62  # a budget that no Julia set exceeds
Point = tuple[Fraction, Fraction]


def under(place: Place, pointer: tuple[float, float]) -> Point:
    """The point of the plane at these fractions of the view, from its lower left corner; exact."""
    across, up = Fraction(pointer[0]) - Fraction(1, 2), Fraction(pointer[1]) - Fraction(1, 2)
    return place.re + across * place.nx * place.step, place.im + up * place.ny * place.step


def orbit(point: Point, bits: int, length: int) -> Curve:
    """z_0 = 0, z_1 = c, … z_n, n <= length, up to the first with |z| > 2; real parts over imaginary ones."""
    walk = Orbit(*point, bits, length)
    while not walk.finished:
        walk.advance(length)
    values = np.ldexp(walk.values(), np.maximum(walk.exponents(), -1100)[:, None])
    outside = np.flatnonzero((values**2).sum(axis=1) > 4)
    kept = values[: outside[0] + 1] if outside.size else values
    return Curve(kept[:, 0].copy(), kept[:, 1].copy(), "orbit")


class Julia:
    """The Julia set of z^2 + c for one c, as a small picture of the whole plane -2 … 2."""

    def __init__(self, device: Device, painting: Painting, camera: Camera, colour: ModuleType) -> None:
        self._painting, self._camera, self._colour = painting, camera, colour
        axis = (np.arange(SIDE) + 0.5) / SIDE * 4 - 2
        self._start = np.broadcast_to(axis, (SIDE, SIDE)), np.broadcast_to(axis[:, None], (SIDE, SIDE))
        self._logs: Array = device.allocate((SIDE, SIDE), np.float32)
        self._at: Point | None = None
        self._raster: Raster | None = None

    def raster(self, point: Point) -> Raster:
        """Its picture, from the logarithm of the smooth count; level 255 stays bounded. Computed when c is new."""
        if self._raster is None or point != self._at:
            task = Task(
                Place(Fraction(0), Fraction(0), Fraction(1), SIDE, SIDE), PRECISIONS["float64"], JULIA_ITERATIONS, True
            )
            self._painting.begin_at(task, (float(point[0]), float(point[1])), self._start)
            while not self._painting.finished:
                self._painting.advance(ALL)
            self._colour.logarithm(self._painting.state.smooth, self._logs)
            limits = self._camera.survey(self._logs).limits()
            drawn = self._camera.raster(self._logs, None, (SIDE, SIDE), limits, "log2 of the smooth count")
            self._raster, self._at = Raster(drawn.levels, *limits, extent=EXTENT, label=drawn.label), point
        return self._raster
