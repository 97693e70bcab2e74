"""What is worked out beside the steps: the curve on the lab's λ, what the rules say, the error where x is known.

The points cost O(k) for each λ and are made anew for each picture; rules, error and Ritz values cost more, and are
made anew when the steps have grown by a quarter, and when they are done.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.probe import Probe
from compute.labs.l_curve.rules import FEWEST, Choice, Reading
from compute.labs.l_curve.rules.minima import FEWEST_ROWS, ncp_search
from compute.labs.l_curve.small import Points, distances, points, ritz_values

if TYPE_CHECKING:
    from compute.labs.l_curve import LCurve

Vector = NDArray[np.float64]

GROWN = 1.25  # factor of the steps after which rules, error and Ritz values are worked out again
PROBED, LEAST = 2, 64  # steps of the probe at most, as a multiple of the run's, but no fewer than 64 are tried
FINE = 200  # λ on the grid that the rules read, at the least


class Survey:
    """Of one run of a lab. history: (steps, widest ribbon) of every picture on the present λ, ascending in steps."""

    def __init__(self, lab: LCurve) -> None:
        self._lab = lab
        self.history: list[tuple[int, float]] = []
        self._history_on: Vector = np.empty(0)  # the λ that its ribbons are of
        self._picard: tuple[Vector, Vector] | None = None
        self.forget()

    def forget(self) -> None:
        """Other λ: what was worked out for the old ones is of no use."""
        self._at: tuple[int, Points] | None = None
        self._rest: tuple[int, dict[str, Choice], Vector | None] | None = None
        self._ritz: tuple[int, Vector] | None = None
        self._search: Generator[None, None, Choice] | None = None
        self._whitest: Choice | None = None
        self.complete = False

    @property
    def points(self) -> Points:
        """The curve on the lab's λ after the steps done."""
        k = self._lab.bidiagonal.k
        if self._at is None or self._at[0] != k:
            grid = self._lab.grid
            at = points(self._lab.bidiagonal.small, grid)
            self._at = k, at
            same = np.array_equal(grid, self._history_on)
            self._history_on = grid
            self.history = [entry for entry in self.history if same and entry[0] < k] + [(k, float(at.widths.max()))]
        return self._at[1]

    def reading(self, at: Points | None = None) -> Reading:
        """What the rules read: the points `at`, or if None the curve on a grid that is fine enough for them."""
        lab = self._lab
        small = lab.bidiagonal.small
        if at is None and lab.grid.size >= FINE:
            at = self.points
        if at is None:
            at = points(small, np.geomspace(lab.grid[0], lab.grid[-1], FINE))
        singular = None if lab.system.spectrum is None else lab.system.spectrum.values
        probe = lab.probe.freedom if lab.probe and self.probed else None
        rows, noise, weight = lab.system.shape[0], lab.noise_norm, lab.gcv_weight
        return Reading(small, at, rows, noise, singular, probe, weight, self._whitest)

    @property
    def probed(self) -> bool:
        """Whether the probe has gone far enough for the lab's λ."""
        lab = self._lab
        return lab.probe is not None and lab.probe.finished(lab.grid, max(PROBED * lab.bidiagonal.k, LEAST))

    # -- what costs more

    def probe(self, steps: int) -> bool:
        """Advance the probe by `steps`, if the matrix needs one; False if there is nothing to do for it."""
        lab = self._lab
        if lab.system.spectrum is not None or self.probed:
            return False
        lab.probe = lab.probe or Probe(lab.bidiagonal)
        lab.probe.advance(steps)
        return True

    def listen(self, count: int) -> bool:
        """Work out `count` residuals for the search for the whitest; False if there is nothing to do for it."""
        lab = self._lab
        if self._whitest is not None or lab.system.shape[0] < FEWEST_ROWS:
            return False
        if self._search is None:
            lambdas = self.reading().closed().lambdas
            if lambdas.size < FEWEST:
                return False
            self._search = ncp_search(lab.residual, lambdas)
        try:
            for _ in range(count):
                next(self._search)
        except StopIteration as found:
            self._whitest = found.value
        return True

    def look(self) -> None:
        """Work out rules and error for the last time; nothing is left to do then."""
        self._rest, self._ritz = None, None
        self._refresh()
        self.complete = True

    def _stale(self, k: int) -> bool:
        now = self._lab.bidiagonal.k
        return now != k and (now >= GROWN * k or self._lab.done)

    def _refresh(self) -> tuple[int, dict[str, Choice], Vector | None]:
        if self._rest is None or self._stale(self._rest[0]):
            self._rest = self._lab.bidiagonal.k, self._lab.choices(), self._errors()
        return self._rest

    @property
    def choices(self) -> dict[str, Choice]:
        """λ and reason by rule, perhaps of some steps ago."""
        return self._refresh()[1]

    @property
    def errors(self) -> Vector | None:
        """(count,) |x - truth| / |truth| on the lab's λ, perhaps of some steps ago; None where no truth is known."""
        return self._refresh()[2]

    def _errors(self) -> Vector | None:
        """|x - truth|^2 = |y - V truth|^2 + |truth - its part in the span of V|^2."""
        lab, truth = self._lab, self._lab.system.x
        if truth is None:
            return None
        shadow = lab.bidiagonal.projection(truth)
        rest = np.linalg.norm(truth - lab.device.download(lab.bidiagonal.solution(shadow)))
        return np.asarray(np.hypot(distances(lab.bidiagonal.small, lab.grid, shadow), rest) / np.linalg.norm(truth))

    # -- singular values

    @property
    def singular(self) -> tuple[Vector, str]:
        """Singular values of A, descending, and "exact"; or the Ritz values, perhaps of some steps ago."""
        spectrum, k = self._lab.system.spectrum, self._lab.bidiagonal.k
        if spectrum is not None:
            return spectrum.values, "singular values"
        if self._ritz is None or self._stale(self._ritz[0]):
            self._ritz = k, ritz_values(self._lab.bidiagonal.small)
        return self._ritz[1], "Ritz values"

    @property
    def picard(self) -> tuple[Vector, Vector] | None:
        """(singular values, |u_i b|) of the exact decomposition; None for a large matrix."""
        spectrum = self._lab.system.spectrum
        if spectrum is not None and self._picard is None:
            self._picard = spectrum.values, np.abs(spectrum.left.T @ self._lab.b)
        return self._picard
