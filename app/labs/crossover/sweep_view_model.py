"""The view model of a sweep: curves measured here, recorded curves, and the finding that compares them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.labs.crossover.labels import way_styles
from app.labs.crossover.time_plot import TimePlotContent
from app.tab.session import Session
from compute.devices.devices import device_kind
from compute.lab.frames import Frame
from compute.labs.crossover import picture
from compute.labs.crossover.curves import measured_curves, newest_run, outdated_lines, recorded_curves
from compute.labs.crossover.lab import extent
from compute.ways import recorded
from compute.ways.catalogue import workload
from compute.ways.finding import BEST_CPU, BEST_GPU, Finding, TimeCurve, compare, sides
from compute.ways.workload import Cited, Way, Workload, fitting

RECORDED_SHOWN = ("absent", "all", "none")  # recorded curves to show: of ways that cannot run here, all, or none


@dataclass
class DisplayChoice:
    """Display settings, in addition to the lab's values.

    fast, slow: keys of lines, or BEST_GPU and BEST_CPU; moving: whether transfers are included; recorded: one of
    RECORDED_SHOWN; cited: whether to draw cited figures; code: ways with visible programs, at most two.
    """

    fast: str = BEST_GPU
    slow: str = BEST_CPU
    moving: bool = False
    recorded: str = RECORDED_SHOWN[0]
    cited: bool = True
    code: tuple[str, ...] = ()


class SweepViewModel:
    """The content of one session's plots. `update` reads the session's latest frame."""

    def __init__(self, session: Session) -> None:
        self.session, self.choice = session, DisplayChoice()
        self.frame: Frame | None = None
        self.measured: Mapping[str, picture.ShownWay] = {}
        self.lines: list[TimeCurve] = []
        self.finding: Finding = compare(*sides([]))

    @property
    def workload(self) -> Workload:
        """The selected workload."""
        return workload(self.session.values["workload"])

    @property
    def ways(self) -> tuple[Way, ...]:
        """All ways of the workload."""
        return self.workload.ways()

    @property
    def sizes(self) -> tuple[int, int]:
        """The smallest and the largest requested n."""
        return extent(self.session.values)

    @property
    def settings(self) -> dict[str, Any]:
        """The workload's settings, including defaults."""
        chosen: Mapping[str, Any] = self.session.values["settings"]
        return {name: chosen.get(name, allowed[0]) for name, allowed in self.workload.settings.items()}

    def update(self, frame: Frame | None) -> None:
        """Update from a frame and the current settings; a frame of another workload is ignored."""
        values = self.session.values
        selected = values["workload"], values["dtype"], self.settings
        notes = frame.notes if frame else {}
        fits = selected == (notes.get("workload"), notes.get("dtype"), json.loads(notes.get("settings", "{}")))
        self.frame = frame if fits else None
        self.measured = picture.ways_of(frame) if fits and frame is not None else {}
        self.lines = [*self._here(), *self._recorded()]
        self.finding = compare(*sides([line for line in self.lines if line.series], self.choice.slow, self.choice.fast))

    def time_plot_content(self, cited: bool = True) -> TimePlotContent:
        """Return the content of the plot of time over n, with cited figures if `cited`."""
        code, figures = self.choice.code, self.cited if cited else ()
        chosen = code[0] if code else ""
        lines = self.lines if self.choice.recorded == "none" else [*self.lines, *self._recorded_lines()]
        return TimePlotContent(
            lines, way_styles(self.ways), figures, self.finding, self.sizes, chosen, self.workload.axis
        )

    @property
    def cited(self) -> Sequence[Cited]:
        """Cited figures of this dtype, or of unknown dtype, within the range of n."""
        if not self.choice.cited:
            return ()
        return fitting(self.workload.cited, self.session.values["dtype"], self.sizes)

    @property
    def elsewhere(self) -> Finding:
        """The finding of the latest recorded run, for a page without measurements."""
        return compare(*sides(self._newest_run()))

    @property
    def measured_sizes(self) -> list[int]:
        """Every n with a time measured here."""
        return sorted({spot.n for line in self.measured.values() for spot in line.points if spot.step is not None})

    @property
    def recorded_gpu(self) -> list[recorded.RecordedCurve]:
        """The curves of a recorded GPU if no GPU time was measured here; for the views other than time over n."""
        here = any(
            point.step for line in self.measured.values() if device_kind(line.device) == "gpu" for point in line.points
        )
        if here or self.choice.recorded == "none":
            return []
        values = self.session.values
        return recorded.newest_gpu(self.workload.name, values["dtype"], self.settings, values["evict"], self.sizes)

    @property
    def recorded_dtypes(self) -> list[str]:
        """The dtypes with recorded curves, if the selected dtype has none."""
        if self.choice.recorded == "none" or any(line.machine for line in self.lines):
            return []
        chosen = self.session.values["dtype"]
        known = {curve.dtype for curve in recorded.curves(self.workload.name) if curve.series}
        return sorted(known) if chosen not in known else []

    @property
    def outdated(self) -> list[str]:
        """Texts about recorded ways that are not compared because their kernel has changed since."""
        if self.choice.recorded == "none":
            return []
        values = self.session.values
        return outdated_lines(self.workload, values["dtype"], self.settings, values["evict"], self.sizes)

    # -- internal

    def _newest_run(self) -> list[TimeCurve]:
        """Return all recorded curves of the machine with the latest record of a GPU."""
        values = self.session.values
        return newest_run(self.workload, values["dtype"], self.settings, values["evict"], self.sizes)

    def _recorded_lines(self) -> list[TimeCurve]:
        """Return the curves used by `elsewhere` that are not among `lines`; none after the first measurement here."""
        if any(line.series for line in self.lines if not line.machine):
            return []
        shown = {line.key for line in self.lines}
        return [line for line in self._newest_run() if line.key not in shown]

    def _here(self) -> list[TimeCurve]:
        moving = self.choice.moving and bool(self.session.values["split"])
        return measured_curves(self.workload, self.measured, moving)

    def _recorded(self) -> list[TimeCurve]:
        if self.choice.recorded == "none":
            return []
        values, every = self.session.values, self.choice.recorded == "all"
        return recorded_curves(
            self.workload, self.measured, values["dtype"], self.settings, values["evict"], self.sizes, every
        )  # fmt: skip
