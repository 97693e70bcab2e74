"""An array of zeros has no memory until it is written to."""

from __future__ import annotations

from compute.labs.crossover.trap import Trap

TRAP = Trap(
    __name__, "Timing zeros", 3, {"gigabytes_per_second": "what was taken for the speed of reading memory, GB/s"}
)
