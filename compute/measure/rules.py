"""Rules of the live comparison for a lab: the relevant values, the tolerance of results, and the limits of timing.

Each lab defines its `ComparisonRules`. `FieldRules` are those of labs on grids: results are compared by relative L2,
steps are timed at the grid's own size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan, prod
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from compute.devices import backends
from compute.lab.frames import Frame
from compute.measure.agreement import Agreement, amplification, largest_difference, relative_l2
from compute.measure.rates import Rate
from compute.measure.records import Recorded, RecordedPair, Revisions, nearest, outdated, paired
from compute.measure.verdict import Variant

CHECK_SIDE = 512  # cells: results are compared on at most this many rows and columns
SERIAL_CELLS = 2048**2  # cells above which single-threaded ways are not sampled: one step would block the picture
LARGEST = 4096**2  # cells above which the engine of the live picture gets no second grid
LARGEST_APART = 8192**2  # cells above which other engines get none either
AMPLIFIED = 10.0  # largest amplification of rounding before results are compared: errors are still visible

REFERENCE = Variant(backends.REFERENCE)
SIDES = ("ny", "nx")
LabValues = Mapping[str, Any]  # of the live lab's parameters


@dataclass(frozen=True)
class Fact:
    """A line about the live frame. kind: format of `value`; about: explanation for interested readers."""

    name: str
    value: float | str
    kind: Literal["rate", "percent", "seconds", "count", "text"]
    about: str = ""


@dataclass(frozen=True)
class Chart:
    """Bars of the time of one step in many ways, for a lab with a standard problem.

    ways: the variants in the chart; reasons: why one of them is slow; figures: recorded and cited ones; additional:
    whether it is shown next to the bars of all ways instead of in their place.
    """

    title: str
    ways: tuple[Variant, ...]
    reasons: Mapping[Variant, str]
    figures: tuple[Recorded, ...]
    additional: bool = False


class ComparisonRules(ABC):
    """How a lab's variants are compared. Changes returned by methods are parameters to set on a second lab.

    timed: parameters that affect the time of a step; checked: those that affect its result; reference: the variant
    whose result is right, under the changes of `right`; included: the contents of a time, for the reader; revisions: of
    the kernels, by backend and variant, if not the first (see records.py).
    """

    rate: Rate
    timed: tuple[str, ...]
    checked: tuple[str, ...]
    included: str
    reference: Variant = REFERENCE
    revisions: Revisions = MappingProxyType({})

    def own(self, variant: Variant, values: LabValues) -> dict[str, Any]:  # noqa: ARG002
        """Return changes for a variant's lab, in addition to backend and variant."""
        return {}

    def values_of(self, variant: Variant, values: LabValues, changes: LabValues) -> dict[str, Any]:
        """Return the values of a variant's second lab. values: of the live lab; changes: of `small`, for example."""
        own = {"backend": variant.backend}
        if "variant" in values:  # a lab with one kernel a backend has no such parameter
            own["variant"] = variant.name
        return {**values, **own, **self.own(variant, values), **changes}

    def steps_at_once(self, backend: str, variant: str) -> int:  # noqa: ARG002
        """Return the steps that a kernel computes in one launch, or pass; a sample has a whole number of launches."""
        return 1

    def method(self, backend: str, variant: str) -> str:
        """Return the method of a kernel as text; times are compared only with recorded ones of the same method."""
        several = self.steps_at_once(backend, variant) > 1
        return "several steps a pass" if several else "one step a pass"

    def compared_after(self, values: LabValues) -> int:  # noqa: ARG002
        """Return the number of steps after which results are compared."""
        return 1

    @abstractmethod
    def right(self, values: LabValues) -> dict[str, Any]:
        """Return changes for the reference's lab."""

    def small(self, values: LabValues) -> dict[str, Any]:  # noqa: ARG002
        """Return changes for comparing results: the same problem at a size that the reference can afford."""
        return {}

    def sampled(self, values: LabValues) -> dict[str, Any]:  # noqa: ARG002
        """Return changes for timing."""
        return {}

    @abstractmethod
    def agreement(self, right: NDArray[Any], got: NDArray[Any], values: LabValues, steps: int) -> Agreement:
        """Return the agreement of `got` with the right result. values: of the lab that computed it."""

    def refusal(self, variant: Variant, values: LabValues) -> str:  # noqa: ARG002
        """Return why a variant is not timed at these values; "" if it may be."""
        return ""

    def crowded(self, values: LabValues, shared: bool) -> bool:  # noqa: ARG002
        """Whether an engine should get no second lab for timing. shared: whether the live lab runs on it."""
        return False

    def held(self, values: LabValues) -> float:  # noqa: ARG002
        """Return the bytes that are read repeatedly: a variant is faster than memory if they fit a cache.

        nan if the roof is not a memory roof.
        """
        return nan

    @abstractmethod
    def cells(self, values: LabValues) -> int:
        """Return the value of Timing.cells for a live frame at these values."""

    def others(self, values: LabValues) -> Sequence[Variant]:  # noqa: ARG002
        """Return the variants that are compared at these values in addition to the default of each backend."""
        return ()

    def dtype(self, values: LabValues) -> str:
        """Return the dtype of the roof."""
        return str(values["dtype"])

    def facts(self, values: LabValues, frame: Frame, roof: float) -> Sequence[Fact]:  # noqa: ARG002
        """Return facts about the latest frame. roof: of the live device, nan if unknown."""
        return ()

    def elsewhere(self, values: LabValues, figures: Sequence[Recorded]) -> Sequence[Recorded]:  # noqa: ARG002
        """Return the recorded and published figures to show on machines without a GPU. figures: all recorded ones."""
        return ()

    def recorded_pair(self, values: LabValues, figures: Sequence[Recorded]) -> RecordedPair | None:  # noqa: ARG002
        """Return the recorded pair for the work of these values, or for the nearest recorded work."""
        return None

    def chart(self, values: LabValues, figures: Sequence[Recorded]) -> Chart | None:  # noqa: ARG002
        """Return the bar chart for these values, or None."""
        return None


