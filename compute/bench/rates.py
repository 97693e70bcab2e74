"""What a lab counts its work in, and the roof that its rate is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Roof = Literal["copy", "fma"]


@dataclass(frozen=True)
class Rate:
    """How the speed of a lab is said.

    unit: of 1e9 of its work a second, for the screen; work: what that is, in the plural ("cells", "iterations"); step:
    what one time is the time of ("step", "picture"); roof: "copy" (bytes/s while copying) or "fma" (fused
    multiply-adds/s); counted: what the roof counts, in the plural; need(dtype): how many of these one cell or iteration
    takes at least; saves: in words, how a way may do with less than that, and so exceed the roof.
    """

    unit: str
    work: str
    step: str
    roof: Roof
    counted: str
    need: Callable[[str], float]
    saves: str = ""

    def counted_per_second(self, rate: float, dtype: str) -> float:
        """What the roof counts, a second, at `rate` cells or iterations a second."""
        return self.need(dtype) * rate

    def percent(self, rate: float, dtype: str, roof: float) -> float:
        """The rate in percent of `roof`; nan if that is nan. Above 100 where work is saved that `need` counts."""
        return 100.0 * self.counted_per_second(rate, dtype) / roof
