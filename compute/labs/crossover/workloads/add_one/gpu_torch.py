"""Add one on the GPU, in PyTorch."""

from __future__ import annotations

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_torch")
def add_one(a: Array) -> None:
    """PyTorch: the same line as NumPy, on a tensor on the GPU.

    Add 1 to every element of a, (n,), in place.
    """
    a += 1
