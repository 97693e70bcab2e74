"""The n from which one side wins: the single finding that page, lesson, drawing, frame, bench and `fieldlab try` state.

Two sides are compared at the n measured for both; the finding says nothing about n outside their range. A side is one
way, or the best of a device: the lower envelope of the device's ways, which has the fastest time at each n. The
sentence then names these ways and the range of n in which each is the fastest, so no way can contradict the sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log

from compute.measure.statistics import SpeedUp, Spread
from compute.ways.crossing import FIGURES, Crossing, crossing
from compute.ways.roofline import Roof
from compute.ways.workload import Way

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
BEST_CPU, BEST_GPU = "best CPU way", "best GPU way"
ALIKE = 1.1  # a way keeps the lead up to this multiple of the fastest time, so that noise does not change the name
ROUNDING = 1 + 1e-12  # tolerance for a line through equal times, which log and exp may round
FAR, FLAT = 10, 1.5  # if a time grows by less than FLAT while n grows FAR-fold, it does not measure the work


def time_in_words(seconds: float) -> str:
    """Format seconds with three significant figures and a unit."""
    scale, unit = next(((scale, unit) for scale, unit in UNITS if seconds >= scale), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"


def commas(n: float) -> str:
    """Format a whole number with thousands separators."""
    return f"{n:,.0f}"


@dataclass(frozen=True)
class TimeCurve:
    """The times of one way.

    series: seconds per call by n; noisy: the n with too much scatter; launch_bound: the n, where known, at which
    launching takes as long as the work; low_clock: those at which a GPU ran far below its highest clock. machine, date:
    where and when recorded; empty if measured on this computer. Only recorded curves have rates, (bytes/s,
    operations/s) by n, and a roof, the measured limits of their device.
    """

    way: Way
    series: Mapping[int, Spread]
    noisy: frozenset[int] = frozenset()
    machine: str = ""
    date: str = ""
    launch_bound: frozenset[int] = frozenset()
    low_clock: frozenset[int] = frozenset()
    rates: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    roof: Roof | None = None

    @property
    def key(self) -> str:
        """The way's name; for a recorded curve also the machine's."""
        return f"{self.way.name} @ {self.machine}" if self.machine else self.way.name

    @property
    def place(self) -> str:
        """Text that says where and when the curve was recorded; empty if it was measured on this computer."""
        return f"recorded on {self.machine}, {self.date}" if self.machine else ""

    @property
    def label(self) -> str:
        """The name on the screen."""
        return self.way.label

    @property
    def kind(self) -> str:
        """The device, "cpu" or "gpu", which selects the hue."""
        return self.way.kind


@dataclass(frozen=True)
class Leader:
    """The way that is the fastest of its side, or within a factor of ALIKE, from n = first to last."""

    line: TimeCurve
    first: int
    last: int


@dataclass(frozen=True)
class Side:
    """One of the two sides. lines: the candidate ways.

    After the comparison, envelope is the fastest time at each n; leaders: the fastest way for each range of n,
    ascending; `lines` are then the ways of the leaders, starting with the leader at the largest n.
    """

    name: str
    lines: tuple[TimeCurve, ...] = ()
    envelope: Mapping[int, Spread] = field(default_factory=dict)
    leaders: tuple[Leader, ...] = ()

    @property
    def series(self) -> Mapping[int, Spread]:
        """Seconds per call by n; empty before the comparison, unless the side has a single line."""
        return self.envelope or (self.lines[0].series if len(self.lines) == 1 else {})

    @property
    def kind(self) -> str:
        """The device of its lines."""
        return self.lines[0].kind if self.lines else "cpu"

    @property
    def place(self) -> str:
        """Where its times were recorded; empty if they were measured here."""
        return self.lines[0].place if self.lines else ""

    @property
    def called(self) -> str:
        """The side's name in a sentence."""
        if len(self.lines) == 1:
            return _called(self.lines[0])
        return f"the {self.name}" if self.leaders else self.name

    def leader(self, n: int) -> TimeCurve:
        """Return the fastest line at n; at least one line must have a time there."""
        return min((line for line in self.lines if n in line.series), key=lambda line: line.series[n].median)

    def pieces(self, count: Callable[[float], str]) -> list[tuple[str, str]]:
        """Return parts of a sentence that say which way leads where; empty if one way leads everywhere."""
        if len(self.leaders) < 2:
            return []
        said = [(f"; {self.name}: ", "")]
        for place, one in enumerate(self.leaders):
            name = _called(one.line), self.kind
            if place == 0:
                said += [name, (f" up to n = {count(one.last)}", "")]
            elif place == len(self.leaders) - 1:
                said += [(", ", ""), name, (f" from n = {count(one.first)} on", "")]
            else:
                said += [(", ", ""), name, (f" up to n = {count(one.last)}", "")]
        return said


