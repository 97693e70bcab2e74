"""The comparison in the live readout of an L-curve lab: see compute/measure/rules.py.

A time is that of the whole curve of the present problem, from b until every ribbon is within the tolerance. Norms are
compared on a problem of the same kind that NumPy solves immediately.

CurveTarget is the second lab that is measured: its step is a whole curve, its result is the norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.parallel_regions import counted
from compute.lab.frames import Frame
from compute.labs.l_curve.lab import LCurve, extent
from compute.labs.l_curve.picture import launch_bound, products_per_second
from compute.labs.l_curve.small_system import points
from compute.labs.l_curve.system import OWN, typical
from compute.measure.agreement import Agreement
from compute.measure.rates import Rate, spaced
from compute.measure.records import Recorded, RecordedPair, paired
from compute.measure.rules import Chart, ComparisonRules, Fact, LabValues
from compute.measure.timing import Timing
from compute.measure.verdict import Variant

RATE = Rate("Gnz/s", "nonzeros", "curve", "copy", "bytes", lambda dtype: 2.0 + np.dtype(dtype).itemsize)
LARGEST = 3_000_000  # maximum non-zeros of a problem with a second lab: making it takes some 0.2 s
SMALL_N = 300  # n of the random matrix on which norms are compared
CLOSER = 1e-3  # part of the live tolerance to which the reference curve is solved
ROUNDING = {"float32": 1e-3, "float64": 1e-6}  # relative error of a norm due to rounding
FLOOR = 1e-4  # least divisor of a residual's error, in largest residual norms: without noise they fall to 1e-7
TUTORIAL_N, TUTORIAL_KIND = 15_000, "curve, 10 λ"
CITED_BY = "A GPU tutorial: 10 λ by LSMR, n = 15 000, density 0.1"
CITED = tuple(
    Recorded(
        "l_curve", machine, "", backend, f"tutorial on {machine}", TUTORIAL_N, TUTORIAL_N, "float32", TUTORIAL_KIND,
        seconds, nan, cited=CITED_BY,
    )
    for backend, machine, seconds in (
        ("gpu_cupy", "an NVIDIA A40", 2.54), ("gpu_cupy", "an NVIDIA T4", 4.46), ("cpu_numpy", "a CPU", 90.0),
    )
)  # fmt: skip

PROBLEM = tuple(name for name in LCurve.STRUCTURAL if name not in ("backend", "device_index"))

SLICE = 0.02  # seconds after which a curve yields to other work
PATIENCE = 6.0  # seconds after which a curve is abandoned: the live lab waits during three quarters of that time
MOST_PIECES = 4096  # maximum steps per slice
CHECKED, COUNT = 1e-4, 50  # λ of the comparison: from this part of |A| on, which float32 can resolve, and their number


class CurveRules(ComparisonRules):
    """A step is one whole curve of the present problem; `refusal` prevents a crowded engine."""

    rate = RATE
    timed = (*PROBLEM, "noise", "noise_seed", "reorthogonalise", "lambdas", "tolerance", "steps_at_most", "chunk")
    checked = timed
    reference = Variant("cpu_numpy")
    included = (
        "One whole curve of this problem: wall time from b on the host until every ribbon is within the tolerance; the "
        "matrix is on the device before. Rules and solutions are not in it."
    )

    def right(self, values: LabValues) -> dict[str, Any]:
        """Return float64, and ribbons a thousand times as narrow."""
        return {"dtype": "float64", "tolerance": max(values["tolerance"] * CLOSER, 1e-12)}

    def small(self, values: LabValues) -> dict[str, Any]:
        """Return the same kind of problem at a size that NumPy solves quickly; an own problem unchanged."""
        if values["problem"] == OWN:
            return {}
        usual = SMALL_N if values["problem"] == "random_sparse" else typical(values["problem"])
        return {"n": min(values["n"], usual)}

    def agreement(self, right: NDArray[Any], got: NDArray[Any], values: LabValues, steps: int) -> Agreement:  # noqa: ARG002
        """Return the agreement, by the largest relative error of both norms at any λ."""
        least = np.array([[FLOOR], [0.0]]) * right.max(axis=1, keepdims=True)
        difference = float(np.max(np.abs(got - right) / np.maximum(right, least)))
        tolerance = values["tolerance"] + ROUNDING[values["dtype"]]
        beyond = "" if difference <= tolerance else f" > {tolerance:.1e}"
        return Agreement(
            difference,
            tolerance,
            f"norms within {difference:.1e}{beyond}",
            f"The worse of both, against NumPy in float64 at {right.shape[1]} λ, n = {values['n']}: the largest "
            f"relative error of |Ax - b|, of {FLOOR:g} of its largest value at least, and of |x|; up to "
            f"{tolerance:.1e} counts as right",
        )

    def refusal(self, variant: Variant, values: LabValues) -> str:  # noqa: ARG002
        """Return the reason why a large problem is not solved a second time in parallel with the live lab."""
        if _entries(values) <= LARGEST:
            return ""
        return "a second problem of this size would hold up the live one; `fieldlab bench l_curve` times it"

    def held(self, values: LabValues) -> float:
        """Return the bytes of the matrix, which every product reads."""
        return _entries(values) * RATE.need(self.dtype(values))

    def cells(self, values: LabValues) -> int:
        """Return the non-zeros of a step: two products."""
        return 2 * _entries(values)

    def facts(self, values: LabValues, frame: Frame, roof: float) -> Sequence[Fact]:  # noqa: ARG002
        """Return the facts of the live run: its products, the bytes they read, its steps."""
        known = frame.facts
        rate = products_per_second(known)
        moved = rate * known.get("bytes_per_product", nan)
        whole = Fact(WHOLE, known.get("seconds", nan) if known.get("done") else nan, "seconds", WHOLE_ABOUT)
        if known.get("done") and known.get("cold_seconds"):
            whole = Fact(WHOLE, "not measured: its kernels were loaded", "text", COLD_ABOUT)
        bound = ", launch-bound" if launch_bound(known) else ""
        products = f"{spaced(rate, between=' ')} /s{bound}" if isfinite(rate) else "…"
        return (
            Fact("Products", products, "text", PRODUCTS_ABOUT),
            Fact("Read by them", f"{moved / 1e9:.3g} GB/s" if isfinite(rate) else "…", "text", MOVED_ABOUT),
            Fact("Part of the copy bandwidth", 100 * moved / roof, "percent", MOVED_ABOUT),
            Fact("Steps", known.get("steps", nan), "count", "Of the bidiagonalisation: two products each."),
            whole,
        )

    def elsewhere(self, values: LabValues, figures: Sequence[Recorded]) -> Sequence[Recorded]:
        """Return the fastest recorded whole curve of the tutorial's problem, in the live run's dtype."""
        fitting = [f for f in _recorded(figures) if f.dtype == values["dtype"] and f.kind == "gpu"]
        return [min(fitting, key=lambda f: f.step)] if fitting and _is_tutorial(values) else []

    def recorded_pair(self, values: LabValues, figures: Sequence[Recorded]) -> RecordedPair | None:
        """Return the recorded pair of the tutorial's curve, which is too large to be compared with a run here."""
        curve = f"the tutorial's curve, n = {spaced(TUTORIAL_N)}"
        pairs = [
            paired([f for f in _recorded(figures) if f.dtype == of], f"{curve}, {of}", False, revisions=self.revisions)
            for of in (values["dtype"], *ROUNDING)
        ]
        known = [pair for pair in pairs if pair is not None]
        return next((pair for pair in known if pair.cpu), known[0] if known else None)

    def chart(self, values: LabValues, figures: Sequence[Recorded]) -> Chart | None:
        """Return the tutorial's whole curve by one bidiagonalisation and by LSMR, if the lab has its problem."""
        if not _is_tutorial(values):
            return None
        title = f"The tutorial's curve, n = {spaced(TUTORIAL_N, between=' ')}"
        figures = [*(figure for figure in _recorded(figures) if figure.dtype == "float32"), *CITED]
        return Chart(title, (), {}, tuple(figures), additional=True)


