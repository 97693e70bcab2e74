"""The largest stable time step, from the rates of change linearised about a state.

The numerical Jacobian of each pass gives, for every cell, how much the rate of a field changes with each value that it
reads. The matrix of block norms has one row and column per field; an entry is the largest sum over a cell's taps. Its
spectral radius bounds the magnitude of every eigenvalue of the discrete system, by the block Gershgorin theorem
(Feingold and Varga, Pacific J. Math. 12 (1962) 1241). For constant coefficients this is the exact bound, dx^2 / (4 D)
for diffusion. Otherwise it is a bound at this state only, and must be taken again as the state changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.equations.passes import rates
from compute.labs.equations.reference import cell, coordinates, neighbours
from compute.labs.equations.tree import SCHEMES, Node, Pass, System

SAFETY = 0.9  # of the bound
UNBOUNDED = 1.0  # the time step where no bound exists
STEP = 1e-5  # of the central differences, relative to 1 + |value|
SAMPLES, ANGLES = 24, 12  # cells and wavenumbers of the test for waves


@dataclass(frozen=True)
class Stability:
    """limit: the time step up to which the scheme is stable about this state, inf if nothing restricts it.

    waves: whether the fastest modes oscillate almost without damping; forward Euler amplifies those for every dt.
    """

    limit: float
    waves: bool
    scheme: str

    @property
    def dt(self) -> float:
        """A time step with some distance from the bound."""
        return SAFETY * self.limit if np.isfinite(self.limit) else UNBOUNDED

    @property
    def advice(self) -> str:
        """A sentence on a scheme that does not fit the equations, or ""."""
        if self.waves and self.scheme == "euler":
            return "Forward Euler amplifies the waves of these equations: use scheme: rk3 or symplectic."
        return ""


def stability(
    system: System, arrays: Mapping[str, NDArray[Any]], parameters: Mapping[str, float] | None = None, t: float = 0.0
) -> Stability:
    """Return the bound of the time step about a state: the fields, and `wall` if the system has one, all (ny, nx)."""
    state = {name: np.asarray(array, dtype=float) for name, array in arrays.items()}
    ny, nx = state[system.fields[0]].shape
    numbers = {name: each.value for name, each in system.parameters.items()} | dict(parameters or {})
    numbers = numbers | coordinates(system, ny, nx) | {"t": t}
    unit = np.eye(len(system.fields))
    rng = np.random.default_rng(0)
    sampled = rng.integers(0, ny * nx, SAMPLES)
    angles = np.linspace(-np.pi, np.pi, 2 * ANGLES + 1)
    theta = np.stack(np.meshgrid(angles, angles[ANGLES:])).reshape(2, -1)
    # how an array depends on the fields: the largest norm for each field, and the symbol (sample, angle, field)
    norms = {field: unit[number] for number, field in enumerate(system.fields)}
    symbols: dict[str, NDArray[Any]] = {
        field: np.broadcast_to(unit[number], (SAMPLES, theta.shape[1], len(unit)))
        for number, field in enumerate(system.fields)
    }
    passes = rates(system)
    with np.errstate(all="ignore"):
        for step in passes:
            taps = neighbours(system, step, state)
            base, jacobian = _jacobian(step, taps, numbers, (ny, nx))
            for target, value, derivatives in zip(step.targets, base, jacobian, strict=True):
                norm = np.zeros((ny, nx, len(unit)))
                symbol = np.zeros((SAMPLES, theta.shape[1], len(unit)), complex)
                for tap in step.taps:
                    if tap.array not in norms:
                        continue
                    entry = derivatives[tap.name]
                    if step is passes[-1] and "wall" in state:
                        entry = entry * (1 - state["wall"])
                    norm += np.abs(entry)[..., None] * norms[tap.array]
                    phase = np.exp(1j * (theta[0] * tap.dx + theta[1] * tap.dy))
                    symbol += entry.ravel()[sampled][:, None, None] * phase[:, None] * symbols[tap.array]
                if step is not passes[-1]:
                    state[target] = value
                norms[f"{target}_" if step is passes[-1] else target] = norm.max(axis=(0, 1))
                symbols[f"{target}_" if step is passes[-1] else target] = symbol
    matrix = np.stack([norms[f"{field}_"] for field in system.fields])
    bound = float(np.abs(np.linalg.eigvals(matrix)).max())
    eigenvalues = np.linalg.eigvals(np.stack([symbols[f"{field}_"] for field in system.fields], axis=2)).ravel()
    fastest = eigenvalues[np.abs(eigenvalues).argmax()]
    waves = bool(abs(fastest.imag) > 1e-6 and abs(fastest.real) < 0.1 * abs(fastest))
    limit = SCHEMES[system.scheme].limit / bound if bound > 1e-9 else np.inf
    return Stability(float(limit), waves, system.scheme)


def _jacobian(
    step: Pass, taps: dict[str, NDArray[Any]], numbers: Mapping[str, Any], shape: tuple[int, int]
) -> tuple[list[NDArray[Any]], list[dict[str, NDArray[Any]]]]:
    """Return the results of a pass, and for each the derivatives by tap, all of the grid's shape; 0 if not finite.

    Comparisons keep the result that they have at the state, since a jump has no derivative.
    """
    conditions: dict[Node, Any] = {}

    def results(changed: Mapping[str, Any]) -> list[NDArray[Any]]:
        return [np.broadcast_to(each, shape) for each in cell(step, {**numbers, **taps, **changed}, float, conditions)]

    base = results({})
    derivatives: list[dict[str, NDArray[Any]]] = [{} for _ in step.targets]
    for name, value in taps.items():
        h = STEP * (1 + np.abs(value))
        for found, up, down in zip(derivatives, results({name: value + h}), results({name: value - h}), strict=True):
            slope = (up - down) / (2 * h)
            found[name] = np.where(np.isfinite(slope), slope, 0.0)
    return base, derivatives
