"""Bidiagonalisation in CUDA C, launched with CuPy: the device does not wait for the host between the steps.

A step of the recurrence is four launches. `recur` (gpu_products.cu) twice: it normalises its input, multiplies,
subtracts, and writes the sums of squares from which the next kernel computes its norm, so that alpha and beta stay on
the device; then `project` and `subtract` (gpu_vectors.cu) make w orthogonal to V. `finish` ends a run of steps. Where
rows are long, `sweep` and `merge` replace `recur`: they read A once (gpu_onepass.py).
BLOCK steps are recorded as a CUDA graph when they occur a second time, for example with other noise: kernels in a graph
follow each other sooner, and the host launches it in some 10 us instead of 25 to 68 per step. For the tutorial's
matrix, 580 steps in float32 on an H200: 44.3 ms launched one by one, 41.1 in graphs; since gpu_onepass.cu has two
groups 36.3.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from compute.devices.devices import Array
from compute.labs.l_curve.bidiagonal import LOOK, BidiagonalArrays, Rows
from compute.labs.l_curve.gpu_launch import MOST_BLOCKS, NULL, PLAIN, SLICES, Recurrence, product, vectors
from compute.labs.l_curve.gpu_onepass import Tiles, sweep, tiles_of

BLOCK = LOOK  # steps of a graph, which starts at a multiple of BLOCK
GRAPHS = 128  # maximum per bidiagonalisation: later steps are launched one by one


def index_types(columns: int, entries: int) -> tuple[type, type]:
    """Return the types of starts and columns: two bytes for up to 65 536 columns save a quarter of float32 traffic."""
    return np.int64, np.uint16 if columns <= 2**16 else np.int32


def one_pass(matrix: Rows) -> bool:
    """Return whether `steps` reads the matrix once for both products: if that is faster and possible."""
    with matrix.values.device:
        return tiles_of(matrix) is not None


def start(work: BidiagonalArrays) -> None:
    """Compute beta_0 u_0 = b, alpha_0 v_0 = transpose(A) u_0, where b is read from work.u; contract in cpu_numpy."""
    with work.u.device:
        scratch, backward, kernels = _scratch_of(work), product(work.T), vectors(work.u)
        begun = Recurrence(scratch.u, kernels.squares(work.u, scratch.u), work.beta, made=scratch.w)
        backward(work.T, work.u, work.w, begun)
        norms = work.alpha, work.beta
        kernels.finish(work.w, work.V[0], work.u, (scratch.w, backward.blocks), norms, NULL)
        tiles_of(work.A)  # laid out here, so that no step waits for it


def steps(work: BidiagonalArrays, first: int, count: int, orthogonal: bool, tiny: float) -> None:
    """Compute steps first to first + count - 1, in one pass over A where that is faster; contract in cpu_numpy."""
    with work.u.device:
        tiles, scratch = tiles_of(work.A), _scratch_of(work)
        run = _OnePass(work, scratch, tiles) if tiles else _TwoProducts(work, scratch)
        scratch.tiny.fill(tiny)
        run.blocks(first, count, orthogonal)


def two_products(work: BidiagonalArrays, first: int, count: int, orthogonal: bool, tiny: float) -> None:
    """Compute the same as `steps`, but always with A and with its transpose."""
    with work.u.device:
        scratch = _scratch_of(work)
        scratch.tiny.fill(tiny)
        _TwoProducts(work, scratch).blocks(first, count, orthogonal)


def multiply(matrix: Rows, x: Array, out: Array) -> None:
    """Compute out (rows,) = matrix x, x (columns,), all of one type."""
    with x.device:
        product(matrix)(matrix, x, out, PLAIN)


def combine(V: Array, y: Array, x: Array) -> None:
    """Compute x (n,) = y_0 V[0] + y_1 V[1] + ... for y (k,), k >= 1, of V's type."""
    with x.device:
        vectors(V).combine(V, y, x)


def project(V: Array, x: Array, y: Array) -> None:
    """Compute y (k,) = V[:k] x, the scalar products of x (n,) with the first k rows; all of V's type."""
    with x.device:
        vectors(V).project(V, y.size, x, y, 1)


@dataclass(frozen=True)
class _Scratch:
    """Sums of squares of u and w, one per block, the parts of scalar products, and the threshold of 0 (1,)."""

    u: Array
    w: Array
    parts: Array
    tiny: Array


