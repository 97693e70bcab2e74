"""How a diffusion result is known to be right: cpu_numpy in float64, or modes whose future is known exactly.

Up to REFERENCE_CELLS the result after CHECK_STEPS steps is compared with cpu_numpy in float64, from the same field of
smooth modes and noise. Larger grids, where that reference would take minutes, start from a sum of eigenmodes of the
discrete Laplacian, whose state after n steps is known exactly: mode k is multiplied by g_k ** n.
"""

from __future__ import annotations

from math import pi
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from compute.labs.diffusion import cpu_numpy

R = 0.2  # D dt / dx^2, the lab's default
CHECK_STEPS = 25  # no multiple of 12 or 16, so that launches of many steps show their remainder too
REFERENCE_CELLS = 2048**2  # cpu_numpy takes a few seconds for the check at this size
BLOCK = 2**18  # cells compared at a time: 2 MiB of float64 stay in a cache, ten times faster than in memory

Field = NDArray[Any]


class Reference(Protocol):
    """A start, and the right result CHECK_STEPS steps later."""

    name: str

    def start(self, dtype: str) -> Field:
        """The (size, size) field to start from."""

    def rows(self, first: int, last: int) -> NDArray[np.float64]:
        """Rows `first` to `last` (exclusive) of the right result."""


def right_result(size: int, edges: str) -> Reference:
    """The reference that this size can afford."""
    return Stepped(size, edges) if size**2 <= REFERENCE_CELLS else Modes(size, edges)


def error(right: Reference, got: Field) -> tuple[float, float]:
    """(relative L2, largest absolute) difference of `got` from the right result; inf if `got` is not finite."""
    squares, difference, largest = 0.0, 0.0, 0.0
    block = max(1, BLOCK // got.shape[1])
    for first in range(0, got.shape[0], block):
        want = right.rows(first, min(first + block, got.shape[0]))
        delta = want - got[first : first + block]
        squares += float(np.vdot(want, want))
        difference += float(np.vdot(delta, delta))
        largest = max(largest, float(np.abs(delta).max()))
    if not np.isfinite(difference):
        return float("inf"), float("inf")
    return float(np.sqrt(difference / squares)), largest


class Modes:
    """A sum of eigenmodes and its exact future; rank 4, so that no full-size reference is ever held."""

    name = f"exact modes, {CHECK_STEPS} steps"

    def __init__(self, size: int, edges: str) -> None:
        numbers = [(1, 2), (3, 1), (size // 50 + 1, size // 31 + 1), (size // 17 + 1, 1)]
        weights = np.array((1.0, 0.5, 0.5, 0.25))
        self._y = np.stack([mode(size, p, edges) for p, _ in numbers], axis=1) * weights
        self._x = np.stack([mode(size, q, edges) for _, q in numbers])
        self._gain = np.array([gain(size, p, q, edges) for p, q in numbers]) ** CHECK_STEPS

    def start(self, dtype: str) -> Field:
        """The modes, in blocks so that float32 does not need float64's memory."""
        out = np.empty((self._y.shape[0], self._x.shape[1]), dtype)
        block = max(1, BLOCK // out.shape[1])
        for first in range(0, out.shape[0], block):
            out[first : first + block] = self._y[first : first + block] @ self._x
        return out

    def rows(self, first: int, last: int) -> NDArray[np.float64]:
        """The faded modes."""
        return (self._y[first:last] * self._gain) @ self._x


class Stepped:
    """cpu_numpy in float64 from modes and noise; the start is exact in float32, so that both dtypes share it."""

    name = f"cpu_numpy float64, {CHECK_STEPS} steps"

    def __init__(self, size: int, edges: str) -> None:
        noise = np.random.default_rng(size).random((size, size))
        self._start = (Modes(size, edges).start("float64") + noise).astype(np.float32)
        scratch = self._start.astype(np.float64)
        self._result = np.empty_like(scratch)
        cpu_numpy.step(scratch, self._result, R, edges, CHECK_STEPS)

    def start(self, dtype: str) -> Field:
        """The start as `dtype`."""
        return self._start.astype(dtype)

    def rows(self, first: int, last: int) -> NDArray[np.float64]:
        """Rows of the stepped field."""
        return self._result[first:last]


def mode(size: int, number: int, edges: str) -> NDArray[np.float64]:
    """(size,) eigenvector `number` >= 1 of the second difference; whole periods are removed before pi comes in."""
    cell = np.arange(size)
    if edges == "zero-flux":
        return np.cos(pi / (2 * size) * (number * (2 * cell + 1) % (4 * size)))
    if edges == "zero-dirichlet":
        return np.sin(pi / (size + 1) * (number * (cell + 1) % (2 * size + 2)))
    return np.cos(2 * pi / size * (number * cell % size))


def gain(size: int, p: int, q: int, edges: str) -> float:
    """Factor by which one step multiplies mode (p, q): 1 - 4 R (sin^2(a / 2) + sin^2(b / 2))."""
    unit = {"zero-flux": pi / size, "zero-dirichlet": pi / (size + 1), "periodic": 2 * pi / size}[edges]
    return float(1 - 4 * R * (np.sin(p * unit / 2) ** 2 + np.sin(q * unit / 2) ** 2))
