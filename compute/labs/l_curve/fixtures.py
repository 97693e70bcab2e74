"""The fixtures of `fieldlab bench l_curve`: a product, a step, a whole curve; for comparison LSMR for each λ.

The reference curve is verified by bounds that have closed in float64, and by the gradient of the solution. The
tutorial's problem of size n is solved in float64 on the fastest available backend until both bounds of both norms agree
to CLOSED at every λ. The bounds are then checked independently: SciPy's products give the gradient g = transpose(A) (b
- A x) - λ^2 x, and |x - solution| <= |g| / λ^2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.devices.backends import backend
from compute.devices.devices import Device
from compute.labs.l_curve.baseline import Solver, run
from compute.labs.l_curve.bidiagonal import SPARE, Bidiagonalisation, compressed
from compute.labs.l_curve.problems import make
from compute.labs.l_curve.small_system import Points, Small, points
from compute.labs.l_curve.system import TUTORIAL
from compute.measure.case import Checked, Implementation
from compute.measure.timing import Timing

PACKAGE = "compute.labs.l_curve"
FASTEST = ("gpu_cupy", "cpu_numba")
ACCURACY = 0.02  # relative error of the tutorial's own norms at its smallest λ, to which all ways are timed
CLOSED, CONFIRMED = 1e-10, 1e-3  # relative width of the bounds, and error of x that the gradient allows: ~ its root
MORE, ROOM = 100, 4000  # steps between two checks, and maximum
COUNTS = (10, 200)  # λ of a curve: the tutorial's, and a display curve

BEFORE = 20  # steps of a first call and of a check
SAMPLE = 5  # index of the λ, of the tutorial's ten, from which the time of the others is predicted
PER_STEP = 2.6  # LSMR's iterations for ten λ over the steps of one bidiagonalisation: 1 499 / 580 at n = 15 000


class CurveReference:
    """The tutorial's problem of size n and its curve. A: (n, n) csr float32; b: (n,) float64; k: see `steps`."""

    def __init__(self, n: int) -> None:
        self.n = n
        made, self.b, _ = make("random_sparse", n=n)
        self.A = compressed(made, "float32")
        self.name = "float64, its bounds closed and its gradient checked"

    @cached_property
    def small(self) -> Small:
        """The small system after the bounds have closed; RuntimeError if they do not close, or are not confirmed."""
        chosen = next(backend(name) for name in FASTEST if not backend(name).missing)
        device, widest, room = chosen.open_device(), self.lambdas(COUNTS[0]), min(self.n + SPARE, ROOM)
        run = Bidiagonalisation(device, chosen.kernels(PACKAGE), self.matrix("float64"), room, True)
        run.start(self.b)
        while not run.exhausted:
            run.advance(MORE)
            width = points(run.small, widest).widths.max()
            if width <= CLOSED:
                break
            if run.k >= run.most:
                raise RuntimeError(f"the bounds of the reference are still {width:.1e} apart after {run.k} steps")
        self._confirm(run, widest)
        return run.small

    def _confirm(self, run: Bidiagonalisation, lambdas: NDArray[np.float64]) -> None:
        A = self.A.astype(np.float64)
        for lam in lambdas:
            x = run.solve(float(lam))
            gradient = A.T @ (self.b - A @ x) - lam**2 * x
            error = float(np.linalg.norm(gradient) / lam**2 / np.linalg.norm(x))
            if not error <= CONFIRMED:
                raise RuntimeError(f"the reference may be wrong by {error:.1e} at λ = {lam:g}")

    def lambdas(self, count: int) -> NDArray[np.float64]:
        """Return (count,) λ over the tutorial's range."""
        return np.geomspace(*TUTORIAL[:2], count)

    def curve(self, count: int) -> Points:
        """Return the reference norms at `count` λ."""
        return points(self.small, self.lambdas(count))

    @cached_property
    def steps(self) -> int:
        """The fewest steps, in tens, after which both norms are within ACCURACY at the tutorial's λ."""
        k = 10
        while self.small.k > k and self.error(truncated(self.small, k), COUNTS[0])[0] > ACCURACY:
            k += 10
        return min(k, self.small.k)

    def error(self, small: Small, count: int) -> tuple[float, float]:
        """Return (largest relative, largest absolute) error of both norms of a small system at `count` λ."""
        return self.distance(points(small, self.lambdas(count)).residual, points(small, self.lambdas(count)).solution)

    def distance(self, residual: NDArray[np.float64], solution: NDArray[np.float64]) -> tuple[float, float]:
        """Return (largest relative, largest absolute) error of the given norms."""
        truth = self.curve(residual.size)
        apart = np.abs(np.stack([residual - truth.residual, solution - truth.solution]))
        return float((apart / np.stack([truth.residual, truth.solution])).max()), float(apart.max())

    def matrix(self, dtype: str) -> scipy.sparse.csr_matrix:
        """Return A in this type."""
        return self.A.astype(dtype, copy=False)


