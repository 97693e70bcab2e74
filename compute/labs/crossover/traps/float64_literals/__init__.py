"""A literal 0.5 is float64, and so is every result computed with it."""

from __future__ import annotations

from compute.labs.crossover.trap import Trap

TRAP = Trap(
    __name__,
    "float64 literals in a float32 kernel",
    6,
    {"microseconds": "time of the kernel, µs", "result": "the first element of the result"},
)
