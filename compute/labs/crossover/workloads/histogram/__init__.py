"""Counting into bins: many threads add to the same few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import MeasuredWay, Ratio
from compute.measure.agreement import share_in_other_bins
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Cited, Claim, Work


def outputs(n: int, dtype: str, bins: int) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 counts depend on bins only
    """Return (counts,): (bins,) int32."""
    return (np.empty(bins, np.int32),)


def reference(x: NDArray[Any], bins: int) -> tuple[NDArray[Any], ...]:
    """Return the counts from comparisons with the edges, not from multiplication."""
    return (np.histogram(x.astype(np.float64), bins, (0.0, 1.0))[0],)


def work(n: int, dtype: str, bins: int) -> Work:
    """Count one read, one multiplication and one addition per sample."""
    size = np.dtype(dtype).itemsize
    return Work(moved=n * size + 4 * bins, flops=2 * n, memory=3 * 8 * n + 80_000 * bins)


@workload(
    title="Histogram",
    chapter=5,
    on="device",
    sizes=(100, 10**8),
    counted="samples",
    settings={"bins": (1200, 3)},
    tolerance={"float32": 0.0, "float64": 0.0},  # fraction of the samples in a wrong bin
    outputs=outputs,
    reference=reference,
    difference=share_in_other_bins,
    work=work,
    cited=(
        Cited("1200 bins, a row for each thread", 10**7, "", 220e-3, "a small GPU"),
        Cited("1200 bins, atomics", 10**7, "", 1.61e-3, "a small GPU"),
        Cited("3 bins, atomics", 10**7, "", 4.29e-3, "a small GPU"),
    ),
    claims=(
        Claim(
            "Atomic additions are 137 times as fast as a private row for each thread.",
            f"220 ms and 1.61 ms, 10⁷ samples in 1200 bins, on a small GPU ({TUTORIAL})",
            Ratio(MeasuredWay("gpu_numba_private"), MeasuredWay("gpu_numba_atomics"), 10**7, "float64", 220 / 1.61),
        ),
        Claim(
            "Atomic additions queue up where bins are few: 3 bins take 2.7 times as long as 1200.",
            f"4.29 ms and 1.61 ms, 10⁷ samples, on a small GPU ({TUTORIAL})",
            Ratio(
                MeasuredWay("gpu_numba_atomics", {"bins": 3}),
                MeasuredWay("gpu_numba_atomics"),
                10**7,
                "float64",
                4.29 / 1.61,
            ),
        ),
        Claim(
            "Private rows are slow by nature: on a CPU, too, they lose to one histogram.",
            f"drawn from the figures above ({TUTORIAL})",
            Ratio(MeasuredWay("cpu_numba"), MeasuredWay("cpu_numpy"), 10**7, "float64", 1.0),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator, bins: int) -> tuple[Any, ...]:
    """Return (x, bins): n numbers from 0 to 1, none close enough to an edge of a bin for rounding to cross it."""
    x = (rng.integers(bins, size=n) + rng.uniform(0.01, 0.99, n)) / bins
    return x.astype(dtype), bins
