"""The discrete scheme, independent of its kernels: edge conditions, eigenmodes and exact solutions.

Edges are ghost cells next to the first and the last cell of a row or column. zero-flux: half-sample mirror,
u[-1-k] = u[k]. zero-dirichlet: u = 0 one cell outside, odd about that point. periodic.

A step multiplies each eigenmode of the Laplacian by a factor. With theta = pi p / N (zero flux, DCT-II),
pi p / (N + 1) (zero Dirichlet, DST-I) or 2 pi p / N (periodic) the factor is
g = 1 - 4 r (sin^2(theta_x / 2) + sin^2(theta_y / 2)); after n steps the mode is g^n times itself. Source: von Neumann
analysis of forward Euler with the five-point Laplacian, e.g. Strikwerda, Finite Difference Schemes and Partial
Differential Equations, 2nd ed., chapter 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compute.cli.arguments import named

LIMIT = 0.25  # largest stable r of forward Euler in two dimensions
EDGES = ("zero-flux", "zero-dirichlet", "periodic")
PERIODIC, ZERO_FLUX, ZERO_DIRICHLET = 0, 1, 2
_CODES = dict(zip(EDGES, (ZERO_FLUX, ZERO_DIRICHLET, PERIODIC), strict=True))

WRONG_VARIANTS = ("racing",)  # variants with results that are wrong on purpose; they are displayed with their error


def edge_code(edges: str) -> int:
    """Return the kernels' number for an edge condition. Raise ValueError, with the three known ones, for another."""
    return named("edges", edges, _CODES)


# -- eigenmodes


def mode_angle(size: int, number: int, edges: str) -> float:
    """Return theta in radians of mode `number` on `size` cells."""
    if edges == "periodic":
        return 2 * math.pi * number / size
    return math.pi * number / (size + 1 if edges == "zero-dirichlet" else size)


def mode_profile(size: int, number: int, edges: str) -> NDArray[np.float64]:
    """Return (size,) values of mode `number` along one axis. `number` may be 0; zero-dirichlet then returns zeros."""
    cells = np.arange(size)
    theta = mode_angle(size, number, edges)
    if edges == "zero-dirichlet":
        return np.sin(theta * (cells + 1))
    return np.cos(theta * (cells + (0.5 if edges == "zero-flux" else 0.0)))


def eigenmode(ny: int, nx: int, p: int, q: int, edges: str) -> NDArray[np.float64]:
    """Return the (ny, nx) mode with number p along x and q along y."""
    return np.outer(mode_profile(ny, q, edges), mode_profile(nx, p, edges))


def growth_factor(ny: int, nx: int, p: int, q: int, edges: str, r: float) -> float:
    """Return g, by which a step multiplies the mode."""
    sines = math.sin(mode_angle(nx, p, edges) / 2) ** 2 + math.sin(mode_angle(ny, q, edges) / 2) ** 2
    return 1 - 4 * r * sines


def fastest_growth(ny: int, nx: int, edges: str, r: float) -> float:
    """Return the magnitude of the factor of the finest mode, which grows fastest above the stability limit."""
    p, q = (_finest(size, edges) for size in (nx, ny))
    return abs(growth_factor(ny, nx, p, q, edges, r))


def _finest(size: int, edges: str) -> int:
    """Return the number of the finest mode on `size` cells."""
    return {"periodic": size // 2, "zero-dirichlet": size}.get(edges, size - 1)


@dataclass
class ExactMode:
    """amplitude times mode (p, q) on ny x nx cells: the result of the scheme without rounding.

    begun: the amplitude when the diffusion number became `r`; steps: steps since then. So the amplitude does not depend
    on the slices in which a lab was advanced.
    """

    ny: int
    nx: int
    p: int
    q: int
    edges: str
    begun: float = 1.0
    r: float = 0.0
    steps: int = 0

    def growth(self, r: float) -> float:
        """Return the factor of a step with the diffusion number r."""
        return growth_factor(self.ny, self.nx, self.p, self.q, self.edges, r)

    @property
    def amplitude(self) -> float:
        """The current amplitude; inf if it overflows."""
        factor = self.growth(self.r)
        with np.errstate(over="ignore", under="ignore"):
            return float(np.float64(self.begun) * np.float64(factor) ** self.steps)

    def advance(self, r: float, steps: int) -> None:
        """Advance `steps` steps with the diffusion number r."""
        if r != self.r:
            self.begun, self.r, self.steps = self.amplitude, r, 0
        self.steps += steps

    def field(self) -> NDArray[np.float64]:
        """Return the (ny, nx) exact field."""
        return self.amplitude * eigenmode(self.ny, self.nx, self.p, self.q, self.edges)

    def line(self, horizontal: bool, index: int) -> NDArray[np.float64]:
        """Return row or column number `index` of the field, without computing the field."""
        across = mode_profile(self.nx, self.p, self.edges)
        upward = mode_profile(self.ny, self.q, self.edges)
        return self.amplitude * (upward[index] * across if horizontal else across[index] * upward)

    def copy(self) -> ExactMode:
        """Return an independent copy."""
        return replace(self)


def launches(steps: int, sizes: tuple[int, ...]) -> list[int]:
    """Cut `steps` >= 1 into few launches, an odd number, of `sizes` (descending to 1, each a sum of two smaller ones).

    The number is odd because launches alternate between two arrays and the last one must write to the second.
    """
    plan = []
    for size in sizes:
        plan += [size] * (steps // size)
        steps %= size
    if len(plan) % 2 == 0:
        split = min(size for size in plan if size > 1)
        larger = next(size for size in sizes if size < split and split - size in sizes)
        plan.remove(split)
        plan += [larger, split - larger]
    return sorted(plan, reverse=True)
