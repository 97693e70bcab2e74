"""Numba: two plain loops over the electrons of an event; the events are shared by all cores."""

from __future__ import annotations

from math import cos, cosh, sqrt

from numba import njit, prange

from compute.devices.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def heaviest(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array) -> None:
    """Write the mass, (n,), of each event's heaviest pair, 0 without one; event i: offsets[i] to offsets[i + 1] - 1."""
    for event in prange(mass.size):
        best = pt.dtype.type(0)
        for i in range(offsets[event], offsets[event + 1]):
            for j in range(i + 1, offsets[event + 1]):
                best = max(best, pt[i] * pt[j] * (cosh(eta[i] - eta[j]) - cos(phi[i] - phi[j])))
        mass[event] = sqrt(2 * best)