def truncated(small: Small, k: int) -> Small:
    """Return the small system after k steps."""
    return Small.of(small.diagonal[: k + 1], small.below[: k + 1])


# -- fixtures


class RightCurve(Protocol):
    """The reference curve as used by a fixture: see CurveReference, and course.py for a race."""

    A: scipy.sparse.csr_matrix
    b: NDArray[np.float64]
    n: int

    @property
    def small(self) -> Small:
        """The small system of the curve."""

    @property
    def steps(self) -> int:
        """Number of steps of a run."""

    def lambdas(self, count: int) -> NDArray[np.float64]:
        """Return the λ at which norms are computed."""

    def matrix(self, dtype: str) -> scipy.sparse.csr_matrix:
        """Return A in this type."""

    def distance(self, residual: NDArray[np.float64], solution: NDArray[np.float64]) -> tuple[float, float]:
        """Return (largest relative, largest absolute) error of both norms."""


_held: dict[str, tuple[RightCurve, str, Bidiagonalisation]] = {}  # by backend, for the next case of the same matrix


def held(way: Implementation, device: Device, right: RightCurve, dtype: str) -> Bidiagonalisation:
    """Return a bidiagonalisation of the reference problem on this way's backend; one per backend is cached."""
    name = way.backend.name
    if name not in _held or _held[name][:2] != (right, dtype):
        _held.pop(name, None)
        kernels, room = way.backend.kernels(PACKAGE), right.steps + 2 * BEFORE
        _held[name] = right, dtype, Bidiagonalisation(device, kernels, right.matrix(dtype), room, True)
    return _held[name][2]


def forget() -> None:
    """Free the cached bidiagonalisations."""
    _held.clear()


class CurveBenchFixture:
    """Base class of the three fixtures."""

    def __init__(self, device: Device, dtype: str, right: RightCurve) -> None:
        self.device, self.dtype, self.right = device, dtype, right

    def prepare(self, way: Implementation) -> None:
        """Lay out the matrix and its transpose on the device: seconds at n = 15 000, once for all cases of a dtype."""
        self.problem(way)

    def problem(self, way: Implementation) -> Bidiagonalisation:
        """Return the arrays."""
        return held(way, self.device, self.right, self.dtype)

    def timed(self, way: Implementation, count: int, entries: int, call: Callable[[], object]) -> Timing:
        """Time `count` runs of `entries` non-zeros each in one call, between two events on a GPU."""
        watch = self.device.stopwatch()
        with self.device.lock, watch:
            call()
        seconds = watch.seconds()
        return Timing(way.backend.name, way.variant, count, entries, watch.launch, seconds)


