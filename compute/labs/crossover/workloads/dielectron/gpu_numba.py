"""Heaviest dielectron mass on the GPU, in Numba-CUDA."""

from __future__ import annotations

from math import cos, cosh, sqrt

from numba import cuda

from compute.devices.devices import Array
from compute.ways.declaring import way


@cuda.jit
def _kernel(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array, zero: float, two: float) -> None:
    event = cuda.grid(1)
    if event < mass.size:
        best = zero
        for i in range(offsets[event], offsets[event + 1]):
            for j in range(i + 1, offsets[event + 1]):
                best = max(best, pt[i] * pt[j] * (cosh(eta[i] - eta[j]) - cos(phi[i] - phi[j])))
        mass[event] = sqrt(two * best)


@way("gpu_numba")
def heaviest(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array) -> None:
    """Numba-CUDA: one thread per event; a warp waits for its thread with the most electrons.

    Write the mass, (n,), of each event's heaviest pair, 0 without one; event i: offsets[i] to offsets[i + 1] - 1.
    """
    real = pt.dtype.type
    _kernel[-(-mass.size // 256), 256](offsets, pt, eta, phi, mass, real(0), real(2))
