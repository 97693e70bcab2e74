"""What the live comparison must know of a lab: which values matter, when a result is right, what may be timed.

`ComparisonRules` are a lab's. `FieldRules` are those of labs on grids: compared by relative L2, a step timed at the
grid's own size.
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

from compute.frames import Frame
from compute.measure.agreement import Agreement, amplification, largest_difference, relative_l2
from compute.measure.rates import Rate
from compute.measure.records import Recorded, RecordedPair, Revisions, nearest, outdated, paired
from compute.measure.verdict import Variant

CHECK_SIDE = 512  # cells: results are compared on at most this many rows and columns
SERIAL_CELLS = 2048**2  # cells above which a way on one thread is not sampled: one step would hold up the picture
LARGEST = 4096**2  # cells above which the engine of the live picture is not given a second grid
LARGEST_APART = 8192**2  # and above which no other engine is given one
AMPLIFIED = 10.0  # times at most that rounding may be amplified until results are compared: errors are still seen

REFERENCE = Variant("cpu_numpy")
SIDES = ("ny", "nx")
LabValues = Mapping[str, Any]  # of the live lab's parameters


@dataclass(frozen=True)
class Fact:
    """A line about the live frame. kind says how `value` is written; about: for the reader who wants to know more."""

    name: str
    value: float | str
    kind: Literal["rate", "percent", "seconds", "count", "text"]
    about: str = ""


@dataclass(frozen=True)
class Chart:
    """Bars of the time of one step in many ways, where a lab has a problem that everybody solves.

    ways: the variants that belong to it; reasons: why one of them is slow; figures: recorded and cited ones;
    beside: whether it stands beside the bars of all ways, and not in their place.
    """

    title: str
    ways: tuple[Variant, ...]
    reasons: Mapping[Variant, str]
    figures: tuple[Recorded, ...]
    beside: bool = False


class ComparisonRules(ABC):
    """How a lab's variants are compared. The methods that return changes give parameters to set on a second lab.

    timed: parameters that the time of a step depends on; checked: those that its result depends on; reference: whose
    result is the right one, under the changes of `right`; included: what a time holds, for the reader; revisions: of
    the kernels, by backend and variant, where they are not the first (see records.py).
    """

    rate: Rate
    timed: tuple[str, ...]
    checked: tuple[str, ...]
    included: str
    reference: Variant = REFERENCE
    revisions: Revisions = MappingProxyType({})

    def own(self, variant: Variant, values: LabValues) -> dict[str, Any]:  # noqa: ARG002
        """Return changes for a variant's lab, beside backend and variant."""
        return {}

    def steps_at_once(self, backend: str, variant: str) -> int:  # noqa: ARG002
        """Return the steps that a kernel takes in one launch, or pass; a sample is made of whole ones."""
        return 1

    def method(self, backend: str, variant: str) -> str:
        """Return in words what keeps a time from being compared with a recorded one of another method."""
        several = self.steps_at_once(backend, variant) > 1
        return "several steps a pass" if several else "one step a pass"

    def compared_after(self, values: LabValues) -> int:  # noqa: ARG002
        """Return the steps after which results are compared."""
        return 1

    @abstractmethod
    def right(self, values: LabValues) -> dict[str, Any]:
        """Return changes for the reference's lab."""

    def small(self, values: LabValues) -> dict[str, Any]:  # noqa: ARG002
        """Return changes for comparing results: the same problem, cheap enough for the reference."""
        return {}

    def sampled(self, values: LabValues) -> dict[str, Any]:  # noqa: ARG002
        """Return changes for timing."""
        return {}

    @abstractmethod
    def agreement(self, right: NDArray[Any], got: NDArray[Any], values: LabValues, steps: int) -> Agreement:
        """Say how far `got` lies from the right result. values: of the lab that gave it."""

    def refusal(self, variant: Variant, values: LabValues) -> str:  # noqa: ARG002
        """Say why a variant is not timed at these values; empty if it may be."""
        return ""

    def crowded(self, values: LabValues, beside: bool) -> bool:  # noqa: ARG002
        """Whether an engine should get no second lab for timing. beside: the live lab runs on it."""
        return False

    def held(self, values: LabValues) -> float:  # noqa: ARG002
        """Return the bytes that are read over and over: a cache that holds them makes a variant faster than memory.

        nan if no roof of memory is meant.
        """
        return nan

    @abstractmethod
    def cells(self, values: LabValues) -> int:
        """Return what Timing.cells is for a live frame at these values."""

    def others(self, values: LabValues) -> Sequence[Variant]:  # noqa: ARG002
        """Return the variants that are compared at these values beside the default of each backend."""
        return ()

    def dtype(self, values: LabValues) -> str:
        """Return the dtype that a rate's roof is for."""
        return str(values["dtype"])

    def facts(self, values: LabValues, frame: Frame, roof: float) -> Sequence[Fact]:  # noqa: ARG002
        """Return what to say of the newest frame. roof: of the live device, nan if not known."""
        return ()

    def elsewhere(self, values: LabValues, figures: Sequence[Recorded]) -> Sequence[Recorded]:  # noqa: ARG002
        """Return the recorded and the published figures to show where there is no GPU. figures: all recorded ones."""
        return ()

    def recorded_pair(self, values: LabValues, figures: Sequence[Recorded]) -> RecordedPair | None:  # noqa: ARG002
        """Return what a recorded GPU did with the work of these values, or with the nearest there is."""
        return None

    def chart(self, values: LabValues, figures: Sequence[Recorded]) -> Chart | None:  # noqa: ARG002
        """Return the bar chart that belongs to these values, if one does."""
        return None


