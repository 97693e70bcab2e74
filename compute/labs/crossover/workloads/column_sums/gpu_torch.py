"""Matrix product, then column sums on the GPU, in PyTorch."""

from __future__ import annotations

import torch

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_torch")
def column_sums(A: Array, B: Array, sums: Array) -> None:
    """PyTorch: the product by cuBLAS, then the sums; float32 without the shorter TF32.

    Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k).
    """
    torch.sum(A @ B, dim=0, out=sums)
