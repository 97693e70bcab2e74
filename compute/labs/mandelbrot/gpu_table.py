"""The table of bla.py in CUDA C, launched with CuPy: a launch a level, a thread an entry."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array

SOURCE = Path(__file__).with_suffix(".cu")
THREADS = 128


def bla(
    orbit: Array,
    exponents: Array,
    table: Array,
    powers: Array,
    radius: Array,
    log2_dc: float,
    log2_epsilon: float,
    far: bool,
) -> None:
    """Fill the table of the orbit Z_m = orbit[m] 2^exponents[m], m = 0 … M, for pixels with |dc| up to 2^log2_dc.

    Arguments and results as of `bla` in bla.py.
    """
    count = orbit.shape[0] - 2
    distances = (log2_dc, log2_epsilon) if far else (math.exp2(log2_dc), math.exp2(log2_epsilon))
    dc, epsilon = map(np.float64, distances)
    kind, read = ("far", (orbit, exponents)) if far else ("plain", (orbit,))
    written = (table, powers, radius) if far else (table, radius)
    with table.device:
        _launch(f"first_{kind}", count, *read, *written, np.int32(count), dc, epsilon)
        for level in range(1, count.bit_length()):
            entries = count >> level
            _launch(f"merge_{kind}", entries, *written, np.int32(entries), np.int32(level), dc)


def _launch(name: str, count: int, *arguments: Any) -> None:
    if count > 0:
        _kernel(name, arguments[0].device.id)((-(-count // THREADS),), (THREADS,), arguments)


@cache
def _kernel(name: str, device: int) -> Any:
    """The kernel for the current GPU, which is number `device`."""
    return compile_cuda(SOURCE, defines={}).get_function(name)
