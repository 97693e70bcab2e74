"""Rules that minimise a function of λ, or solve an equation for λ."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.rules.reading import CurveReading, Function, RuleChoice, zoom
from compute.labs.l_curve.small_system import Points, Small, points

Vector = NDArray[np.float64]

FLAT, SPREAD = 1e-3, 100.0  # a minimum is flat if values up to 0.1 % above it span a factor of 100 in λ
TAU = 1.01  # of the discrepancy principle: the residual may exceed the noise by 1 %
EARLY = 32  # steps whose weights are averaged
LATER = "computed after the last step"
FEWEST_ROWS = 8  # for a periodogram
AFFORDABLE = 4096  # rows up to which a residual is computed at every λ of the grid: at most a second for 200 λ
NCP_POINTS = 50  # λ of the grid for more rows
NCP_MINIMA, NCP_ROUNDS, NCP_INSIDE = 4, 2, 3  # minima that are refined, number of rounds, and added λ on either side


def gcv_values(reading: CurveReading, at: Points) -> Vector:
    """Return the GCV function: |A x - b|^2 / (m - sum of the filter factors)^2 (Golub, Heath, Wahba 1979)."""
    return np.asarray((at.residual / reading.freedom(at)) ** 2)


def gcv(reading: CurveReading) -> RuleChoice:
    """Return the minimum of generalised cross-validation."""
    if not reading.traced:
        return RuleChoice(None, LATER)
    choice = minimum(reading, lambda at: gcv_values(reading, reading.at(at)))
    source = "" if reading.singular is not None else "trace from a random probe"
    return RuleChoice(choice.lam, "; ".join(part for part in (choice.reason, source) if part))


def weighted_values(reading: CurveReading, at: Points, weight: float) -> Vector:
    """Return GCV of the small system with weighted filter factors: |B y - b|^2 / (k + 1 - ω sum)^2 (Chung et al. 2008).

    The difference is the number of degrees of freedom. With ω > 1 the sum, which grows as λ falls, may exhaust them:
    the value is inf below that pole, where no λ can be chosen.
    """
    k = reading.small.k
    left = 1 + k * (1 - weight) + weight * at.free
    return np.where(left > 0, (at.residual / np.where(left > 0, left, 1.0)) ** 2, np.inf)


def weighted_gcv(reading: CurveReading) -> RuleChoice:
    """Return the minimum of weighted GCV; the weight is the reading's, or the mean weight of the first steps."""
    weight = adaptive_weight(reading.small) if reading.weight is None else reading.weight
    choice = minimum(reading, lambda at: weighted_values(reading, reading.at(at), weight))
    return RuleChoice(choice.lam, "; ".join(part for part in (choice.reason, f"ω = {weight:.3g}") if part))


def adaptive_weight(small: Small) -> float:
    """Return the mean over the first steps of the ω with its minimum at the smallest Ritz value, each at most 1.

    J. Chung, J. G. Nagy and D. P. O'Leary, "A weighted-GCV method for Lanczos-hybrid regularization", ETNA 28 (2008),
    section 4.2: early steps need hardly any regularisation. The bound is that of their code, HyBR.m, `Omega(i-1) =
    min(1, findomega(...))`: with a larger ω, k + 1 - ω times the sum of the filter factors may vanish.
    """
    weights = [min(1.0, _weight(small, j)) for j in range(1, min(small.k, EARLY) + 1)]
    return float(np.mean(weights))


def _weight(small: Small, j: int) -> float:
    """Return ω with dG/dλ = 0 at the smallest Ritz value of j steps."""
    part = small.part(j)
    squares = np.linalg.svd(np.diag(part.r[:j]) + np.diag(part.theta[1:j], 1), compute_uv=False) ** 2
    mu = max(float(squares[-1]), np.finfo(float).eps ** 2 * float(squares[0]))
    at = points(part, np.array([np.sqrt(mu)]))
    filters, fall = float((squares / (squares + mu)).sum()), float((squares / (squares + mu) ** 2).sum())
    growth = float(at.slope[0] * at.solution[0] ** 2) / 2
    return (j + 1) * growth / (filters * growth + 2 * fall * float(at.residual[0]) ** 2)


def quasi_optimality(reading: CurveReading) -> RuleChoice:
    """Return the lowest minimum of |λ dx/dλ| inside the range (Morozov 1984): it falls again towards both ends."""
    return minimum(reading, lambda at: reading.at(at).change, local=True)


