"""Incremental bidiagonalisation: steps in chunks on any backend, with alpha and beta on the host after each chunk.

BidiagonalArrays contains the arrays on the device, which are passed to the kernels of every backend.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.devices.devices import Array, Device, Stopwatch
from compute.labs.l_curve.small_system import Small, coefficients

TINY = 8  # machine epsilons of the largest coefficient: the rounding errors of a coefficient that should be 0
LOST = 0.01  # scalar product of two columns of V above which a step consists of rounding errors
LOOK = 16  # steps between two checks of V: self-amplifying errors grow by less than a factor of 16 per step
AHEAD = {"cpu": 0, "gpu": 1}  # checks that the host does not wait for before it launches the next steps
SPARE = 8  # steps beyond min(m, n) that rounding may require before the matrix is exhausted
INDEX_BYTES = 8  # maximum for one stored entry's column and its part of the row's start
VECTORS = 6  # u, w, c and the allocations of a backend's products


@dataclass(frozen=True)
class Rows:
    """A matrix by rows, on a device: row i has the entries starts[i] to starts[i + 1].

    starts: (rows + 1,) int32 or int64; columns: (entries,) uint16, int32 or int64, as returned by the backend's
    `index_types`; values: (entries,) float32 or float64. The columns within a row differ, and ascend.
    """

    shape: tuple[int, int]
    starts: Array
    columns: Array
    values: Array

    @classmethod
    def of(cls, device: Device, kernels: ModuleType, matrix: scipy.sparse.csr_matrix) -> Rows:
        """Upload `matrix` to `device`, with the index types of `kernels`."""
        starts, columns = kernels.index_types(matrix.shape[1], matrix.nnz)
        arrays = (matrix.indptr.astype(starts), matrix.indices.astype(columns), matrix.data)
        return cls(matrix.shape, *(device.upload(array) for array in arrays))

    @property
    def entries(self) -> int:
        """Stored non-zeros."""
        return int(self.values.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix that one product reads."""
        return int(self.starts.nbytes + self.columns.nbytes + self.values.nbytes)


@dataclass(frozen=True)
class BidiagonalArrays:
    """The arrays of a Golub-Kahan bidiagonalisation of A (m, n) with room for `most` steps; real: float32 or float64.

    A, T: the matrix and its transpose, by rows. u: (m,) real, the latest left vector; b before the start. V: (most + 1,
    n) real, the right vectors in its rows. w: (n,) real and c: (most + 1,) real, scratch. alpha, beta: (most + 1,)
    float64: alpha[j] couples u_j and v_j, beta[j] couples u_j and v_(j - 1), beta[0] = |b|, counted from 0.
    """

    A: Rows
    T: Rows
    u: Array
    V: Array
    w: Array
    c: Array
    alpha: Array
    beta: Array

    @classmethod
    def of(cls, device: Device, kernels: ModuleType, A: scipy.sparse.csr_matrix, most: int) -> BidiagonalArrays:
        """Allocate arrays for A, whose dtype is that of the vectors; u and V are uninitialised."""
        rows, transposed = Rows.of(device, kernels, A), Rows.of(device, kernels, A.T.tocsr())
        (m, n), real = A.shape, A.dtype
        vectors = (device.allocate(shape, real) for shape in ((m,), (most + 1, n), (n,), (most + 1,)))
        scalars = (device.upload(np.zeros(most + 1)) for _ in range(2))
        return cls(rows, transposed, *vectors, *scalars)

    def resized(self, device: Device, most: int) -> BidiagonalArrays:
        """Return the same matrix and u with room for `most` steps: V is uninitialised, alpha and beta are zeros."""
        V, c = (device.allocate(shape, self.V.dtype) for shape in ((most + 1, self.V.shape[1]), (most + 1,)))
        alpha, beta = (device.upload(np.zeros(most + 1)) for _ in range(2))
        return BidiagonalArrays(self.A, self.T, self.u, V, self.w, c, alpha, beta)

    @property
    def most(self) -> int:
        """Maximum number of steps."""
        return int(self.alpha.shape[0]) - 1