def _keeps(values: LabValues) -> float:  # noqa: ARG001
    """A step amplifies nothing."""
    return 1.0


@dataclass(frozen=True)
class FieldRules(ComparisonRules):
    """Rules of a lab whose state is compared whole.

    tolerance: relative L2 by dtype; apart: what every second lab starts from, start: that in words; check_steps: after
    which results are compared, unless that amplifies rounding too much; growth: by values, the largest factor by which
    a step multiplies an error, at least 1; timed_with: values that no time depends on, at which the field stays finite;
    cited: published figures; at_once: steps in one launch, or pass, of kernels that take several, by backend and name.
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
        """Return what `at_once` says, 1 for all others."""
        return self.at_once.get((backend, variant), 1)

    def own(self, variant: Variant, values: LabValues) -> dict[str, Any]:  # noqa: ARG002 the same for all
        """Return what comparisons start from."""
        return dict(self.apart)

    def compared_after(self, values: LabValues) -> int:
        """Return check_steps, or as many as amplify rounding by AMPLIFIED at most."""
        growth, steps = self.growth(values), self.check_steps
        while steps > 1 and amplification(growth, steps) > AMPLIFIED:
            steps -= 1
        return steps

    def right(self, values: LabValues) -> dict[str, Any]:
        """Float64, where the lab has a choice."""
        return {"dtype": "float64"} if "dtype" in values else {}

    def small(self, values: LabValues) -> dict[str, Any]:
        """At most CHECK_SIDE cells a side."""
        return {side: min(values[side], CHECK_SIDE) for side in SIDES if side in values}

    def sampled(self, values: LabValues) -> dict[str, Any]:  # noqa: ARG002 whatever they are
        """The live grid."""
        return dict(self.timed_with)

    def agreement(self, right: NDArray[Any], got: NDArray[Any], values: LabValues, steps: int) -> Agreement:
        """By relative L2."""
        amplified = amplification(self.growth(values), steps)
        return field_agreement(right, got, self.tolerance[self.dtype(values)], steps, amplified, self.start)

    def refusal(self, variant: Variant, values: LabValues) -> str:
        """One thread takes too long for a large grid."""
        if variant.threads == 1 and self.cells(values) > SERIAL_CELLS:
            return "one step would hold up the picture at this size; `fieldlab bench` times it"
        return ""

    def crowded(self, values: LabValues, beside: bool) -> bool:
        """A second grid must not be too large."""
        return self.cells(values) > (LARGEST if beside else LARGEST_APART)

    def held(self, values: LabValues) -> float:
        """Two grids."""
        return 2.0 * self.cells(values) * np.dtype(self.dtype(values)).itemsize

    def cells(self, values: LabValues) -> int:
        """Of the grid."""
        return prod(int(values[side]) for side in SIDES if side in values)

    def dtype(self, values: LabValues) -> str:
        """Of the field; float64 where the lab has no choice."""
        return str(values.get("dtype", "float64"))

    def elsewhere(self, values: LabValues, figures: Sequence[Recorded]) -> Sequence[Recorded]:
        """The recorded one nearest to this grid, and the published ones."""
        ny, nx = (values.get(side, 1) for side in SIDES)
        figure = nearest(self._current(figures), self.lab, ny, nx, self.dtype(values))
        return [*([figure] if figure else []), *self.cited]

    def recorded_pair(self, values: LabValues, figures: Sequence[Recorded]) -> RecordedPair | None:
        """On this grid, with these edges, if that was recorded; else on the nearest grid."""
        ny, nx, dtype = *(values.get(side, 1) for side in SIDES), self.dtype(values)
        mine = [figure for figure in figures if (figure.lab, figure.dtype) == (self.lab, dtype)]
        now = (ny, nx, str(values.get("edges", "")))
        same = any((f.ny, f.nx, f.case) == now and f.backend.startswith("gpu_") for f in self._current(mine))
        around = None if same else nearest(self._current(figures), self.lab, ny, nx, dtype)
        place = (around.ny, around.nx, around.case) if around else now
        words = ", ".join(filter(None, (f"{place[1]} × {place[0]} cells", dtype, place[2])))
        held = self.held({**values, "ny": place[0], "nx": place[1]})
        chosen = (f for f in mine if (f.ny, f.nx, f.case) == place)
        return paired(chosen, words, same, held, lambda f: self.method(f.backend, f.variant), self.revisions)

    def _current(self, figures: Sequence[Recorded]) -> list[Recorded]:
        """The figures of kernels as they are now."""
        return [figure for figure in figures if not outdated(figure, self.revisions)]


def field_agreement(
    right: NDArray[Any], got: NDArray[Any], tolerance: float, steps: int, amplified: float = 1.0, start: str = "noise"
) -> Agreement:
    """Compare two fields by relative L2; a result that is not finite does not agree.

    tolerance: of a step that amplifies nothing; amplified: by how much rounding is (see `amplification`).
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
