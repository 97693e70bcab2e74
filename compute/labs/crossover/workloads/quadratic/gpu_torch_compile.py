"""PyTorch's compile: traces the function and makes one Triton kernel of it. Its first call takes seconds."""

from __future__ import annotations

import torch

from compute.devices import Array


@torch.compile
def _root(a: Array, b: Array, c: Array) -> Array:
    return (-b + torch.sqrt(b**2 - 4 * a * c)) / (2 * a)


def root(a: Array, b: Array, c: Array, x: Array) -> Array:
    """The root next to 0 of a x² + b x + c; all (n,)."""
    return _root(a, b, c)
