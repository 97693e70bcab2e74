"""What an option of a problem may be: numbers within bounds, or something the problem itself looks at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`."""

    default: int
    low: int
    high: int

    def checked(self, name: str, value: Any) -> int:
        """The value as int; ValueError names it and its bounds."""
        if isinstance(value, Integral) and not isinstance(value, bool) and self.low <= int(value) <= self.high:
            return int(value)
        raise ValueError(f"{name} must be a whole number from {self.low} to {self.high}, not {value!r}")


@dataclass(frozen=True)
class Number:
    """A number from `low` to `high`."""

    default: float
    low: float
    high: float

    def checked(self, name: str, value: Any) -> float:
        """The value as float; ValueError names it and its bounds."""
        real = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
        if real and self.low <= float(value) <= self.high:
            return float(value)
        raise ValueError(f"{name} must be a number from {self.low:g} to {self.high:g}, not {value!r}")


@dataclass(frozen=True)
class Angles:
    """A number of angles, evenly spread over half a turn, or the angles themselves in degrees."""

    default: int
    most: int

    def checked(self, name: str, value: Any) -> int | tuple[float, ...]:
        """The count, or the angles; ValueError names them and what they may be."""
        if isinstance(value, Integral):
            return Whole(self.default, 1, self.most).checked(name, value)
        known = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        angles = tuple(float(angle) for angle in value) if known else ()
        if not 1 <= len(angles) <= self.most or not all(isfinite(angle) for angle in angles):
            raise ValueError(f"{name} must be a count, or 1 to {self.most} finite angles in degrees, not {value!r}")
        return angles


@dataclass(frozen=True)
class Choice:
    """Anything else; the problem checks it. doc: what it may be."""

    default: Any
    doc: str

    def checked(self, name: str, value: Any) -> Any:  # noqa: ARG002 as the others are called
        """The value as it is."""
        return value


Option = Whole | Number | Angles | Choice
