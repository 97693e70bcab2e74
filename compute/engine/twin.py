"""What is measured beside a live lab: a second lab of its kind, as something that advances in steps and has a result.

A lab whose state is a field is its own twin. Another says in its folder's benchmark.py, by a function `twin(lab)`, what
a step of it is: a whole picture, for instance.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from compute.lab import Lab
from compute.timings import Timing

WARM = 2  # steps before each timed slice that are not counted; two touch both grids


class Twin(Protocol):
    """A lab under measurement."""

    def warm(self) -> None:
        """A little work that does not count, before a slice that does."""

    def advance(self, steps: int) -> Timing:
        """Up to `steps` steps, as many as are finished within a slice; timing.steps says how many, perhaps none."""

    def begin(self, seed: int) -> None:
        """The state that results are compared from."""

    def result(self) -> NDArray[Any]:
        """What is compared."""

    def close(self) -> None:
        """Give the memory back."""


class Field:
    """The twin of a lab with `load` and `field`: steps are the lab's, all at once."""

    def __init__(self, lab: Any) -> None:
        self._lab = lab

    def warm(self) -> None:
        """Two steps."""
        self._lab.advance(WARM)

    def advance(self, steps: int) -> Timing:
        """Exactly `steps` steps."""
        timing: Timing = self._lab.advance(steps)
        return timing

    def begin(self, seed: int) -> None:
        """Uniform noise in [0, 1)."""
        self._lab.load(np.random.default_rng(seed).random(self._lab.field().shape))

    def result(self) -> NDArray[Any]:
        """The field."""
        found: NDArray[Any] = self._lab.field()
        return found

    def close(self) -> None:
        """Close the lab."""
        self._lab.close()


def twin_of(lab: Lab) -> Twin:
    """The lab as its workload wants it measured."""
    name = f"{lab.PACKAGE}.benchmark"
    make = getattr(import_module(name), "twin", Field) if find_spec(name) else Field
    twin: Twin = make(lab)
    return twin