class _Run:
    """Consecutive steps; u and w are normalised only when the next kernel reads them."""

    def __init__(self, work: BidiagonalArrays, scratch: _Scratch) -> None:
        self._work, self._scratch, self._tiny = work, scratch, scratch.tiny
        self._vectors = vectors(work.w)
        self._counted = 0  # sums of squares of w

    def blocks(self, first: int, count: int, orthogonal: bool) -> None:
        """Run `steps` in blocks that end at multiples of BLOCK; whole blocks run as graphs from the second time."""
        last = first + count
        while first < last:
            end = min(last, (first // BLOCK + 1) * BLOCK)
            graph = self._graph(first, orthogonal) if end - first == BLOCK else None
            if graph:
                graph.launch()
            else:
                self.steps(first, end - first, orthogonal)
            first = end

    def _graph(self, first: int, orthogonal: bool) -> Any:
        """Return the graph of the steps from `first` on; None the first time, because kernels may be compiled then."""
        known, key = _graphs_of(self._work), (type(self), first, orthogonal)
        if key not in known:
            known[key] = None
        elif known[key] is None and sum(graph is not None for graph in known.values()) < GRAPHS:
            known[key] = _record(lambda: self.steps(first, BLOCK, orthogonal))
        return known[key]

    def steps(self, first: int, count: int, orthogonal: bool) -> None:
        """Run the steps of the contract in cpu_numpy."""
        for j in range(first, first + count):
            self.pair(j, self._scaling(j, fresh=j == first))
            if orthogonal:
                self.orthogonalise(j + 1)
        self.finish(first + count)

    def _scaling(self, j: int, fresh: bool) -> tuple[Array, Recurrence]:
        """Return (source of v_j, its scaling), including the scaling of u_j. fresh: V[j] and u are normalised."""
        work, scratch, alpha = self._work, self._scratch, self._work.alpha[j:]
        if fresh:
            return work.V[j], Recurrence(norm=alpha, old=work.u, made=scratch.u, tiny=self._tiny)
        squares = scratch.w, self._counted
        return work.w, Recurrence(*squares, alpha, work.V[j], work.u, work.beta[j:], scratch.u, self._tiny)

    def pair(self, j: int, scaling: tuple[Array, Recurrence]) -> None:
        """Compute u = A v_j - alpha_j u, then w = transpose(A) u - beta_(j+1) v_j."""
        raise NotImplementedError

    def orthogonalise(self, rows: int) -> None:
        """Subtract from w its projection on V[:rows]."""
        work, scratch = self._work, self._scratch
        slices = self._vectors.slices_for(rows, work.w.size)
        self._vectors.project(work.V, rows, work.w, scratch.parts, slices)
        self._counted = self._vectors.subtract(work.V, rows, scratch.parts, slices, work.w, scratch.w)

    def finish(self, j: int) -> None:
        """Write V[j], u and alpha[j] as in the contract."""
        work = self._work
        norms = work.alpha[j:], work.beta[j:]
        self._vectors.finish(work.w, work.V[j], work.u, (self._scratch.w, self._counted), norms, self._tiny)


class _TwoProducts(_Run):
    """Steps with A and its transpose."""

    def __init__(self, work: BidiagonalArrays, scratch: _Scratch) -> None:
        super().__init__(work, scratch)
        self._forward, self._backward = product(work.A), product(work.T)

    def pair(self, j: int, scaling: tuple[Array, Recurrence]) -> None:
        """Launch one kernel twice."""
        work, scratch = self._work, self._scratch
        self._forward(work.A, scaling[0], work.u, scaling[1])
        squares = scratch.u, self._forward.blocks
        back = Recurrence(*squares, work.beta[j + 1 :], old=work.V[j], made=scratch.w, tiny=self._tiny)
        self._backward(work.T, work.u, work.w, back)
        self._counted = self._backward.blocks


class _OnePass(_Run):
    """Steps with A alone, in its tiled layout."""

    def __init__(self, work: BidiagonalArrays, scratch: _Scratch, tiles: Tiles) -> None:
        super().__init__(work, scratch)
        self._tiles, self._sweep = tiles, sweep(tiles)
        room = 1 << (self._sweep.blocks * work.w.size).bit_length()
        self._sums = _sums(work.u.device.id, work.u.dtype.name, room)

    def pair(self, j: int, scaling: tuple[Array, Recurrence]) -> None:
        """Launch the pass, and the sum of the results of its blocks."""
        work, scratch = self._work, self._scratch
        self._sweep(self._tiles, scaling[0], work.u, self._sums, scaling[1])
        sums, squares = (self._sums, self._sweep.blocks), (scratch.u, scratch.w)
        self._counted = self._vectors.merge(sums, work.w, work.beta[j + 1 :], work.V[j], squares, self._tiny)


def _scratch_of(work: BidiagonalArrays) -> _Scratch:
    rows = 1 << int(work.alpha.size).bit_length()  # doubled, not grown step by step
    return _scratch(work.u.device.id, work.u.dtype.name, rows)


@cache
def _scratch(device: int, real: str, rows: int) -> _Scratch:
    """Return the scratch shared by all computations on a GPU: kernels run there one after the other."""
    u, w, tiny = (_empty(size, "float64") for size in (MOST_BLOCKS, MOST_BLOCKS, 1))
    return _Scratch(u, w, _empty(rows * SLICES, real), tiny)


@cache
def _sums(device: int, real: str, room: int) -> Array:
    return _empty(room, real)


def _empty(size: int, dtype: str) -> Any:
    import cupy

    return cupy.empty(size, dtype)


# -- graphs


_graphs: dict[int, dict[tuple[type, int, bool], Any]] = {}  # by the identity of the arrays, while those are alive


def _graphs_of(work: BidiagonalArrays) -> dict[tuple[type, int, bool], Any]:
    """Return the recorded graphs of these arrays; None marks steps that ran once."""
    if id(work) not in _graphs:
        weakref.finalize(work, _graphs.pop, id(work), None)
        _graphs[id(work)] = {}
    return _graphs[id(work)]


def _record(launches: Callable[[], None]) -> Any:
    """Return a graph of the kernels that `launches` launches, not yet run; its `launch` uses the current stream."""
    import cupy

    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        try:
            launches()
        finally:
            graph = stream.end_capture()
    return graph


VARIANTS: dict[str, Callable[..., None]] = {"all λ at once": steps, "two products": two_products}
