"""Sort on the CPU, in NumPy."""

from __future__ import annotations

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numpy")
def sort(a: Array, out: Array) -> None:
    """NumPy: quicksort on one core, vectorised if the processor supports it.

    Write a in ascending order to out, both (n,).
    """
    out[:] = a
    out.sort()