WHOLE, WHOLE_ABOUT = "Time to tolerance", "Device time of all steps of the live run."
COLD_ABOUT = "The first steps of a process load their kernels: no rate counts them. A reset takes the time."
PRODUCTS_ABOUT = "Products of A or its transpose with a vector, over the device's time for all steps."
MOVED_ABOUT = (
    "Bytes of the stored matrix, values and columns, that the products read, over the device's time for whole steps: "
    "orthogonalisation is in it. Where one pass over the matrix serves both products of a step, it counts once. A "
    "matrix that fits in a cache exceeds the copy bandwidth."
)
RULES = CurveRules()


def _entries(values: LabValues) -> int:
    """Return the maximum number of non-zeros; for an own matrix, an estimate from its bytes."""
    if values["problem"] == OWN:
        return LCurve.predicted_bytes(**values) // 32
    return extent(values)[1]


def _is_tutorial(values: LabValues) -> bool:
    return values["problem"] == "random_sparse" and not values["derivative"]


def _recorded(figures: Sequence[Recorded]) -> list[Recorded]:
    return [f for f in figures if (f.lab, f.case, f.ny) == ("l_curve", TUTORIAL_KIND, TUTORIAL_N)]


# -- the second lab


class CurveTarget:
    """Computes the curve of a lab's problem repeatedly, until its ribbons close, in slices of about SLICE seconds.

    A timing's seconds are wall time from b to closed ribbons, the matrix on the device before; its cells are the
    non-zeros that were multiplied. A curve that takes longer than PATIENCE raises ValueError.
    """

    def __init__(self, lab: LCurve) -> None:
        self._lab = lab
        self._pieces = 1  # steps in a slice
        self._used = self._regions = 0.0  # seconds of this curve, parallel regions that woke threads
        self._fresh = True

    def warm(self) -> None:
        """Do nothing: a curve is many steps long."""

    def advance(self, steps: int) -> Timing:
        """Compute up to `steps` curves, those that finish within a slice; the next call continues the rest."""
        start, done, seconds, launched, regions, cells = perf_counter(), 0, 0.0, 0.0, 0.0, 1
        while True:
            finished = self._piece()
            if finished:
                seconds, done, cells = seconds + finished, done + 1, self._multiplied
                launched += self._lab.bidiagonal.launched
                regions += self._regions
            if done == steps or perf_counter() - start >= SLICE:
                break
        share, per_curve = self._lab.bidiagonal.share, regions / done if done else nan
        return Timing(self._lab.backend, "", done, cells, launched, seconds, share=share, regions=per_curve)

    def begin(self, seed: int) -> None:
        """Do nothing: a curve starts from b for every seed."""

    def result(self) -> NDArray[np.float64]:
        """Return (2, count) |A x - b| and |x|."""
        lab = self._lab
        while not lab.done:
            lab.advance(lab.chunk)
        if lab.lambdas or lab.system.tutorial:
            grid = lab.grid
        else:
            grid = np.geomspace(CHECKED * lab.system.size, lab.system.size, COUNT)
        at = points(lab.bidiagonal.small, grid)
        return np.stack([at.residual, at.solution])

    def close(self) -> None:
        """Close the lab."""
        self._lab.close()

    @property
    def _multiplied(self) -> int:
        return int(self._lab.bidiagonal.products * self._lab.system.A.nnz)

    def _piece(self) -> float:
        """Advance the curve; return its seconds after the last piece, else 0."""
        lab, start = self._lab, perf_counter()
        if self._fresh:
            lab.reset()
            self._used, self._regions, self._fresh = 0.0, 0.0, False
        if not lab.done:
            with counted() as found:
                lab.advance(self._pieces)
            self._regions += found.regions
        self._fresh = lab.done
        seconds = perf_counter() - start
        self._used += seconds
        if seconds < SLICE / 3 and self._pieces < MOST_PIECES:
            self._pieces *= 2
        elif seconds > SLICE:
            self._pieces = max(1, self._pieces // 2)
        if self._fresh:
            return self._used
        if self._used > PATIENCE:
            raise ValueError(
                f"a curve of this problem takes longer than {PATIENCE:.0f} s; `fieldlab bench` may time it"
            )
        return 0.0
