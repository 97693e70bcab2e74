"""The small system: all properties of the curve that follow from alpha and beta of k steps, in O(k) for each λ.

The matrix B_k (k + 1, k) has alpha_0 ... alpha_(k-1) on its diagonal and beta_1 ... beta_k below it; B = Q R, R upper
bidiagonal. With y = (transpose(B) B + λ^2)^-1 transpose(B) beta_0 e_0 the solution is x = transpose(V) y, and |x| =
|y|, |b - A x| = |beta_0 e_0 - B y|. Both are quadratic forms, which Gauss and Gauss-Radau quadrature bound from either
side: Golub and von Matt, "Tikhonov regularization for large scale problems" (1997), and D. Calvetti, P. C. Hansen and
L. Reichel, "L-curve curvature bounds via Lanczos bidiagonalization", ETNA 14 (2002).

All of them are norms of (L transpose(L) + λ^2)^-1 e_0 for a lower bidiagonal L. Sweeps in the manner of the
differential qd algorithm (Fernando and Parlett, Numer. Math. 67, 1994) add, multiply and divide positive numbers only,
so that no cancellation occurs, however ill-posed the problem and however small λ.

The last section widens the bounds by rounding errors: the bounds are valid in exact arithmetic, and the curve is
computed in floating point.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import scipy
from numba import njit, prange
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Pair = NDArray[np.float64]

SMALLEST, LARGEST = 1e-50, 1e50  # λ: its sixth power, in the square of the change of x with λ^2, must be a finite float
UNITS = 2.0  # roundoffs of the vectors' type: of the stored A, and of the products
COMPARED = 12.0  # roundoffs of float64: of the small system, and of the values compared with the bounds
MIXED = 8.0  # maximum effect of random errors of A's entries, in root mean squares of its singular values


@dataclass(frozen=True)
class Small:
    """A bidiagonalisation of k >= 1 steps, ready for sweeps. All arrays are float64.

    beta0: |b|; diagonal, below: (k + 1,) of C, the square matrix that contains B_k and alpha_k; below[0] is |b|; r,
    theta: (k + 1,) diagonal and superdiagonal of R in r[:k], theta[:k], and the coupling theta[k] to the next step.
    """

    beta0: float
    diagonal: Vector
    below: Vector
    r: Vector
    theta: Vector

    @classmethod
    def of(cls, alpha: Vector, beta: Vector) -> Small:
        """Build from alpha and beta (k + 1,) as `steps` writes them, k >= 1; only their last elements may be 0."""
        r, theta = _triangular(alpha, beta)
        return cls(float(beta[0]), np.array(alpha), np.array(beta), r, theta)

    def part(self, j: int) -> Small:
        """Return the small system after 1 <= j <= k steps."""
        return Small.of(self.diagonal[: j + 1], self.below[: j + 1])

    @property
    def k(self) -> int:
        """Number of steps."""
        return self.diagonal.size - 1

    @property
    def source(self) -> float:
        """|transpose(A) b|."""
        return float(self.diagonal[0]) * self.beta0


@dataclass(frozen=True)
class Points:
    """The curve at some λ, all (count,) float64 except the bounds (2, count), lower and upper.

    residual: |A x - b| and solution: |x|, both of the best x within k steps; they are the upper and the lower bound.
    curvature: of (log residual, log solution), > 0 at the corner. gradient: |transpose(A) (b - A x) - λ^2 x|. free: k
    minus the sum of the filter factors θ^2 / (θ^2 + λ^2) of the k Ritz values θ. slope: -dη/dλ λ / η with η = |x|^2.
    change: |λ^2 dx / d(λ^2)|, which quasi-optimality minimises.
    """

    lambdas: Vector
    residual_bounds: Pair
    solution_bounds: Pair
    curvature: Vector
    gradient: Vector
    free: Vector
    slope: Vector
    change: Vector

    @property
    def residual(self) -> Vector:
        """|A x - b|."""
        return self.residual_bounds[1]

    @property
    def solution(self) -> Vector:
        """|x|."""
        return self.solution_bounds[0]

    @property
    def widths(self) -> Vector:
        """Relative width of the ribbon (count,): the larger of the widths of the two norms."""
        low = np.stack([self.residual_bounds[0], self.solution_bounds[0]])
        high = np.stack([self.residual_bounds[1], self.solution_bounds[1]])
        return ((high - low) / high).max(axis=0)


def points(small: Small, lambdas: Vector) -> Points:
    """Compute the curve at `lambdas` (count,), all > 0."""
    lambdas = np.ascontiguousarray(lambdas, np.float64)
    out = np.empty((9, lambdas.size))
    _points(lambdas, small.beta0, small.diagonal, small.below, small.r, small.theta, out)
    return Points(lambdas, out[0:2], out[2:4], *out[4:])


def widest(small: Small, lambdas: Vector, tolerance: float, first: int = 0) -> tuple[int, float]:
    """Return (index, width) of the first λ, cyclically from index `first`, with a ribbon wider than `tolerance`.

    Returns (-1, largest width) if there is none. Only one λ is computed while the ribbon at `first` is too wide.
    """
    return _widest(lambdas, small.beta0, small.diagonal, small.below, small.r, small.theta, tolerance, first)


def first_closed(small: Small, lambdas: Vector, tolerance: float) -> int:
    """Return the fewest steps after which no ribbon of `lambdas` is wider than `tolerance`; k if some ribbon still is.

    More steps make no ribbon wider, so a bisection finds the step for each λ.
    """
    step, index = 1, 0
    while step < small.k:
        index, _ = widest(small.part(step), lambdas, tolerance, index)
        if index < 0:
            break
        widest_one, later = lambdas[index : index + 1], range(step + 1, small.k)
        step += 1 + bisect_left(
            later,
            True,
            key=lambda j, lam=widest_one: widest(small.part(j), lam, tolerance)[0] < 0,  # type: ignore[misc]
        )
    return step


def coefficients(small: Small, lam: float) -> Vector:
    """Return y (k,): x = transpose(V[:k]) y is the solution for λ = lam > 0."""
    y = np.empty(small.k)
    _solve(small.r[:-1], small.theta[:-1], lam * lam, small.source, y, np.empty_like(y))
    return y


def distances(small: Small, lambdas: Vector, target: Vector) -> Vector:
    """Return (count,) |y - target| for every λ; target (k,)."""
    out = np.empty(lambdas.size)
    _distances(small.r[:-1], small.theta[:-1], lambdas, small.source, target, out)
    return out


def largest(small: Small) -> float:
    """Return the largest Ritz value, |B|."""
    squares = small.r[:-1] ** 2 + small.theta[:-1] ** 2
    last = small.k - 1
    above = small.r[:-2] * small.theta[1:-1]
    return float(np.sqrt(scipy.linalg.eigvalsh_tridiagonal(squares, above, select="i", select_range=(last, last))[0]))


def ritz_values(small: Small) -> Vector:
    """Return the (k,) singular values of B, descending: positive eigenvalues of the Golub-Kahan matrix (2 k + 1)^2."""
    off = np.empty(2 * small.k)
    off[0::2], off[1::2] = small.diagonal[:-1], small.below[1:]
    return np.asarray(scipy.linalg.eigvalsh_tridiagonal(np.zeros(off.size + 1), off)[: small.k : -1])


def first_of_inverse(alpha: Vector, beta: Vector, lambdas: Vector) -> tuple[Vector, Vector]:
    """Return lower and upper bound, (count,) each, of z (A transpose(A) + λ^2)^-1 z for the unit vector z = u_0.

    alpha, beta: (k + 1,) of k >= 1 steps that started with z. The bounds are Gauss quadrature, and Gauss-Radau
    quadrature with a node at 0.
    """
    return _first(alpha, beta, lambdas, alpha[-1]), _first(alpha, beta, lambdas, 0.0)


@njit(cache=True, nogil=True)
def _first(diagonal, below, lambdas, last):  # type: ignore[no-untyped-def]
    """Return the first entry of (L transpose(L) + λ^2)^-1 for each λ: 1 / t_0 of the sweep in `_norm`."""
    out = np.empty(lambdas.size)
    for index in range(lambdas.size):
        mu = lambdas[index] * lambdas[index]
        t = last * last + mu
        for i in range(diagonal.size - 2, -1, -1):
            t = mu + diagonal[i] * diagonal[i] * (t / (below[i + 1] * below[i + 1] + t))
        out[index] = 1.0 / t
    return out


@njit(cache=True, nogil=True)
def _triangular(alpha, beta):  # type: ignore[no-untyped-def]
    """Return R of B = Q R: diagonal r, superdiagonal theta[i] = R[i - 1, i]; products and quotients only."""
    k = alpha.size - 1
    r, theta, rest = np.zeros(k + 1), np.zeros(k + 1), alpha[0]
    for i in range(k):
        r[i] = np.hypot(rest, beta[i + 1])
        theta[i + 1] = alpha[i + 1] * (beta[i + 1] / r[i])
        rest = alpha[i + 1] * (rest / r[i])
    return r, theta


@njit(cache=True, nogil=True)
def _norm(diagonal, last, below, mu):  # type: ignore[no-untyped-def]
    """Return |(L transpose(L) + mu)^-1 e_0|, the last diagonal entry of L replaced by `last`.

    From the last row up: pivots p_i = below_i^2 + t_i, t_i = mu + diagonal_i^2 t_(i+1) / p_(i+1), and the quotient of
    neighbouring components is -q_i = -diagonal_i below_(i+1) / p_(i+1).
    """
    t, squares = last * last + mu, 1.0
    for i in range(diagonal.size - 2, -1, -1):
        p = below[i + 1] * below[i + 1] + t
        q = diagonal[i] * below[i + 1] / p
        squares = 1.0 + q * q * squares
        t = mu + diagonal[i] * diagonal[i] * (t / p)
    return np.sqrt(squares) / t


@njit(cache=True, nogil=True)
def _bounds(lam, beta0, diagonal, below, r, theta):  # type: ignore[no-untyped-def]
    """Return lower and upper bound of the residual norm, then of the solution norm."""
    mu, k = lam * lam, diagonal.size - 1
    source = diagonal[0] * beta0
    return (
        mu * beta0 * _norm(diagonal, diagonal[k], below, mu),
        mu * beta0 * _norm(diagonal, 0.0, below, mu),
        source * _norm(r[:k], r[k - 1], theta, mu),
        source * _norm(r, 0.0, theta, mu),
    )


@njit(cache=True, nogil=True)
def _widest(lambdas, beta0, diagonal, below, r, theta, tolerance, first):  # type: ignore[no-untyped-def]
    largest = 0.0
    for offset in range(lambdas.size):
        index = (first + offset) % lambdas.size
        low, high, less, more = _bounds(lambdas[index], beta0, diagonal, below, r, theta)
        width = max((high - low) / high, (more - less) / more)
        if not width <= tolerance:
            return index, width
        largest = max(largest, width)
    return -1, largest


@njit(cache=True, nogil=True)
def _solve(r, theta, mu, source, y, q):  # type: ignore[no-untyped-def]
    """Compute y = (transpose(R) R + mu)^-1 source e_0; q: scratch."""
    k = r.size
    t = r[k - 1] * r[k - 1] + mu
    for i in range(k - 2, -1, -1):
        p = theta[i + 1] * theta[i + 1] + t
        q[i] = r[i] * theta[i + 1] / p
        t = mu + r[i] * r[i] * (t / p)
    y[0] = source / t
    for i in range(k - 1):
        y[i + 1] = -q[i] * y[i]


@njit(cache=True, nogil=True)
def _distances(r, theta, lambdas, source, target, out):  # type: ignore[no-untyped-def]
    y, q = np.empty(r.size), np.empty(r.size)
    for index in range(lambdas.size):
        _solve(r, theta, lambdas[index] * lambdas[index], source, y, q)
        squares = 0.0
        for i in range(r.size):
            squares += (y[i] - target[i]) ** 2
        out[index] = np.sqrt(squares)


@njit(cache=True, nogil=True)
def _details(r, theta, mu, source, work):  # type: ignore[no-untyped-def]
    """Return (y M^-1 y / y_0^2, |M^-1 y|, trace M^-1, |y_last|), M = transpose(R) R + mu, y = source M^-1 e_0.

    M = N P transpose(N) with N unit upper bidiagonal, q above its diagonal. With S_i the sum of the squares of y_i,
    y_(i+1) ... over y_i^2, N w = y has w_i = S_i y_i. 1 / (M^-1)_ii joins a sweep from above (s, d) and a sweep from
    below. work: (4, k) scratch.
    """
    k = r.size
    ps, qs, sums, ts = work
    t, total, cubes = r[k - 1] * r[k - 1] + mu, 1.0, 0.0
    for i in range(k - 1, -1, -1):
        if i < k - 1:
            q = qs[i] = r[i] * theta[i + 1] / ps[i + 1]
            t = mu + r[i] * r[i] * (t / ps[i + 1])
            total, cubes = 1.0 + q * q * total, q * q * cubes
        p = ps[i] = t + (theta[i] * theta[i] if i else 0.0)
        ts[i], sums[i] = t, total
        cubes += total * (total / p)
    y, v, above, d = source / ps[0], 0.0, 0.0, 0.0
    squares, trace = 0.0, 0.0
    for i in range(k):
        if i:
            y, v = -qs[i - 1] * y, -qs[i - 1] * v
            above = theta[i] * theta[i] * ((above + mu) / d)
        d = r[i] * r[i] + above + mu
        v += sums[i] * y / ps[i]
        squares += v * v
        trace += 1.0 / (above + ts[i])
    return cubes, np.sqrt(squares), trace, abs(y)


@njit(cache=True, nogil=True, parallel=True)
def _points(lambdas, beta0, diagonal, below, r, theta, out):  # type: ignore[no-untyped-def]
    """Write the rows of out: the bounds, then curvature, gradient, free, slope, change."""
    k = diagonal.size - 1
    for index in prange(lambdas.size):  # 200 λ after 580 steps take one core 6 ms
        work = np.empty((4, k))
        lam = lambdas[index]
        mu = lam * lam
        low, high, less, more = _bounds(lam, beta0, diagonal, below, r, theta)
        cubes, change, trace, last = _details(r[:k], theta[:k], mu, diagonal[0] * beta0, work)
        y0 = diagonal[0] * beta0 / work[0, 0]
        slope = 4.0 * mu * cubes * (y0 / less) ** 2
        t = mu * (less / high) ** 2
        out[0, index], out[1, index], out[2, index], out[3, index] = low, high, less, more
        out[4, index] = 2.0 * (t / slope) * (2.0 - slope * (1.0 + t)) / (1.0 + t * t) ** 1.5
        out[5, index] = diagonal[k] * below[k] * last
        out[6, index] = mu * trace
        out[7, index] = slope
        out[8, index] = mu * change


# -- rounding errors added to the bounds


def scale(largest: float, frobenius: float, shape: tuple[int, int]) -> float:
    """Return |δA| in roundoffs, for rounding errors δA of A (m, n): |A|, or less if one direction dominates it."""
    return min(largest, MIXED * frobenius / float(np.sqrt(min(shape))))


def widened(at: Points, size: float, dtype: str, errors: tuple[float, float] = (0.0, 0.0)) -> tuple[Vector, Vector]:
    """Return the bounds (2, count) of residual and solution norm, widened by the effect of rounding errors δA and δb.

    |δA| is `size` roundoffs, and errors[0] in addition if A was computed; |δb| is errors[1].

    To first order |δx| <= |δA| (|x| / λ + |r| / λ^2) and |δr| <= |δA| (|x| + |r| / (2 λ)), with r = b - A x;
    |δx| <= |δb| / (2 λ) and |δr| <= |δb|.
    """
    units = UNITS * float(np.finfo(dtype).eps) / 2 + COMPARED * float(np.finfo(np.float64).eps) / 2
    lam, rho, eta, of_matrix = at.lambdas, at.residual, at.solution, units * size + errors[0]
    of_residual = units + of_matrix * (eta / rho + 0.5 / lam) + errors[1] / rho
    of_solution = units + of_matrix * (1 + rho / (lam * eta)) / lam + errors[1] / (2 * lam * eta)
    return _wider(at.residual_bounds, of_residual), _wider(at.solution_bounds, of_solution)


def _wider(bounds: Vector, part: Vector) -> Vector:
    return np.stack([bounds[0] * np.maximum(1 - part, 0), bounds[1] * (1 + part)])