class ProductFixture(CurveBenchFixture):
    """A and its transpose times a vector, in turn, so that neither reuses parts of itself in a smaller cache."""

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Time the first product, and the second to predict the time of a product."""
        self.problem(way)
        first = self.run(way, 1)
        return first, self.run(way, 1).step_seconds

    def check(self, way: Implementation) -> Checked:
        """Compare A x with SciPy in float64."""
        problem = self.problem(way)
        x = np.random.default_rng(1).standard_normal(self.right.n).astype(self.dtype)
        out = self.device.upload(np.zeros_like(x))
        source = self.device.upload(x)
        timing = self.timed(way, 1, self.right.A.nnz, lambda: problem.kernels.multiply(problem.work.A, source, out))
        truth = self.right.matrix("float64") @ x.astype(np.float64)
        apart = np.abs(self.device.download(out) - truth)
        return Checked(float(np.linalg.norm(apart) / np.linalg.norm(truth)), float(apart.max()), timing)

    def run(self, way: Implementation, steps: int) -> Timing:
        """Time `steps` products, of A and of its transpose in turn."""
        problem = self.problem(way)
        work, multiply = problem.work, problem.kernels.multiply
        for vector in (work.V[0], work.u):
            self.device.write(np.ones(self.right.n, self.dtype), vector)
        turns = (work.A, work.V[0], work.w), (work.T, work.u, work.w)

        def call() -> None:
            """Multiply by A and its transpose in turn."""
            for number in range(steps):
                multiply(*turns[number % 2])

        return self.timed(way, steps, int(self.right.A.nnz), call)


class StepFixture(CurveBenchFixture):
    """Steps in the middle of a curve: two products, and V made orthogonal against half of the curve's steps."""

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Time the first steps of a bidiagonalisation."""
        work = begun(self.problem(way), self.right.b)
        timing = self.timed(way, BEFORE, self._entries, lambda: way.kernel(work, 0, BEFORE, True, 0.0))
        return timing, self.run(way, 1).step_seconds

    def check(self, way: Implementation) -> Checked:
        """Compare alpha and beta of the first steps with the reference."""
        work = begun(self.problem(way), self.right.b)
        timing = self.timed(way, BEFORE, self._entries, lambda: way.kernel(work, 0, BEFORE, True, 0.0))
        truth = self.right.small
        apart = [
            np.abs(self.device.download(made)[: BEFORE + 1] - right[: BEFORE + 1]) / right[: BEFORE + 1]
            for made, right in ((work.alpha, truth.diagonal), (work.beta, truth.below))
        ]
        return Checked(float(np.max(apart)), float(np.max(apart)), timing)

    def run(self, way: Implementation, steps: int) -> Timing:
        """Time `steps` steps, always from the same middle of the curve."""
        problem, middle = self.problem(way), max(1, self.right.steps // 2)
        if self._filled != way.backend.name:
            way.kernel(begun(problem, self.right.b), 0, middle, True, 0.0)
            self._filled = way.backend.name
        return self.timed(way, steps, self._entries, lambda: way.kernel(problem.work, middle, steps, True, 0.0))

    _filled = ""  # backend with the first half of a curve in V

    @property
    def _entries(self) -> int:
        return 2 * int(self.right.A.nnz)


class CurveFixture(CurveBenchFixture):
    """The norms at `count` λ, from b on the host to norms on the host, by the wall clock."""

    def __init__(self, device: Device, dtype: str, right: RightCurve, count: int) -> None:
        super().__init__(device, dtype, right)
        self.lambdas = right.lambdas(count)

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Compile the kernels; then time a part to predict the time of the whole curve."""
        return way.kernel.first(self, way)  # type: ignore[no-any-return]

    def check(self, way: Implementation) -> Checked:
        """Compare both norms at every λ with the reference."""
        timing, norms = self._curve(way)
        return Checked(*self.right.distance(*norms), timing)

    def run(self, way: Implementation, steps: int) -> Timing:
        """Time `steps` whole curves."""
        start = perf_counter()
        timings = [self._curve(way)[0] for _ in range(steps)]
        return Timing(way.backend.name, way.variant, steps, timings[0].cells, 0.0, perf_counter() - start)

    def _curve(self, way: Implementation) -> tuple[Timing, tuple[NDArray[Any], NDArray[Any]]]:
        start = perf_counter()
        products, norms = way.kernel(self, way, self.lambdas)
        seconds = perf_counter() - start
        return Timing(way.backend.name, way.variant, 1, products * int(self.right.A.nnz), 0.0, seconds), norms


