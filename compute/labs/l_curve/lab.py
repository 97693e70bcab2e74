"""The L-curve lab: Tikhonov regularisation for all λ from one bidiagonalisation, live.

This module defines the lab's parameters and results. system.py contains A and b, standard_form.py their transformation
for a derivative in the penalty, bidiagonal.py the steps, small_system.py the curve computed from alpha and beta,
survey.py the computations in addition to the steps, rules/ the rules that choose λ, picture.py the frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import param
import scipy
from numpy.typing import NDArray

from compute.devices.builds import watching
from compute.lab import limits
from compute.lab.fields import is_finite, real_array
from compute.lab.frames import Frame, View
from compute.lab.lab import Lab, OutOfMemory
from compute.lab.status import LabStatus
from compute.labs.l_curve.bidiagonal import SPARE, Bidiagonalisation, footprint, nbytes, room_for
from compute.labs.l_curve.picture import panels_of, show
from compute.labs.l_curve.problems import NAMES, PROBLEMS
from compute.labs.l_curve.problems.checks import Angles, RealNumber
from compute.labs.l_curve.problems.own import ArrayFile
from compute.labs.l_curve.rules import RULES, RuleChoice, choose
from compute.labs.l_curve.small_system import LARGEST, SMALLEST, Points, largest, points, scale, widened, widest
from compute.labs.l_curve.standard_form import HIGHEST
from compute.labs.l_curve.survey import CurveSurvey, LCurveResult, TraceProbe
from compute.labs.l_curve.system import OWN, HeldProblem, settled, typical
from compute.measure.timing import Timing

FEWEST, MOST = 3, 1000  # number of λ on a curve
PICTURE_BYTES = 16 * 2**20  # display buffers and the small system, rounded up

SOLVED = {"float64": 1e-8, "float32": 1e-5}  # relative error below which a solution counts as exact
PROBE_ROWS = 5000
GROWTH = 16  # of a headless run: the chunk is at least this fraction of the completed steps


def _bounded(name: str, option: str, label: str) -> Any:
    """Return a parameter with the default and the bounds of a problem's option."""
    given: Any = PROBLEMS[name].options[option]
    kind = param.Number if isinstance(given, RealNumber) else param.Integer
    bounds = (1, given.most) if isinstance(given, Angles) else (given.low, given.high)
    return kind(default=given.default, bounds=bounds, label=label)


