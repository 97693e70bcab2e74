"""The rules of labs whose state is a field: compared by relative L2, a step timed at the grid's own size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.bench.rates import Rate
from compute.comparison.contest import Agreement, Contestant
from compute.comparison.rules import Chart, Fact
from compute.frames import Frame
from compute.record import Recorded, nearest

CHECK_SIDE = 512  # cells: results are compared on at most this many rows and columns
SERIAL_CELLS = 2048**2  # cells above which a way on one thread is not sampled: one step would hold up the picture
LARGEST = 4096**2  # cells above which the engine of the live picture is not given a second grid
LARGEST_APART = 8192**2  # and above which no other engine is given one
AMPLIFIED = 10.0  # times at most that rounding may be amplified until results are compared: errors are still seen

REFERENCE = Contestant("cpu_numpy")

Values = Mapping[str, Any]


def _keeps(values: Values) -> float:  # noqa: ARG001 whatever they are
    """A step amplifies nothing."""
    return 1.0


def amplification(growth: float, steps: int) -> float:
    """How much more rounding a result holds after `steps` steps that multiply errors by `growth`; 1 if they do not.

    A step's rounding is about as large as the field's own times the dtype's precision, and every later step multiplies
    it by up to `growth`: over n steps 1 + growth + … + growth^(n - 1) of them in place of n. The field itself does not
    become smaller meanwhile, since its mean stays.
    """
    return sum(growth**k for k in range(steps)) / steps


def relative(
    right: NDArray[Any], got: NDArray[Any], tolerance: float, steps: int, amplified: float = 1.0
) -> Agreement:  # fmt: skip
    """Compare two (ny, nx) fields by relative L2; a result that is not finite does not agree.

    tolerance: of a step that amplifies nothing; amplified: by how much rounding is (see `amplification`).
    """
    allowed = tolerance * amplified
    delta = right.astype(np.float64) - got
    difference = float(np.linalg.norm(delta)) / (float(np.linalg.norm(right)) or 1.0)
    largest = float(np.abs(delta).max())
    if not np.isfinite(difference):
        difference = largest = float("inf")
    beyond = "" if difference <= allowed else f" > {allowed:.0e}"
    ny, nx = right.shape
    after = f"{steps} step{'s' * (steps != 1)}"
    unstable = f"; unstable: rounding is amplified, so compared after {after}" if amplified > 1 else ""
    why = f", {tolerance:.0e} times {amplified:.2g} by which these steps amplify rounding at most" if unstable else ""
    return Agreement(
        difference,
        allowed,
        f"max |difference| {largest:.1e}, rel.\N{NO-BREAK SPACE}{difference:.1e}{beyond}{unstable}",
        f"The worse of both, against NumPy in float64 after {after} from noise on {nx} × {ny} cells; "
        f"relative L2 up to {allowed:.0e} counts as right{why}",
    )


@dataclass(frozen=True)
class FieldRules:
    """See compute.comparison.rules.Rules. tolerance: relative L2 by dtype; apart: what every twin starts from.

    check_steps: after which results are compared, unless that amplifies rounding too much; growth: by values, the
    largest factor by which a step multiplies an error, at least 1; timed_with: values that no time depends on, at which
    the field stays finite; cited: published figures.
    """

    rate: Rate
    timed: tuple[str, ...]
    checked: tuple[str, ...]
    tolerance: Mapping[str, float]
    check_steps: int
    lab: str
    timed_with: Mapping[str, Any] = field(default_factory=dict)
    growth: Callable[[Values], float] = _keeps
    cited: tuple[Recorded, ...] = ()
    apart: Mapping[str, Any] = field(default_factory=dict)
    reference: Contestant = REFERENCE
    included: str = "The kernels of one step, on a twin of this grid."

    def own(self, contestant: Contestant, values: Values) -> dict[str, Any]:  # noqa: ARG002 the same for all
        """What comparisons start from."""
        return dict(self.apart)

    def compared_after(self, values: Values) -> int:
        """check_steps, or as many as amplify rounding by AMPLIFIED at most."""
        growth, steps = self.growth(values), self.check_steps
        while steps > 1 and amplification(growth, steps) > AMPLIFIED:
            steps -= 1
        return steps

    def right(self, values: Values) -> dict[str, Any]:  # noqa: ARG002 whatever they are
        """In float64."""
        return {"dtype": "float64"}

    def small(self, values: Values) -> dict[str, Any]:
        """At most CHECK_SIDE cells a side."""
        return {side: min(values[side], CHECK_SIDE) for side in ("ny", "nx")}

    def sampled(self, values: Values) -> dict[str, Any]:  # noqa: ARG002 whatever they are
        """The live grid."""
        return dict(self.timed_with)

    def agreement(self, right: NDArray[Any], got: NDArray[Any], values: Values, steps: int) -> Agreement:
        """By relative L2."""
        amplified = amplification(self.growth(values), steps)
        return relative(right, got, self.tolerance[values["dtype"]], steps, amplified)

    def refusal(self, contestant: Contestant, values: Values) -> str:
        """One thread takes too long for a large grid."""
        if contestant.threads == 1 and self.cells(values) > SERIAL_CELLS:
            return "one step would hold up the picture at this size; `fieldlab bench` times it"
        return ""

    def crowded(self, values: Values, beside: bool) -> bool:
        """A second grid must not be too large."""
        return self.cells(values) > (LARGEST if beside else LARGEST_APART)

    def held(self, values: Values) -> float:
        """Two grids."""
        return 2.0 * self.cells(values) * np.dtype(self.dtype(values)).itemsize

    def cells(self, values: Values) -> int:
        """Of the grid."""
        return int(values["ny"]) * int(values["nx"])

    def others(self, values: Values) -> Sequence[Contestant]:  # noqa: ARG002 never any
        """None: only the defaults meet."""
        return ()

    def dtype(self, values: Values) -> str:
        """Of the field."""
        return str(values["dtype"])

    def facts(self, values: Values, frame: Frame, roof: float) -> Sequence[Fact]:  # noqa: ARG002 never any
        """None: the status bar has them."""
        return ()

    def elsewhere(self, values: Values, figures: Sequence[Recorded]) -> Sequence[Recorded]:
        """The recorded one nearest to this grid, and the published ones."""
        figure = nearest(figures, self.lab, values["ny"], values["nx"], values["dtype"])
        return [*([figure] if figure else []), *self.cited]

    def chart(self, values: Values, figures: Sequence[Recorded]) -> Chart | None:  # noqa: ARG002 never any
        """None."""
        return None
