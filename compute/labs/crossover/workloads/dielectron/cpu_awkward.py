"""Awkward Array: operations on whole lists, as readable as the physics."""

from __future__ import annotations

from typing import Any

import numpy as np

from compute.devices.devices import Array


def prepare(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array) -> tuple[Any, ...]:
    """Append an array with a list of electrons for every event to the arguments."""
    import awkward as ak

    electrons = ak.zip({"pt": pt, "eta": eta, "phi": phi})
    return offsets, pt, eta, phi, mass, ak.unflatten(electrons, np.diff(offsets))


def heaviest(offsets: Array, pt: Array, eta: Array, phi: Array, mass: Array, events: Any) -> Array:
    """Return the mass of the heaviest pair of each event, 0 without a pair."""
    import awkward as ak

    a, b = ak.unzip(ak.combinations(events, 2))
    pairs = np.sqrt(2 * a.pt * b.pt * (np.cosh(a.eta - b.eta) - np.cos(a.phi - b.phi)))
    return ak.to_numpy(ak.fill_none(ak.max(pairs, axis=1), 0)).astype(pt.dtype)
