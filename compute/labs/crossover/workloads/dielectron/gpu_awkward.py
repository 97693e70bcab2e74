"""Heaviest dielectron mass on the GPU, in Awkward Array."""

from __future__ import annotations

from typing import Any

import awkward as ak
import cupy as cp
import numpy as np

from compute.devices.devices import Array
from compute.ways.declaring import way


def prepare(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array) -> tuple[Any, ...]:
    """Append an array on the GPU with a list of electrons for every event to the arguments."""
    electrons = ak.zip({"pt": pt, "eta": eta, "phi": phi})
    return offsets, pt, eta, phi, mass, ak.unflatten(electrons, cp.diff(offsets))


@way("gpu_awkward", prepare=prepare)
def heaviest(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array, events: Any) -> Array:
    """Awkward Array on the GPU: the same lines; its kernels use CuPy.

    Return the mass of the heaviest pair of each event, 0 without a pair.
    """
    a, b = ak.unzip(ak.combinations(events, 2))
    pairs = np.sqrt(2 * a.pt * b.pt * (np.cosh(a.eta - b.eta) - np.cos(a.phi - b.phi)))
    return ak.to_cupy(ak.fill_none(ak.max(pairs, axis=1), 0)).astype(pt.dtype)
