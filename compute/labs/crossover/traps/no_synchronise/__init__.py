"""A launch returns before the GPU has computed the result."""

from __future__ import annotations

from compute.labs.crossover.trap import Trap

TRAP = Trap(__name__, "A missing synchronise", 2, {"milliseconds": "what was taken for the time of the product, ms"})