class LCurve(Lab):
    """min |A x - b|^2 + λ^2 |L x|^2 for every λ simultaneously, with lower and upper bounds of both norms.

    One Golub-Kahan bidiagonalisation serves all λ, since it does not depend on λ. b contains noise of |e| = noise |b|,
    the same for every λ. L is the identity, or the first or second difference (`derivative`). README.md in this folder
    describes the method and its sources.
    """

    LAB = "l_curve"
    TITLE = "L-curve"
    ENDS: ClassVar[bool] = True
    PRELOADED: ClassVar[tuple[str, ...]] = ("scipy.linalg", "scipy.sparse")
    RESTORES: ClassVar[bool] = False
    SIZES = MappingProxyType(
        {"unknowns": lambda values: extent(values)[0], "iterations": lambda values: int(values["steps_at_most"])}
    )
    panels = staticmethod(panels_of)
    HISTORY_NAMES: ClassVar[tuple[str, ...]] = ()
    PACKAGE = "compute.labs.l_curve"
    RUN: ClassVar[tuple[str, ...]] = ("noise", "noise_seed")
    STRUCTURAL: ClassVar[tuple[str, ...]] = (
        *Lab.STRUCTURAL,
        *("problem", "n", "options", "density", "seed", "depth", "kappa", "band", "sigma", "rays", "angles", "dtype"),
        "derivative",
    )

    # options of the problems: each applies to the problems that have an option of its name
    problem = param.Selector(default="random_sparse", objects=list(NAMES), label="Problem")
    n = param.Integer(default=typical("random_sparse"), bounds=(1, 2**31 - 1), label="n", doc="Samples, or pixels.")
    options = param.Dict(default={}, label="Further options", doc="By name; a file by its bytes, or read already.")
    density = _bounded("random_sparse", "density", "Share of entries that are not 0")
    seed = _bounded("random_sparse", "seed", "Seed of the problem")
    depth = _bounded("gravity", "depth", "Depth [lengths of the line]")
    kappa = _bounded("heat", "kappa", "Conditioning parameter")
    band = _bounded("blur", "band", "Reach of the blur [pixels]")
    sigma = _bounded("blur", "sigma", "Width of the blur σ [pixels]")
    rays = param.Number(default=None, bounds=(0, 2**15), allow_None=True, label="Rays [a pixel, or an angle]")
    angles = _bounded("paralleltomo", "angles", "Angles")
    derivative = param.Integer(
        default=0, bounds=(0, HIGHEST), label="Derivative in the penalty", doc="Order d of L; 0: |x| is penalised."
    )
    dtype = param.Selector(default="float64", objects=["float32", "float64"], label="Number type")
    noise = param.Number(default=0.0, bounds=(0, 10), label="Noise added to b [part of |b|]", doc="0: none is added.")
    noise_seed = param.Integer(default=0, bounds=(0, 2**31 - 1), label="Seed of the noise")
    reorthogonalise = param.Boolean(default=True, label="Reorthogonalise", doc="Fewer steps; the same curve.")
    lambdas = param.Tuple(default=None, length=3, allow_None=True, label="λ: lowest, highest, how many")
    tolerance = param.Number(default=1e-4, bounds=(1e-14, 1), label="Target ribbon width")
    steps_at_most = param.Integer(default=2000, bounds=(1, 100_000), label="Maximum steps")
    chunk = param.Integer(default=16, bounds=(1, 1024), label="Steps between two looks at the ribbon")
    lam = param.Number(default=None, bounds=(0, None), inclusive_bounds=(False, True), allow_None=True, label="λ shown")
    rule = param.Selector(default="curvature", objects=list(RULES), label="Rule", doc="Chooses λ where none is set.")
    gcv_weight = param.Number(default=None, bounds=(0, 10), allow_None=True, label="Weight ω", doc="None: adaptive.")

    system: HeldProblem
    bidiagonal: Bidiagonalisation
    b: NDArray[np.float64]  # with noise, in the rows of system.A
    seen: NDArray[np.float64]  # see HeldProblem.split
    noise_norm: float  # |e|
    survey: CurveSurvey
    probe: TraceProbe | None  # of the matrix: valid for every b and every λ

    def __init__(self, **values: Any) -> None:
        if "problem" in values:
            values.setdefault("n", typical(values["problem"]))
        super().__init__(**values)
        self.param.watch(self._restart, list(self.RUN))
        self.param.watch(self._reorthogonalise, ["reorthogonalise"])
        self.param.watch(self._make_room, ["steps_at_most"])
        self.param.watch(self._look_again, ["lambdas", "tolerance", "gcv_weight"])

    # -- consistent values

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """Return the bytes of the matrix, its transpose and all vectors; estimated from the file size for a file."""
        given = {name: values.get(name, cls.param[name].default) for name in cls.param if name != "name"}
        unknowns, entries = extent(given)
        basis = min(given["steps_at_most"], unknowns + SPARE) if given["reorthogonalise"] else given["steps_at_most"]
        return nbytes(unknowns, entries, basis, given["dtype"]) + PICTURE_BYTES

    def validate(self, values: dict[str, Any]) -> None:
        """Require n and options within the problem's bounds, and λ in range, ascending and not too many."""
        if values["lambdas"] is not None:
            require_range(values["lambdas"])
        if values["lam"] is not None:
            require_lambda(values["lam"])
        if values["problem"] != OWN:
            require_line(values)
            settled(values)
        elif "matrix" not in values["options"]:
            raise ValueError("options must hold a matrix for the problem 'own': {'matrix': A, 'rhs': b}")

    def update(self, **values: Any) -> None:
        """Set several parameters, all or none; a new problem resets n to its default and clears the options.

        If its solution is a picture, `derivative` is reset to 0. A user's own data are not changed: noise is added to
        them only if `noise` is set in the same call, or later.
        """
        name = values.get("problem", self.problem)
        if name != self.problem:
            clean = {"noise": 0.0} if name == OWN else {}
            flat = {"derivative": 0} if is_picture(name) else {}
            values = {"n": typical(name), "options": {}, **clean, **flat, **values}
        super().update(**values)

    # -- state

    def _allocate(self, old: dict[str, Any]) -> None:  # noqa: ARG002 another problem or backend starts again
        system = HeldProblem.of(self.values())
        limits.require("unknowns", system.columns)  # the unknowns of a file are known from here on
        room = room_for(system.shape, self.steps_at_most, self.reorthogonalise)
        held = self._held()
        self._require_memory(footprint(system.A, room), held)
        self._release()
        self.system = system
        if self.problem == OWN:
            with param.parameterized.discard_events(self):
                self.n = system.columns
        self._work(room)
        self.reset()

    def _held(self) -> int:
        """Return the bytes on the present device that a reallocation frees."""
        if not hasattr(self, "bidiagonal") or self.bidiagonal.device.name != self.device.name:
            return 0
        return footprint(self.system.A, self.bidiagonal.most)

    def _work(self, room: int) -> None:
        self.probe = None
        self.bidiagonal = Bidiagonalisation(self.device, self.kernels, self.system.A, room, self.reorthogonalise)

    def _release(self) -> None:
        for name in ("bidiagonal", "survey"):
            self.__dict__.pop(name, None)

    def reset(self) -> None:
        """Restart with noise of the present level and seed and do the first step, before which x does not exist."""
        b, self.noise_norm = self.system.noisy(self.noise, self.noise_seed)
        self.b, self.seen = self.system.split(b)
        self.cold_products, self.cold_seconds, self.cold_launched = 0, 0.0, 0.0
        with watching() as builds:
            begin, first = self.bidiagonal.start(self.b), self.bidiagonal.advance(1)
        if self._first_call("start", self.dtype) or builds.count > 0:
            self.cold_products, self.cold_seconds = self.bidiagonal.products, self.bidiagonal.seconds
            self.cold_launched = self.bidiagonal.launched
        self._open = 0  # index of the last λ with an open ribbon
        self._done: bool | None = None
        self.survey = CurveSurvey(self)
        self.spent = self._timing(1, begin.launch + first.launch, self.bidiagonal.seconds, first_call=True)

    def _restart(self, *_events: param.parameterized.Event) -> None:
        if self._ready:
            self.reset()

    def _reorthogonalise(self, *events: param.parameterized.Event) -> None:
        """Restart after a change of `reorthogonalise`, with the room that it may need."""
        if self._ready:
            room = self._affordable(events)
            self._release()
            self._work(room)
            self.reset()

    def _make_room(self, *events: param.parameterized.Event) -> None:
        """Make room for more steps after a change of `steps_at_most`; completed steps are kept."""
        if self._ready:
            room = self._affordable(events)
            if room > self.bidiagonal.most:
                self.bidiagonal.grow(room)
            self._look_again()

    def _affordable(self, events: tuple[param.parameterized.Event, ...]) -> int:
        """Return the room for steps that the parameters require; restore their old values if memory is insufficient."""
        room = room_for(self.system.shape, self.steps_at_most, self.reorthogonalise)
        try:
            self._require_memory(footprint(self.system.A, room), self._held())
        except OutOfMemory:
            with param.parameterized.discard_events(self):
                self._put_back({event.name: event.old for event in events})
            raise
        return room

    def _look_again(self, *_events: param.parameterized.Event) -> None:
        """Reset the results after a change of λ or tolerance: no product is repeated, but more may be needed."""
        if self._ready:
            self._open, self._done = 0, None
            self.survey.forget()

    def snapshot(self) -> dict[str, Any]:
        """Return the number of steps; the parameters define the problem, and a run is reproducible."""
        return {"steps": self.bidiagonal.k}

    def restore(self, snapshot: dict[str, Any]) -> None:  # noqa: ARG002 see snapshot
        """Restart."""
        self.reset()

    # -- advancing

    @property
    def grid(self) -> NDArray[np.float64]:
        """The λ of the curve (count,), ascending."""
        low, high, count = self.lambdas or self.system.automatic
        return np.geomspace(low, high, count)

    @property
    def limit(self) -> int:
        """Maximum number of steps, within the available room."""
        return min(self.bidiagonal.most, self.steps_at_most)

    @property
    def done(self) -> bool:
        """Whether every ribbon is within the tolerance, or no step can be added."""
        if self._done is None:
            self._done = self._satisfied(self.grid)
        return self._done

    def _satisfied(self, lambdas: NDArray[np.float64]) -> bool:
        if self._ended:
            return True
        still, _ = widest(self.bidiagonal.small, lambdas, self.tolerance, min(self._open, lambdas.size - 1))
        self._open = max(still, 0)
        return still < 0

    @property
    def _ended(self) -> bool:
        """Whether no step can be added."""
        return self.bidiagonal.exhausted or self.bidiagonal.k >= self.limit

    @property
    def status(self) -> LabStatus:
        """The status; the lab rests when the curve and its rules are complete."""
        complete = self.done and self.survey.complete
        return LabStatus(resting=complete, progress=float(complete))

    def advance(self, steps: int = 1) -> Timing:
        """Do `steps` >= 1 bidiagonalisation steps, fewer if the ribbons close; then the products of the rules."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        if self.done:
            if not (self.survey.probe(steps) or self.survey.listen(steps)):
                self.survey.look()
            return self._timing(steps, 0.0, 0.0, first_call=True)
        before, products = self.bidiagonal.k, self.bidiagonal.products
        with watching() as builds:
            spent = self.bidiagonal.advance(min(steps, self.limit - before), self._look, self.chunk)
            self._done = None
        first = self._first_call(self.dtype) or builds.count > 0
        if first:
            self.cold_products += self.bidiagonal.products - products
            self.cold_seconds += spent.compute
            self.cold_launched += spent.launch
        timing = self._timing(max(self.bidiagonal.k - before, 1), spent.launch, spent.compute, first)
        self.spent = timing if self.spent is None else self.spent.then(timing)
        return timing

    def _look(self) -> bool:
        """Return whether the ribbons are closed."""
        self._done = None
        return self.done

    def _timing(self, steps: int, launch: float, compute: float, first_call: bool = False) -> Timing:
        entries = 2 * int(self.system.A.nnz)
        return Timing(self.backend, "", steps, entries, launch, compute, first_call=first_call)

    def idle_timing(self) -> Timing:
        """Return the timing of a frame without new steps."""
        return Timing(self.backend, "", 0, 2 * int(self.system.A.nnz))

    def _go_on(self) -> None:
        k = self.bidiagonal.k
        self.bidiagonal.advance(min(max(self.chunk, k // GROWTH), self.limit - k))
        self._done = None

    # -- results

    def solve(self) -> LCurveResult:
        """Advance until every ribbon is within the tolerance, or no step can be added; return the whole curve.

        With more than PROBE_ROWS rows, GCV costs as much as the curve and is left out: `complete` adds it.
        """
        while not self.done:
            self._go_on()
        while self.survey.listen(1):
            pass
        return self.complete() if self.system.shape[0] <= PROBE_ROWS else self.curve()

    def complete(self) -> LCurveResult:
        """Return the whole curve, with the choices of all rules."""
        while not self.status.resting:
            self.advance(self.chunk)
        return self.curve()

    def curve(self, lambdas: Sequence[float] | None = None) -> LCurveResult:
        """Return the present curve at `lambdas` (all > 0), the lab's grid if None, without further products."""
        grid = self.grid if lambdas is None else np.array(sorted(require_lambda(lam) for lam in lambdas))
        at = points(self.bidiagonal.small, grid)
        converged = self.bidiagonal.exhausted or bool(at.widths.max() <= self.tolerance)
        return LCurveResult.of(at, self.bounds(at), (self.bidiagonal.k, converged), self.choices())

    def data(self) -> dict[str, NDArray[Any]]:
        """Return lambdas, residual_norms and solution_norms (k,), residual_bounds and solution_bounds (2, k)."""
        curve, both = self.curve(), ("norms", "bounds")
        names = "lambdas", *(f"{of}_{what}" for what in both for of in ("residual", "solution"))
        return {name: np.asarray(getattr(curve, name)) for name in names}

    def bounds(self, at: Points) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (2, count) bounds of the residual and of the solution norm, widened by rounding errors."""
        size = scale(largest(self.bidiagonal.small), self.system.size, self.system.shape)
        form = self.system.form
        return widened(at, size, self.dtype, (0.0, 0.0) if form is None else form.errors(self.b, self.seen))

    def choices(self) -> dict[str, RuleChoice]:
        """Return the present choice of every rule, on the lab's λ."""
        return choose(self.survey.reading())

    def solution(self, lam: float) -> NDArray[Any]:
        """Return x (n,) for λ = lam > 0, in the lab's dtype, after the steps that this λ needs.

        The error of L x is at most |gradient| / λ^2, which is reduced below SOLVED |L x|, or the tolerance if smaller.
        """
        lam, goal = require_lambda(lam), min(self.tolerance, SOLVED[self.dtype])
        while not self._ended and self.error_bound(lam) > goal:
            self._go_on()
        return self.present(lam)

    def present(self, lam: float) -> NDArray[Any]:
        """Return x (n,) for λ = lam > 0, in the lab's dtype, the best within the completed steps."""
        return self.system.solution(self.bidiagonal.solve(lam), self.seen)

    def error_bound(self, lam: float) -> float:
        """Return an upper bound of |L (x - x*)| / |L x| for λ = lam: x is the present solution, x* the exact one."""
        at = points(self.bidiagonal.small, np.array([lam]))
        return float(at.gradient[0] / (lam * lam * at.solution[0]))

    def residual(self, lam: float, steps: int | None = None) -> NDArray[np.float64]:
        """Return (m,) b - A x for λ = lam, of the present solution or of that after `steps` steps; one product."""
        return self.system.residual(self.bidiagonal.residual(lam, self.b, steps))

    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """Return the present curve and the other parts of the frame; picture.py documents the parts and facts.

        view: of a picture, (x0, y0, x1, y1) in pixels, None for all; pixels: largest (height, width) of it.
        """
        with self.device.lock:
            return show(self, view, pixels)


