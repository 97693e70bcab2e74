"""Numba's threading layer, chosen before the first parallel kernel runs.

The layer `workqueue` aborts the process when two threads run parallel kernels at once; OpenMP and TBB do not. Where
neither is there, workqueue is safe all the same as long as a device's lock is held, which every lab does.
"""

from __future__ import annotations

import numba


def choose_layer() -> None:
    """Prefer OpenMP, then TBB, then workqueue. Has no effect once a parallel kernel has run."""
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
