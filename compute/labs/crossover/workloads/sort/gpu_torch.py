"""Sort on the GPU, in PyTorch."""

from __future__ import annotations

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_torch")
def sort(a: Array, out: Array) -> Array:
    """PyTorch: radix sort; it always computes the permutation too.

    Return a in ascending order, (n,).
    """
    return a.sort().values