def _called(line: TimeCurve) -> str:
    return f"{line.label} (recorded)" if line.machine else line.label


@dataclass(frozen=True)
class Finding:
    """`fast` compared with `slow`; each is an envelope if they share an n.

    crossing: None if fewer than two n are common; n, ratio: the largest common n, and the speed-up there.
    """

    slow: Side
    fast: Side
    crossing: Crossing | None = None
    n: int = 0
    ratio: SpeedUp | None = None

    @property
    def names(self) -> tuple[str, str]:
        """(fast, slow): their names in a sentence."""
        return self.fast.called, self.slow.called

    @property
    def names_at_n(self) -> tuple[str, str]:
        """(fast, slow): the names of the ways whose times at n give the ratio."""
        fast, slow = (_called(side.lines[0]) if side.lines else side.name for side in (self.fast, self.slow))
        return fast, slow

    @property
    def place(self) -> str:
        """Text that says which sides were recorded elsewhere, and where."""
        if self.fast.place and self.fast.place == self.slow.place:
            return f"both {self.fast.place}"
        return " · ".join(
            f"{side.called.removesuffix(' (recorded)')} was {side.place}"
            for side in (self.fast, self.slow)
            if side.place
        )

    def reason_slower(self, count: Callable[[float], str] = commas) -> str:
        """Return why `fast` is slower at n, if its own curve shows the reason; else ""."""
        series, smaller = self.fast.series, [n for n in self.fast.series if n * FAR <= self.n]
        if self.ratio is None or self.ratio.ratio >= 1 or not smaller:
            return ""
        n = max(smaller)
        if series[self.n].median > FLAT * series[n].median:
            return ""
        cost = "launching" if self.fast.kind == "gpu" else "a call by itself"
        return f"{cost} dominates: n = {count(n)} takes almost as long"

    @property
    def sentence(self) -> str:
        """The sentence as plain text."""
        return "".join(text for text, _ in self.pieces())

    def pieces(self, count: Callable[[float], str] = commas) -> list[tuple[str, str]]:
        """Return the sentence in parts (text, "cpu" or "gpu" for the name of a way, else ""); count: formats an n."""
        fast, slow = ((side.called, side.kind) for side in (self.fast, self.slow))
        fast = (f"The{fast[0][3:]}" if self.fast.leaders and fast[0].startswith("the ") else fast[0], fast[1])
        found = self.crossing
        if not self.n or self.ratio is None:
            alone = self.slow.lines and self.slow.lines == self.fast.lines
            none = [slow, (": no n at which both were measured", "")]
            return [fast, (": no other way to compare it with", "")] if alone else [fast, (" and ", ""), *none]
        if found is None:
            only = f" at n = {count(self.n)}, the only one of both"
            verb, where = f" is {_than(self.ratio.ratio)} ", only
        elif found.n is not None:
            verb, where = " is faster than ", f" from n ≈ {count(found.rounded)} on"
        elif found.always:
            verb, where = " is faster than ", " at every n of both"
        elif found.times:
            verb, where = f" is {_than(self.ratio.ratio)} ", f" at n = {count(found.most)}, the largest of both"
        else:
            one, other = self.slow.series, self.fast.series
            slower = all(other[n].median > one[n].median for n in set(one) & set(other))
            verb, where = f" is {'slower' if slower else 'not faster'} than ", " at every n of both"
        return [fast, (verb, ""), slow, (where, ""), *self.slow.pieces(count), *self.fast.pieces(count)]

    def uncertainty(self, count: Callable[[float], str] = commas) -> str:
        """Return the measured range and the uncertainty of the crossing as text; empty if `crossing` is None."""
        found = self.crossing
        if found is None:
            return ""
        said = f"both measured from n = {count(found.least)} to {count(found.most)}"
        if found.n is None:
            return said if found.sure else f"{said}; within the quartiles it may be the other way"
        low = count(_two(found.low)) if found.low is not None else f"below {count(found.least)}"
        high = count(_two(found.high)) if found.high is not None else f"above {count(found.most)}"
        often = f"; the curves cross {found.times} times, this is the last" if found.times > 1 else ""
        return f"by {found.by} {low} to {high}{often}; {said}"


