"""What a lecturer would say of what the other views show: a sentence for each, made from the figures on the screen.

Those of the programs and the traps have no figures, and say what there is to be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from app.labs.crossover.findings import finding_html
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.labs.crossover.time_parts import time_parts
from app.readout_html import figure
from compute.labs.crossover import picture
from compute.labs.crossover.claims import Conclusion, conclusions
from compute.labs.crossover.finding import FAR, FLAT, Finding
from compute.labs.crossover.picture import ShownPoint, ShownWay
from compute.labs.crossover.roofline import Roof
from compute.measure.rates import spaced
from compute.measure.statistics import Spread

HALF = 0.5  # of a time: what takes more of it is what the time is spent on
WITHOUT_FIGURES = {  # what is to be seen in a view, measured or not
    "Programs": "Every way is a short program of its own; put two beside each other to see what the faster one does "
    "differently.",
    "Traps": "Every trap is a mistake that makes a time wrong, beside the program that avoids it; run both and "
    "compare.",
}
LESSON_STYLE = """
.lessons { margin: 0; padding: 0 24px 12px; display: grid; grid-template-columns: max-content 1fr; gap: 6px 16px;
  color: var(--ink); font-size: var(--body, 16px); line-height: 1.4; }
.lessons dt { color: var(--muted); } .lessons dd { margin: 0; }
.lessons .cpu { color: var(--cpu); } .lessons .gpu { color: var(--gpu); }
@media (max-width: 599px) { .lessons { grid-template-columns: 1fr; } .lessons dd { margin-bottom: 6px; } }
"""


def lessons_html(model: SweepViewModel) -> str:
    """Return the sentence of each view that has something to say, as HTML; a hint if nothing has been measured."""
    finding = model.finding if model.finding.n else model.elsewhere
    n = max(model.measured_sizes, default=0)
    measured = at(n, model.measured.values())
    roofs = picture.roofs_of(model.frame) if model.frame is not None else {}
    said = {
        "Crossover": f"{finding_html(finding)}{escape(why(finding))}." if finding.n else "",
        "Programs": escape(WITHOUT_FIGURES["Programs"]),
        "Parts of the time": escape(of_time_parts(n, measured)),
        "Roofline": escape(of_roofline(n, measured, roofs)),
        "Traps": escape(WITHOUT_FIGURES["Traps"]),
        "Claims checked": escape(of_claims([one for one in conclusions() if one.workload == model.workload.name])),
    }
    rows = [f"<dt>{view}</dt><dd>{sentence}</dd>" for view, sentence in said.items() if sentence]
    if not any(sentence for view, sentence in said.items() if view not in WITHOUT_FIGURES):
        rows.append("<dt></dt><dd>Press Run: what is measured is put into words here.</dd>")
    return f"<dl class='lessons'>{''.join(rows)}</dl>"


def at(n: int, lines: Iterable[ShownWay]) -> list[tuple[ShownWay, ShownPoint]]:
    """The ways that have a time at n, the fastest first."""
    found = [(line, spot, spot.step) for line in lines for spot in line.points if spot.n == n and spot.step is not None]
    return [(line, spot) for line, spot, _ in sorted(found, key=lambda one: one[2].median)]


def why(finding: Finding) -> str:
    """Why it is so, as far as the curves themselves tell: what follows the sentence of a finding, "" if they do not."""
    found, cost = finding.crossing, "launching" if finding.fast.kind == "gpu" else "starting"
    if found is not None and found.n is not None and start_dominates(finding.fast.series, found.n):
        return f": below, {cost} costs more than the work"
    reason = finding.reason_slower(spaced)
    return f": {reason}" if reason else ""


def start_dominates(series: Mapping[int, Spread], n: float) -> bool:
    """Whether a time hardly grows up to the last n measured below `n`: then it is not that of the work."""
    below = [size for size in series if size <= n]
    smaller = [size for size in below if size * FAR <= max(below)]
    return bool(smaller) and series[max(below)].median <= FLAT * series[max(smaller)].median


def of_time_parts(n: int, measured: Sequence[tuple[ShownWay, ShownPoint]]) -> str:
    """What the time of the fastest way on the GPU is spent on at n; of the fastest at all where none was measured."""
    if not measured:
        return ""
    line, spot = next(((line, spot) for line, spot in measured if line.device == "cuda"), measured[0])
    launching, computing, moving = time_parts(spot, line.device)
    total = launching + computing + moving
    said = f"At n = {spaced(n)} "
    if moving > HALF * total:
        return (
            f"{said}moving takes {percent(moving / total)} of {line.label}'s time: move the data once, and stay there."
        )
    if line.device == "host":
        return f"{said}all of {line.label}'s time is work: a call on the host launches nothing."
    if launching > HALF * total:
        return (
            f"{said}launching takes {percent(launching / total)} of {line.label}'s time: more work would cost little."
        )
    return f"{said}{percent(computing / total)} of {line.label}'s time is work: here a GPU is worth its launch."


def of_roofline(n: int, measured: Sequence[tuple[ShownWay, ShownPoint]], roofs: Mapping[str, Roof]) -> str:
    """What limits the way that comes closest to its roof at n, of those that a cache does not lift above it."""
    known = [(line, spot) for line, spot in measured if spot.percent <= 100 and line.device in roofs]
    if not known:
        return ""
    line, spot = max(known, key=lambda one: one[1].percent)
    limit, fewer = ("memory", "bytes") if spot.intensity < roofs[line.device].ridge else ("arithmetic", "operations")
    said = f"At n = {spaced(n)} {line.label} reaches {percent(spot.percent / 100)} of what {limit} allows"
    if spot.percent < 100 * HALF:
        return f"{said}: the device could do more than twice as much."
    return f"{said}: only fewer {fewer} would make it twice as fast."


def of_claims(found: Sequence[Conclusion]) -> str:
    """How many of the claims about a workload hold."""
    if not found:
        return ""
    verdicts = [one.verdict for one in found]
    held, fell = verdicts.count("holds"), verdicts.count("does not hold")
    said = f"Of what tutorials conclude, {held} of {len(found)} held{f', {fell} did not' if fell else ''}"
    return f"{said}: a figure is true of its machine and its n."


def percent(part: float) -> str:
    """A part of a whole, to three figures."""
    return f"{figure(100 * part)} %"
