"""Things on one line that must not overlap: as near as they can be to where they want to be."""

from __future__ import annotations

from collections.abc import Sequence


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Positions nearest to `wanted` (ascending) with at least `gap` between neighbours.

    Clusters that overlap are merged and centred on the mean of what their members want: least squares.
    """
    clusters: list[tuple[float, int]] = []  # (sum of wanted - offset, members); its first stands at the mean
    for index, value in enumerate(wanted):
        total, count = value - index * gap, 1
        while clusters and clusters[-1][0] / clusters[-1][1] > total / count:
            before, members = clusters.pop()
            total, count = total + before, count + members
        clusters.append((total, count))
    means = [total / count for total, count in clusters for _ in range(count)]
    return [mean + index * gap for index, mean in enumerate(means)]
