"""Values on the way from one to another."""

from __future__ import annotations

from typing import Any


def mixed(first: Any, last: Any, part: float) -> Any:
    """What lies between two values, at `part` of the way from 0 to 1.

    A number changes in proportion to `part`, a whole number that grows tenfold or more by equal factors; anything else
    jumps at the end.
    """
    if isinstance(first, bool) or not all(isinstance(value, int | float) for value in (first, last)):
        return last if part >= 1 else first
    if isinstance(first, int) and isinstance(last, int):
        low, high = sorted((first, last))
        if low > 0 and high >= 10 * low:
            return round(first * (last / first) ** part)
        return round(first + part * (last - first))
    return first + part * (last - first)
