"""Brush strokes in a field: their bounds, the discs along them, and their form in a history."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from compute.files.documents import short
from compute.lab.fields import is_finite

StrokePoints = Sequence[tuple[float, float]]

MAX_POINTS = 1000  # points per stroke that a client may send
MAX_DISCS = 10_000


def require_stroke(points: object, value: object, radius: object) -> None:
    """Raise ValueError unless there are 1 to MAX_POINTS points (x, y), a value and a radius above 0, all finite."""
    if not (is_finite(radius) and radius > 0):  # type: ignore[operator]
        raise ValueError(f"radius must be a finite number above 0, not {short(radius)}")
    few = isinstance(points, Sequence) and not isinstance(points, str) and 1 <= len(points) <= MAX_POINTS
    if not (is_finite(value) and few and all(map(_is_point, points))):  # type: ignore[call-overload]
        raise ValueError(f"paint needs a finite value and 1 to {MAX_POINTS} finite points (x, y)")


def _is_point(point: object) -> bool:
    return isinstance(point, Sequence) and len(point) == 2 and all(map(is_finite, point))


def stroke_as_json(points: StrokePoints, value: float, radius: float) -> dict[str, object]:
    """Return a stroke as JSON values."""
    return {"points": [[float(x), float(y)] for x, y in points], "value": float(value), "radius": float(radius)}


def discs_along(points: StrokePoints, spacing: float) -> Iterator[tuple[float, float]]:
    """Yield points (x, y) on the polyline, at most `spacing` apart. Raise ValueError for more than MAX_DISCS points."""
    count = 1
    yield points[0][0], points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        length = math.hypot(x1 - x0, y1 - y0) / spacing  # may be inf
        if not count + length <= MAX_DISCS:
            raise ValueError(f"a stroke must be at most {MAX_DISCS} half radii long; use a wider brush")
        parts = max(1, math.ceil(length))
        count += parts
        for k in range(1, parts + 1):
            yield x0 + (x1 - x0) * k / parts, y0 + (y1 - y0) * k / parts