def _two(n: float) -> float:
    return float(f"{n:.{FIGURES}g}")


def _than(ratio: float) -> str:
    """Return the comparison that the sentence uses, by the ratio of the times (slow over fast)."""
    return "faster than" if ratio > 1 else "slower than" if ratio < 1 else "as fast as"


def compare(slow: Side, fast: Side) -> Finding:
    """Compare the lower envelopes of two sides.

    If one side is a single line, that line is removed from the other side: the other is then the best of the rest.
    """
    if slow.lines == fast.lines:
        return Finding(slow, fast)
    slow, fast = _beside(slow, fast), _beside(fast, slow)
    one, other = envelope(slow.lines), envelope(fast.lines)
    common = set(one) & set(other)
    if not common:
        return Finding(slow, fast)
    least, most = min(common), max(common)
    return Finding(
        _compared(slow, one, least, most), _compared(fast, other, least, most),
        crossing(one, other) if len(common) > 1 else None,
        most, SpeedUp.of(one[most], other[most]),
    )  # fmt: skip


def envelope(lines: Sequence[TimeCurve]) -> dict[int, Spread]:
    """Return the fastest measured time at each n.

    An n is left out if a way that was measured at smaller and larger n, but not at this one, has its line below.
    """
    found: dict[int, Spread] = {}
    for n in sorted({n for line in lines for n in line.series}):
        best = min((line.series[n] for line in lines if n in line.series), key=lambda spread: spread.median)
        if all(best.median <= ROUNDING * _drawn(line, n) for line in lines if n not in line.series):
            found[n] = best
    return found


def _drawn(line: TimeCurve, n: int) -> float:
    """Return the seconds at which the line is drawn at n; inf outside its range."""
    below = max((m for m in line.series if m < n), default=0)
    above = min((m for m in line.series if m > n), default=0)
    if not (below and above):
        return inf
    part = log(n / below) / log(above / below)
    return exp((1 - part) * log(line.series[below].median) + part * log(line.series[above].median))


def _compared(side: Side, found: Mapping[int, Spread], least: int, most: int) -> Side:
    """Return the side with its envelope, and its leaders between the two n."""
    led: list[Leader] = []
    for n in sorted((n for n in found if least <= n <= most), reverse=True):
        before = led[-1].line if led else None
        if before is not None and n in before.series and before.series[n].median <= ALIKE * found[n].median:
            led[-1] = replace(led[-1], first=n)
            continue
        led.append(Leader(side.leader(n), n, n))
    lines = {one.line.key: one.line for one in led}
    return Side(side.name, tuple(lines.values()), found, tuple(reversed(led)))


def _beside(side: Side, other: Side) -> Side:
    """Return the side without the line that alone forms the other side."""
    if len(other.lines) != 1:
        return side
    return replace(side, lines=tuple(line for line in side.lines if line != other.lines[0]))


def sides(lines: Sequence[TimeCurve], slow: str = BEST_CPU, fast: str = BEST_GPU) -> tuple[Side, Side]:
    """Return (slow, fast): lines selected by key, or those of a device: measured here, else the latest recorded ones.

    If the best of the GPU is requested and no GPU line exists, compare the slowest and the fastest way of the host.
    """
    found = _side(lines, slow), _side(lines, fast)
    if (slow, fast) == (BEST_CPU, BEST_GPU) and found[0].lines and not found[1].lines:
        return extremes(found[0].lines)
    return found


def extremes(lines: Sequence[TimeCurve]) -> tuple[Side, Side]:
    """Return (slowest, fastest) of the lines, at the largest n that two of them share."""
    counted = Counter(n for line in lines for n in line.series)
    most = max((n for n, ways in counted.items() if ways > 1), default=0)
    ranked = sorted((line for line in lines if most in line.series), key=lambda line: line.series[most].median)
    if not ranked:
        return Side(BEST_CPU, tuple(lines)), Side(BEST_GPU)
    return Side(ranked[-1].label, (ranked[-1],)), Side(ranked[0].label, (ranked[0],))


def _side(lines: Sequence[TimeCurve], name: str) -> Side:
    wanted = {BEST_CPU: "cpu", BEST_GPU: "gpu"}.get(name)
    if wanted is None:
        return Side(name, tuple(line for line in lines if line.key == name))
    mine = [line for line in lines if line.kind == wanted and line.series]
    here = [line for line in mine if not line.machine]
    newest = max((line.date for line in mine), default="")
    return Side(name, tuple(here or [line for line in mine if line.date == newest]))
