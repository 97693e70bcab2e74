"""PyTorch: a * a."""

from __future__ import annotations

import torch  # type: ignore[import-not-found]

from compute.devices import Array


def square(a: Array, out: Array) -> None:
    """out = a * a, both (n,)."""
    torch.mul(a, a, out=out)
