"""Awkward's arrays are NumPy's."""

from __future__ import annotations

from compute.labs.crossover.cpu_numpy import evict

__all__ = ["evict"]