def discrepancy(reading: CurveReading) -> RuleChoice:
    """Return the λ at which the residual is 1.01 times the noise (Morozov 1966); requires the noise norm."""
    if not reading.noise:
        return RuleChoice(None, "the noise is unknown")
    goal, residual = TAU * reading.noise, reading.points.residual
    above = int(np.searchsorted(residual, goal))
    if above in (0, residual.size):
        side = "above" if above == 0 else "below"
        return RuleChoice(None, f"the residual stays {side} {goal:.3g}, the noise times {TAU}, in the whole range of λ")
    low, high = reading.lambdas[[above - 1, above]]
    return RuleChoice(zoom(lambda at: -np.abs(reading.at(at).residual - goal), low, high)[0])


def ncp_search(residual: Callable[[float], Vector], lambdas: Vector, rows: int) -> Generator[None, None, RuleChoice]:
    """Search the λ with the whitest residual(λ) = b - A x (m,); a generator that yields after each λ, one product.

    The criterion is the distance of the normalised cumulative periodogram from that of white noise (P. C. Hansen, M. E.
    Kilmer and R. H. Kjeldsen, "Exploiting residual information in the parameter choice for discrete ill-posed
    problems", BIT 46, 2006). The distance has several minima close to each other, so the search evaluates every λ of
    the grid, and refines all minima that may be the lowest. With more than AFFORDABLE rows, where products are
    expensive, it evaluates NCP_POINTS of the grid.
    """
    if rows > AFFORDABLE:
        count = lambdas.size
        lambdas = lambdas[np.unique(np.linspace(0, count - 1, min(count, NCP_POINTS)).round().astype(int))]
    distances = yield from _distances(residual, lambdas)
    for _ in range(NCP_ROUNDS):
        lambdas, distances = yield from _refined(residual, lambdas, distances)
    best = int(np.argmin(distances))
    if best in (0, lambdas.size - 1):
        return _at_the_end(low=best == 0)
    return RuleChoice(float(lambdas[best]))


def _distances(residual: Callable[[float], Vector], lambdas: Vector) -> Generator[None, None, Vector]:
    found = []
    for lam in lambdas:
        found.append(_distance_from_white(residual(float(lam))))
        yield
    return np.array(found)


def _refined(
    residual: Callable[[float], Vector], lambdas: Vector, distances: Vector
) -> Generator[None, None, tuple[Vector, Vector]]:
    """Return the λ, ascending, and their distances, with added λ on both sides of the lowest minima."""
    padded = np.concatenate([[np.inf], distances, [np.inf]])
    minima = np.flatnonzero((distances <= padded[:-2]) & (distances <= padded[2:]))
    lowest = minima[np.argsort(distances[minima], kind="stable")[:NCP_MINIMA]]
    gaps = np.unique(np.concatenate([lowest - 1, lowest]))
    between = [
        np.geomspace(lambdas[gap], lambdas[gap + 1], NCP_INSIDE + 2)[1:-1]
        for gap in gaps if 0 <= gap < lambdas.size - 1
    ]  # fmt: skip
    added = np.concatenate(between)
    more = yield from _distances(residual, added)
    lambdas, distances = np.concatenate([lambdas, added]), np.concatenate([distances, more])
    order = np.argsort(lambdas, kind="stable")
    return lambdas[order], distances[order]


def _distance_from_white(residual: Vector) -> float:
    half = residual.size // 2
    power = np.abs(np.fft.rfft(residual)[1 : half + 1]) ** 2
    return float(np.linalg.norm(np.cumsum(power) / power.sum() - np.arange(1, half + 1) / half))


def ncp(reading: CurveReading) -> RuleChoice:
    """Return the result of `ncp_search`, if it is complete."""
    if reading.rows < FEWEST_ROWS:
        return RuleChoice(None, f"a periodogram needs at least {FEWEST_ROWS} rows")
    return reading.whitest or RuleChoice(None, LATER)


def minimum(reading: CurveReading, function: Function, local: bool = False) -> RuleChoice:
    """Return the minimum of `function` of λ; with `local` the lowest interior one, even if an end is lower."""
    lambdas = reading.lambdas
    values = function(lambdas)
    inside = 1 + np.flatnonzero((values[1:-1] < values[:-2]) & (values[1:-1] <= values[2:]))
    best = int(np.argmin(values))
    if best in (0, values.size - 1) and not (local and inside.size):
        return _at_the_end(low=best == 0)
    if local:
        best = int(inside[np.argmin(values[inside])])
    near = lambdas[values <= (1 + FLAT) * values[best]]
    if near[-1] > SPREAD * near[0]:
        return RuleChoice(None, f"flat minimum: from λ = {near[0]:.2g} to {near[-1]:.2g} it differs by less than 0.1 %")
    return RuleChoice(zoom(lambda at: -function(at), lambdas[best - 1], lambdas[best + 1])[0])


def _at_the_end(low: bool) -> RuleChoice:
    return RuleChoice(None, f"no interior minimum: it falls to the {'lowest' if low else 'highest'} λ")
