"""The largest stable time step, from the rates of change linearised about a state.

The numerical Jacobian of each pass gives, for every cell, how much the rate of a field changes with each value that it
reads. The matrix of block norms has one row and column per field; an entry is the largest sum over a cell's taps. Its
spectral radius bounds the magnitude of every eigenvalue of the discrete system, by the block Gershgorin theorem
(Feingold and Varga, Pacific J. Math. 12 (1962) 1241). For constant coefficients this is the exact bound, dx^2 / (4 D)
for diffusion. Otherwise it is a bound at this state only, and must be taken again as the state changes.

Forward Euler is stable for an eigenvalue lam if dt <= -2 Re(lam) / |lam|^2, which is less than 2 / |lam| if the mode
oscillates, as with advection: dt <= 2 D / c^2. The eigenvalues for this are those of the symbol (Fourier transform) of
the discrete equations in some cells. Slow modes may grow physically, so only fast ones count.

On a large grid, and for a long text, the bound is an estimate from some of the cells. They form a golden-ratio lattice:
each rectangle of twice as many cells as there are per examined cell contains one of them (three-distance theorem), as
do all rows and columns of a usual grid. The cells with the extreme values of the fields are examined, too. A spot of
strong diffusion may be smaller than the gaps of the lattice: unless even three evaluations of the rates in all cells
take too long, the cells are examined whose rates respond most to a change of the fields that alternates from cell to
cell. The largest norm of the remaining cells is extrapolated: each doubling of the number of cells adds at most as much
as the doublings before it. That holds for smooth fields, where the deficit is proportional to the area per cell, and
for noise whose distribution is bounded or has an exponential tail, where the largest value grows with the logarithm of
the number or slower (Gumbel, Statistics of Extremes (1958)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.equations.language import MOST
from compute.labs.equations.passes import lower, rates
from compute.labs.equations.reference import cell, coordinates, neighbours
from compute.labs.equations.tree import SCHEMES, Node, Pass, System, operations

SAFETY = 0.9  # of the bound
UNBOUNDED = 1.0  # the time step where no bound exists
STEP = 1e-5  # of the central differences, relative to 1 + |value|
SAMPLES, ANGLES = 24, 12  # cells and wavenumbers of the test for waves
FAST = 0.3  # of the largest magnitude of an eigenvalue
MOST_CELLS = 2**17  # of a larger grid, some cells are examined
MOST_OPERATIONS = 1e8  # of all examined cells together: of a long text, fewer cells are examined
EVALUATIONS = 3  # of the rates in all cells, which find those that respond most
PARTS = 16  # of the examined cells, whose largest norms show how the largest norm grows with the number of cells
GOLDEN = (sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Stability:
    """limit: the time step up to which the scheme is stable about this state, inf if nothing restricts it.

    amplified: whether the scheme amplifies fast modes that oscillate almost without damping, whatever the dt.
    """

    limit: float
    amplified: bool
    scheme: str

    @property
    def dt(self) -> float:
        """A time step with some distance from the bound."""
        return SAFETY * self.limit if np.isfinite(self.limit) else UNBOUNDED

    @property
    def advice(self) -> str:
        """A sentence on a scheme that does not fit the equations, or ""."""
        others = "rk3 or symplectic" if self.scheme == "euler" else "rk3"
        return f"{self.scheme} amplifies the waves of these equations: use scheme: {others}." if self.amplified else ""


def stability(
    system: System, arrays: Mapping[str, NDArray[Any]], parameters: Mapping[str, float] | None = None, t: float = 0.0
) -> Stability:
    """Return the bound of the time step about a state: the fields, and `wall` if the system has one, all (ny, nx)."""
    state = {name: np.asarray(array, dtype=float) for name, array in arrays.items()}
    ny, nx = state[system.fields[0]].shape
    numbers: dict[str, Any] = {name: each.value for name, each in system.parameters.items()} | dict(parameters or {})
    *auxiliary, last = rates(system)
    everywhere = numbers | coordinates(system, ny, nx) | {"t": t}
    cells = _examined(system, (*auxiliary, last), state, everywhere)
    rows, columns = cells.where
    numbers = everywhere | {"x": everywhere["x"][columns], "y": everywhere["y"][rows, 0]}
    free = 1 - state["wall"][cells.where] if "wall" in state else 1.0
    sampled = np.random.default_rng(0).integers(0, rows.size, SAMPLES)
    angles = np.linspace(-np.pi, np.pi, 2 * ANGLES + 1)
    theta = np.stack(np.meshgrid(angles, angles[ANGLES:])).reshape(2, -1)
    # how an array depends on the fields: the largest norm for each field, and the symbol (sample, angle, field)
    unit = np.eye(len(system.fields))
    arrays_by_field = dict(zip(system.fields, unit, strict=True))
    norms = dict(arrays_by_field)
    symbols = {
        field: np.broadcast_to(row, (SAMPLES, theta.shape[1], row.size)) for field, row in arrays_by_field.items()
    }
    with np.errstate(all="ignore"):
        for step in (*auxiliary, last):
            taps = neighbours(system, step, state)
            slopes = _jacobian(step, {name: tap[cells.where] for name, tap in taps.items()}, numbers)
            found_norms, found_symbols = {}, {}
            for target, derivatives in zip(step.targets, slopes, strict=True):
                norm = np.zeros((rows.size, len(unit)))
                symbol = np.zeros((SAMPLES, theta.shape[1], len(unit)), complex)
                for tap in step.taps:
                    if tap.array in norms:
                        entry = derivatives[tap.name] * (free if step is last else 1.0)
                        norm += np.abs(entry)[..., None] * norms[tap.array]
                        phase = np.exp(1j * (theta[0] * tap.dx + theta[1] * tap.dy))
                        symbol += entry[sampled][:, None, None] * phase[:, None] * symbols[tap.array]
                found_norms[target], found_symbols[target] = cells.largest(norm), symbol
            norms, symbols = norms | found_norms, symbols | found_symbols
            if step is not last:
                values = cell(step, everywhere | taps)
                state |= {
                    name: np.broadcast_to(value, (ny, nx)) for name, value in zip(step.targets, values, strict=True)
                }
    bound = float(np.abs(np.linalg.eigvals(np.stack([norms[field] for field in system.fields]))).max())
    limit = float(SCHEMES[system.scheme].limit / bound) if bound > 1e-9 else np.inf
    jacobian = np.stack([symbols[field] for field in system.fields], axis=2)
    eigenvalues = np.linalg.eigvals(jacobian)
    fastest = eigenvalues.flat[np.abs(eigenvalues).argmax()]
    amplified = False
    if system.scheme == "euler" and bound > 1e-9:
        amplified = bool(abs(fastest.real) < 0.1 * abs(fastest))
        damped = eigenvalues[(np.abs(eigenvalues) > FAST * abs(fastest)) & (eigenvalues.real < 0)]
        limit = limit if amplified else float((-2 * damped.real / np.abs(damped) ** 2).min(initial=limit))
    elif system.scheme == "symplectic" and bound > 1e-9:
        dt = SAFETY * limit
        growth = np.abs(np.linalg.eigvals(_symplectic(system, jacobian, dt))).max(axis=2)
        amplified = bool((growth > 1.02 * np.exp(dt * np.maximum(eigenvalues.real, 0).max(axis=2))).any())
    return Stability(limit, amplified, system.scheme)


def _symplectic(system: System, jacobian: NDArray[Any], dt: float) -> NDArray[Any]:
    """Return the matrices (…, field, field) that a step of symplectic Euler multiplies a mode by."""
    matrix = np.broadcast_to(np.eye(len(system.fields)), jacobian.shape).astype(complex)
    for step in lower(system).passes:
        for field in (target for target in step.targets if target in system.fields):
            row = system.fields.index(field)
            matrix[..., row, :] += dt * np.einsum("...j,...jk->...k", jacobian[..., row, :], matrix)
    return matrix


@dataclass(frozen=True)
class Cells:
    """Cells of a grid. where: their rows and columns; regular: number of those in the lattice, which come first.

    total: number of cells of the grid.
    """

    where: tuple[NDArray[np.intp], NDArray[np.intp]]
    regular: int
    total: int

    def largest(self, norms: NDArray[Any]) -> NDArray[Any]:
        """Return the largest value per field in all cells, extrapolated from `norms` (cells, fields) in these cells."""
        found: NDArray[Any] = norms.max(axis=0)
        if self.regular == self.total:
            return found
        lattice = norms[: self.regular]
        parts = lattice[: self.regular // PARTS * PARTS].reshape(-1, PARTS, norms.shape[1]).max(axis=0)
        growth = (lattice.max(axis=0) - parts.mean(axis=0)) / log2(PARTS)  # for each doubling of the number of cells
        return np.maximum(found, lattice.max(axis=0) + growth * log2(self.total / self.regular))


def _examined(
    system: System, passes: Sequence[Pass], state: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]
) -> Cells:
    """Return the cells to examine."""
    extreme = [state[field] for field in system.fields]
    each = sum((2 * len(step.taps) + 1) * operations(step) for step in passes) or 1
    most = int(min(MOST_CELLS, MOST_OPERATIONS / each))
    if most < extreme[0].size <= MOST_OPERATIONS / (EVALUATIONS * sum(map(operations, passes))):
        extreme += _responses(system, passes, state, numbers)
    return _cells(extreme, most)


def _responses(
    system: System, passes: Sequence[Pass], state: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]
) -> list[NDArray[Any]]:
    """Return (ny, nx) arrays: the change of each field's rate with an alternating change of all fields, per unit.

    Comparisons keep the result that they have at the state.
    """
    shape = state[system.fields[0]].shape
    alternating = STEP * (-1.0) ** np.add.outer(*map(np.arange, shape))
    sizes = {field: 1 + np.abs(state[field]) for field in system.fields}
    conditions: list[dict[Node, Any]] = [{} for _ in passes]

    def rates_of(sign: int) -> list[NDArray[Any]]:
        """Return the rates of the changed fields."""
        arrays = {**state, **{field: state[field] + sign * sizes[field] * alternating for field in sizes}}
        for step, known in zip(passes, conditions, strict=True):
            values = cell(step, {**numbers, **neighbours(system, step, arrays)}, float, known)
            arrays |= {name: np.broadcast_to(value, shape) for name, value in zip(step.targets, values, strict=True)}
        return [arrays[field] for field in system.fields]

    with np.errstate(all="ignore"):
        _, up, down = map(rates_of, (0, 1, -1))
        found = [(a - b) / size for a, b, size in zip(up, down, sizes.values(), strict=True)]
    free = 1 - state["wall"] if "wall" in state else 1.0
    return [np.where(np.isfinite(each), each, 0.0) * free for each in found]


def _cells(fields: list[NDArray[Any]], most: int) -> Cells:
    """Return the cells to examine: all of a small grid; else about `most`, and those with an array's extreme value."""
    ny, nx = fields[0].shape
    most = max(most, PARTS)
    if ny * nx <= most:
        return Cells((np.repeat(np.arange(ny), nx), np.tile(np.arange(nx), ny)), ny * nx, ny * nx)
    index = np.arange(most)
    extremes = np.array([cell for field in fields for cell in (field.argmin(), field.argmax())])
    rows, columns = index * ny // most, (index * GOLDEN % 1 * nx).astype(np.intp)
    where = np.concatenate([rows, extremes // nx]), np.concatenate([columns, extremes % nx])
    return Cells(where, most, ny * nx)


def _jacobian(
    step: Pass, taps: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]
) -> list[dict[str, NDArray[Any]]]:
    """Return for each result of a pass its derivatives by tap, (cells,); 0 if not finite.

    Comparisons keep the result that they have at the state, since a jump has no derivative.
    """
    conditions: dict[Node, Any] = {}

    def results(changed: Mapping[str, NDArray[Any]]) -> list[Any]:
        """Return the results of the pass with some taps replaced."""
        return cell(step, {**numbers, **taps, **changed}, float, conditions)

    results({})
    derivatives: list[dict[str, NDArray[Any]]] = [{} for _ in step.targets]
    for name, value in taps.items():
        h = STEP * (1 + np.abs(value))
        for found, up, down in zip(derivatives, results({name: value + h}), results({name: value - h}), strict=True):
            slope = (up - down) / (2 * h)
            found[name] = np.clip(np.where(np.isfinite(slope), slope, 0.0), -MOST, MOST)  # products stay finite
    return derivatives
