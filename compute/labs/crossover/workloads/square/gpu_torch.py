"""Square on the GPU, in PyTorch."""

from __future__ import annotations

import torch

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_torch")
def square(a: Array, out: Array) -> None:
    """PyTorch: a * a.

    Compute out = a * a, both (n,).
    """
    torch.mul(a, a, out=out)
