"""The reference of a deep view, made step by step: the orbit in many digits, its table, both on the device."""

from __future__ import annotations

import math

from compute.devices import Device
from compute.labs.mandelbrot import bla
from compute.labs.mandelbrot.orbit import PIECE, Orbit
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.state import Reference

SHORTEST = 4  # iterations of an orbit at least, so that its table has an entry


class Guide:
    """Computes an orbit at the centre of `place` in slices; then `reference` is there.

    log2_epsilon: what a jump may leave out; far: with exponents of their own; old: a guide whose orbit may serve again.
    """

    def __init__(
        self, device: Device, place: Place, max_iterations: int, log2_epsilon: float, far: bool, old: Guide | None
    ) -> None:
        self._device, self._place, self._epsilon, self._far = device, place, log2_epsilon, far
        wanted = place.re, place.im, place.bits, max(SHORTEST, max_iterations)
        kept = old.orbit if old and old.orbit.serves(*wanted) else None
        self.orbit: Orbit = kept or Orbit(*wanted)
        self._reference: Reference | None = None

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

    def advance(self, slices: int, budget: int) -> int:
        """Do `slices` slices of the orbit; once it is finished, make the table and give `budget` back, else 0."""
        if not self.orbit.finished:
            self.orbit.advance(slices * PIECE)
            if not self.orbit.finished:
                return 0
        far_corner = math.hypot(self._place.nx, self._place.ny) / 2
        log2_dc = self._place.spacing.log2 + math.log2(far_corner)
        table = bla.build(self.orbit.values(), self.orbit.exponents(), log2_dc, self._epsilon)
        self._reference = Reference.of(self._device, self.orbit, table, self._place, self._far)
        return budget
