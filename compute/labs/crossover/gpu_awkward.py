"""Awkward's arrays on a GPU are CuPy's."""

from __future__ import annotations

from compute.labs.crossover.gpu_cupy import evict

__all__ = ["evict"]
