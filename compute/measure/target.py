"""What the engine measures beside the live labs: a second lab of the live one's kind, as something that advances in
steps and has a result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from compute.measure.timing import Timing
from compute.parallel_regions import counted

if TYPE_CHECKING:
    from compute.lab import Lab

WARM = 2  # steps before each timed slice that are not counted; two touch both grids


class BenchmarkTarget(Protocol):
    """A lab under measurement: what it is timed for, and what it is compared by."""

    def warm(self) -> None:
        """Do a little work that does not count, before a slice that does."""

    def advance(self, steps: int) -> Timing:
        """Do up to `steps` steps, as many as a slice has time for; timing.steps says how many, perhaps none."""

    def begin(self, seed: int) -> None:
        """Go to the state that results are compared from; it depends on `seed` alone."""

    def result(self) -> NDArray[Any]:
        """Return the array that is compared."""

    def close(self) -> None:
        """Give the memory back."""


def advanced(lab: Lab, steps: int) -> Timing:
    """Advance a lab; its timing with the parallel regions of a step."""
    with counted() as found:
        timing = lab.advance(steps)
    return replace(timing, regions=found.regions / max(1, timing.steps))


class StateTarget:
    """Any lab: a step is the lab's, the result are all numbers of its `data`, the start is that of a new lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._start = lab.snapshot()

    def warm(self) -> None:
        """Do two steps."""
        self.advance(WARM)

    def advance(self, steps: int) -> Timing:
        """Do exactly `steps` steps; a lab that has come to its end begins again first."""
        if self.lab.resting:
            self.lab.restore(self._start)
        return advanced(self.lab, steps)

    def begin(self, seed: int) -> None:  # noqa: ARG002 the start is the same for every seed
        """Go back to the start."""
        self.lab.restore(self._start)

    def result(self) -> NDArray[Any]:
        """Return the (n,) float64 numbers of all arrays, by their names."""
        arrays = [array.ravel() for _, array in sorted(self.lab.data().items())]
        return np.concatenate(arrays, dtype=np.float64, casting="same_kind")

    def close(self) -> None:
        """Close the lab."""
        self.lab.close()


class FieldTarget:
    """A lab that is one field and has no end: its start is noise, its result the field."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def warm(self) -> None:
        """Do two steps."""
        self._lab.advance(WARM)

    def advance(self, steps: int) -> Timing:
        """Do exactly `steps` steps."""
        return advanced(self._lab, steps)

    def begin(self, seed: int) -> None:
        """Load uniform noise in [0, 1)."""
        self._lab.load(np.random.default_rng(seed).random(self._lab.field().shape))

    def result(self) -> NDArray[Any]:
        """Return the (ny, nx) field."""
        return self._lab.field()

    def close(self) -> None:
        """Close the lab."""
        self._lab.close()
