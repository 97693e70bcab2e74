"""Which of two curves wins from which n on: measured here or recorded, for the page and for drawings alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compute.labs.crossover import picture, recorded
from compute.labs.crossover.catalogue import Way, Workload
from compute.labs.crossover.crossing import Crossing, crossing
from compute.timings import SpeedUp, Spread

BEST_CPU, BEST_GPU = "best CPU way", "best GPU way"


@dataclass(frozen=True)
class Line:
    """The times of one way. series: seconds a call by n; noisy: the n at which they scatter too much.

    machine, date: where and when they were recorded; empty if they are measured here.
    """

    way: Way
    series: Mapping[int, Spread]
    noisy: frozenset[int] = frozenset()
    machine: str = ""
    date: str = ""

    @property
    def key(self) -> str:
        """Its name; that of a recorded one names its machine too."""
        return f"{self.way.name} @ {self.machine}" if self.machine else self.way.name

    @property
    def place(self) -> str:
        """Where and when it was recorded, in words; empty if it is measured here."""
        return f"recorded on {self.machine}, {self.date}" if self.machine else ""

    @property
    def label(self) -> str:
        """Its name on the screen."""
        return self.way.label

    @property
    def kind(self) -> str:
        """Whose hue it has: "cpu" or "gpu"."""
        return self.way.kind


def measured(of: Workload, drawn: Mapping[str, picture.Line], moving: bool = False) -> list[Line]:
    """What a frame has times of. drawn: its lines; moving: with the transfers added, where they are known."""
    found = []
    for way in of.ways():
        if way.name in drawn and (series := drawn[way.name].series(moving)):
            noisy = frozenset(spot.n for spot in drawn[way.name].points if spot.noisy)
            found.append(Line(way, series, noisy))
    return found


def beside(
    of: Workload, drawn: Mapping[str, picture.Line], dtype: str, settings: Mapping[str, Any], evict: bool,
    sizes: tuple[int, int], every: bool = False,
) -> list[Line]:  # fmt: skip
    """Recorded lines of the same dtype, settings and caches within `sizes`: of ways that can have none of their own
    here, or of `every` way.
    """
    ways = {way.name: way for way in of.ways() if every or _absent(way, drawn)}
    known = recorded.alike(of.name, dtype, settings, evict, sizes)
    return [Line(ways[c.way], c.series, c.noisy, c.machine, c.date) for c in known if c.way in ways]


def _absent(way: Way, drawn: Mapping[str, picture.Line]) -> bool:
    return bool(way.missing) or (way.name in drawn and drawn[way.name].status == "missing")


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: a line, or at each n the fastest of several."""

    name: str
    lines: tuple[Line, ...]

    @property
    def series(self) -> dict[int, Spread]:
        """Seconds a call by n, of the fastest of its lines at each."""
        best: dict[int, Spread] = {}
        for line in self.lines:
            for n, spread in line.series.items():
                if n not in best or spread.median < best[n].median:
                    best[n] = spread
        return dict(sorted(best.items()))

    def winner(self, n: int) -> Line:
        """The fastest of its lines at n, which one of them must have."""
        return min((line for line in self.lines if n in line.series), key=lambda line: line.series[n].median)

    @property
    def kind(self) -> str:
        """The device of its lines."""
        return self.lines[0].kind if self.lines else "cpu"

    @property
    def place(self) -> str:
        """Where its figures are from, if not from here."""
        return self.lines[0].place if self.lines else ""


@dataclass(frozen=True)
class Finding:
    """`fast` against `slow`. crossing: None while fewer than two n are common; n, ratio: the largest, and there."""

    slow: Side
    fast: Side
    crossing: Crossing | None = None
    n: int = 0
    ratio: SpeedUp | None = field(default=None)

    @property
    def names(self) -> tuple[str, str]:
        """(fast, slow) as they are called in a sentence: the best ones by who that is at the largest common n."""
        return self._name(self.fast), self._name(self.slow)

    @property
    def place(self) -> str:
        """Which of both was recorded elsewhere, and where."""
        return " · ".join(
            f"{name.removesuffix(' (recorded)')} was {side.place}"
            for name, side in zip(self.names, (self.fast, self.slow), strict=True) if side.place
        )  # fmt: skip

    def _name(self, side: Side) -> str:
        name = side.winner(self.n).label if self.n else side.name
        return f"{name} (recorded)" if side.place else name


def compared(slow: Side, fast: Side) -> Finding:
    """What two sides say of each other."""
    slows, fasts = slow.series, fast.series
    common = sorted(set(slows) & set(fasts))
    if not common:
        return Finding(slow, fast)
    most = common[-1]
    found = crossing(slows, fasts) if len(common) > 1 else None
    return Finding(slow, fast, found, most, SpeedUp.of(slows[most], fasts[most]))


def sides(lines: Sequence[Line], slow: str = BEST_CPU, fast: str = BEST_GPU) -> tuple[Side, Side]:
    """(slow, fast): lines by their keys, or the best of a device: those measured here, else the recorded ones.

    Where the best of the GPU is asked for and there is none, the fastest way on the host stands against the slowest.
    """
    found = _side(lines, slow), _side(lines, fast)
    if (slow, fast) == (BEST_CPU, BEST_GPU) and found[0].lines and not found[1].lines:
        return extremes(found[0].lines)
    return found


def extremes(lines: Sequence[Line]) -> tuple[Side, Side]:
    """(slowest, fastest) of some lines, at the largest n that all have."""
    common = set.intersection(*(set(line.series) for line in lines))
    most = max(common, default=0)
    ranked = sorted(lines, key=lambda line: line.series[most].median if most else 0.0)
    return Side(ranked[-1].label, (ranked[-1],)), Side(ranked[0].label, (ranked[0],))


def _side(lines: Sequence[Line], name: str) -> Side:
    wanted = {BEST_CPU: "cpu", BEST_GPU: "gpu"}.get(name)
    if wanted is None:
        return Side(name, tuple(line for line in lines if line.key == name))
    mine = [line for line in lines if line.kind == wanted and line.series]
    here = [line for line in mine if not line.machine]
    newest = max((line.date for line in mine), default="")
    return Side(name, tuple(here or [line for line in mine if line.date == newest]))
