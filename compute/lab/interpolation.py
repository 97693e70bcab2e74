"""Interpolation between the values of two states of a lab, for films."""

from __future__ import annotations

from typing import Any


def values_between(first: dict[str, Any], last: dict[str, Any], part: float) -> dict[str, Any]:
    """Return values on the way from `first` to `last`, which have the same names; `part` runs from 0 to 1."""
    return {name: mixed(value, last[name], part) for name, value in first.items()}


def mixed(first: Any, last: Any, part: float) -> Any:
    """Return the value between two values at `part` of the way from 0 to 1.

    A number changes in proportion to `part`, a whole number that grows tenfold or more by equal factors; any other
    value jumps at the end.
    """
    if isinstance(first, bool) or not all(isinstance(value, int | float) for value in (first, last)):
        return last if part >= 1 else first
    if isinstance(first, int) and isinstance(last, int):
        low, high = sorted((first, last))
        if low > 0 and high >= 10 * low:
            return round(first * (last / first) ** part)
        return round(first + part * (last - first))
    return first + part * (last - first)
