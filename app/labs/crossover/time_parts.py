"""Where the time of a call goes at one n, as bars: launching, computing, moving data. And the slider that chooses n."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from html import escape
from math import isfinite, nan

import panel as pn
import panel_material_ui as pmui

from app.explain import explained, term
from app.labs.crossover.labels import duration
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.readout_html import launch_bound
from app.theme import stylesheet
from compute.labs.crossover.picture import ShownPoint, ShownWay
from compute.labs.crossover.recorded import RecordedCurve
from compute.measure.rates import spaced


class SizeChoice:
    """The slider `panel`; it stays at the largest n until it is moved. changed() hears of moves."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self._moved = False
        self.panel = pmui.DiscreteSlider(label="n", options={"–": 0}, value=0, size="small", width=320,
                                         margin=(8, 8, 8, 24))  # fmt: skip
        self._own = False
        self.panel.param.watch(lambda event: self._changed(changed), "value")

    @property
    def n(self) -> int:
        """The chosen one; 0 if there is none."""
        return int(self.panel.value or 0)

    def offer(self, sizes: Sequence[int], recorded: Sequence[int] = ()) -> None:
        """Offer the n that were measured, and those of a record; it begins with the largest of both, else of one."""
        largest = max({*sizes} & {*recorded} or sizes or recorded, default=0)
        sizes = sorted({*sizes, *recorded})
        options = {spaced(n): n for n in sizes} or {"–": 0}
        if options == self.panel.options:
            return
        keep = self._moved and self.n in sizes
        self._own = True
        self.panel.param.update(options=options, value=self.n if keep else largest)
        self._own = False

    def _changed(self, changed: Callable[[], object]) -> None:
        if not self._own:
            self._moved = True
            changed()


STYLE = """
.split { padding: 0 24px 16px; color: var(--ink); font-size: var(--body, 16px); }
.split p { margin: 0 0 16px; color: var(--muted); font-size: var(--small, 14px); line-height: 1.45; }
.split table { width: 100%; }
.split th { color: var(--muted); font-size: var(--small, 14px); font-weight: 500; }
.split td, .split th { white-space: nowrap; padding: 6px 16px 6px 0 !important; font-variant-numeric: tabular-nums; }
.split td.bar, .split th.bar { width: 45%; } .split td.num, .split th.num { text-align: right; }
.split tr.cpu { --hue: var(--cpu); } .split tr.gpu { --hue: var(--gpu); }
.split .track { display: flex; height: 20px; background: var(--ground); border-radius: 3px; overflow: hidden; }
.split .track i { display: block; height: 100%; min-width: 1px; }
.keys .compute { background: linear-gradient(90deg, var(--cpu) 50%, var(--gpu) 50%); }
.launch { background: var(--muted); } .compute { background: var(--hue, var(--ink)); }
.transfer { background: var(--warn); }
.split .keys { display: flex; gap: 24px; margin: 0 0 12px; font-size: var(--small, 14px); color: var(--ink); }
.split .keys i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 6px; }
.split td.why { white-space: normal; color: var(--muted); font-size: var(--small, 14px); }
.split tr.recorded .track i { background: none; border: 1.5px solid var(--edge); box-sizing: border-box; }
.split tr.recorded .track { background: none; }
.split tr.recorded .launch { --edge: var(--muted); } .split tr.recorded .compute { --edge: var(--hue); }
.split tr.recorded .transfer { --edge: var(--warn); }
.split .noisy { color: var(--warn); font-weight: 700; }
"""
ABOUT = (
    "Launching is how long the call kept the host before it returned; on a GPU computing goes on meanwhile, so what is "
    "shown as computing is what the device needed beyond that. A call on the host launches nothing."
)
IN_ALL = "In all: launching and computing, the median of the calls; moving comes on top of it."
MOVING = "Moving: bringing the data to the device and the result back, where the host has them before and after."
NO_TRANSFERS = "Transfers were not measured: switch on “Transfers too” under Measure, and run again."


NOT_MEASURED = "Nothing is measured yet: press Run."


