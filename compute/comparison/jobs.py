"""What a live comparison asks of an engine, and the timings it has got so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from compute.bench.rates import Roof
from compute.comparison.contest import Key
from compute.timings import Timing

MOST = 45  # samples of one way at one setting; while they are noisy, newer ones replace them


class Handle(Protocol):
    """What is used of an engine's lab handle."""

    def sample(self, steps: int, repeat: int, roof: Roof | Literal[""] = "", dtype: str = "") -> None:
        """Ask for timings, and right after them for samples of the device's roof."""

    def solve(self, steps: int, seed: int) -> None:
        """Ask for a result."""

    def close(self) -> None:
        """Give it back."""


Opener = Callable[[str, dict[str, Any], Callable[[Any], None]], Handle]  # (engine, values, on_event)


@dataclass(frozen=True)
class Job:
    """One question to an engine. key, failed: where in the Book an answer or a failure belongs; roof: what is sampled
    beside timings, "" for nothing, of `dtype`.
    """

    key: Key
    failed: Key
    engine: str
    values: dict[str, Any]
    ask: str
    steps: int
    repeat: int
    roof: Roof | Literal[""] = ""
    dtype: str = ""


@dataclass(frozen=True)
class Samples:
    """Timings of one way at one setting: the first call, the one that found the pace, then the newest MOST.

    at: when the newest came, by the comparison's clock.
    """

    timings: tuple[Timing, ...] = ()
    at: float = 0.0

    @property
    def warm(self) -> list[float]:
        """Seconds a step of those that count."""
        return [timing.step_seconds for timing in self.timings[2:]]

    def with_more(self, timings: Sequence[Timing], now: float) -> Samples:
        """And these; of an answer the first is a warm-up, which counts as the first call once only."""
        if not self.timings:
            return Samples(tuple(timings), now)
        warm = (*self.timings[2:], *(timing for timing in timings if not timing.first_call))
        return Samples((*self.timings[:2], *warm[-MOST:]), now)