def _keeps(values: LabValues) -> float:  # noqa: ARG001
    """Return growth 1: a step amplifies no errors."""
    return 1.0


@dataclass(frozen=True)
class FieldRules(ComparisonRules):
    """Rules for comparing the whole state of a lab.

    tolerance: relative L2 by dtype; apart: start values of every second lab, start: their description; check_steps:
    steps after which results are compared, fewer if these amplify rounding too much; growth: by values, the largest
    factor by which a step multiplies an error, at least 1; timed_with: values without effect on times, at which the
    field stays finite; cited: published figures; at_once: steps in one launch, or pass, of kernels with several, by
    backend and name.
    """

    rate: Rate
    timed: tuple[str, ...]
    checked: tuple[str, ...]
    tolerance: Mapping[str, float]
    check_steps: int
    lab: str
    timed_with: Mapping[str, Any] = field(default_factory=dict)
    growth: Callable[[LabValues], float] = _keeps
    cited: tuple[Recorded, ...] = ()
    apart: Mapping[str, Any] = field(default_factory=dict)
    start: str = "noise"
    included: str = "The kernels of one step, on a twin of this grid."
    at_once: Mapping[tuple[str, str], int] = field(default_factory=dict)
    revisions: Revisions = field(default_factory=dict)

    def steps_at_once(self, backend: str, variant: str) -> int:
        """Return the entry of `at_once`, 1 by default."""
        return self.at_once.get((backend, variant), 1)

    def own(self, variant: Variant, values: LabValues) -> dict[str, Any]:  # noqa: ARG002 the same for all
        """Return the start values of comparisons."""
        return dict(self.apart)

    def compared_after(self, values: LabValues) -> int:
        """Return check_steps, or the largest number that amplifies rounding by AMPLIFIED at most."""
        growth, steps = self.growth(values), self.check_steps
        while steps > 1 and amplification(growth, steps) > AMPLIFIED:
            steps -= 1
        return steps

    def right(self, values: LabValues) -> dict[str, Any]:
        """Return float64, for labs with a dtype parameter."""
        return {"dtype": "float64"} if "dtype" in values else {}

    def small(self, values: LabValues) -> dict[str, Any]:
        """Return at most CHECK_SIDE cells a side."""
        return {side: min(values[side], CHECK_SIDE) for side in SIDES if side in values}

    def sampled(self, values: LabValues) -> dict[str, Any]:  # noqa: ARG002 whatever they are
        """Return `timed_with`; the grid is the live one."""
        return dict(self.timed_with)

    def agreement(self, right: NDArray[Any], got: NDArray[Any], values: LabValues, steps: int) -> Agreement:
        """Compare by relative L2."""
        amplified = amplification(self.growth(values), steps)
        return field_agreement(right, got, self.tolerance[self.dtype(values)], steps, amplified, self.start)

    def refusal(self, variant: Variant, values: LabValues) -> str:
        """Refuse single-threaded ways on large grids."""
        if variant.threads == 1 and self.cells(values) > SERIAL_CELLS:
            return "one step would hold up the picture at this size; `fieldlab bench` times it"
        return ""

    def crowded(self, values: LabValues, shared: bool) -> bool:
        """Whether a second grid would be too large."""
        return self.cells(values) > (LARGEST if shared else LARGEST_APART)

    def held(self, values: LabValues) -> float:
        """Return the bytes of two grids."""
        return 2.0 * self.cells(values) * np.dtype(self.dtype(values)).itemsize

    def cells(self, values: LabValues) -> int:
        """Return the cells of the grid."""
        return prod(int(values[side]) for side in SIDES if side in values)

    def dtype(self, values: LabValues) -> str:
        """Return the dtype of the field; float64 for labs without the parameter."""
        return str(values.get("dtype", "float64"))

    def elsewhere(self, values: LabValues, figures: Sequence[Recorded]) -> Sequence[Recorded]:
        """Return the recorded figure nearest to this grid, and the published ones."""
        ny, nx = (values.get(side, 1) for side in SIDES)
        figure = nearest(self._current(figures), self.lab, ny, nx, self.dtype(values))
        return [*([figure] if figure else []), *self.cited]

    def recorded_pair(self, values: LabValues, figures: Sequence[Recorded]) -> RecordedPair | None:
        """Return the pair on this grid with these edges, if recorded; otherwise on the nearest grid."""
        ny, nx, dtype = *(values.get(side, 1) for side in SIDES), self.dtype(values)
        mine = [figure for figure in figures if (figure.lab, figure.dtype) == (self.lab, dtype)]
        now = (ny, nx, str(values.get("edges", "")))
        same = any((f.ny, f.nx, f.case) == now and f.kind == "gpu" for f in self._current(mine))
        around = None if same else nearest(self._current(figures), self.lab, ny, nx, dtype)
        place = (around.ny, around.nx, around.case) if around else now
        words = ", ".join(filter(None, (f"{place[1]} × {place[0]} cells", dtype, place[2])))
        held = self.held({**values, "ny": place[0], "nx": place[1]})
        chosen = (f for f in mine if (f.ny, f.nx, f.case) == place)
        return paired(chosen, words, same, held, lambda f: self.method(f.backend, f.variant), self.revisions)

    def _current(self, figures: Sequence[Recorded]) -> list[Recorded]:
        """Return the figures with current kernel revisions."""
        return [figure for figure in figures if not outdated(figure, self.revisions)]


def field_agreement(
    right: NDArray[Any], got: NDArray[Any], tolerance: float, steps: int, amplified: float = 1.0, start: str = "noise"
) -> Agreement:
    """Compare two fields by relative L2; a non-finite result does not agree.

    tolerance: of a step without amplification; amplified: amplification of rounding (see `amplification`).
    """
    allowed = tolerance * amplified
    difference, most = relative_l2([got], [right]), largest_difference([got], [right])
    if not np.isfinite(difference):
        difference = most = inf
    beyond = "" if difference <= allowed else f" > {allowed:.0e}"
    cells = " × ".join(str(side) for side in reversed(right.shape))
    after = f"{steps} step{'s' * (steps != 1)}"
    unstable = f"; unstable: rounding is amplified, so compared after {after}" if amplified > 1 else ""
    why = f", {tolerance:.0e} times {amplified:.2g} by which these steps amplify rounding at most" if unstable else ""
    return Agreement(
        difference,
        allowed,
        f"max |difference| {most:.1e}, rel.\N{NO-BREAK SPACE}{difference:.1e}{beyond}{unstable}",
        f"The worse of both, against NumPy in float64 after {after} from {start} on {cells} cells; "
        f"relative L2 up to {allowed:.0e} counts as right{why}",
    )
