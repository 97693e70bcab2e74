"""The table below the roofline: the parts of a call's time at one n as bars, and the achieved rates.

The slider `SizeChoice` selects n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from html import escape
from math import isfinite, nan
from typing import TypeAlias

import panel_material_ui as pmui

from app.labs.crossover.labels import duration, rate
from app.page.explain import explained, term
from app.page.typed_slider import TypedList
from app.page.widgets import FULL
from app.readout.readout_html import marks
from compute.devices.devices import device_kind
from compute.labs.crossover.picture import ShownPoint, ShownWay, recorded_way
from compute.measure.rates import spaced
from compute.ways.recorded import RecordedCurve


class SizeChoice:
    """The slider of n, which stays at the largest n until moved; `panel` also has its field.

    changed() is called for each move.
    """

    def __init__(self, changed: Callable[[], object]) -> None:
        self._moved = False
        self.slider = pmui.DiscreteSlider(label="n", options={"–": 0}, value=0, size="small", **FULL)
        self._own = False
        self.slider.param.watch(lambda event: self._changed(changed), "value")
        self._typed = TypedList(self.slider, float, self._read)
        self.panel = self._typed.panel
        self.panel.param.update(width=336, sizing_mode="fixed", margin=(2, 0, 2, 16))

    def _read(self, text: str) -> int:
        """Return a typed n. Raise ValueError for an n without times."""
        known = {str(n): n for n in self.slider.options.values()}
        digits = "".join(text.split())
        if digits not in known:
            raise ValueError(f"n must be one with times ({', '.join(known)}), not {text[:40]!r}")
        return known[digits]

    @property
    def n(self) -> int:
        """The selected n; 0 without options."""
        return int(self.slider.value or 0)

    def offer(self, sizes: Sequence[int], recorded: Sequence[int] = ()) -> None:
        """Set the options to the measured and recorded n; the default is the largest in both, else measured."""
        largest = max({*sizes} & {*recorded} or sizes or recorded, default=0)
        sizes = sorted({*sizes, *recorded})
        options = {spaced(n): n for n in sizes} or {"–": 0}
        if options == self.slider.options:
            return
        keep = self._moved and self.n in sizes
        self._own = True
        self._typed.offer(options, self.n if keep else largest)
        self._own = False

    def _changed(self, changed: Callable[[], object]) -> None:
        if not self._own:
            self._moved = True
            changed()


STYLE = """
.split { padding: 0 24px 16px; color: var(--ink); font-size: var(--body, 16px); container-type: inline-size; }
.split p { margin: 8px 0 0; color: var(--muted); font-size: var(--small, 14px); line-height: 1.45; }
.split table { width: 100%; }
.split th { color: var(--muted); font-size: var(--small, 14px); font-weight: 500; }
.split td, .split th { padding: 6px 12px 6px 0 !important; font-variant-numeric: tabular-nums; }
.split td.bar, .split th.bar { width: 40%; } .split .way { white-space: nowrap; }
.split td.num, .split th.num { text-align: right; white-space: nowrap; padding-left: 4px !important; }
.split td.num { font-size: var(--small, 14px); }
.split :is(td, th):last-child { padding-right: 0 !important; }
.split tr.cpu { --hue: var(--cpu); } .split tr.gpu { --hue: var(--gpu); }
.split .track { display: flex; min-width: 48px; height: 20px; background: var(--ground); border-radius: 3px;
  overflow: hidden; }
