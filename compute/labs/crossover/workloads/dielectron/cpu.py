"""Heaviest dielectron mass on the CPU, in NumPy, Numba and Awkward Array."""

from __future__ import annotations

from itertools import combinations
from math import cos, cosh, sqrt
from typing import Any

import numpy as np
from numba import njit, prange

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numpy")
def heaviest_numpy(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array) -> None:
    """NumPy: electrons 0 and 1, 0 and 2, 1 and 2, … of all events with that many electrons.

    Write the mass, (n,), of each event's heaviest pair, 0 without one; event i: offsets[i] to offsets[i + 1] - 1.
    """
    lengths = np.diff(offsets)
    mass[:] = 0
    for i, j in combinations(range(lengths.max()), 2):
        events = np.flatnonzero(lengths > j)
        a, b = offsets[events] + i, offsets[events] + j
        pair = np.sqrt(2 * pt[a] * pt[b] * (np.cosh(eta[a] - eta[b]) - np.cos(phi[a] - phi[b])))
        mass[events] = np.maximum(mass[events], pair)


@way("cpu_numba")
@njit(parallel=True, nogil=True, cache=True)
def heaviest_numba(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array) -> None:
    """Numba: two plain loops over the electrons of an event; the events are shared by all cores.

    Write the mass, (n,), of each event's heaviest pair, 0 without one; event i: offsets[i] to offsets[i + 1] - 1.
    """
    for event in prange(mass.size):
        best = pt.dtype.type(0)
        for i in range(offsets[event], offsets[event + 1]):
            for j in range(i + 1, offsets[event + 1]):
                best = max(best, pt[i] * pt[j] * (cosh(eta[i] - eta[j]) - cos(phi[i] - phi[j])))
        mass[event] = sqrt(2 * best)


def prepare_awkward(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array) -> tuple[Any, ...]:
    """Append an array with a list of electrons for every event to the arguments."""
    import awkward as ak

    electrons = ak.zip({"pt": pt, "eta": eta, "phi": phi})
    return offsets, pt, eta, phi, mass, ak.unflatten(electrons, np.diff(offsets))


@way("cpu_awkward", prepare=prepare_awkward)
def heaviest_awkward(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array, events: Any) -> Array:
    """Awkward Array: operations on whole lists, as readable as the physics.

    Return the mass of the heaviest pair of each event, 0 without a pair.
    """
    import awkward as ak

    a, b = ak.unzip(ak.combinations(events, 2))
    pairs = np.sqrt(2 * a.pt * b.pt * (np.cosh(a.eta - b.eta) - np.cos(a.phi - b.phi)))
    return ak.to_numpy(ak.fill_none(ak.max(pairs, axis=1), 0)).astype(pt.dtype)