def compressed(A: Any, dtype: str) -> scipy.sparse.csr_matrix:
    """Return A as CSR of `dtype`, entries sorted and summed, without stored zeros."""
    matrix = scipy.sparse.csr_matrix(A, dtype=dtype, copy=False)
    if not matrix.has_canonical_format or (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return matrix


# -- step by step


def nbytes(unknowns: int, entries: int, room: int, dtype: str) -> int:
    """Return the device bytes of a matrix of `unknowns` columns, its transpose, and the vectors of `room` steps."""
    real = np.dtype(dtype).itemsize
    return 2 * entries * (real + INDEX_BYTES) + (room + 1 + VECTORS) * unknowns * real


def footprint(A: scipy.sparse.csr_matrix, room: int) -> int:
    """Return `nbytes` of an existing matrix."""
    return nbytes(A.shape[1], int(A.nnz), room, A.dtype.name)


def room_for(shape: tuple[int, int], most: int, orthogonal: bool) -> int:
    """Return the number of steps to allocate: at most `most`, and at most the size of an orthogonal basis."""
    return min(most, min(shape) + SPARE) if orthogonal else most


@dataclass(frozen=True)
class Spent:
    """Seconds of some steps: launch on the host, compute on the device."""

    launch: float
    compute: float


@dataclass(frozen=True)
class _Look:
    """Launched steps from `old` to `k`; callables return alpha, beta (k - old,), and the overlap of v_k."""

    old: int
    k: int
    watch: Stopwatch
    alpha: Callable[[], NDArray[np.float64]]
    beta: Callable[[], NDArray[np.float64]]
    newest: Callable[[], float] | None


@dataclass(frozen=True)
class _Doubt:
    """A pending check whether one of V's rows from old + 1 to `last` consists of rounding errors."""

    old: int
    last: int
    overlap: Callable[[], float]


class Bidiagonalisation:
    """Golub-Kahan bidiagonalisation of A (m, n), csr, for one b at a time; all vectors have the type of A.

    orthogonal: whether V is reorthogonalised. k: steps done. exhausted: whether A is exhausted, so that the small
    system describes the whole curve. products: with A or its transpose, since `start`. seconds: device time of the
    products; launched: host time to launch them.
    """

    def __init__(
        self, device: Device, kernels: ModuleType, A: scipy.sparse.csr_matrix, most: int, orthogonal: bool
    ) -> None:
        self.device, self.kernels, self.orthogonal = device, kernels, orthogonal
        self.work = BidiagonalArrays.of(device, kernels, A, most)
        self.dtype = A.dtype
        self._reset()

    def _reset(self) -> None:
        self.k, self.products, self.seconds, self.launched, self.exhausted = 0, 0, 0.0, 0.0, False
        self._doubt: _Doubt | None = None
        self._alpha, self._beta = np.zeros(1), np.zeros(1)

    @property
    def most(self) -> int:
        """Maximum number of steps."""
        return self.work.most

    @property
    def finished(self) -> bool:
        """Whether no step can be added, because A is exhausted or the arrays are full."""
        return self.exhausted or self.k >= self.most

    @property
    def share(self) -> float:
        """The part of A and its transpose that the two products of a step read: 1/2 where one pass computes both."""
        return 0.5 if self.kernels.one_pass(self.work.A) else 1.0

    @property
    def bytes_per_product(self) -> float:
        """Minimum bytes that a product moves: the matrix, the vector it reads and the vector it writes.

        If a step reads A once for both of its products, half of the matrix counts for each.
        """
        A, T = self.work.A, self.work.T
        matrices = A.nbytes if self.share < 1.0 else A.nbytes + T.nbytes
        return matrices / 2 + sum(A.shape) * self.dtype.itemsize

    def start(self, b: NDArray[Any]) -> Spent:
        """Restart with b (m,); raise ValueError if transpose(A) b vanishes or overflows in the matrix's type."""
        self._reset()
        with np.errstate(over="ignore"):
            self.device.write(b.astype(self.dtype), self.work.u)
        with self.device.lock, self.device.stopwatch() as watch:
            self.kernels.start(self.work)
        self.products, self.seconds, self.launched = 1, watch.seconds(), watch.launch
        self._read(0, *(self.device.download(array[:1]) for array in (self.work.alpha, self.work.beta)))
        if self._alpha[0] == 0:
            raise ValueError(f"b must not be orthogonal to every column of A; in {self.dtype} it is")
        return Spent(watch.launch, self.seconds)

    def advance(self, count: int, enough: Callable[[], bool] = lambda: False, every: int = LOOK) -> Spent:
        """Add `count` >= 1 steps, as far as there is room; return immediately if finished.

        `enough` is called after every `every` steps; True ends the run. Steps already launched by then, those of AHEAD
        checks, are completed and count.
        """
        before, launch, queued, checked_at = self.seconds, 0.0, self.k, self.k
        goal, ahead = min(self.k + count, self.most), AHEAD[self.device.kind]
        looks: deque[_Look] = deque()
        while (queued < goal or looks) and not self.exhausted:
            if queued < goal:
                looks.append(self._launch(queued, min(goal, queued + every, (queued // LOOK + 1) * LOOK)))
                queued, launch = looks[-1].k, launch + looks[-1].watch.launch
                if len(looks) <= ahead and queued < goal:
                    continue
            self._take(looks.popleft())
            if not looks:
                self._settle()
            if self.k - checked_at >= every and not self.exhausted:
                checked_at, goal = self.k, queued if enough() else goal
        self._settle()
        self.seconds += sum(look.watch.seconds() for look in looks)  # of discarded steps
        self.launched += launch
        return Spent(launch, self.seconds - before)

    def _launch(self, old: int, k: int) -> _Look:
        """Launch the steps from `old` to `k`, and the copies of their results."""
        work = self.work
        tiny = TINY * float(np.finfo(self.dtype).eps) * max(self._alpha.max(), self._beta[1:].max(initial=0.0))
        with self.device.lock, self.device.stopwatch() as watch:
            self.kernels.steps(work, old, k - old, self.orthogonal, tiny)
        self.products += 2 * (k - old)
        newest = self._overlap(k) if self.orthogonal else None
        alpha, beta = (self.device.fetch(array[old + 1 : k + 1]) for array in (work.alpha, work.beta))
        return _Look(old, k, watch, alpha, beta, newest)

    def _take(self, look: _Look) -> None:
        """Wait for the results of launched steps.

        A new v that is not orthogonal to the previous v consists of rounding errors: A is exhausted there. Later steps
        would consist of rounding errors as well, so the last v and the v with the smallest alpha decide whether all v
        are checked.
        """
        self.seconds += look.watch.seconds()
        self._settle()
        if self.exhausted:
            return
        self._read(look.old + 1, look.alpha(), look.beta())
        last = self.k - self.exhausted  # after the end V contains zeros
        if look.newest is None or last == look.old:
            return
        newest = look.newest if last == look.k else self._overlap(last)
        suspect = look.old + 1 + int(np.argmin(self._alpha[look.old + 1 : last + 1]))
        if newest() > LOST:
            self._lose(look.old, last)
        elif suspect != last:
            self._doubt = _Doubt(look.old, last, self._overlap(suspect))

    def _settle(self) -> None:
        """Evaluate the pending check, if any."""
        doubt, self._doubt = self._doubt, None
        if doubt and doubt.overlap() > LOST:
            self._lose(doubt.old, doubt.last)

    def _lose(self, old: int, last: int) -> None:
        """End before the first v from old + 1 to `last` that consists of rounding errors."""
        k = next(j for j in range(old + 1, last + 1) if self._overlap(j)() > LOST)
        self._end(k, self._alpha, self._beta)
        self._alpha[k], self.exhausted = 0.0, True

    def _overlap(self, j: int) -> Callable[[], float]:
        """Launch V[:j] v_j; return a callable for the largest scalar product of v_j with an earlier v."""
        products = self.device.allocate((j,), self.dtype)
        self.kernels.project(self.work.V, self.work.V[j], products)
        found = self.device.fetch(products)
        return lambda: float(np.abs(found()).max())

    def _read(self, first: int, alpha: NDArray[np.float64], beta: NDArray[np.float64]) -> None:
        """Store alpha and beta from index `first` on, up to the first alpha that is 0."""
        if not (np.isfinite(alpha).all() and np.isfinite(beta).all()):
            raise ValueError(f"A and b must be small enough for {self.dtype}: their products overflow")
        ends = np.flatnonzero(alpha == 0) if first else np.empty(0)
        last = first + (int(ends[0]) if ends.size else alpha.size - 1)
        self._end(last, np.append(self._alpha[:first], alpha), np.append(self._beta[:first], beta))
        self.exhausted = bool(ends.size)

    def _end(self, k: int, alpha: NDArray[np.float64], beta: NDArray[np.float64]) -> None:
        self.k, self._alpha, self._beta = k, alpha[: k + 1].copy(), beta[: k + 1].copy()

    @property
    def small(self) -> Small:
        """The small system of the completed steps, at least one."""
        return Small.of(self._alpha, self._beta)

    def solution(self, y: NDArray[np.float64]) -> Any:
        """Return x (n,) = transpose(V[:j]) y on the device, for y (j,) of the small system of j <= k steps."""
        x = self.device.allocate((self.work.A.shape[1],), self.dtype)
        self.kernels.combine(self.work.V, self.device.upload(y.astype(self.dtype)), x)
        return x

    def projection(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (k,) = V[:k] x for x (n,)."""
        y = self.device.upload(np.zeros(self.k, self.dtype))
        self.kernels.project(self.work.V, self.device.upload(x.astype(self.dtype)), y)
        return self.device.download(y).astype(np.float64)

    def solve(self, lam: float) -> NDArray[Any]:
        """Return the (n,) solution for λ = lam > 0 on the host, the best within the completed steps."""
        return self.device.download(self.solution(coefficients(self.small, lam)))

    def residual(self, lam: float, b: NDArray[np.float64], steps: int | None = None) -> NDArray[np.float64]:
        """Return the (m,) float64 residual b - A x on the host for λ > 0, after `steps` or all steps; one product."""
        product = self.device.allocate((self.work.A.shape[0],), self.dtype)
        small = self.small if steps is None else self.small.part(steps)
        self.kernels.multiply(self.work.A, self.solution(coefficients(small, lam)), product)
        return b - self.device.download(product)

    def grow(self, most: int) -> None:
        """Resize for `most` steps in total, at least the completed ones; computed values are kept."""
        most = max(most, self.k)
        kept = {name: self.device.download(getattr(self.work, name)[: self.k + 1]) for name in ("V", "alpha", "beta")}
        self.work = self.work.resized(self.device, most)
        for name, values in kept.items():
            self.device.write(values, getattr(self.work, name)[: self.k + 1])