.split .track i { display: block; height: 100%; min-width: 1px; }
.keys .compute { background: linear-gradient(90deg, var(--cpu) 50%, var(--gpu) 50%); }
.launch { background: var(--muted); } .compute { background: var(--hue, var(--ink)); }
.transfer { background: var(--warn); }
.split .keys { display: flex; flex-wrap: wrap; gap: 0 24px; font-size: var(--small, 14px); color: var(--ink); }
.split .keys i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 6px; }
.split .note { color: var(--muted); font-size: var(--small, 14px); line-height: 1.3; }
.split .place td { padding-top: 12px !important; color: var(--muted); font-size: var(--small, 14px); }
.split tr.recorded .track i { background: none; border: 1.5px solid var(--edge); box-sizing: border-box; }
.split tr.recorded .track { background: none; }
.split tr.recorded .launch { --edge: var(--muted); } .split tr.recorded .compute { --edge: var(--hue); }
.split tr.recorded .transfer { --edge: var(--warn); }
.split .noisy { color: var(--warn); font-weight: 700; }
@container (max-width: 46em) { .split .rate { display: none; } }
@container (max-width: 30em) { .split .part { display: none; } }
"""
LAUNCH = (
    "Launching: time until the call returns to the host. A GPU computes meanwhile, so computing is the rest of the "
    "device's time. Calls on the host have no launch."
)
IN_ALL = "In all: median time of launching and computing, without transfers."
TRANSFERS = "Transfers: copying the inputs to the device and the result back to the host."
MEMORY = "Memory: minimum bytes per second that the call must move. 1 GB/s is 10⁹ of them."
ARITHMETIC = "Arithmetic: floating-point operations of the call per second. 1 GFLOP/s is 10⁹ of them."
OF_ROOF = (
    "Percent of the roof: share of the rate that the device's memory or arithmetic permits at this number of "
    "operations per byte."
)
KEYS = "".join(
    f"<span><i class='{name}'></i>{words}</span>"
    for name, words in (("launch", "launching"), ("compute", "computing"), ("transfer", "transfers"))
)
HEAD = (
    f"<tr><th>Way</th><th class='bar'>parts of a call</th><th class='num part'>{term('launch', LAUNCH)}</th>"
    f"<th class='num'>{term('in all', IN_ALL)}</th><th class='num part'>{term('transfers', TRANSFERS)}</th>"
    f"<th class='num rate'>{term('memory', MEMORY)}</th><th class='num rate'>{term('arithmetic', ARITHMETIC)}</th>"
    f"<th class='num'>{term('of the roof', OF_ROOF)}</th></tr>"
)
NO_TRANSFERS = "Transfers were not measured: switch on “Measure transfers” under Measure, and run again."
NOT_MEASURED = "Not measured yet: press Run."

Why: TypeAlias = Callable[[ShownWay, ShownPoint], str]


def no_reason(line: ShownWay, spot: ShownPoint) -> str:
    """Return "": the default for an unknown reason."""
    return ""


def parts_html(
    lines: Iterable[ShownWay],
    n: int,
    transfers: bool,
    recorded: Sequence[RecordedCurve] = (),
    why: Why = no_reason,
) -> str:
    """Return a table as HTML: the parts of a call's time at n, and the percentage of the roof.

    Ways without a time at n are left out; those of `recorded` are hollow, below the others. why: returns the reason why
    a way is above its roof.
    """
    found = [(line, spot) for line in lines for spot in line.points if spot.n == n and spot.step is not None]
    recorded_spots = [(way, spot) for way in map(recorded_way, recorded) for spot in way.points if spot.n == n]
    below = "" if found else f"<p>{NOT_MEASURED}</p>"
    below += f"<p>{NO_TRANSFERS}</p>" if found and not transfers else ""
    if not found and not recorded_spots:
        return f"<div class='split'>{below}</div>"
    rows = "".join(_row(line, spot, why(line, spot)) for line, spot in found)
    if recorded_spots:
        place = f"recorded on {escape(recorded[0].machine)}, {escape(recorded[0].date)}"
        rows += f"<tr class='place'><td colspan='8'>{place}</td></tr>"
        rows += "".join(_row(line, spot, "", " recorded") for line, spot in recorded_spots)
    table = explained(f"<table>{HEAD}{rows}</table>")
    return f"<div class='split'><div class='keys'>{KEYS}</div>{table}{below}</div>"


def shown_curve(curve: RecordedCurve) -> ShownWay:
    """Return a recorded curve as a way of a frame, with "recorded" in its label."""
    return replace(recorded_way(curve), label=f"{curve.label}, recorded")


def time_parts(spot: ShownPoint, device: str) -> tuple[float, float, float]:
    """Return (launching, remaining computing, moving) in seconds; zeros for unknown or missing parts."""
    total = spot.step.median if spot.step else nan
    launch = min(spot.launch, total) if device_kind(device) == "gpu" and isfinite(spot.launch) else 0.0
    moving = spot.transfer if isfinite(spot.transfer) else 0.0
    return launch, total - launch, moving


def _row(line: ShownWay, spot: ShownPoint, above: str, look: str = "") -> str:
    launch, computing, moving = time_parts(spot, line.device)
    total = launch + computing + moving
    bar = "".join(
        f"<i class='{name}' style='width:{100 * value / total:.2f}%'></i>"
        for name, value in (("launch", launch), ("compute", computing), ("transfer", moving))
        if value > 0
    )
    said = [marks(spot.noisy, spot.launch_bound, spot.low_clock).strip(), escape(above)]
    note = f"<div class='note'>{' '.join(filter(None, said))}</div>" if any(said) else ""
    shown = (
        ("num part", duration(launch) if launch else "–"),
        ("num", duration(launch + computing)),
        ("num part", duration(moving) if moving else "–"),
        ("num rate", rate(spot.moved, "B/s")),
        ("num rate", rate(spot.flops, "FLOP/s")),
        ("num", f"{spot.percent:.3g} %" if isfinite(spot.percent) else "–"),
    )
    cells = "".join(f"<td class='{column}'>{value}</td>" for column, value in shown)
    kind = device_kind(line.device)
    name = f"<td class='way'>{escape(line.label)}</td>"
    return f"<tr class='{kind}{look}'>{name}<td class='bar'><div class='track'>{bar}</div>{note}</td>{cells}</tr>"
