"""Integral equations of the first kind, discretised: the one-dimensional problems of Hansen's Regularization Tools.

Each function returns (A, b, x): A (n, n), b and x (n,), float64, with b = A x up to the discretisation. Source: P. C.
Hansen, "Regularization Tools version 4.0 for Matlab 7.3", Numerical Algorithms 46 (2007), and the papers it names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Vector = NDArray[np.float64]
DenseProblem = tuple[Vector, Vector, Vector]


def _middles(low: float, high: float, n: int) -> Vector:
    """Return the middles of n equal cells."""
    return np.asarray(low + (high - low) * (np.arange(n) + 0.5) / n)


def shaw(n: int) -> DenseProblem:
    """One-dimensional image restoration behind a slit: very ill-posed (Shaw 1972). Midpoint rule; n even."""
    angle = _middles(-np.pi / 2, np.pi / 2, n)
    u = np.pi * (np.sin(angle)[:, None] + np.sin(angle))
    A = np.pi / n * ((np.cos(angle)[:, None] + np.cos(angle)) * np.sinc(u / np.pi)) ** 2
    x = 2 * np.exp(-6 * (angle - 0.8) ** 2) + np.exp(-2 * (angle + 0.5) ** 2)
    return A, A @ x, x


def phillips(n: int) -> DenseProblem:
    """The problem of Phillips (1962) on [-6, 6]: a smooth bump blurred by itself. Galerkin; n a multiple of 4."""
    h, quarter = 12 / n, n // 4
    row = np.zeros(n)
    c = np.cos(4 * np.pi / n * np.arange(-1, quarter + 1))
    row[:quarter] = h + 9 / (h * np.pi**2) * (2 * c[1:-1] - c[:-2] - c[2:])
    row[quarter] = h / 2 + 9 / (h * np.pi**2) * (np.cos(4 * np.pi / n) - 1)
    half = np.diff(_phillips_integral(h * np.arange(n // 2 + 1))) / np.sqrt(h)
    rise = (h + np.diff(np.sin(np.pi / 3 * h * np.arange(quarter + 1))) * 3 / np.pi) / np.sqrt(h)
    x = np.concatenate([np.zeros(quarter), rise[::-1], rise, np.zeros(quarter)])
    return scipy.linalg.toeplitz(row), np.concatenate([half[::-1], half]), x


def _phillips_integral(t: NDArray[Any]) -> Vector:
    """Integrate the right-hand side (6 - |s|)(1 + cos(pi s / 3) / 2) + 9 / (2 pi) sin(pi |s| / 3) from 0 to t."""
    c = np.pi / 3
    return np.asarray(t * (6 - t / 2) + ((3 - t / 2) * np.sin(c * t) - 2 / c * (np.cos(c * t) - 1)) / c)


def gravity(n: int, depth: float) -> DenseProblem:
    """Mass at `depth` below a line, from the vertical field on the line, both on [0, 1]. Midpoint rule."""
    t = _middles(0, 1, n)
    A = depth / n * (depth**2 + (t[:, None] - t) ** 2) ** -1.5
    x = np.sin(np.pi * t) + 0.5 * np.sin(2 * np.pi * t)
    return A, A @ x, x


def deriv2(n: int) -> DenseProblem:
    """The second derivative: the kernel is Green's function on [0, 1], mildly ill-posed. Galerkin; x(t) = t."""
    h, i = 1 / n, np.arange(1, n + 1)
    lower = h**2 * (i - 0.5) * ((i[:, None] - 0.5) * h - 1)
    A = np.tril(lower, -1)
    A += A.T
    np.fill_diagonal(A, h**2 * ((i**2 - i + 0.25) * h - (i - 2 / 3)))
    b = h**1.5 * (i - 0.5) * ((i**2 + (i - 1) ** 2) * h**2 / 2 - 1) / 6
    return A, b, h**1.5 * (i - 0.5)


