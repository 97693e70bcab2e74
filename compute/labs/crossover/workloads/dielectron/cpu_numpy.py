"""NumPy: electrons 0 and 1, 0 and 2, 1 and 2, … of all events with that many electrons."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from compute.devices.devices import Array


def heaviest(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array) -> None:
    """Write the mass, (n,), of each event's heaviest pair, 0 without one; event i: offsets[i] to offsets[i + 1] - 1."""
    lengths = np.diff(offsets)
    mass[:] = 0
    for i, j in combinations(range(lengths.max()), 2):
        events = np.flatnonzero(lengths > j)
        a, b = offsets[events] + i, offsets[events] + j
        pair = np.sqrt(2 * pt[a] * pt[b] * (np.cosh(eta[a] - eta[b]) - np.cos(phi[a] - phi[b])))
        mass[events] = np.maximum(mass[events], pair)
