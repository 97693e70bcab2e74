"""PyTorch's compile: traces the function and generates one Triton kernel. Its first call takes seconds."""

from __future__ import annotations

import torch

from compute.devices.devices import Array


@torch.compile
def _root(a: Array, b: Array, c: Array) -> Array:
    return (-b + torch.sqrt(b**2 - 4 * a * c)) / (2 * a)


def root(a: Array, b: Array, c: Array, x: Array) -> Array:
    """Return the root of a x² + b x + c next to 0; all (n,)."""
    return _root(a, b, c)
