"""PyTorch: a * a."""

from __future__ import annotations

import torch

from compute.devices.devices import Array


def square(a: Array, out: Array) -> None:
    """Compute out = a * a, both (n,)."""
    torch.mul(a, a, out=out)
