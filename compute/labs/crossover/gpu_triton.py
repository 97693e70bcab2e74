"""Triton's arrays are PyTorch's."""

from __future__ import annotations

from compute.labs.crossover.gpu_torch import evict

__all__ = ["evict"]
