"""The reference of deep views, made step by step: the orbit in many digits, its table, both on the device.

An orbit serves its neighbourhood: pans and zooms keep it, and only a table made for other distances is made anew.
"""

from __future__ import annotations

import math
from fractions import Fraction

from compute.devices import Device
from compute.labs.mandelbrot.orbit import PIECE, Orbit
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.state import Reference, Table

SHORTEST = 4  # iterations of an orbit at least, so that its table has an entry
REACH = 4  # view heights from the centre up to which an orbit serves
SPARE_BITS = 64  # of a new orbit beyond what its view needs: so much deeper it still serves
LOOSE = 6.0  # powers of two by which a table's distances may exceed those of the view; then jumps become too short


class Guide:
    """Computes an orbit near the centre of `place` in slices; then `reference` is there.

    bla: the backend's function of that name; log2_epsilon: what a jump may leave out; far: with exponents of their own;
    old: a guide whose orbit may serve again.
    """

    def __init__(
        self, device: Device, bla: Table, place: Place, max_iterations: int, log2_epsilon: float, far: bool,
        old: Guide | None,
    ) -> None:  # fmt: skip
        self._device, self._bla, self.place, self._epsilon, self._far = device, bla, place, log2_epsilon, far
        wanted = max(SHORTEST, max_iterations)
        self.orbit: Orbit
        self._reach = 0.0  # log2 of the distance that the table was made for
        if old is not None and _serves(old.orbit, place):
            self.orbit = old.orbit
            self.orbit.extend(wanted)
        else:
            self.orbit = Orbit(place.re, place.im, place.bits + SPARE_BITS, wanted)
        self._reference = self._kept(old) if old is not None and self.orbit is old.orbit else None

    def _kept(self, old: Guide) -> Reference | None:
        """The old guide's arrays, if they serve here too."""
        same = (old._epsilon, old._far) == (self._epsilon, self._far)
        if old._reference is None or not same or not self.orbit.finished:
            return None
        self._reach, loose = old._reach, old._reach - self.log2_dc
        return old._reference.at(self.place, self._far) if 0 <= loose <= LOOSE else None

    @property
    def point(self) -> tuple[Fraction, Fraction]:
        """C of the orbit: pixels are given by their offsets from it."""
        return self.orbit.point

    @property
    def log2_dc(self) -> float:
        """log2 of the farthest pixel's distance from C, with a pixel to spare for moved samples."""
        x, y = (abs(float(part)) + 1 for part in self.place.away(*self.point))
        return self.place.spacing.log2 + math.log2(math.hypot(x + self.place.nx / 2, y + self.place.ny / 2))

    @property
    def ready(self) -> bool:
        """Whether `reference` is there."""
        return self._reference is not None

    @property
    def progress(self) -> float:
        """Part of the orbit that is done, from 0 to 1."""
        return self.orbit.progress

    @property
    def length(self) -> int:
        """Iterations of the orbit that are done."""
        return self.orbit.length

    @property
    def reference(self) -> Reference:
        """For the kernels; RuntimeError before it is ready."""
        if self._reference is None:
            raise RuntimeError("the reference orbit is not finished")
        return self._reference

    def at(self, place: Place) -> Reference:
        """The reference for the pixels of another view, about as large and in the same place."""
        return self.reference.at(place, self._far)

    def advance(self, slices: int, budget: int) -> int:
        """Do `slices` slices of the orbit; once it is finished, make the table and give `budget` back, else 0."""
        if not self.orbit.finished:
            self.orbit.advance(slices * PIECE)
            if not self.orbit.finished:
                return 0
        self._reach = self.log2_dc
        distances = self._reach, self._epsilon
        self._reference = Reference.of(self._device, self._bla, self.orbit, self.place, distances, self._far)
        return budget


def _serves(orbit: Orbit, place: Place) -> bool:
    """Whether an orbit is exact enough for a view, and near enough to it."""
    away = max(abs(part) for part in place.away(*orbit.point))
    return orbit.bits >= place.bits and away <= REACH * place.ny
