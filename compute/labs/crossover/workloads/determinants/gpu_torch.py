"""Determinants on the GPU, in PyTorch."""

from __future__ import annotations

import torch

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_torch")
def determinants(A: Array, det: Array) -> None:
    """PyTorch, batched.

    Write the determinants of the matrices A, (n, side, side), to det, (n,).
    """
    torch.linalg.det(A, out=det)
