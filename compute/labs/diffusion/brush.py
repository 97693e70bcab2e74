"""A stroke of the brush as discs close enough to look like a line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from numbers import Real

Points = Sequence[tuple[float, float]]

MAX_POINTS = 1000  # points of one stroke that a client may send
MAX_DISCS = 10_000


def require(points: object, value: object, radius: object) -> None:
    """Raise ValueError unless they are 1 to MAX_POINTS points (x, y), a value and a radius above 0, all finite."""
    if not (_finite(radius) and radius > 0):  # type: ignore[operator]
        raise ValueError(f"radius must be a finite number above 0, not {radius!r}")
    few = isinstance(points, Sequence) and not isinstance(points, str) and 1 <= len(points) <= MAX_POINTS
    if not (_finite(value) and few and all(map(_is_point, points))):  # type: ignore[call-overload]
        raise ValueError(f"paint needs a finite value and 1 to {MAX_POINTS} finite points (x, y)")


def _is_point(point: object) -> bool:
    return isinstance(point, Sequence) and len(point) == 2 and all(map(_finite, point))


def _finite(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def plain(points: Points, value: float, radius: float) -> dict[str, object]:
    """A stroke for JSON."""
    return {"points": [[float(x), float(y)] for x, y in points], "value": float(value), "radius": float(radius)}


def along(points: Points, spacing: float) -> Iterator[tuple[float, float]]:
    """Points (x, y) on the polyline, at most `spacing` apart; ValueError above MAX_DISCS of them."""
    count = 1
    yield points[0][0], points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        parts = max(1, math.ceil(math.hypot(x1 - x0, y1 - y0) / spacing))
        count += parts
        if count > MAX_DISCS:
            raise ValueError(f"a stroke must be at most {MAX_DISCS} half radii long; use a wider brush")
        for k in range(1, parts + 1):
            yield x0 + (x1 - x0) * k / parts, y0 + (y1 - y0) * k / parts
