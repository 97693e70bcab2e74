"""A stroke of the brush as discs close enough to look like a line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

MAX_POINTS = 1000  # points of one stroke that a client may send
MAX_DISCS = 10_000


def along(points: Sequence[tuple[float, float]], spacing: float) -> Iterator[tuple[float, float]]:
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
