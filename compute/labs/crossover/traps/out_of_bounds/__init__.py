"""An index past the end: an error, another element, or undefined behaviour."""

from __future__ import annotations

from compute.labs.crossover.trap import Trap

TRAP = Trap(
    __name__, "Out of bounds", 4, {"element": "what a[n + 1] of the numbers 0 to n - 1 gave; nan for an IndexError"}
)
