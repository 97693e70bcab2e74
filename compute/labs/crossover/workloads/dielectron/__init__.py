"""The heaviest pair of electrons of every event: lists of different lengths, as in data from detectors."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import MeasuredWay, Ratio
from compute.measure.agreement import relative_l2
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Claim, Work

MEAN = 1.5  # electrons per event
PAIRS = MEAN**2 / 2  # pairs per event, on average: k (k - 1) / 2 for a Poisson-distributed k


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:
    """Return (mass,): (n,) GeV, of the heaviest pair; 0 for an event with fewer than two electrons."""
    return (np.empty(n, dtype),)


def reference(
    offsets: NDArray[Any], pt: NDArray[Any], eta: NDArray[Any], phi: NDArray[Any]
) -> tuple[NDArray[Any], ...]:
    """Return the masses from four-vectors, (E1 + E2)² - (p1 + p2)², in float64, pair by pair of list positions."""
    p = pt.astype(np.float64)
    x, y, z = p * np.cos(phi, dtype=np.float64), p * np.sin(phi, dtype=np.float64), p * np.sinh(eta, dtype=np.float64)
    energy, lengths = p * np.cosh(eta, dtype=np.float64), np.diff(offsets)
    best = np.zeros(len(lengths))
    for i, j in combinations(range(int(lengths.max())), 2):
        events = np.flatnonzero(lengths > j)
        a, b = offsets[events] + i, offsets[events] + j
        squared = (energy[a] + energy[b]) ** 2 - sum((v[a] + v[b]) ** 2 for v in (x, y, z))
        best[events] = np.maximum(best[events], squared)
    return (np.sqrt(best),)


def work(n: int, dtype: str) -> Work:
    """Count reading each electron and writing a mass; ten operations per pair; cosh, cos and root count as one."""
    size = np.dtype(dtype).itemsize
    return Work(moved=n * (8 + 3 * MEAN * size + size), flops=10 * PAIRS * n, memory=n * (8 + 20 * size))


@workload(
    title="Heaviest dielectron mass",
    chapter=12,
    on="device",
    sizes=(10, 10**7),
    counted="events",
    # Relative L2. cosh(η1 - η2) - cos(φ1 - φ2) is a small difference for two nearby electrons, but then the mass is
    # small too; for the heavy pairs that matter here the error is a few roundings.
    tolerance={"float32": 2e-6, "float64": 1e-14},
    outputs=outputs,
    reference=reference,
    difference=relative_l2,
    work=work,
    claims=(
        Claim(
            "Awkward Array makes ragged events a task for a GPU: it wins with the same lines.",
            f"300 000 events, without a figure ({TUTORIAL})",
            Ratio(MeasuredWay("cpu_awkward"), MeasuredWay("gpu_awkward"), 3 * 10**5, "float64", 1.0),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return (offsets, pt, eta, phi): event i has the electrons offsets[i] to offsets[i + 1] - 1, possibly none.

    offsets: (n + 1,) int64; pt: transverse momentum in GeV; eta: pseudorapidity; phi: azimuth in radians.
    """
    offsets = np.concatenate([[0], np.cumsum(np.maximum(rng.poisson(MEAN, n), np.arange(n) == 0))])
    count = int(offsets[-1])
    pt, eta, phi = rng.exponential(20.0, count) + 5, rng.normal(0.0, 1.2, count), rng.uniform(-np.pi, np.pi, count)
    return offsets, pt.astype(dtype), eta.astype(dtype), phi.astype(dtype)