def heat(n: int, kappa: float) -> DenseProblem:
    """The inverse heat equation, a Volterra kernel: kappa 1 is ill-posed, 5 is well-posed. Collocation; n even."""
    t = _middles(0, 1, n)
    column = 1 / (2 * n * kappa * np.sqrt(np.pi)) * t**-1.5 * np.exp(-1 / (4 * kappa**2 * t))
    A = scipy.linalg.toeplitz(column, np.r_[column[0], np.zeros(n - 1)])
    at = 20 / n * np.arange(1, n // 2 + 1)
    pieces = [0.75 * at**2 / 4, 0.75 + (at - 2) * (3 - at), 0.75 * np.exp(-2 * (at - 3))]
    x = np.concatenate([np.select([at < 2, at < 3], pieces[:2], pieces[2]), np.zeros(n - n // 2)])
    return A, A @ x, x


def baart(n: int) -> DenseProblem:
    """exp(s cos t) on [0, pi/2] x [0, pi], b = 2 sinh(s) / s, x = sin t: extremely ill-posed. Galerkin; n even."""
    s, t = np.pi / (2 * n) * np.arange(n + 1), np.pi / n * np.arange(2 * n + 1) / 2
    edges = _exponential_means(s, np.cos(t[::2]))
    middles = _exponential_means(s, np.cos(t[1::2]))
    A = (edges[:, :-1] + 4 * middles + edges[:, 1:]) / (3 * np.sqrt(2))
    fine = np.r_[1.0, np.sinh(s_half := np.pi / (4 * n) * np.arange(1, 2 * n + 1)) / s_half]
    b = (fine[:-2:2] + 4 * fine[1::2] + fine[2::2]) * np.sqrt(np.pi / (2 * n)) / 3
    return A, b, -np.diff(np.cos(t[::2])) / np.sqrt(np.pi / n)


def _exponential_means(s: NDArray[Any], c: NDArray[Any]) -> Vector:
    """Return the integrals of exp(s c) over the cells of s, (cells, size of c); well-behaved where c is 0."""
    width = s[1] - s[0]
    middle = (s[1:] + s[:-1]) / 2
    half = c * width / 2
    ratio = np.where(np.abs(half) < 1e-8, 1.0, np.sinh(half) / np.where(half == 0, 1.0, half))
    return np.asarray(width * np.exp(middle[:, None] * c) * ratio)


def foxgood(n: int) -> DenseProblem:
    """sqrt(s^2 + t^2) on [0, 1] (Fox and Goodwin 1953): severely ill-posed. Midpoint rule; b is the exact integral."""
    t = _middles(0, 1, n)
    return np.hypot(t[:, None], t) / n, ((1 + t**2) ** 1.5 - t**3) / 3, t


def wing(n: int) -> DenseProblem:
    """t exp(-s t^2) on [0, 1]; x is 1 between 1/3 and 2/3 and 0 elsewhere, a jump. Galerkin, midpoints."""
    t = _middles(0, 1, n)
    A = t * np.exp(-t[:, None] * t**2) / n
    b = (np.exp(-t / 9) - np.exp(-4 * t / 9)) / (2 * t) / np.sqrt(n)
    return A, b, np.where((t > 1 / 3) & (t < 2 / 3), 1 / np.sqrt(n), 0.0)


def i_laplace(n: int) -> DenseProblem:
    """The inverse Laplace transform of 1 / (s + 1/2), which is exp(-t/2), by Gauss-Laguerre quadrature."""
    s = 10 * np.arange(1, n + 1) / n
    t = scipy.linalg.eigvalsh_tridiagonal(2.0 * np.arange(n) + 1, np.arange(1.0, n))
    A = np.exp((1 - s[:, None]) * t + _log_laguerre_weights(t))
    return A, 1 / (s + 0.5), np.exp(-t / 2)


def _log_laguerre_weights(t: Vector) -> Vector:
    """Return ln of the Gauss-Laguerre weights at the nodes t: w = 1 / sum of L_k(t)^2 over k < n, in logarithms.

    The polynomials grow like exp(t/2): they are rescaled in every step, since for n > 180 they would overflow.
    """
    before, now = np.zeros_like(t), np.ones_like(t)
    total, scale = np.ones_like(t), np.zeros_like(t)
    for k in range(1, t.size):
        before, now = now, ((2 * k - 1 - t) * now - (k - 1) * before) / k
        total += now**2
        large = np.where(np.abs(now) > 1e100, 1e-100, 1.0)
        before, now, total = before * large, now * large, total * large**2
        scale -= 2 * np.log(large)
    return np.asarray(-np.log(total) - scale)
