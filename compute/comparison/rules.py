"""What the live comparison must know of a lab: the attribute RULES of its benchmark.py is an object of this kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from compute.bench.rates import Rate
from compute.comparison.contest import Agreement, Contestant
from compute.frames import Frame
from compute.record import Recorded

Values = Mapping[str, Any]  # of the live lab's parameters


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

    ways: the contestants that belong to it; reasons: why one of them is slow; figures: recorded and cited ones;
    beside: whether it stands beside the bars of all ways, and not in their place.
    """

    title: str
    ways: tuple[Contestant, ...]
    reasons: Mapping[Contestant, str]
    figures: tuple[Recorded, ...]
    beside: bool = False


class Rules(Protocol):
    """How a lab's ways are compared. The methods that return changes give parameters to set on a twin of the lab."""

    rate: Rate
    timed: tuple[str, ...]  # parameters that the time of a step depends on
    checked: tuple[str, ...]  # and those its result depends on
    reference: Contestant  # whose result is the right one, under `right`
    included: str  # what a time holds, for the reader

    def own(self, contestant: Contestant, values: Values) -> dict[str, Any]:
        """Changes for a contestant's twin, beside backend and variant."""

    def compared_after(self, values: Values) -> int:
        """Steps after which results are compared."""

    def right(self, values: Values) -> dict[str, Any]:
        """Changes for the reference's twin."""

    def small(self, values: Values) -> dict[str, Any]:
        """Changes for comparing results: the same problem, cheap enough for the reference."""

    def sampled(self, values: Values) -> dict[str, Any]:
        """Changes for timing."""

    def agreement(self, right: NDArray[Any], got: NDArray[Any], values: Values, steps: int) -> Agreement:
        """How far `got` lies from the right result; values: of the twin that gave it."""

    def refusal(self, contestant: Contestant, values: Values) -> str:
        """Why a contestant is not timed at these values; empty if it may be."""

    def crowded(self, values: Values, beside: bool) -> bool:
        """Whether an engine should get no twin for timing; beside: the live lab runs on it."""

    def held(self, values: Values) -> float:
        """Bytes that are read over and over: a cache that holds them makes a way faster than memory. nan if no roof of
        memory is meant.
        """

    def cells(self, values: Values) -> int:
        """What Timing.cells is for a live frame at these values."""

    def others(self, values: Values) -> Sequence[Contestant]:
        """Contestants at these values beside the default way of each backend."""

    def dtype(self, values: Values) -> str:
        """The dtype that a rate's roof is for."""

    def facts(self, values: Values, frame: Frame, roof: float) -> Sequence[Fact]:
        """What to say of the newest frame; roof: of the live device, nan if not known."""

    def elsewhere(self, values: Values, figures: Sequence[Recorded]) -> Sequence[Recorded]:
        """Of the recorded figures, and of published ones, those to show where there is no GPU."""

    def chart(self, values: Values, figures: Sequence[Recorded]) -> Chart | None:
        """The bar chart that belongs to these values, if one does."""
