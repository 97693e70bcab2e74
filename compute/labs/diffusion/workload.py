"""What `fieldlab bench diffusion` times, and how it knows that a result is right before any time is shown.

Up to REFERENCE_CELLS the result after CHECK_STEPS steps is compared with cpu_numpy in float64, from the same field of
smooth modes and noise. Larger grids, where that reference would take minutes, start from a sum of eigenmodes of the
discrete Laplacian, whose state after n steps is known exactly: mode k is multiplied by g_k ** n.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from compute.labs.diffusion import cpu_numpy
from compute.labs.diffusion.edges import EDGES

R = 0.2  # D dt / dx^2, the lab's default
SIZES = (512, 2000)  # cells a side, when none are asked for
GPU_SIZES = (*SIZES, 8192, 16384)  # the same where there is a GPU
DTYPES = ("float32", "float64")
EDGE_CHOICES = EDGES
CHECK_STEPS = 25  # no multiple of 12 or 16, so that launches of many steps show their remainder too
REFERENCE_CELLS = 2048**2  # cpu_numpy takes a few seconds for the check at this size
TOLERANCE = {"float32": 1e-6, "float64": 1e-13}  # relative L2; right kernels show 5e-8 and 1e-15
WRONG = {"racing": "the tutorial's kernel updates in place while neighbouring blocks still read"}
TIMED = ("ny", "nx", "dtype", "edges")  # parameters that the time of a step depends on
CHECKED = (*TIMED, "r", "unstable")  # and those its result depends on
APART = {"preset": "noise"}  # what comparisons start from: no denormals, whatever the live field holds
BLOCK = 2**18  # cells compared at a time: 2 MiB of float64 stay in a cache, ten times faster than in memory

Field = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One grid to time: `size` x `size` cells."""

    size: int
    dtype: str
    edges: str

    @property
    def cells(self) -> int:
        """Cells updated by one step."""
        return self.size**2

    @property
    def cell_bytes(self) -> int:
        """The least a step must move a cell when steps share no pass through memory: read once, write once."""
        return 2 * np.dtype(self.dtype).itemsize

    @property
    def tolerance(self) -> float:
        """Relative L2 difference from the reference up to which a result counts as right."""
        return TOLERANCE[self.dtype]

    @property
    def lifetime(self) -> int:
        """Steps after which a field is loaded afresh: its longest wave has then faded to about exp(-8)."""
        return 2 * (self.size + 1) ** 2


class Reference(Protocol):
    """A start, and the right result CHECK_STEPS steps later."""

    name: str

    def start(self, dtype: str) -> Field:
        """The (size, size) field to start from."""

    def rows(self, first: int, last: int) -> NDArray[np.float64]:
        """Rows `first` to `last` (exclusive) of the right result."""


def reference(size: int, edges: str) -> Reference:
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