class AllAtOnce:
    """One bidiagonalisation for all λ: `steps` is the backend's function."""

    def __init__(self, steps: Callable[..., None]) -> None:
        self._steps = steps

    def first(self, rig: CurveFixture, way: Implementation) -> tuple[Timing, float]:
        """Run a few steps twice."""
        timings = [self._begin(rig, way) for _ in range(2)]
        return timings[0], timings[1].step_seconds * rig.right.steps

    def __call__(
        self, rig: CurveFixture, way: Implementation, lambdas: NDArray[np.float64]
    ) -> tuple[int, tuple[NDArray[Any], NDArray[Any]]]:
        """Return (products, (residual norms, solution norms)) after the steps that the tutorial's accuracy requires."""
        problem, most = rig.problem(way), rig.right.steps
        work = begun(problem, rig.right.b)
        self._steps(work, 0, most, True, 0.0)
        alpha, beta = (rig.device.download(array)[: most + 1] for array in (work.alpha, work.beta))
        at = points(Small.of(alpha, beta), lambdas)
        return 2 * most + 1, (at.residual, at.solution)

    def _begin(self, rig: CurveFixture, way: Implementation) -> Timing:
        work = begun(rig.problem(way), rig.right.b)
        entries = 2 * int(rig.right.A.nnz)
        return rig.timed(way, BEFORE, entries, lambda: self._steps(work, 0, BEFORE, True, 0.0))


class InTheLab(AllAtOnce):
    """The same computation as in the lab: alpha, beta and the last v are checked on the host every few steps."""

    def __call__(
        self, rig: CurveFixture, way: Implementation, lambdas: NDArray[np.float64]
    ) -> tuple[int, tuple[NDArray[Any], NDArray[Any]]]:
        """Return (products, (residual norms, solution norms)) after the steps that the tutorial's accuracy requires."""
        problem = rig.problem(way)
        problem.start(rig.right.b)
        problem.advance(rig.right.steps)
        at = points(problem.small, lambdas)
        return problem.products, (at.residual, at.solution)


class OneByOne:
    """The baseline: LSMR for each λ.

    On a GPU the order of sums, and with it LSMR's number of iterations, varies from run to run by a part in a thousand:
    the work of the first run is used for all runs.
    """

    def __init__(self, solver: Callable[..., Solver]) -> None:
        self._make, self._made = solver, {}  # type: ignore[var-annotated]
        self._products: dict[tuple[str, int], int] = {}  # by dtype and number of λ

    def first(self, rig: CurveFixture, way: Implementation) -> tuple[Timing, float]:
        """Solve for a λ in the middle twice."""
        lam = float(rig.right.lambdas(10)[SAMPLE])
        solver = self._solver(rig)
        cold, warm = run(solver, [lam]), run(solver, [lam])
        each = warm.seconds / max(1, int(warm.column("iterations").sum()))
        whole = each * PER_STEP * rig.right.steps * rig.lambdas.size / 10
        return Timing(way.backend.name, way.variant, 1, 1, 0.0, cold.seconds), whole

    def __call__(
        self,
        rig: CurveFixture,
        way: Implementation,  # noqa: ARG002 the solver knows its device
        lambdas: NDArray[np.float64],
    ) -> tuple[int, tuple[NDArray[Any], NDArray[Any]]]:
        """Return (products, (residual norms, solution norms))."""
        made = run(self._solver(rig), [float(lam) for lam in lambdas])
        products = 2 * int(made.column("iterations").sum()) + len(made.points)
        products = self._products.setdefault((rig.dtype, lambdas.size), products)
        return products, (made.column("residual_norm"), made.column("solution_norm"))

    def _solver(self, rig: CurveFixture) -> Solver:
        key = rig.right, rig.dtype
        if key not in self._made:
            self._made = {key: self._make(rig.right.matrix(rig.dtype), rig.right.b)}
        return self._made[key]


def begun(problem: Bidiagonalisation, b: NDArray[np.float64]) -> Any:
    """Return the arrays after `start` with b from the host."""
    problem.device.write(b.astype(problem.dtype), problem.work.u)
    problem.kernels.start(problem.work)
    return problem.work