def time_parts_html(lines: Iterable[ShownWay], n: int, transfers: bool, recorded: Sequence[RecordedCurve] = ()) -> str:
    """Return a table with a row for each way that has a time at n, as HTML; `recorded` ones below, hollow."""
    found = [(line, spot) for line in lines for spot in line.points if spot.n == n and spot.step is not None]
    told = [(line, spot) for line in map(shown_curve, recorded) for spot in line.points if spot.n == n]
    if not found and not told:
        return f"<div class='split'><p>{NOT_MEASURED}</p></div>"
    rows = "".join(_row(line, spot) for line, spot in found) + "".join(_row(*one, " recorded") for one in told)
    below = place_html(recorded) if told else ""
    below += "" if found else f"<p>{NOT_MEASURED}</p>"
    keys = "".join(f"<span><i class='{name}'></i>{words}</span>" for name, words in (
        ("launch", "launching"), ("compute", "computing"), ("transfer", "moving there and back")))  # fmt: skip
    head = (
        "<tr><th>Way</th><th class='bar'>parts of the time</th><th class='num'>launch</th>"
        f"<th class='num'>{term('in all', IN_ALL)}</th><th class='num'>{term('moving', MOVING)}</th></tr>"
    )
    more = "" if transfers or not found else f" {NO_TRANSFERS}"
    table = explained(f"<table>{head}{rows}</table>")
    return f"<div class='split'><div class='keys'>{keys}</div>{table}{below}<p>{ABOUT}{more}</p></div>"


def shown_curve(curve: RecordedCurve) -> ShownWay:
    """Return a recorded curve as a way of a frame, whose label says that it is recorded."""
    return replace(curve.shown, label=f"{curve.label}, recorded")


def place_html(recorded: Sequence[RecordedCurve]) -> str:
    """Return the machine and the day of recorded curves, which are of one run."""
    return f"<p>Hollow: recorded on {escape(recorded[0].machine)}, {escape(recorded[0].date)}.</p>"


def time_parts(spot: ShownPoint, device: str) -> tuple[float, float, float]:
    """Return (launching, computing beyond it, moving) in seconds; zeros for what is unknown or does not exist."""
    total = spot.step.median if spot.step else nan
    launch = min(spot.launch, total) if device == "cuda" and isfinite(spot.launch) else 0.0
    moving = spot.transfer if isfinite(spot.transfer) else 0.0
    return launch, total - launch, moving


def _row(line: ShownWay, spot: ShownPoint, look: str = "") -> str:
    launch, computing, moving = time_parts(spot, line.device)
    total = launch + computing + moving
    bar = "".join(
        f"<i class='{name}' style='width:{100 * value / total:.2f}%'></i>"
        for name, value in (("launch", launch), ("compute", computing), ("transfer", moving))
        if value > 0
    )
    noisy = " <span class='noisy'>noisy</span>" if spot.noisy else ""
    noisy += launch_bound(spot.launch_bound)
    shown = [duration(launch) if launch else "–", duration(launch + computing), duration(moving) if moving else "–"]
    cells = "".join(f"<td class='num'>{value}</td>" for value in shown)
    kind = "cpu" if line.device == "host" else "gpu"
    name = f"<td>{escape(line.label)}{noisy}</td>"
    return f"<tr class='{kind}{look}'>{name}<td class='bar'><div class='track'>{bar}</div></td>{cells}</tr>"


class TimePartsView:
    """A slider for n, and bars."""

    def __init__(self, model: SweepViewModel) -> None:
        self._model = model
        self.size = SizeChoice(self.show)
        self._text = pn.pane.HTML("", stylesheets=[stylesheet(), STYLE], margin=0, sizing_mode="stretch_width")
        self.panel = pn.Column(self.size.panel, self._text, scroll="y-auto", margin=0, sizing_mode="stretch_width")

    def resize(self, width: int, height: int) -> None:
        """Take that many px."""
        self.panel.height = height

    def show(self) -> None:
        """Write what is known."""
        recorded = self._model.recorded_gpu
        self.size.offer(self._model.measured_sizes, [n for curve in recorded for n in curve.series])
        transfers = bool(self._model.session.values["split"])
        html = time_parts_html(self._model.measured.values(), self.size.n, transfers, recorded)
        if html != self._text.object:
            self._text.object = html
