"""PyTorch, batched."""

from __future__ import annotations

import torch

from compute.devices import Array


def determinants(A: Array, det: Array) -> None:
    """det (n,) of the matrices A, (n, side, side)."""
    torch.linalg.det(A, out=det)
