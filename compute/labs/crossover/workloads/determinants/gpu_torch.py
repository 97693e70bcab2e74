"""PyTorch, batched."""

from __future__ import annotations

import torch  # type: ignore[import-not-found]

from compute.devices import Array


def determinants(A: Array, det: Array) -> None:
    """det (n,) of the matrices A, (n, side, side)."""
    torch.linalg.det(A, out=det)
