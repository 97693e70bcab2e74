"""The L-curve lab: Tikhonov regularisation for all λ from one bidiagonalisation, live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import param
from numpy.typing import NDArray

from compute.builds import watching
from compute.frames import Frame
from compute.lab import OutOfMemory, View
from compute.labs.l_curve import panels as drawings
from compute.labs.l_curve import picture
from compute.labs.l_curve.bidiagonal import Bidiagonalisation, footprint, room_for
from compute.labs.l_curve.curve import LCurveResult
from compute.labs.l_curve.parameters import Settings, require_lambda
from compute.labs.l_curve.probe import Probe
from compute.labs.l_curve.rounding import scale, widened
from compute.labs.l_curve.rules import Choice, choose
from compute.labs.l_curve.small import Points, largest, points, widest
from compute.labs.l_curve.survey import Survey
from compute.labs.l_curve.system import OWN, System
from compute.panels import Panel
from compute.timings import Timing

__all__ = ["LCurve"]

_WARM: set[tuple[str, str]] = set()  # (backend, dtype) whose steps this process has run before
SOLVED = {"float64": 1e-8, "float32": 1e-5}  # relative error up to which a solution counts as exact
PROBE_ROWS = 5000
GROWTH = 16  # of a headless run: the chunk is at least this part of the steps done


class LCurve(Settings):
    """min |A x - b|^2 + λ^2 |x|^2 for every λ at once, with lower and upper bounds of both norms.

    One Golub-Kahan bidiagonalisation serves all λ, since it does not depend on λ. b holds noise of |e| = noise |b|,
    the same for every λ. README.md beside this file has the method and its sources.
    """

    LAB = "l_curve"
    TITLE = "L-curve"
    ENDS: ClassVar[bool] = True
    PACKAGE = "compute.labs.l_curve"
    ACTIONS = ("reset",)
    RUN: ClassVar[tuple[str, ...]] = ("noise", "noise_seed")

    system: System
    bidiagonal: Bidiagonalisation
    b: NDArray[np.float64]  # with noise
    noise_norm: float  # |e|
    survey: Survey
    probe: Probe | None  # of the matrix: it serves every b and every λ
    spent: Timing | None  # what was spent since the last frame

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.param.watch(self._restart, list(self.RUN))
        self.param.watch(self._reorthogonalise, ["reorthogonalise"])
        self.param.watch(self._make_room, ["steps_at_most"])
        self.param.watch(self._look_again, ["lambdas", "tolerance", "gcv_weight"])

    # -- state

    def _allocate(self, old: dict[str, Any]) -> None:  # noqa: ARG002 another problem or backend begins anew
        system = System.of(self.values())
        room = room_for(system.shape, self.steps_at_most, self.reorthogonalise)
        held = self._held()
        self._require_memory(footprint(system.A, room), held)
        self._release()
        self.system = system
        if self.problem == OWN:
            with param.parameterized.discard_events(self):
                self.n = system.shape[1]
        self._work(room)
        self.reset()

    def _held(self) -> int:
        """Bytes on the present device that making room anew gives back."""
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
        """Begin anew, with the noise of the present level and seed, up to the first step: before it there is no x."""
        self.b, self.noise_norm = self.system.noisy(self.noise, self.noise_seed)
        begin, first = self.bidiagonal.start(self.b), self.bidiagonal.advance(1)
        self._open = 0  # number of the λ whose ribbon was seen open last
        self._done: bool | None = None
        self.survey = Survey(self)
        self.spent = self._timing(1, begin.launch + first.launch, self.bidiagonal.seconds, first_call=True)

    def _restart(self, *_events: param.parameterized.Event) -> None:
        if self._ready:
            self.reset()

    def _reorthogonalise(self, *events: param.parameterized.Event) -> None:
        """Another way to go on: from the beginning, with the room that it may need."""
        if self._ready:
            room = self._affordable(events)
            self._release()
            self._work(room)
            self.reset()

    def _make_room(self, *events: param.parameterized.Event) -> None:
        """More steps may follow; those that are done are kept."""
        if self._ready:
            room = self._affordable(events)
            if room > self.bidiagonal.most:
                self.bidiagonal.grow(room)
            self._look_again()

    def _affordable(self, events: tuple[param.parameterized.Event, ...]) -> int:
        """The room for steps that the parameters want; if there is no memory for it, they are as before."""
        room = room_for(self.system.shape, self.steps_at_most, self.reorthogonalise)
        try:
            self._require_memory(footprint(self.system.A, room), self._held())
        except OutOfMemory:
            with param.parameterized.discard_events(self):
                self._put_back({event.name: event.old for event in events})
            raise
        return room

    def _look_again(self, *_events: param.parameterized.Event) -> None:
        """Other λ, or another tolerance: no product is repeated, but more of them may be needed."""
        if self._ready:
            self._open, self._done = 0, None
            self.survey.forget()

    def snapshot(self) -> dict[str, Any]:
        """How far it is; what it is made from is in the parameters, and a run repeats itself."""
        return {"steps": self.bidiagonal.k}

    def restore(self, snapshot: dict[str, Any]) -> None:  # noqa: ARG002 see snapshot
        """Begin anew."""
        self.reset()

    # -- advancing

    @property
    def grid(self) -> NDArray[np.float64]:
        """(count,) λ of the curve, ascending."""
        low, high, count = self.lambdas or self.system.automatic
        return np.geomspace(low, high, count)

    @property
    def limit(self) -> int:
        """Steps at most, of what there is room for."""
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
    def resting(self) -> bool:
        """Whether nothing is left to do until a value changes: the curve is done, and so are its rules."""
        return self.done and self.survey.complete

    def advance(self, steps: int = 1) -> Timing:
        """`steps` >= 1 steps of the bidiagonalisation, fewer if the ribbons close; then the rules' own products."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        if self.done:
            if not (self.survey.probe(steps) or self.survey.listen(steps)):
                self.survey.look()
            return self._timing(steps, 0.0, 0.0, first_call=True)
        launch = compute = 0.0
        before = self.bidiagonal.k
        with watching() as builds:
            while self.bidiagonal.k < before + steps and not self.done:
                ahead = before + steps - self.bidiagonal.k
                spent = self.bidiagonal.advance(min(ahead, self.chunk, self.limit - self.bidiagonal.k))
                launch, compute, self._done = launch + spent.launch, compute + spent.compute, None
        first = self._first() or builds.count > 0
        timing = self._timing(max(self.bidiagonal.k - before, 1), launch, compute, first)
        self.spent = timing if self.spent is None else self.spent.then(timing)
        return timing

    def _timing(self, steps: int, launch: float, compute: float, first_call: bool = False) -> Timing:
        entries = 2 * int(self.system.A.nnz)
        return Timing(self.backend, "", steps, entries, launch, compute, first_call=first_call)

    def idle_timing(self) -> Timing:
        """Of a frame before which nothing was computed."""
        return Timing(self.backend, "", 0, 2 * int(self.system.A.nnz))

    def _first(self) -> bool:
        key = (self.backend, self.dtype)
        first = key not in _WARM
        _WARM.add(key)
        return first

    def _go_on(self) -> None:
        k = self.bidiagonal.k
        self.bidiagonal.advance(min(max(self.chunk, k // GROWTH), self.limit - k))
        self._done = None

    # -- results

    def solve(self) -> LCurveResult:
        """Go on until every ribbon is within the tolerance, or no step can be added; returns the whole curve.

        What GCV needs is left out for more than PROBE_ROWS rows, where it costs as much again: `complete` adds it.
        """
        while not self.done:
            self._go_on()
        while self.survey.listen(1):
            pass
        return self.complete() if self.system.shape[0] <= PROBE_ROWS else self.curve()

    def complete(self) -> LCurveResult:
        """The whole curve, and what every rule says of it."""
        while not self.resting:
            self.advance(self.chunk)
        return self.curve()

    def curve(self, lambdas: Sequence[float] | None = None) -> LCurveResult:
        """The curve as far as it is, at `lambdas` (all > 0), the lab's own if None; costs no product."""
        grid = self.grid if lambdas is None else np.array(sorted(require_lambda(lam) for lam in lambdas))
        at = points(self.bidiagonal.small, grid)
        converged = self.bidiagonal.exhausted or bool(at.widths.max() <= self.tolerance)
        return LCurveResult.of(at, self.bounds(at), (self.bidiagonal.k, converged), self.choices())

    @classmethod
    def panels(cls, frame: Frame) -> Mapping[str, Panel]:
        """The L-curve first."""
        return drawings.panels(frame)

    def data(self) -> dict[str, NDArray[Any]]:
        """lambdas, residual_norms and solution_norms (k,), residual_bounds and solution_bounds (2, k)."""
        curve, both = self.curve(), ("norms", "bounds")
        names = "lambdas", *(f"{of}_{what}" for what in both for of in ("residual", "solution"))
        return {name: np.asarray(getattr(curve, name)) for name in names}

    def bounds(self, at: Points) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(2, count) bounds of the residual and of the solution norm, with what rounding adds to them."""
        size = scale(largest(self.bidiagonal.small), self.system.size, self.system.shape)
        return widened(at, size, self.dtype)

    def choices(self) -> dict[str, Choice]:
        """What every rule says now, on the lab's own λ."""
        return choose(self.survey.reading())

    def solution(self, lam: float) -> NDArray[Any]:
        """(n,) x for λ = lam > 0, in the lab's dtype; takes the steps that this λ needs.

        Its error is at most |gradient| / λ^2, which is brought below SOLVED |x|, or the tolerance if that is smaller.
        """
        lam, goal = require_lambda(lam), min(self.tolerance, SOLVED[self.dtype])
        while not self._ended and self.error_bound(lam) > goal:
            self._go_on()
        return self.bidiagonal.solve(lam)

    def error_bound(self, lam: float) -> float:
        """Upper bound of |x - x*| / |x| for λ = lam: x the solution within the steps done, x* the exact one."""
        at = points(self.bidiagonal.small, np.array([lam]))
        return float(at.gradient[0] / (lam * lam * at.solution[0]))

    def residual(self, lam: float) -> NDArray[np.float64]:
        """(m,) b - A x for λ = lam; one product."""
        return self.bidiagonal.residual(lam, self.b)

    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """The curve as far as it is done, and everything beside it; picture.py says what the parts and facts are.

        view: of a picture, (x0, y0, x1, y1) in pixels, None for all; pixels: largest (height, width) of it.
        """
        with self.device.lock:
            return picture.show(self, view, pixels)