def require_range(lambdas: Any) -> None:
    """Raise ValueError unless `lambdas` is (lowest, highest, count) within the bounds.

    The bounds are 3 <= count <= 1000 and SMALLEST <= lowest < highest <= LARGEST.
    """
    low, high, count = lambdas
    if not (is_finite(low) and is_finite(high) and 0 < low < high):
        raise ValueError(f"lambdas must be (lowest, highest, count) with 0 < lowest < highest, not {lambdas}")
    if not SMALLEST <= low < high <= LARGEST:
        raise ValueError(f"lambdas must be from {SMALLEST:g} to {LARGEST:g}, not {lambdas}")
    if isinstance(count, bool) or not isinstance(count, Integral) or not FEWEST <= int(count) <= MOST:
        raise ValueError(f"lambdas must hold {FEWEST} to {MOST} λ, not {count!r}")


def require_lambda(lam: Any) -> float:
    """Return a λ from SMALLEST to LARGEST as float; raise ValueError otherwise."""
    if not (is_finite(lam) and lam > 0):
        raise ValueError(f"lam must be a finite number above 0, not {lam!r}")
    if not SMALLEST <= lam <= LARGEST:
        raise ValueError(f"lam must be from {SMALLEST:g} to {LARGEST:g}, not {lam!r}")
    return float(lam)


