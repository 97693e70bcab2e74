"""The first call of a compiled function compiles it."""

from __future__ import annotations

from compute.labs.crossover.trap import Trap

TRAP = Trap(__name__, "Timing the first call", 1, {"milliseconds": "what was taken for the time of one call, ms"})
