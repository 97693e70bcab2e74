"""Benchmark targets: a second lab of the live one's kind that the engine measures next to the live labs.

A target advances in steps and has a result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from compute.devices.parallel_regions import counted
from compute.measure.timing import Timing

if TYPE_CHECKING:
    from compute.lab.lab import Lab

WARM = 2  # uncounted steps before each timed slice; two touch both grids


class BenchmarkTarget(Protocol):
    """A lab under measurement, with a way to time it and a result to compare."""

    def warm(self) -> None:
        """Do a little uncounted work before a timed slice."""

    def advance(self, steps: int) -> Timing:
        """Run up to `steps` steps, limited by the time of a slice; timing.steps is their number, possibly 0."""

    def begin(self, seed: int) -> None:
        """Set the state that results are compared from; it depends on `seed` alone."""

    def result(self) -> NDArray[Any]:
        """Return the array to compare."""

    def close(self) -> None:
        """Free the memory."""


def advanced(lab: Lab, steps: int) -> Timing:
    """Advance a lab; return its timing with the parallel regions of a step."""
    with counted() as found:
        timing = lab.advance(steps)
    return replace(timing, regions=found.regions / max(1, timing.steps))


class StateTarget:
    """Any lab: a step is the lab's, the result all numbers of its `data`, the start state that of a new lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._start = lab.snapshot()

    def warm(self) -> None:
        """Run two steps."""
        self.advance(WARM)

    def advance(self, steps: int) -> Timing:
        """Run exactly `steps` steps; a lab at its end is first reset to the start state."""
        if self.lab.status.resting:
            self.lab.restore(self._start)
        return advanced(self.lab, steps)

    def begin(self, seed: int) -> None:  # noqa: ARG002 the start is the same for every seed
        """Restore the start state."""
        self.lab.restore(self._start)

    def result(self) -> NDArray[Any]:
        """Return the (n,) float64 numbers of all arrays, sorted by name."""
        arrays = [array.ravel() for _, array in sorted(self.lab.data().items())]
        return np.concatenate(arrays, dtype=np.float64, casting="same_kind")

    def close(self) -> None:
        """Close the lab."""
        self.lab.close()


class FieldTarget:
    """A lab with one field and no end: the start state is noise, the result the field."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def warm(self) -> None:
        """Run two steps."""
        self._lab.advance(WARM)

    def advance(self, steps: int) -> Timing:
        """Run exactly `steps` steps."""
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
