"""PyTorch, pageable."""

from __future__ import annotations

import torch

from compute.devices.devices import Array


def round_trip(a: Array, out: Array) -> None:
    """Compute out = a + 1, both (n,) NumPy arrays in main memory."""
    b = torch.from_numpy(a).to("cuda")
    b += 1
    torch.from_numpy(out).copy_(b)