def is_picture(problem: str) -> bool:
    """Return whether the solution of this problem is a picture, whose neighbours no L of this lab knows."""
    return problem != OWN and PROBLEMS[problem].dimensions == 2


def require_line(values: Mapping[str, Any]) -> None:
    """Raise ValueError for a derivative in the penalty of a picture."""
    if values["derivative"] and is_picture(values["problem"]):
        raise ValueError(f"derivative must be 0 for {values['problem']}, a picture, not {values['derivative']}")


def extent(given: Mapping[str, Any]) -> tuple[int, int]:
    """Return the maximum (columns, entries) of the matrix: the rows of a dense one if the penalty has a derivative."""
    columns, entries, rows = _stored(given)
    return columns, max(entries, rows * columns) if given["derivative"] else entries


def _stored(given: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the maximum (columns, entries, rows) of the problem's matrix; rows of a file not yet read count as 0."""
    if given["problem"] == OWN:
        matrix = given["options"].get("matrix", b"")
        if isinstance(matrix, (bytes, bytearray)):
            return given["n"], len(matrix) // np.dtype(given["dtype"]).itemsize, 0
        if isinstance(matrix, ArrayFile):
            matrix = matrix.arrays.get("A", np.zeros((0, 0)))  # a file without A is refused when it is used
        if scipy.sparse.issparse(matrix):
            return matrix.shape[1], int(matrix.nnz), matrix.shape[0]
        shape = real_array(matrix, "A").shape
        if len(shape) != 2:
            raise ValueError(f"matrix must have rows and columns, not the shape {shape}")
        return shape[1], prod(shape), shape[0]
    n, options = settled(given)
    made = PROBLEMS[given["problem"]]
    return made.unknowns(n), made.entries(n, **options), made.unknowns(n)
