"""PyTorch, batched."""

from __future__ import annotations

import torch

from compute.devices.devices import Array


def determinants(A: Array, det: Array) -> None:
    """Write the determinants of the matrices A, (n, side, side), to det, (n,)."""
    torch.linalg.det(A, out=det)
