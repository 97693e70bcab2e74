"""The sentence above each view that interprets its numbers, as a lecturer would.

Above the times: the reason for the finding (`why`) and the lesson of the workload; above the roofline: the parts of the
time and the limiting resource; above the claims: how many of them hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from app.labs.crossover.time_parts import time_parts
from app.readout.readout_html import figure
from compute.devices.devices import device_kind
from compute.labs.crossover.claims import Conclusion
from compute.labs.crossover.picture import ShownPoint, ShownWay
from compute.measure.rates import spaced
from compute.measure.statistics import Spread
from compute.ways.finding import FAR, FLAT, Finding
from compute.ways.roofline import Roof

HALF = 0.5  # fraction of a time above which a part dominates it
MOST = 99.9  # percent of a time above which three digits would round to all of it
_TAUGHT = re.compile(r"^\*\*The lesson\.\*\*\s+(.+?[.!?])(?=\s|$)", re.MULTILINE | re.DOTALL)


def of_workload(about: str) -> str:
    """Return the first sentence of "The lesson" in a workload's README.md, "" without one."""
    found = _TAUGHT.search(about)
    return " ".join(found[1].split()) if found else ""


def at(n: int, lines: Iterable[ShownWay]) -> list[tuple[ShownWay, ShownPoint]]:
    """Return the ways that have a time at n, the fastest first."""
    found = [(line, spot, spot.step) for line in lines for spot in line.points if spot.n == n and spot.step is not None]
    return [(line, spot) for line, spot, _ in sorted(found, key=lambda one: one[2].median)]


def why(finding: Finding) -> str:
    """Return the reason for a finding, derived from the curves, as a sentence; "" if unknown."""
    found, cost = finding.crossing, "launching" if finding.fast.kind == "gpu" else "starting"
    if found is not None and found.n is not None and start_dominates(finding.fast.series, found.n):
        return f"Below, {cost} costs more than the work."
    reason = finding.reason_slower(spaced)
    return f"{reason[0].upper()}{reason[1:]}." if reason else ""


def start_dominates(series: Mapping[int, Spread], n: float) -> bool:
    """Return whether the time hardly grows up to the last n measured below `n`: the start of a call dominates it."""
    below = [size for size in series if size <= n]
    smaller = [size for size in below if size * FAR <= max(below)]
    return bool(smaller) and series[max(below)].median <= FLAT * series[max(smaller)].median


def of_time_parts(shown: Sequence[tuple[ShownWay, ShownPoint]]) -> str:
    """Describe the dominant part of the time of the fastest way on a GPU; of the fastest of all if none is on a GPU."""
    if not shown:
        return ""
    line, spot = next(((line, spot) for line, spot in shown if device_kind(line.device) == "gpu"), shown[0])
    launching, computing, moving = time_parts(spot, line.device)
    total = launching + computing + moving
    if moving > HALF * total:
        share = percent(moving / total)
        return f"Transfers take {share} of the time of {line.label}: transfer the data once and keep them there."
    if device_kind(line.device) == "cpu":
        return f"All of the time of {line.label} is work: calls on the host need no launch."
    if launching > HALF * total:
        return f"Launches take {percent(launching / total)} of the time of {line.label}: more work would cost little."
    return f"{percent(computing / total)} of the time of {line.label} is work: here a GPU pays."


def of_roofline(shown: Sequence[tuple[ShownWay, ShownPoint]], roofs: Mapping[str, Roof]) -> str:
    """Describe the limiting resource of the way closest to its roof; ways lifted above it by a cache are excluded."""
    known = [(line, spot) for line, spot in shown if spot.percent <= 100 and line.device in roofs]
    if not known:
        return ""
    line, spot = max(known, key=lambda one: one[1].percent)
    limit, fewer = ("memory", "bytes") if spot.intensity < roofs[line.device].ridge else ("arithmetic", "operations")
    said = f"{line.label} reaches {percent(spot.percent / 100)} of the limit of {limit}"
    if spot.percent < 100 * HALF:
        return f"{said}: the device could be more than twice as fast."
    return f"{said}: only fewer {fewer} would make it twice as fast."


def of_claims(found: Sequence[Conclusion]) -> str:
    """Return how many claims about a workload hold, as a sentence."""
    if not found:
        return ""
    verdicts = [one.verdict for one in found]
    held, fell = verdicts.count("holds"), verdicts.count("does not hold")
    said = f"{held} of {len(found)} conclusions of tutorials hold{f', {fell} do not' if fell else ''}"
    return f"{said}: a number is valid for its machine and its n."


def percent(part: float) -> str:
    """Format a fraction in percent with three digits; 100 % only for exactly 1."""
    return f"over {MOST:.1f} %" if MOST < 100 * part < 100 else f"{figure(100 * part)} %"
