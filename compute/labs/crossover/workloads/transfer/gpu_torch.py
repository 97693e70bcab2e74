"""Transfer on the GPU, in PyTorch."""

from __future__ import annotations

import torch

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_torch")
def round_trip(a: Array, out: Array) -> None:
    """PyTorch, pageable.

    Compute out = a + 1, both (n,) NumPy arrays in main memory.
    """
    b = torch.from_numpy(a).to("cuda")
    b += 1
    torch.from_numpy(out).copy_(b)
