"""A second lab beside the live one, under measurement: a step is a whole curve, its result are the norms."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve import LCurve
from compute.labs.l_curve.small import points
from compute.timings import Timing

SLICE = 0.02  # seconds after which a curve lets others in
PATIENCE = 6.0  # seconds after which a curve is given up: the live lab waits meanwhile, three quarters of the time
MOST_PIECES = 4096  # steps in a slice, at most
CHECKED, COUNT = 1e-4, 50  # λ at which results are compared: from this part of |A| on, which float32 reaches, how many


class Curves:
    """Computes the curve of a lab's problem again and again, until its ribbons close, in slices of about SLICE seconds.

    A timing's seconds are wall time from b to closed ribbons, the matrix on the device before; its cells are the
    non-zeros that were multiplied. A curve that takes longer than PATIENCE raises ValueError.
    """

    def __init__(self, lab: LCurve) -> None:
        self._lab = lab
        self._pieces = 1  # steps in a slice
        self._used = 0.0  # seconds of this curve
        self._fresh = True

    def warm(self) -> None:
        """Nothing: a curve is many steps long."""

    def advance(self, steps: int) -> Timing:
        """Up to `steps` curves, as many as are finished within a slice; one that is not goes on next time."""
        start, done, seconds, cells = perf_counter(), 0, 0.0, 1
        while True:
            finished = self._piece()
            if finished:
                seconds, done, cells = seconds + finished, done + 1, self._multiplied
            if done == steps or perf_counter() - start >= SLICE:
                break
        return Timing(self._lab.backend, "", done, cells, 0.0, seconds)

    def begin(self, seed: int) -> None:
        """Nothing: a curve starts from b, whatever the seed."""

    def result(self) -> NDArray[np.float64]:
        """(2, count) |A x - b| and |x|."""
        lab = self._lab
        while not lab.done:
            lab.advance(lab.chunk)
        if lab.lambdas or lab.system.tutorial:
            grid = lab.grid
        else:
            grid = np.geomspace(CHECKED * lab.system.size, lab.system.size, COUNT)
        at = points(lab.bidiagonal.small, grid)
        return np.stack([at.residual, at.solution])

    def close(self) -> None:
        """Close the lab."""
        self._lab.close()

    @property
    def _multiplied(self) -> int:
        return int(self._lab.bidiagonal.products * self._lab.system.A.nnz)

    def _piece(self) -> float:
        """Go on with the curve; its seconds once it is finished, else 0."""
        lab, start = self._lab, perf_counter()
        if self._fresh:
            lab.reset()
            self._used, self._fresh = 0.0, False
        if not lab.done:
            lab.advance(self._pieces)
        self._fresh = lab.done
        seconds = perf_counter() - start
        self._used += seconds
        if seconds < SLICE / 3 and self._pieces < MOST_PIECES:
            self._pieces *= 2
        elif seconds > SLICE:
            self._pieces = max(1, self._pieces // 2)
        if self._fresh:
            return self._used
        if self._used > PATIENCE:
            raise ValueError(
                f"a curve of this problem takes longer than {PATIENCE:.0f} s; `fieldlab bench` may time it"
            )
        return 0.0
