"""The display kernels for Numba's simulator, which has no CUDA C: cpu_numpy.py's, on the simulator's arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from compute.display import cpu_numpy


def _on_host(function: Callable[..., None]) -> Callable[..., None]:
    """Return `function` for the simulator's arrays, which are in host memory."""

    @wraps(function)
    def run(*arguments: Any) -> None:
        """Call `function` with views of the simulator's arrays."""
        function(*(np.asarray(value) if hasattr(value, "copy_to_host") else value for value in arguments))

    return run


KERNELS: tuple[Callable[..., None], ...] = (
    cpu_numpy.survey, cpu_numpy.reduce, cpu_numpy.levels, cpu_numpy.block_levels, cpu_numpy.window, cpu_numpy.disc,
    cpu_numpy.gather, cpu_numpy.fill, cpu_numpy.logarithm, cpu_numpy.histogram,
    cpu_numpy.equalise, cpu_numpy.mark, cpu_numpy.distance, cpu_numpy.blend, cpu_numpy.resolve, cpu_numpy.exclude,
)  # fmt: skip
survey, reduce, levels, block_levels, window, disc = map(_on_host, KERNELS[:6])
gather, fill, logarithm, histogram = map(_on_host, KERNELS[6:10])
equalise, mark, distance, blend, resolve, exclude = map(_on_host, KERNELS[10:])
